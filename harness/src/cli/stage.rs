//! The arguments of single stages, their validation, and the confirmation before an existing cluster is used.

use std::io::{BufRead, IsTerminal};
use std::path::{Path, PathBuf};

use clap::Args;
use scenario::StageKind;
use stage::kind::{ImageNames, KindOptions};
use stage::plane::existing::Access;
use stage::role::Role;

use super::Stop;
use super::output::prompt;

/// Arguments that apply to single stages.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Stages")]
pub(super) struct StageArguments {
    /// Uses the cluster of that name, creates it if it does not exist, and keeps it (stage kind)
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,

    /// Keeps the cluster for inspection (stage kind)
    #[arg(long)]
    keep: bool,

    /// The image of the cluster's nodes (stage kind)
    #[arg(long, value_name = "IMAGE")]
    node_image: Option<String>,

    /// kind's configuration file (stage kind)
    #[arg(long, value_name = "FILE")]
    kind_config: Option<PathBuf>,

    /// Existing images that replace the images built here: mcm=IMAGE,fakecloud=IMAGE (stage kind)
    #[arg(long, value_name = "IMAGES")]
    images: Option<ImageNames>,

    /// The kubeconfig of the cluster (stage kubeconfig)
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// A context other than the current context of the kubeconfig (stage kubeconfig)
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Uses the cluster without confirmation (stage kubeconfig)
    #[arg(long)]
    yes: bool,

    /// The kubeconfig of the cluster that nodes join (target stage kubeconfig)
    #[arg(long, value_name = "FILE")]
    target_kubeconfig: Option<PathBuf>,

    /// A context other than the current context of the target's kubeconfig (target stage kubeconfig)
    #[arg(long, value_name = "NAME")]
    target_context: Option<String>,
}

impl StageArguments {
    /// Refuses arguments that do not apply to the stage and the target stage.
    pub(super) fn check(&self, stage: StageKind, target: Option<StageKind>) -> Result<(), Stop> {
        use StageKind::{Kind, Kubeconfig};
        let is = |wanted| stage == wanted || target == Some(wanted);
        let flags = [
            ("--cluster", self.cluster.is_some(), "--stage kind", is(Kind)),
            ("--keep", self.keep, "--stage kind", is(Kind)),
            ("--node-image", self.node_image.is_some(), "--stage kind", is(Kind)),
            ("--kind-config", self.kind_config.is_some(), "--stage kind", is(Kind)),
            (
                "--images",
                self.images.is_some(),
                "--stage kind",
                stage == Kind && target.is_none(),
            ),
            (
                "--kubeconfig",
                self.kubeconfig.is_some(),
                "--stage kubeconfig",
                stage == Kubeconfig,
            ),
            (
                "--context",
                self.context.is_some(),
                "--stage kubeconfig",
                stage == Kubeconfig,
            ),
            ("--yes", self.yes, "--stage kubeconfig", is(Kubeconfig)),
            (
                "--target-kubeconfig",
                self.target_kubeconfig.is_some(),
                "--target-stage kubeconfig",
                target == Some(Kubeconfig),
            ),
            (
                "--target-context",
                self.target_context.is_some(),
                "--target-stage kubeconfig",
                target == Some(Kubeconfig),
            ),
        ];
        if let Some((flag, _, of, _)) = flags.iter().find(|(_, given, _, fits)| *given && !fits) {
            let target = target.map_or_else(String::new, |target| format!(", that of the target {target}"));
            return Err(Stop::Usage(format!("{flag} is for {of}; the stage is {stage}{target}")));
        }
        let no_cluster =
            |of: &str, flag: &str| Stop::Usage(format!("{of} kubeconfig needs {flag} FILE: it has no default cluster"));
        if stage == Kubeconfig && self.kubeconfig.is_none() {
            return Err(no_cluster("--stage", "--kubeconfig"));
        }
        if target == Some(Kubeconfig) && self.target_kubeconfig.is_none() {
            return Err(no_cluster("--target-stage", "--target-kubeconfig"));
        }
        Ok(())
    }

    /// Whether several clusters of the stage may exist at the same time: each worker creates and deletes its own.
    pub(super) fn may_have_several(&self, stage: StageKind, target: Option<StageKind>) -> bool {
        let named = self.cluster.is_some() || self.keep;
        let existing = [Some(stage), target].contains(&Some(StageKind::Kubeconfig));
        !named && !existing
    }

    /// The options of the kind cluster.
    pub(super) fn kind_options(&self, reports: &Path) -> KindOptions {
        KindOptions {
            cluster: self.cluster.clone(),
            keep: self.keep,
            node_image: self.node_image.clone(),
            config: self.kind_config.clone(),
            images: self.images.clone().unwrap_or_default(),
            bare: false,
            reports: reports.to_owned(),
        }
    }

    /// The options of the kind cluster for one side of a pair. The target cluster has another name.
    pub(super) fn kind_options_of(&self, role: Role, reports: &Path) -> KindOptions {
        let options = self.kind_options(reports);
        let named = |name: String| match role {
            Role::Target => format!("{name}-target"),
            Role::Control | Role::Both => name,
        };
        KindOptions {
            cluster: options.cluster.map(named),
            bare: true,
            ..options
        }
    }

    /// The existing cluster, after the user confirmed its use.
    pub(super) fn confirmed_cluster(&self) -> Result<Access, Stop> {
        self.confirmed(&self.kubeconfig, &self.context)
    }

    /// The existing cluster that nodes join, after the user confirmed its use.
    pub(super) fn confirmed_target(&self) -> Result<Access, Stop> {
        self.confirmed(&self.target_kubeconfig, &self.target_context)
    }

    fn confirmed(&self, kubeconfig: &Option<PathBuf>, context: &Option<String>) -> Result<Access, Stop> {
        let access = Access {
            kubeconfig: kubeconfig.clone().unwrap_or_default(),
            context: context.clone(),
        };
        let described = access.describe()?;
        if !self.yes {
            confirm(&described)?;
        }
        Ok(access)
    }

    /// The flags of a replay command that select the same cluster.
    pub(super) fn replay(&self) -> String {
        let mut line = String::new();
        let shown = |path: &Path| path.display().to_string();
        let values = [
            ("--cluster", self.cluster.clone()),
            ("--node-image", self.node_image.clone()),
            ("--kind-config", self.kind_config.as_deref().map(shown)),
            ("--kubeconfig", self.kubeconfig.as_deref().map(shown)),
            ("--context", self.context.clone()),
            ("--target-kubeconfig", self.target_kubeconfig.as_deref().map(shown)),
            ("--target-context", self.target_context.clone()),
        ];
        for (flag, value) in values {
            if let Some(value) = value {
                line += &format!(" {flag} {value}");
            }
        }
        line
    }
}

/// Asks for confirmation on a terminal, and fails without one.
fn confirm(cluster: &str) -> Result<(), Stop> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Stop::Usage(format!(
            "cannot ask for confirmation to use {cluster} without a terminal: say --yes to run scenarios there"
        )));
    }
    prompt(format_args!(
        "Scenarios create machines, nodes and roles in {cluster}, and remove them afterwards. Continue? [y/N] "
    ));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    match read {
        Ok(_) if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) => Ok(()),
        _ => Err(Stop::Usage("not confirmed; nothing was changed".to_owned())),
    }
}
