//! Validation of a machine and its class.

use mcm_api::{MAX_LABEL_VALUE, MachineClass, keys};

use super::Reason;
use super::pass::Pass;
use crate::finalizer::has_finalizer;

/// The problem of the machine's own name or spec.
pub(super) fn machine_problem(pass: &Pass) -> Option<Reason> {
    if pass.name().len() > MAX_LABEL_VALUE {
        // The Node's label could not contain it, and most drivers name the node as the machine.
        return Some(Reason::InvalidMachine(format!(
            "validation of Machine failed [metadata.name: Too long: may not be more than {MAX_LABEL_VALUE} bytes: \
             create a machine with a shorter name]"
        )));
    }
    let class = &pass.machine().spec.class;
    let missing = [
        ("spec.class.kind", &class.kind, "Kind"),
        ("spec.class.name", &class.name, "Name"),
    ];
    let missing = missing.into_iter().filter(|(_, value, _)| value.is_empty());
    let problems: Vec<String> = missing
        .map(|(path, _, field)| format!("{path}: Required value: {field} is required"))
        .chain(unknown_kind(&class.kind))
        .collect();
    (!problems.is_empty())
        .then(|| Reason::InvalidMachine(format!("validation of Machine failed [{}]", problems.join(", "))))
}

/// The problem of an unknown class kind. Machines with such a kind do not keep a class.
fn unknown_kind(kind: &str) -> Option<String> {
    let known = kind.is_empty() || kind == keys::MACHINE_CLASS || keys::CLASSES_OF_FORMER_TIMES.contains(&kind);
    (!known).then(|| {
        format!(
            "spec.class.kind: Unsupported value: {kind:?}: write {}",
            keys::MACHINE_CLASS
        )
    })
}

/// The machine's class, or its problem.
pub(super) fn class<'a>(pass: &Pass<'a>) -> Result<&'a MachineClass, Reason> {
    let name = &pass.machine().spec.class.name;
    if let Some(damage) = &pass.view.class_damage {
        return Err(unusable(name, damage));
    }
    let Some(class) = pass.view.class.as_deref() else {
        let namespace = pass.machine().metadata.namespace.as_deref().unwrap_or_default();
        return Err(Reason::InvalidClass(format!(
            "the machine class {name} does not exist in namespace {namespace}: create it, or correct spec.class.name"
        )));
    };
    if !has_finalizer(&class.metadata, keys::MACHINE_FINALIZER) {
        // A machine with an unknown kind does not count as a user of the class, so the class never gets the finalizer.
        if let Some(problem) = unknown_kind(&pass.machine().spec.class.kind) {
            return Err(Reason::InvalidMachine(problem));
        }
        return Err(Reason::ClassWithoutFinalizer(name.clone()));
    }
    let problems = class_problems(class);
    if problems.is_empty() {
        return Ok(class);
    }
    Err(unusable(name, &problems.join(", ")))
}

fn unusable(class: &str, problems: &str) -> Reason {
    Reason::InvalidClass(format!(
        "the machine class {class} is not usable: [{problems}]; correct the class"
    ))
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
    let empty = places.into_iter().filter(|(_, value)| value.is_empty()).map(|(field, _)| {
        format!(
            "nodeTemplate.{field}: Required value: MachineClass NodeTemplate Instance Type, region and zone cannot be empty"
        )
    });
    incomplete.chain(empty).collect()
}
