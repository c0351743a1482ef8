//! From flags and the texts of files to a request. Pure: it reads no file and calls no driver.

use mcm_api::machine::ClassSpec;
use mcm_api::{GROUP, Machine, MachineClass, keys};
use mcm_driver::MachineRequest;
use request_files::{Expected, Source, class, document, field, merged, typed};

use super::error::InputError;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Create,
    Status,
    List,
    Initialize,
    Stop,
    Delete,
}

/// The flags and files of a command.
#[derive(Clone, Debug)]
pub(super) struct Sources {
    pub class: Option<Source>,
    pub secrets: Vec<Source>,
    /// `None`: the command is about a class.
    pub machine: Option<MachineSource>,
}

/// The flags of the machine.
#[derive(Clone, Debug, Default)]
pub(super) struct MachineSource {
    pub file: Option<Source>,
    pub name: Option<String>,
    pub namespace: Option<String>,
    pub provider_id: Option<String>,
}

/// A command with its request. That of [`Action::List`] has an empty machine.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub action: Action,
    pub request: MachineRequest,
}

const MACHINE: Expected = Expected {
    flag: "--machine",
    api_version: "machine.sapcloud.io/v1alpha1",
    kind: "Machine",
};
/// The longest name of a Kubernetes object.
const LONGEST_NAME: usize = 253;

/// The request of a command.
pub(super) fn job(action: Action, sources: &Sources) -> Result<Job, InputError> {
    let class = class(sources.class.as_ref())?;
    let secret = merged(&class, &sources.secrets)?;
    let machine = match &sources.machine {
        Some(source) => machine(source, &class)?,
        None => Machine::default(),
    };
    let request = MachineRequest { machine, class, secret };
    Ok(Job { action, request })
}

fn machine(source: &MachineSource, class: &MachineClass) -> Result<Machine, InputError> {
    let mut machine = match (&source.file, &source.name) {
        (Some(file), None) => machine_of_file(file, source, class)?,
        (None, Some(name)) => machine_of_name(name, source, class)?,
        (Some(file), Some(_)) => {
            return Err(InputError::Value {
                flag: MACHINE.flag,
                value: file.path.clone(),
                reason: "--machine and --machine-name exclude each other: remove one".to_owned(),
            });
        }
        (None, None) => {
            return Err(InputError::Missing {
                flag: "--machine-name",
                fix: "give the name of the machine, or its file with --machine".to_owned(),
            });
        }
    };
    if let Some(id) = &source.provider_id {
        machine.spec.provider_id = provider_id(id, &machine.spec.provider_id)?;
    }
    Ok(machine)
}

fn machine_of_file(file: &Source, source: &MachineSource, class: &MachineClass) -> Result<Machine, InputError> {
    if let Some(namespace) = &source.namespace {
        return Err(InputError::Value {
            flag: "--namespace",
            value: namespace.clone(),
            reason: "it applies to --machine-name only: set metadata.namespace in the file of --machine".to_owned(),
        });
    }
    let machine: Machine = typed(document(file, MACHINE)?, file, MACHINE)?;
    let (named, given) = (
        &machine.spec.class.name,
        class.metadata.name.as_deref().unwrap_or_default(),
    );
    if named != given {
        let reason =
            format!("the machine is of the class {named:?}, and --class is {given:?}: give the file of its class");
        return Err(field(file, MACHINE, "spec.class.name", &reason).into());
    }
    Ok(machine)
}

fn machine_of_name(name: &str, source: &MachineSource, class: &MachineClass) -> Result<Machine, InputError> {
    check_name("--machine-name", name)?;
    if let Some(namespace) = &source.namespace {
        check_name("--namespace", namespace)?;
    }
    let mut machine = Machine::default();
    machine.metadata.name = Some(name.to_owned());
    machine.metadata.namespace = source.namespace.clone().or_else(|| class.metadata.namespace.clone());
    machine.spec.class = ClassSpec {
        api_group: GROUP.to_owned(),
        kind: keys::MACHINE_CLASS.to_owned(),
        name: class.metadata.name.clone().unwrap_or_default(),
    };
    Ok(machine)
}

fn check_name(flag: &'static str, name: &str) -> Result<(), InputError> {
    let edge = |character: char| character.is_ascii_lowercase() || character.is_ascii_digit();
    let inner = |character: char| edge(character) || matches!(character, '-' | '.');
    let holds = name.starts_with(edge) && name.ends_with(edge) && name.chars().all(inner) && name.len() <= LONGEST_NAME;
    if holds {
        return Ok(());
    }
    Err(InputError::Value {
        flag,
        value: name.to_owned(),
        reason: "it is not the name of a Kubernetes object: use lower-case letters, digits, - and .".to_owned(),
    })
}

/// The provider id of the flag, which must not contradict that of the machine.
fn provider_id(given: &str, recorded: &str) -> Result<String, InputError> {
    let wrong = |reason: String| InputError::Value {
        flag: "--provider-id",
        value: given.to_owned(),
        reason,
    };
    if given.is_empty() {
        return Err(wrong(
            "it is empty: give the provider id, or remove the flag".to_owned(),
        ));
    }
    if !recorded.is_empty() && recorded != given {
        return Err(wrong(format!(
            "spec.providerID of --machine is {recorded}: remove the flag, or use --machine-name"
        )));
    }
    Ok(given.to_owned())
}
