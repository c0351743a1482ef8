//! Preservation for users: a full disk, an account that may only annotate nodes, and one that may only preserve
//! machines.

use mcm_api::Phase;
use scenario::builder::{
    all, apply, by, daemon_set, delete, deployment, kubelet, patch_spec, patch_status, phase, pods, refused_to,
    same_pods, slack, stateful_set, workload,
};
use scenario::expect::PodState;
use scenario::step::KubeletAction;
use scenario::{Scenario, Step};
use serde_json::json;
use stage::NAMESPACE;

use super::joining;
use super::preservation_steps::until;
use super::preservation_steps::{SET, failing, forgotten, kept, kept_running, pool, preserve};
use crate::regressions::POOL;
use crate::regressions::worlds::{self, at_size, merge, settled};

/// All scenarios about users.
pub(super) fn scenarios() -> Vec<Scenario> {
    vec![disk_pressure(), consumer(), operator()]
}

fn disk_pressure() -> Scenario {
    let serves = |machine: &str| pods("web").on(machine).are(PodState::Ready).at_least(1);
    pool(
        "preserve_a_full_disk",
        "The disk of a node is full: its machine fails and is preserved without its pods except those of DaemonSets, \
         and is Running after the disk has space.",
        &["m-1", "m-2"],
        1,
    )
    .step(daemon_set(workload("agent")))
    .step(deployment(workload("web").replicas(2).cpu("1500m")))
    .eventually(joining(), all(["m-1", "m-2"].map(serves)))
    .eventually(slack(), pods("agent").on("m-1").are(PodState::Ready).exactly(1))
    .throughout(same_pods("agent", "m-1"))
    .step(kubelet("m-1", KubeletAction::FillDisk))
    .eventually(
        failing() + 2 * slack(),
        all([kept("m-1"), pods("web").on("m-1").exactly(0)]),
    )
    .always(slack(), kept("m-1"))
    .step(kubelet("m-1", KubeletAction::FreeDisk))
    .eventually(slack(), phase("m-1", Phase::RunningPreserved))
    .eventually(joining() + slack(), serves("m-1"))
}

/// The user of a service account with this name.
fn account(name: &str) -> String {
    format!("system:serviceaccount:{NAMESPACE}:{name}")
}

/// Binds a service account to one of the roles for users in `deploy/rbac/preservation.yaml`.
fn role_binding(kind: &str, role: &str, account: &str) -> Step {
    let group = "rbac.authorization.k8s.io";
    apply(json!({
        "apiVersion": format!("{group}/v1"),
        "kind": format!("{kind}Binding"),
        "metadata": { "name": binding(account) },
        "roleRef": { "apiGroup": group, "kind": kind, "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": NAMESPACE }],
    }))
}

fn binding(account: &str) -> String {
    format!("preservation-{account}")
}

/// Writes to the Secret of the machines' class.
fn secret() -> Step {
    merge(
        "Secret",
        "class-a-secret",
        json!({ "metadata": { "labels": { "touched": "yes" } } }),
    )
}

fn consumer() -> Scenario {
    let user = account("consumer");
    let allowed = |step: Step| by(&user, step);
    let nothing = || json!({ "replicas": 0 });
    let refused = [
        preserve("Machine", "md-a-1", "now"),
        delete("Machine", "md-a-1"),
        patch_spec("MachineSet", &worlds::pool(2).set(), nothing()),
        patch_spec("MachineDeployment", POOL, nothing()),
        secret(),
        delete("Node", "md-a-1"),
        patch_status("Node", "md-a-1", json!({ "status": { "phase": "Running" } })),
        delete("Pod", "web-0"),
        patch_spec("StatefulSet", "web", nothing()),
    ];
    let story = Scenario::new(
        "preserve_by_a_consumer",
        "A service account that may only annotate nodes requests a preservation and cancels it; it cannot access \
         machines, pods and Secrets.",
    );
    settled(story, &[worlds::pool(2)])
        .step(stateful_set(workload("web")))
        .eventually(joining(), pods("web").are(PodState::Ready).exactly(1))
        .step(role_binding(
            "ClusterRole",
            &format!("{NAMESPACE}:preservation-consumer"),
            "consumer",
        ))
        .steps(refused.map(|step| refused_to(&user, step)))
        .step(allowed(preserve("Node", "md-a-1", "now")))
        .eventually(slack(), kept_running("md-a-1"))
        .step(allowed(preserve("Node", "md-a-1", "false")))
        .eventually(slack(), phase("md-a-1", Phase::Running))
        .eventually(slack(), all([at_size(2), pods("web").are(PodState::Ready).exactly(1)]))
        .step(delete("ClusterRoleBinding", &binding("consumer")))
}

fn operator() -> Scenario {
    let user = account("operator");
    let allowed = |step: Step| by(&user, step);
    let nothing = || json!({ "replicas": 0 });
    let refused = [
        preserve("Node", "m-1", "now"),
        delete("Machine", "m-1"),
        delete("MachineSet", SET),
        patch_spec("MachineSet", SET, nothing()),
        patch_status("MachineSet", SET, json!({ "status": { "preservations": [] } })),
        patch_spec("MachineDeployment", POOL, nothing()),
        secret(),
    ];
    pool(
        "preserve_by_an_operator",
        "A service account that may only annotate machines and edit their expiry preserves a machine, extends and ends \
         it; it can do nothing else.",
        &["m-1", "m-2"],
        0,
    )
    .step(role_binding("Role", "preservation-operator", "operator"))
    .step(allowed(preserve("Machine", "m-1", "now")))
    .eventually(slack(), phase("m-1", Phase::RunningPreserved))
    .step(allowed(until("m-1", "2199-01-01T00:00:00Z")))
    .always(slack(), phase("m-1", Phase::RunningPreserved))
    .step(allowed(until("m-1", "2001-01-01T00:00:00Z")))
    .eventually(slack(), forgotten("m-1"))
    .steps(refused.map(|step| refused_to(&user, step)))
    .eventually(
        slack(),
        all(["m-1", "m-2"].map(|machine| phase(machine, Phase::Running))),
    )
    .step(delete("RoleBinding", &binding("operator")))
}
