//! Conditions of expectations.

use mcm_api::{Code, Phase};

use crate::duration::DurationExpression;
use crate::expect::{
    Calls, Condition, DescriptionContains, ErrorCodeIs, FieldIs, History, PhaseChange, PhaseIs, VmCount,
};
use crate::step::{CloudCall, ObjectReference};

/// An object exists.
pub fn exists(kind: &str, name: &str) -> Condition {
    Condition::Exists(ObjectReference {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
    })
}

/// An object's status reflects its newest spec.
pub fn observed(kind: &str, name: &str) -> Condition {
    Condition::Observed(ObjectReference {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
    })
}

/// A machine is in a phase.
pub fn phase(machine: &str, is: Phase) -> Condition {
    Condition::Phase(PhaseIs {
        machine: machine.to_owned(),
        is,
    })
}

/// No Machine of that name exists.
pub fn machine_gone(name: &str) -> Condition {
    Condition::MachineGone(name.to_owned())
}

/// No Node of that name exists.
pub fn node_gone(name: &str) -> Condition {
    Condition::NodeGone(name.to_owned())
}

/// An object has a value at the path of a field; null: the field does not exist.
pub fn field(kind: &str, name: &str, field: &str, is: impl Into<serde_json::Value>) -> Condition {
    Condition::Field(FieldIs {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        field: field.to_owned(),
        is: is.into(),
    })
}

/// A condition in an object's status has these fields, for example a status and a reason.
pub fn status_condition(kind: &str, name: &str, type_: &str, fields: &[(&str, &str)]) -> Condition {
    let type_ = type_.replace('~', "~0").replace('/', "~1");
    let has = |(of, is): &(&str, &str)| field(kind, name, &format!("/status/conditions/[type={type_}]/{of}"), *is);
    match fields {
        [one] => has(one),
        fields => all(fields.iter().map(has)),
    }
}

/// The number of a machine's VMs that are not terminated.
pub fn vm_count(machine: &str, is: usize) -> Condition {
    Condition::VmCount(VmCount {
        machine: machine.to_owned(),
        is,
    })
}

/// At least `minimum` calls were answered.
pub fn calls_at_least(call: CloudCall, machine: &str, minimum: u64) -> Condition {
    Condition::Calls(Calls {
        call,
        machine: machine.to_owned(),
        at_least: Some(minimum),
        at_most: None,
    })
}

/// Every matching call for a machine, counted by `at_most`.
pub fn calls(call: CloudCall, machine: &str) -> Condition {
    Condition::Calls(Calls {
        call,
        machine: machine.to_owned(),
        at_least: None,
        at_most: None,
    })
}

/// A machine's last error.
pub fn error_code(machine: &str, is: Code) -> Condition {
    Condition::ErrorCode(ErrorCodeIs {
        machine: machine.to_owned(),
        is,
    })
}

/// A machine's last operation contains a text.
pub fn description_contains(machine: &str, text: &str) -> Condition {
    Condition::DescriptionContains(DescriptionContains {
        machine: machine.to_owned(),
        text: text.to_owned(),
    })
}

/// The condition does not hold.
pub fn not(condition: Condition) -> Condition {
    Condition::Not(Box::new(condition))
}

/// All conditions hold.
pub fn all(conditions: impl IntoIterator<Item = Condition>) -> Condition {
    Condition::All(conditions.into_iter().collect())
}

/// At least one condition holds.
pub fn any(conditions: impl IntoIterator<Item = Condition>) -> Condition {
    Condition::Any(conditions.into_iter().collect())
}

/// The phases of a machine from its first to its last.
pub fn history(machine: &str, phases: impl IntoIterator<Item = PhaseChange>) -> Condition {
    Condition::History(History {
        machine: machine.to_owned(),
        phases: phases.into_iter().collect(),
    })
}

/// A phase at any distance from the previous one.
pub fn at_any_time(phase: Phase) -> PhaseChange {
    PhaseChange {
        phase,
        not_before: None,
        not_after: None,
    }
}

/// A phase whose distance from the previous one is within bounds.
pub fn between(
    phase: Phase,
    not_before: impl Into<DurationExpression>,
    not_after: impl Into<DurationExpression>,
) -> PhaseChange {
    PhaseChange {
        phase,
        not_before: Some(not_before.into()),
        not_after: Some(not_after.into()),
    }
}
