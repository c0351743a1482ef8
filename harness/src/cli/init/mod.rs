//! `drydock init`: creates the files of a first test: a scenario, a plan, make targets, and a workflow.

mod create;
mod own_kind;
mod project;
mod sample;

use std::path::{Component, Path, PathBuf};

use clap::Args;
use scenario::Scenario;

use self::create::{Created, NewFile, create};
use self::own_kind::OwnKind;
use self::project::{PLAN, Project, SCENARIO, Subject, WORKFLOW};
use super::files::{read_plan, read_scenario};
use super::output::say;
use super::{Ended, Outcome, Stop};

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock init\n  drydock init --controller 'exec bin/manager' --crd config/crd/widgets.yaml\n  \
                  drydock init tests --controller 'exec bin/manager' --crd crds.yaml --kind Widget --object sample.yaml"
)]
pub(super) struct Init {
    /// The folder of the project
    #[arg(default_value = ".")]
    folder: PathBuf,

    /// The command that starts your controller; without it the files test mcm
    #[arg(long, value_name = "COMMAND")]
    controller: Option<String>,

    /// A file with CustomResourceDefinitions; may be given several times. The scenario is about a kind of these files
    /// instead of machines
    #[arg(long = "crd", value_name = "FILE", requires = "controller")]
    crds: Vec<PathBuf>,

    /// The kind, if the files define several
    #[arg(long, requires = "crds")]
    kind: Option<String>,

    /// A YAML file with an object of the kind; the default has the required fields of the definition
    #[arg(long, value_name = "FILE", requires = "crds")]
    object: Option<PathBuf>,
}

/// Names under which make finds its file.
const MAKEFILES: [&str; 3] = ["GNUmakefile", "makefile", MAKEFILE];
/// The file with the make targets.
const MAKEFILE: &str = "Makefile";
/// The same, if the project has one.
const INCLUDED: &str = "drydock.mk";

impl Init {
    pub(super) fn execute(self, scenarios: &[Scenario]) -> Ended {
        let folder = self.folder.as_path();
        let mut created = Created::default();
        created
            .add_folder(folder)
            .map_err(|error| Stop::Usage(format!("cannot create {}: {error}", folder.display())))?;
        let project = self.project()?;
        let makefile = match MAKEFILES.iter().any(|name| folder.join(name).exists()) {
            true => INCLUDED,
            false => MAKEFILE,
        };
        let make = match makefile {
            MAKEFILE => "make".to_owned(),
            other => format!("make -f {other}"),
        };
        let texts = [
            (SCENARIO, project.scenario()?),
            (PLAN, project.plan()),
            (makefile, project.makefile()),
            (WORKFLOW, project.workflow(&make)),
        ];
        let files = texts.map(|(path, text)| NewFile { path, text });
        check(folder, &project, scenarios)?;
        create(folder, &files)?;
        created.keep();
        self.report(makefile, &make);
        Ok(Outcome::Passed)
    }

    fn project(&self) -> Result<Project, Stop> {
        if let Some(command) = &self.controller
            && (command.trim().is_empty() || command.contains('\n'))
        {
            return Err(Stop::Usage(
                "--controller: must be a command on one line; put several lines into a script".to_owned(),
            ));
        }
        let subject = if self.crds.is_empty() {
            Subject::Machines
        } else {
            let kind = OwnKind::choose(&self.crds, self.kind.as_deref())?;
            let object = kind.object(self.object.as_deref())?;
            let scenario = self.folder.join(SCENARIO);
            let base = scenario.parent().unwrap_or(&self.folder);
            let crds = self
                .crds
                .iter()
                .map(|file| relative(file, base))
                .collect::<Result<_, _>>()?;
            Subject::Kind {
                kind: Box::new(kind),
                object: Box::new(object),
                crds,
            }
        };
        Ok(Project {
            subject,
            controller: self.controller.clone(),
        })
    }

    /// Prints what was created, and the next commands.
    fn report(&self, makefile: &str, make: &str) {
        let at = |path: &str| self.folder.join(path).display().to_string();
        let at = |path: &str| at(path).trim_start_matches("./").to_owned();
        say!("{:32} a scenario", at(SCENARIO));
        say!(
            "{:32} the same with disturbances: a crash, a lost answer or a failed call, late changes",
            at(PLAN)
        );
        match makefile {
            MAKEFILE => say!("{:32} the targets drydock and drydock-crash", at(makefile)),
            other => say!(
                "{:32} the targets drydock and drydock-crash; add `include {other}` to the Makefile",
                at(other)
            ),
        }
        say!(
            "{:32} runs them on GitHub, with Drydock from the repository that the variable DRYDOCK_REPOSITORY names",
            at(WORKFLOW)
        );
        say!();
        say!("Next:");
        if self.folder != Path::new(".") {
            say!("  cd {}", self.folder.display());
        }
        say!("  {:28} # runs the scenario and the plan", format!("{make} drydock"));
        say!(
            "  {:28} # kills the controller before and after each of its writes",
            format!("{make} drydock-crash")
        );
        say!("Reports of failed runs are in .drydock: add it to .gitignore.");
    }
}

/// Checks the scenario and the plan like `drydock validate`, in a folder beside their own.
fn check(folder: &Path, project: &Project, scenarios: &[Scenario]) -> Result<(), Stop> {
    let cannot = |error: std::io::Error| Stop::Usage(format!("cannot write to {}: {error}", folder.display()));
    let trial = tempfile::Builder::new()
        .prefix(".drydock-init-")
        .tempdir_in(folder)
        .map_err(cannot)?;
    let name = |path: &str| trial.path().join(Path::new(path).file_name().unwrap_or_default());
    std::fs::write(name(SCENARIO), project.scenario()?).map_err(cannot)?;
    std::fs::write(name(PLAN), project.plan()).map_err(cannot)?;
    read_scenario(&name(SCENARIO))?;
    read_plan(&name(PLAN), scenarios)?;
    Ok(())
}

/// The path of a file relative to a folder, which need not exist yet.
fn relative(file: &Path, folder: &Path) -> Result<String, Stop> {
    let absolute = |path: &Path| -> Result<PathBuf, Stop> {
        let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
        let existing = if existing.as_os_str().is_empty() {
            Path::new(".")
        } else {
            existing
        };
        let rest = path.strip_prefix(existing).unwrap_or(path);
        let found = existing.canonicalize();
        let found = found.map_err(|error| Stop::Usage(format!("cannot read {}: {error}", path.display())))?;
        Ok(found.join(rest))
    };
    let (file, folder) = (absolute(file)?, absolute(folder)?);
    let common = file.components().zip(folder.components());
    let common = common.take_while(|(of_file, of_folder)| of_file == of_folder).count();
    let up = folder.components().skip(common).map(|_| Component::ParentDir);
    let path: PathBuf = up.chain(file.components().skip(common)).collect();
    Ok(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_relative_to_the_scenario() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir_all(root.join("config/crd")).unwrap();
        let file = root.join("config/crd/a.yaml");
        std::fs::write(&file, "").unwrap();
        assert_eq!(relative(&file, &root.join("drydock")).unwrap(), "../config/crd/a.yaml");
        assert_eq!(
            relative(&file, &root.join("tests/drydock")).unwrap(),
            "../../config/crd/a.yaml"
        );
        assert_eq!(relative(&file, &root.join("config")).unwrap(), "crd/a.yaml");
    }
}
