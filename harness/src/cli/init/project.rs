//! The texts of the files that `drydock init` writes.

use serde_json::Value;

use super::super::Stop;
use super::own_kind::OwnKind;

/// The scenario.
pub(super) const SCENARIO: &str = "drydock/first.yaml";
/// The plan.
pub(super) const PLAN: &str = "drydock/disturbed.yaml";
/// The workflow.
pub(super) const WORKFLOW: &str = ".github/workflows/drydock.yaml";

/// What the scenario is about.
pub(super) enum Subject {
    /// Machines.
    Machines,
    /// Objects of a kind of the user.
    Kind {
        kind: Box<OwnKind>,
        /// An object of it.
        object: Box<Value>,
        /// The files with definitions, relative to the scenario.
        crds: Vec<String>,
    },
}

/// What is tested.
pub(super) struct Project {
    pub(super) subject: Subject,
    /// The command of the controller; `None`: mcm is tested.
    pub(super) controller: Option<String>,
}

impl Project {
    /// The scenario.
    pub(super) fn scenario(&self) -> Result<String, Stop> {
        let run = self.run(&format!("--file {SCENARIO}"));
        let Subject::Kind { kind, object, crds } = &self.subject else {
            return Ok(include_str!("templates/machines.yaml").replace("@RUN@", &run));
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let second = match name {
            "first" => "second".to_owned(),
            other => format!("{other}-2"),
        };
        let mut other = object.clone();
        other["metadata"]["name"] = second.clone().into();
        let crds: Vec<String> = crds.iter().map(|file| quoted(file)).collect();
        Ok(include_str!("templates/kind.yaml")
            .replace("@RUN@", &run)
            .replace("@OBJECT@\n", &yaml(object)?)
            .replace("@SECOND@\n", &yaml(&other)?)
            .replace("@WORKS_ON_FIRST@", &expectation(&kind.condition(name)))
            .replace("@WORKS_ON_SECOND@", &expectation(&kind.condition(&second)))
            .replace("@REFERENCE@", &kind.reference())
            .replace("@CRDS@", &crds.join(", "))
            .replace("@KIND@", &kind.kind)
            .replace("@NAME@", name)
            .replace("@OTHER@", &second))
    }

    /// The plan.
    pub(super) fn plan(&self) -> String {
        let run = self.run(&format!("--plan {PLAN}"));
        match &self.subject {
            Subject::Machines => include_str!("templates/machines-plan.yaml").replace("@RUN@", &run),
            Subject::Kind { kind, .. } => include_str!("templates/kind-plan.yaml")
                .replace("@RUN@", &run)
                .replace("@KIND@", &kind.kind)
                .replace("@RESOURCE@", &kind.resource),
        }
    }

    /// The workflow; `make` is the command that finds the make targets.
    pub(super) fn workflow(&self, make: &str) -> String {
        let build = match &self.controller {
            None => "",
            Some(_) => "    # Build the controller here.\n",
        };
        let workflow = include_str!("templates/workflow.yaml");
        workflow.replace("@MAKE@", make).replace("@BUILD@", build)
    }

    /// The make targets.
    pub(super) fn makefile(&self) -> String {
        let (controller, on, crash) = match &self.controller {
            None => (String::new(), "--stage sim", ""),
            Some(command) => {
                let assignment = format!("export CONTROLLER ?= {}\n", for_make(command));
                let on = "--stage embedded --controller \"$$CONTROLLER\"";
                (assignment, on, " --controller \"$$CONTROLLER\" --jobs 8")
            }
        };
        include_str!("templates/Makefile")
            .replace("@CONTROLLER@\n", &controller)
            .replace("@ON@", on)
            .replace("@CRASH@", crash)
    }

    /// The command that runs a file.
    fn run(&self, file: &str) -> String {
        match &self.controller {
            None => format!("drydock run {file} --stage sim"),
            Some(command) => format!(
                "drydock run {file} --stage embedded --controller {}",
                for_shell(command)
            ),
        }
    }
}

fn expectation(condition: &str) -> String {
    format!("- expect: {{that: {{{condition}}}, holds: {{eventually: 30s}}}}")
}

/// An object as the value of a field `object` of a step.
fn yaml(object: &Value) -> Result<String, Stop> {
    let text = serde_saphyr::to_string(object)
        .map_err(|error| Stop::Usage(format!("the object has no YAML form: {error}")))?;
    Ok(text.lines().map(|line| format!("      {line}\n")).collect())
}

/// A text in single quotes of YAML.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A text as one word of a shell.
fn for_shell(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A text as the value of a variable of make.
fn for_make(text: &str) -> String {
    text.replace('$', "$$").replace('#', r"\#")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(controller: Option<&str>) -> Project {
        Project {
            subject: Subject::Machines,
            controller: controller.map(str::to_owned),
        }
    }

    #[test]
    fn every_placeholder_is_replaced() {
        for project in [project(None), project(Some("run me"))] {
            let texts = [
                project.scenario().unwrap(),
                project.plan(),
                project.workflow("make"),
                project.makefile(),
            ];
            for text in texts {
                let placeholder = text.split('@').find(|part| {
                    !part.is_empty() && part.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_')
                });
                assert_eq!(placeholder, None, "{text}");
            }
        }
    }

    #[test]
    fn the_command_of_the_controller_survives_make_and_shell() {
        let project = project(Some("kopf run --namespace=$DRYDOCK_NAMESPACE 'my file.py' # now"));
        let makefile = project.makefile();
        let line = r"export CONTROLLER ?= kopf run --namespace=$$DRYDOCK_NAMESPACE 'my file.py' \# now";
        assert!(makefile.lines().any(|known| known == line), "{makefile}");
        let scenario = project.scenario().unwrap();
        assert!(
            scenario.contains(r"'kopf run --namespace=$DRYDOCK_NAMESPACE '\''my file.py'\'' # now'"),
            "{scenario}"
        );
    }
}
