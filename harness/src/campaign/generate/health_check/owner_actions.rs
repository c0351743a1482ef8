//! The deployment of the machines: how many are replaced at the same time, whether mcm's own health timeout applies, and what
//! its owner changes.

use std::time::Duration;

use clock::Stream;
use mcm_api::{GoDuration, keys};
use scenario::Step;
use scenario::builder::apply;
use serde_json::{Value, json};

use super::{MINUTE, UserActions};
use crate::campaign::generate::rollout::{self, CLASSES, spec};

/// The deployment of a world.
#[derive(Debug)]
pub(super) struct Owner {
    strategy: Value,
    /// Whether only the check finds its machines unhealthy.
    pub is_patient: bool,
    /// The number of simultaneous replacements, and whether an annotation has it.
    max_in_flight: Option<(Value, bool)>,
    /// The maximum number of automatically preserved failed machines.
    maximum: u64,
    /// The preserve timeout in seconds.
    pub kept: u64,
}

impl Owner {
    pub(super) fn draw(in_place: bool, stream: &mut Stream) -> Self {
        Self {
            strategy: rollout::strategy(stream, in_place),
            is_patient: stream.chance(0.4),
            max_in_flight: stream.chance(0.4).then(|| (several(stream), stream.chance(0.3))),
            maximum: if stream.chance(0.25) { 1 + stream.below(2) } else { 0 },
            kept: 20 * MINUTE + MINUTE * stream.below(40),
        }
    }

    /// Creates the deployment.
    pub(super) fn create(&self, replicas: u64) -> Step {
        let mut object = rollout::object(replicas, &self.strategy);
        object["spec"]["autoPreserveFailedMax"] = json!(self.maximum);
        match &self.max_in_flight {
            Some((number, true)) => {
                let number = number.as_str().map_or_else(|| number.to_string(), str::to_owned);
                object["metadata"]["annotations"] = json!({ keys::REMEDIATION_MAX_IN_FLIGHT_ANNOTATION: number });
            }
            Some((number, false)) => object["spec"]["remediation"] = json!({ "maxInFlight": number }),
            None => {}
        }
        let template = &mut object["spec"]["template"]["spec"];
        template["machinePreserveTimeout"] = json!(GoDuration(Duration::from_secs(self.kept)).to_string());
        template["drainTimeout"] = json!("5m0s");
        if self.is_patient {
            template["disableHealthTimeout"] = json!(true);
        }
        apply(object)
    }
}

/// Sets the final replicas and resumes a paused rollout.
pub(super) fn settled(replicas: u64) -> Step {
    spec(json!({ "paused": false, "replicas": replicas }))
}

/// Changes of the deployment's spec.
pub(super) fn changes(replicas: u64, (from, span): (u64, u64), owners: &mut Stream) -> UserActions {
    let count = owners.below(4);
    let change = |_| {
        let at = from + owners.below(span - from);
        let change = match owners.below(10) {
            0..=2 => json!({ "replicas": owners.below(replicas + 2) }),
            3..=5 => {
                let class = CLASSES[usize::try_from(owners.below(3)).unwrap_or_default()];
                json!({ "template": { "spec": { "class": { "name": class } } } })
            }
            6 => json!({ "paused": owners.chance(0.5) }),
            7 => json!({ "remediation": { "maxInFlight": several(owners) } }),
            _ => json!({ "autoPreserveFailedMax": owners.below(3) }),
        };
        (at, spec(change))
    };
    (0..count).map(change).collect()
}

/// A number of simultaneous replacements.
fn several(stream: &mut Stream) -> Value {
    match stream.below(3) {
        0 => json!("50%"),
        number => json!(number),
    }
}
