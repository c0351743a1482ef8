//! Rollouts whose new machines do not become available: the old machines stay.

use mcm_api::{Code, keys};
use scenario::Scenario;
use scenario::builder::{all, apply, creation_timeout, fail_calls, fault_hits, lift, long_retry, slack, wait};
use scenario::step::CloudCall;
use serde_json::json;

use super::joining;
use crate::regressions::worlds::{at_size, class, pool, settled, to_class};

pub(super) fn scenarios() -> [Scenario; 2] {
    [without_capacity(), never_ready()]
}

fn without_capacity() -> Scenario {
    let usual = pool(2);
    let story = Scenario::new(
        "rollout_without_capacity",
        "The cloud has no capacity for new machines: the old ones stay until it has.",
    )
    .step(class("class-b", "z1"));
    settled(story, std::slice::from_ref(&usual))
        .step(fail_calls(
            "full",
            CloudCall::CreateMachine,
            "md-a-*-*",
            Code::ResourceExhausted,
        ))
        .step(to_class("class-b"))
        .eventually(slack(), fault_hits("full", 1))
        .always(creation_timeout() + 2 * slack(), usual.runs())
        .step(lift("full"))
        .eventually(long_retry() + 4 * joining(), at_size(2))
}

/// New nodes wait for a component that never starts: they exist, and their machines are not Running.
fn never_ready() -> Scenario {
    let usual = pool(2);
    let class = apply(json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": { "name": "class-c" },
        "provider": "fakecloud",
        "providerSpec": {
            "machineType": "small", "image": "linux-1", "zone": "z1",
            "tags": { "kubernetes.io/cluster/drydock": "1", "kubernetes.io/role/node": "1" },
            "taints": [{ "key": keys::CRITICAL_COMPONENTS_TAINT, "effect": "NoSchedule" }],
        },
        "secretRef": { "name": "class-a-secret" },
    }));
    let story = Scenario::new(
        "rollout_never_ready",
        "New nodes never lose the taint for missing components: the old machines stay, and the rollout is rolled back.",
    )
    .step(class);
    settled(story, std::slice::from_ref(&usual))
        .step(to_class("class-c"))
        .step(wait(creation_timeout() + joining()))
        .eventually(slack(), usual.runs())
        .step(to_class("class-a"))
        .eventually(creation_timeout() + joining(), all([at_size(2), usual.runs()]))
}
