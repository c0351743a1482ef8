//! Pods that left the API while their containers may run on: their VM runs, and no kubelet confirmed their end.
//!
//! Who removed such a pod is found by exclusion, because a real API server does not report requests. A real kubelet
//! reports terminated containers first; one of fakecloud that is back removes the pod at once, and its Node is Ready a
//! moment later; the controllers of Kubernetes delete with a grace period, which only a kubelet ends,
//! unless the Node is missing or has the taint `out-of-service`; the scenario records what it deletes itself.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use mcm_api::keys;
use scenario::cloud::{CloudEvent, Kubelet, VmState};
use scenario::observation::{Observation, Seen};
use serde_json::Value;

use super::judging_rules::JudgingRules;
use crate::object::{is_forced, is_ready, label, name, owner, text, uid};
use crate::world::WorldState;

const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// Namespace and name.
pub(super) type Key = (String, String);

/// A pod that left the API without a confirmation.
#[derive(Clone, Debug)]
pub(super) struct Unconfirmed {
    pub(super) pod: Key,
    pub(super) uid: String,
    /// Whether a StatefulSet controls it.
    pub(super) stateful: bool,
    /// Namespace and name of its claims.
    pub(super) claims: BTreeSet<Key>,
    pub(super) node: String,
    pub(super) since: Timestamp,
    vm: String,
}

impl std::fmt::Display for Unconfirmed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ((namespace, name), node, vm) = (&self.pod, &self.node, &self.vm);
        write!(
            f,
            "pod {namespace}/{name} left the API at {} without a confirmation of node {node}, whose VM {vm} runs",
            self.since
        )
    }
}

/// The running VMs by their Node, and the unconfirmed pods.
#[derive(Debug, Default)]
pub(super) struct UnconfirmedPods {
    running: BTreeMap<String, String>,
    /// The machines whose kubelets are back while their Nodes are not Ready yet.
    back: BTreeSet<String>,
    pods: Vec<Unconfirmed>,
}

impl UnconfirmedPods {
    /// Follows an event. `world` is the world after it.
    pub(super) fn observe(&mut self, world: &WorldState, observation: &Observation, rules: &JudgingRules) {
        let event = &observation.what;
        if let Some(vm) = event.vm() {
            let known = self.running.get(&vm.node);
            if vm.state == VmState::Running {
                self.running.insert(vm.node.clone(), vm.id.clone());
            } else if known == Some(&vm.id) {
                self.running.remove(&vm.node);
            }
            // Containers end with their VM, and no kubelet starts those of a pod that the API does not have.
            if vm.state != VmState::Running {
                self.pods.retain(|pod| pod.vm != vm.id);
            }
        }
        if let Seen::Cloud(CloudEvent::Kubelet(kubelet)) = event {
            self.follow_kubelet(kubelet);
        }
        if let Some(node) = event.applied("Node").filter(|node| is_ready(node)) {
            self.pods.retain(|pod| pod.node != name(node));
            self.back.remove(label(node, keys::MACHINE_NAME_LABEL));
        }
        if let Some(pod) = event.deleted("Pod").filter(|pod| !rules.is_by_user("Pod", name(pod)))
            && let Some(vm) = self.running.get(text(pod, "/spec/nodeName"))
            && let Some((unconfirmed, machine)) = unconfirmed(world, pod, vm, observation.at)
            && !self.back.contains(machine)
        {
            self.pods.push(unconfirmed);
        }
    }

    fn follow_kubelet(&mut self, kubelet: &Kubelet) {
        match kubelet.what.as_str() {
            "Resumed" | "Started" => {
                self.back.insert(kubelet.machine.clone());
            }
            "Partitioned" | "Frozen" | "Ended" => {
                self.back.remove(&kubelet.machine);
            }
            _ => {}
        }
    }

    /// The unconfirmed pods, in the order in which they left the API.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Unconfirmed> {
        self.pods.iter()
    }

    /// The running VM of a Node.
    pub(super) fn running_vm(&self, node: &str) -> Option<&str> {
        self.running.get(node).map(String::as_str)
    }
}

/// The removed pod and the machine of its Node, if nothing in the API confirms its end and Kubernetes did not remove it.
fn unconfirmed<'a>(world: &'a WorldState, pod: &Value, vm: &str, at: Timestamp) -> Option<(Unconfirmed, &'a str)> {
    let stateful = owner(pod, "StatefulSet").is_some();
    let claims = claims(pod);
    if !stateful && claims.is_empty() || !runs(pod) {
        return None;
    }
    let node = world.object("Node", text(pod, "/spec/nodeName"))?;
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    let out_of_service = taints.into_iter().flatten().any(|taint| taint["key"] == OUT_OF_SERVICE);
    let machine = world.object("Machine", label(node, keys::MACHINE_NAME_LABEL))?;
    let forced = is_forced(machine) || label(machine, keys::FORCE_DRAIN_LABEL) == "True";
    // A kubelet that answers ends the containers at once.
    (!out_of_service && !forced && !is_ready(node)).then(|| {
        let unconfirmed = Unconfirmed {
            pod: key(pod),
            uid: uid(pod).to_owned(),
            stateful,
            claims,
            node: name(node).to_owned(),
            since: at,
            vm: vm.to_owned(),
        };
        (unconfirmed, name(machine))
    })
}

/// Namespace and name of an object.
pub(super) fn key(object: &Value) -> Key {
    (text(object, "/metadata/namespace").to_owned(), name(object).to_owned())
}

/// The claims of a pod.
pub(super) fn claims(pod: &Value) -> BTreeSet<Key> {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
    let claims = volumes.into_iter().flatten();
    let claims = claims.filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName")?.as_str());
    let namespace = text(pod, "/metadata/namespace");
    claims.map(|claim| (namespace.to_owned(), claim.to_owned())).collect()
}

/// Whether the status shows that containers of the pod run.
pub(super) fn runs(pod: &Value) -> bool {
    let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
    let ended = |status: &Value| status.pointer("/state/terminated").is_some();
    let all_ended = statuses.is_some_and(|all| !all.is_empty() && all.iter().all(ended));
    text(pod, "/status/phase") == "Running" && !all_ended
}
