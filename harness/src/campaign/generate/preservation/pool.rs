//! What has the machines: mostly a deployment, sometimes a set alone; under which name its maximum is written, and what its
//! template wants of Nodes.

use std::time::Duration;

use clock::Stream;
use mcm_api::{GoDuration, keys};
use scenario::builder::{all, apply, field, patch_spec};
use scenario::{Condition, Step};
use serde_json::{Value, json};

use super::super::DRAIN;
use super::super::rollout::{self, NAME, counted};

const MAXIMUM: &str = "autoPreserveFailedMax";
/// What upstream calls it.
const MAXIMUM_UPSTREAM: &str = "autoPreserveFailedMachineMax";

/// Who has the machines.
#[derive(Debug)]
pub(super) struct Pool {
    /// Whether it is a set that no deployment controls.
    alone: bool,
    maximum: &'static str,
    /// An annotation that its template wants of every Node.
    of_nodes: Option<(&'static str, &'static str)>,
}

impl Pool {
    pub(super) fn draw(stream: &mut Stream) -> Self {
        Self {
            alone: stream.chance(0.2),
            maximum: if stream.chance(0.25) { MAXIMUM_UPSTREAM } else { MAXIMUM },
            of_nodes: match stream.below(10) {
                0 => Some((keys::PRESERVE_ANNOTATION, "when-failed")),
                1 => Some((keys::SCALE_DOWN_DISABLED_ANNOTATION, "false")),
                _ => None,
            },
        }
    }

    fn kind(&self) -> &'static str {
        if self.alone { "MachineSet" } else { "MachineDeployment" }
    }

    /// Whether another template makes machines anew, and can be paused.
    pub(super) fn rolls(&self) -> bool {
        !self.alone
    }

    /// The object, which drains for some time and keeps machines for so many seconds.
    pub(super) fn made(
        &self,
        (replicas, maximum): (u64, u64),
        strategy: &Value,
        kept: u64,
        world: &mut Stream,
    ) -> Step {
        let mut object = rollout::object(replicas, strategy);
        if self.alone {
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
        if let Some((key, value)) = self.of_nodes {
            template["nodeTemplate"] = json!({ "metadata": { "annotations": { key: value } } });
        }
        apply(object)
    }

    /// Its spec is changed.
    pub(super) fn spec(&self, change: Value) -> Step {
        patch_spec(self.kind(), NAME, change)
    }

    /// The change by which so many may be kept automatically.
    pub(super) fn keeps_at_most(&self, maximum: u64) -> Value {
        json!({ self.maximum: maximum })
    }

    /// There are as many machines as are wanted, and nothing holds a rollout up.
    pub(super) fn settled(&self, replicas: u64) -> Step {
        if self.alone {
            self.spec(json!({ "replicas": replicas }))
        } else {
            self.spec(json!({ "paused": false, "replicas": replicas }))
        }
    }

    /// Nothing is preserved, and so many machines run.
    pub(super) fn at_rest(&self, replicas: u64) -> Condition {
        let run = if self.alone {
            let numbers = ["replicas", "availableReplicas", "readyReplicas"];
            all(numbers.map(|number| counted(self.kind(), number, replicas)))
        } else {
            rollout::at_rest(replicas)
        };
        all([run, field(self.kind(), NAME, "/status/preservations", Value::Null)])
    }
}
