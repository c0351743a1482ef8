//! I11: convergence, then silence. When faults and the desired state have stopped changing and the bound of the scenario
//! is over, no object is written any more: not for two hours of virtual time. Leases and the heartbeats of kubelets are
//! excepted.
//!
//! That the desired state is reached within the bound is what the scenario itself expects before its quiet end.

use scenario::observation::{Quiet, Seen};
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use crate::object::name;

/// Fields that heartbeats change, and what every write changes.
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
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        match &context.observation.what {
            Seen::Quiet(Quiet::Silent { .. }) => self.silent = true,
            Seen::Quiet(Quiet::Over) => self.silent = false,
            Seen::Applied(kind, object) if self.silent && kind.kind != "Lease" => {
                let change = match context.before {
                    None => "made".to_owned(),
                    Some(before) => format!("written ({})", difference(before, object, "")?),
                };
                return Some(format!("{} {} was {change} in the quiet time", kind.kind, name(object)));
            }
            Seen::Deleted(kind, object) if self.silent && kind.kind != "Lease" => {
                return Some(format!("{} {} went in the quiet time", kind.kind, name(object)));
            }
            _ => {}
        }
        None
    }
}

/// The first field that differs beyond heartbeats: its path and both values.
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
