//! The arguments of single stages, checked against the stage that is chosen, and asking before a cluster is used.

use std::io::{BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;

use super::Usage;
use crate::stage::StageKind;
use crate::stage::kind::{ImageNames, KindOptions};
use crate::stage::plane::existing::Access;

/// What only some stages know.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Stages")]
pub(super) struct StageArguments {
    /// Uses the cluster of that name if it is there, creates it if not, and keeps it (stage kind)
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,

    /// Keeps the cluster for a look at it (stage kind)
    #[arg(long)]
    keep: bool,

    /// The image of the cluster's nodes (stage kind)
    #[arg(long, value_name = "IMAGE")]
    node_image: Option<String>,

    /// kind's configuration file (stage kind)
    #[arg(long, value_name = "FILE")]
    kind_config: Option<PathBuf>,

    /// Finished images in the place of those that are built here: mcm=IMAGE,fakecloud=IMAGE (stage kind)
    #[arg(long, value_name = "IMAGES")]
    images: Option<ImageNames>,

    /// The cluster that is used (stage kubeconfig)
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Another context than the kubeconfig's current one (stage kubeconfig)
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Uses the cluster without asking (stage kubeconfig)
    #[arg(long)]
    yes: bool,
}

impl StageArguments {
    /// Refuses what another stage would need.
    pub(super) fn check(&self, stage: StageKind) -> Result<(), Usage> {
        let of_kind = [
            ("--cluster", self.cluster.is_some()),
            ("--keep", self.keep),
            ("--node-image", self.node_image.is_some()),
            ("--kind-config", self.kind_config.is_some()),
            ("--images", self.images.is_some()),
        ];
        let of_kubeconfig = [
            ("--kubeconfig", self.kubeconfig.is_some()),
            ("--context", self.context.is_some()),
            ("--yes", self.yes),
        ];
        for (of, flags) in [
            (StageKind::Kind, &of_kind[..]),
            (StageKind::Kubeconfig, &of_kubeconfig[..]),
        ] {
            let given = flags.iter().find(|(_, given)| *given && stage != of);
            if let Some((flag, _)) = given {
                return Err(Usage(format!("{flag} is for --stage {of}; the stage is {stage}")));
            }
        }
        if stage == StageKind::Kubeconfig && self.kubeconfig.is_none() {
            return Err(Usage(
                "--stage kubeconfig needs --kubeconfig FILE: which cluster to use is never guessed".to_owned(),
            ));
        }
        Ok(())
    }

    /// What cluster of kind's is wanted.
    pub(super) fn kind_options(&self, reports: &Path) -> KindOptions {
        KindOptions {
            cluster: self.cluster.clone(),
            keep: self.keep,
            node_image: self.node_image.clone(),
            config: self.kind_config.clone(),
            images: self.images.clone().unwrap_or_default(),
            reports: reports.to_owned(),
        }
    }

    /// The cluster that is there, after a person agreed.
    pub(super) fn agreed(&self) -> Result<Access, Usage> {
        let access = Access {
            kubeconfig: self.kubeconfig.clone().unwrap_or_default(),
            context: self.context.clone(),
        };
        let described = access.describe()?;
        if !self.yes {
            agree(&described)?;
        }
        Ok(access)
    }

    /// What a command line repeats to reach the same cluster again.
    pub(super) fn replay(&self) -> String {
        let mut line = String::new();
        let shown = |path: &Path| path.display().to_string();
        let values = [
            ("--cluster", self.cluster.clone()),
            ("--node-image", self.node_image.clone()),
            ("--kind-config", self.kind_config.as_deref().map(shown)),
            ("--kubeconfig", self.kubeconfig.as_deref().map(shown)),
            ("--context", self.context.clone()),
        ];
        for (flag, value) in values {
            if let Some(value) = value {
                line += &format!(" {flag} {value}");
            }
        }
        line
    }
}

/// Asks on a terminal; without one nobody can agree.
fn agree(cluster: &str) -> Result<(), Usage> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(Usage(format!(
            "nobody is here to agree to the use of {cluster}: say --yes to run scenarios there"
        )));
    }
    eprint!("Scenarios make machines, nodes and roles in {cluster}, and remove them afterwards. Go on? [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    match read {
        Ok(_) if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) => Ok(()),
        _ => Err(Usage("nothing was done".to_owned())),
    }
}
