//! Whether a machine and its class are usable.

use mcm_api::{MachineClass, keys};

use super::Reason;
use super::pass::Pass;
use crate::finalizer::has_finalizer;

/// What is wrong with the machine's own spec.
pub(super) fn machine_problem(pass: &Pass) -> Option<Reason> {
    let class = &pass.machine().spec.class;
    let missing = [
        ("spec.class.kind", &class.kind, "Kind"),
        ("spec.class.name", &class.name, "Name"),
    ];
    let problems: Vec<String> = missing
        .into_iter()
        .filter(|(_, value, _)| value.is_empty())
        .map(|(path, _, field)| format!("{path}: Required value: {field} is required"))
        .collect();
    (!problems.is_empty())
        .then(|| Reason::InvalidMachine(format!("validation of Machine failed [{}]", problems.join(", "))))
}

/// The machine's class, or what is wrong with it.
pub(super) fn class<'a>(pass: &Pass<'a>) -> Result<&'a MachineClass, Reason> {
    let name = &pass.machine().spec.class.name;
    let Some(class) = &pass.view.class else {
        let namespace = pass.machine().metadata.namespace.as_deref().unwrap_or_default();
        return Err(Reason::InvalidClass(format!(
            "the machine class {name} does not exist in namespace {namespace}: create it, or correct spec.class.name"
        )));
    };
    if !has_finalizer(&class.metadata, keys::MACHINE_FINALIZER) {
        return Err(Reason::ClassWithoutFinalizer(name.clone()));
    }
    let problems = class_problems(class);
    if problems.is_empty() {
        return Ok(class);
    }
    Err(Reason::InvalidClass(format!(
        "the machine class {name} is not usable: [{}]; correct the class",
        problems.join(", ")
    )))
}

fn class_problems(class: &MachineClass) -> Vec<String> {
    let Some(template) = &class.node_template else {
        return Vec::new();
    };
    let incomplete = ["cpu", "gpu", "memory"].into_iter().filter(|key| !template.capacity.contains_key(*key)).map(|key| {
        format!(
            "nodeTemplate.capacity.{key}: Required value: MachineClass NodeTemplate Capacity should mandatorily have CPU, GPU and Memory configured"
        )
    });
    let places = [
        ("instanceType", &template.instance_type),
        ("region", &template.region),
        ("zone", &template.zone),
    ];
    let nowhere = places.into_iter().filter(|(_, value)| value.is_empty()).map(|(field, _)| {
        format!(
            "nodeTemplate.{field}: Required value: MachineClass NodeTemplate Instance Type, region and zone cannot be empty"
        )
    });
    incomplete.chain(nowhere).collect()
}
