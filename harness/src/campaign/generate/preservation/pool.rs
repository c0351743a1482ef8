//! The owner of the machines: a deployment or a standalone set, with the field name of its maximum and the Node
//! annotations of its template.

use std::time::Duration;

use clock::Stream;
use mcm_api::{GoDuration, keys};
use scenario::builder::{all, apply, field, patch_spec};
use scenario::{Condition, Step};
use serde_json::{Value, json};

use super::super::DRAIN;
use super::super::rollout::{self, NAME, counted};

const MAXIMUM: &str = "autoPreserveFailedMax";
/// The upstream name of the field.
const MAXIMUM_UPSTREAM: &str = "autoPreserveFailedMachineMax";

/// The owner of the machines.
#[derive(Debug)]
pub(super) struct Pool {
    /// Whether it is a standalone set.
    standalone: bool,
    /// Name of the field with the maximum.
    maximum: &'static str,
    /// A Node annotation in its template.
    node_annotation: Option<(&'static str, &'static str)>,
}

impl Pool {
    pub(super) fn draw(stream: &mut Stream) -> Self {
        Self {
            standalone: stream.chance(0.2),
            maximum: if stream.chance(0.25) { MAXIMUM_UPSTREAM } else { MAXIMUM },
            node_annotation: match stream.below(10) {
                0 => Some((keys::PRESERVE_ANNOTATION, "when-failed")),
                1 => Some((keys::SCALE_DOWN_DISABLED_ANNOTATION, "false")),
                _ => None,
            },
        }
    }

    fn kind(&self) -> &'static str {
        if self.standalone {
            "MachineSet"
        } else {
            "MachineDeployment"
        }
    }

    /// Whether it rolls out template changes and can be paused.
    pub(super) fn rolls(&self) -> bool {
        !self.standalone
    }

    /// Creates the object, with that preserve timeout in seconds and a random drain timeout.
    pub(super) fn create(
        &self,
        (replicas, maximum): (u64, u64),
        strategy: &Value,
        kept: u64,
        world: &mut Stream,
    ) -> Step {
        let mut object = rollout::object(replicas, strategy);
        if self.standalone {
            object["kind"] = json!(self.kind());
            object["spec"] = json!({
                "replicas": replicas,
                "selector": object["spec"]["selector"],
                "template": object["spec"]["template"],
            });
        }
        object["spec"][self.maximum] = json!(maximum);
        let template = &mut object["spec"]["template"]["spec"];
        template["machinePreserveTimeout"] = json!(GoDuration(Duration::from_secs(kept)).to_string());
        template["drainTimeout"] =
            json!(GoDuration(DRAIN * u32::try_from(1 + world.below(4)).unwrap_or(1)).to_string());
        if let Some((key, value)) = self.node_annotation {
            template["nodeTemplate"] = json!({ "metadata": { "annotations": { key: value } } });
        }
        apply(object)
    }

    /// Changes its spec.
    pub(super) fn spec(&self, change: Value) -> Step {
        patch_spec(self.kind(), NAME, change)
    }

    /// The change of its spec that sets the maximum of automatically preserved machines.
    pub(super) fn keeps_at_most(&self, maximum: u64) -> Value {
        json!({ self.maximum: maximum })
    }

    /// Sets the final replicas and resumes a paused rollout.
    pub(super) fn settled(&self, replicas: u64) -> Step {
        if self.standalone {
            self.spec(json!({ "replicas": replicas }))
        } else {
            self.spec(json!({ "paused": false, "replicas": replicas }))
        }
    }

    /// No machine is preserved, and that number of machines runs.
    pub(super) fn at_rest(&self, replicas: u64) -> Condition {
        let run = if self.standalone {
            let numbers = ["replicas", "availableReplicas", "readyReplicas"];
            all(numbers.map(|number| counted(self.kind(), number, replicas)))
        } else {
            rollout::at_rest(replicas)
        };
        all([run, field(self.kind(), NAME, "/status/preservations", Value::Null)])
    }
}
