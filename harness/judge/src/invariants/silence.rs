//! I11: convergence, then silence. After the last fault and the last change of the desired state, and after the
//! scenario's settling time, no object is written for two hours of virtual time. Leases and kubelet heartbeats are
//! excepted.
//!
//! The scenario itself expects the desired state before its quiet end.

use scenario::kinds::Kind;
use scenario::observation::{Quiet, Seen};
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::object::name;

/// Fields that heartbeats change, and fields that every write changes.
const VOLATILE: [&str; 5] = [
    "resourceVersion",
    "managedFields",
    "lastHeartbeatTime",
    "generation",
    "observedGeneration",
];

#[derive(Debug, Default)]
pub(super) struct Silence {
    silent: bool,
}

impl Check for Silence {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        match &context.observation.what {
            Seen::Quiet(Quiet::Silent { .. }) => self.silent = true,
            Seen::Quiet(Quiet::Over) => self.silent = false,
            Seen::Applied(kind, object) if self.silent && is_checked(kind) => {
                let change = match context.before {
                    None => "created".to_owned(),
                    Some(before) => format!("written ({})", difference(before, object, "")?),
                };
                return Some(format!(
                    "{} {} was {change} after the time to settle",
                    kind.kind,
                    name(object)
                ));
            }
            Seen::Deleted(kind, object) if self.silent && is_checked(kind) => {
                return Some(format!(
                    "{} {} was removed after the time to settle",
                    kind.kind,
                    name(object)
                ));
            }
            _ => {}
        }
        None
    }
}

/// Whether objects of a kind must not be written any more. Leases are renewed, and kinds that only a condition of the
/// scenario needs may belong to other programs.
fn is_checked(kind: &Kind) -> bool {
    (kind.watched || kind.key == "MachineHealthCheck") && kind.key != "Lease"
}

/// The first field that differs, heartbeats excepted: its path and both values.
fn difference(before: &Value, after: &Value, path: &str) -> Option<String> {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            let mut fields = before
                .keys()
                .chain(after.keys())
                .filter(|field| !VOLATILE.contains(&field.as_str()));
            fields.find_map(|field| {
                let of = |object: &serde_json::Map<String, Value>| object.get(field).cloned().unwrap_or(Value::Null);
                difference(&of(before), &of(after), &format!("{path}/{field}"))
            })
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            let mut pairs = before.iter().zip(after).enumerate();
            pairs.find_map(|(index, (before, after))| difference(before, after, &format!("{path}/{index}")))
        }
        _ => (before != after).then(|| format!("{path}: {before} -> {after}")),
    }
}
