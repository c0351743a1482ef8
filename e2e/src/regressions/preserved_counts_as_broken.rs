//! R82 `preserved-counts-as-broken`: a deployment with a machine that was preserved on purpose appeared
//! unhealthy, so that its owner waited.

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use mcm_api::{Phase, keys};
use scenario::builder::{all, annotate, field, kubelet, machine_gone, phase, seconds, slack, status_condition};
use scenario::step::KubeletAction;
use scenario::{Condition, Scenario};
use serde_json::Value;

use super::worlds::{Pool, case, failing, kept, pool, settled, status};
use super::{POOL, joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R82",
        name: "preserved-counts-as-broken",
        origin: "MCM PR#1092",
        group: Group::Preservation,
        confidence: Confidence::Cause,
        cases: vec![case("R82", kept_on_purpose(), &["I19", "I11", EXPECTED])],
        open: "a watchdog that checks the deployment",
    }
}

fn is_available() -> Condition {
    status_condition("MachineDeployment", POOL, "Available", &[("status", "True")])
}

/// The machine counts as preserved, and neither as failed nor as missing.
fn well() -> Condition {
    all([
        is_available(),
        status(POOL, "preservedFailedReplicas", 1),
        field("MachineDeployment", POOL, "/status/failedMachines", Value::Null),
    ])
}

fn kept_on_purpose() -> Scenario {
    let story = story(
        "r82-kept-on-purpose",
        "A failed machine is preserved on purpose: its deployment is available without failed machines, and another \
         failed machine is replaced.",
    );
    let kept_long = Pool {
        kept_for: Some("72h0m0s"),
        ..pool(3)
    };
    settled(story, &[kept_long])
        .step(annotate("Machine", "md-a-1", keys::PRESERVE_ANNOTATION, "when-failed"))
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(failing(), all([kept("md-a-1"), well()]))
        .always(seconds(3600), well())
        .step(kubelet("md-a-2", KubeletAction::Stop))
        .eventually(failing() + slack(), machine_gone("md-a-2"))
        .eventually(joining(), all([kept("md-a-1"), well()]))
        .step(kubelet("md-a-1", KubeletAction::Start))
        .eventually(2 * slack(), phase("md-a-1", Phase::RunningPreserved))
        .eventually(slack(), status(POOL, "availableReplicas", 3))
}
