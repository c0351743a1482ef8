//! Preservation for those who ask: a disk that is full, and an account that may do nothing but annotate nodes.

use harness::Scenario;
use harness::scenario::Step;
use harness::scenario::builder::{
    all, annotate, apply, by, daemon_set, delete, deployment, exists, kubelet, patch_spec, phase, pods, refused_to,
    same_pods, slack, workload,
};
use harness::scenario::expect::PodState;
use harness::scenario::step::KubeletAction;
use harness::stage::NAMESPACE;
use mcm_api::{Phase, keys};
use serde_json::json;

use super::joining;
use super::preservation::{SET, failing, kept, node_says_so, pool, preserve};

const BINDING: &str = "preservation-consumer";

/// All scenarios about those who ask.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![disk_pressure(), consumer()]
}

fn disk_pressure() -> Scenario {
    let serves = |machine: &str| pods("web").on(machine).are(PodState::Ready).at_least(1);
    pool(
        "preserve_a_full_disk",
        "The disk of a node is full: its machine fails and is kept without its pods, but for those of DaemonSets, and runs on when there is room.",
        &["m-1", "m-2"],
        1,
    )
    .step(daemon_set(workload("agent")))
    .step(deployment(workload("web").replicas(2).cpu("1500m")))
    .eventually(joining(), all(["m-1", "m-2"].map(serves)))
    .eventually(slack(), pods("agent").on("m-1").are(PodState::Ready).exactly(1))
    .throughout(same_pods("agent", "m-1"))
    .step(kubelet("m-1", KubeletAction::FillDisk))
    .eventually(failing() + 2 * slack(), all([kept("m-1"), pods("web").on("m-1").exactly(0)]))
    .always(slack(), kept("m-1"))
    .step(kubelet("m-1", KubeletAction::FreeDisk))
    .eventually(slack(), phase("m-1", Phase::RunningPreserved))
    .eventually(joining() + slack(), serves("m-1"))
}

/// The service account that `docs/preservation.md` tells of gets the role that `deploy/` has for consumers.
fn rights() -> Step {
    let group = "rbac.authorization.k8s.io";
    apply(json!({
        "apiVersion": format!("{group}/v1"),
        "kind": "ClusterRoleBinding",
        "metadata": { "name": BINDING },
        "roleRef": { "apiGroup": group, "kind": "ClusterRole", "name": format!("{NAMESPACE}:preservation-consumer") },
        "subjects": [{ "kind": "ServiceAccount", "name": "consumer", "namespace": NAMESPACE }],
    }))
}

fn consumer() -> Scenario {
    let user = format!("system:serviceaccount:{NAMESPACE}:consumer");
    let allowed = |step: Step| by(&user, step);
    let refused = |step: Step| refused_to(&user, step);
    pool(
        "preserve_by_a_consumer",
        "A service account that may only annotate nodes asks for a preservation, and takes that back; it can do nothing to machines.",
        &["m-1", "m-2"],
        0,
    )
    .step(rights())
    .step(refused(preserve("Machine", "m-1", "now")))
    .step(refused(delete("Machine", "m-1")))
    .step(refused(delete("Node", "m-1")))
    .step(refused(patch_spec("MachineSet", SET, json!({ "replicas": 0 }))))
    .step(refused(annotate("MachineSet", SET, keys::PRESERVE_ANNOTATION, "now")))
    .step(allowed(preserve("Node", "m-1", "now")))
    .eventually(slack(), all([phase("m-1", Phase::RunningPreserved), node_says_so("m-1")]))
    .step(allowed(preserve("Node", "m-1", "false")))
    .eventually(slack(), phase("m-1", Phase::Running))
    .eventually(slack(), all([exists("Machine", "m-1"), exists("Machine", "m-2")]))
    .step(delete("ClusterRoleBinding", BINDING))
}
