//! A28 `request-outlives-check`: the conditions with which a health check requests the replacement of a machine stayed when the
//! check was deleted or did not select the machine any more. The check did not report that the machine recovered, so that its
//! turn came and a healthy machine was replaced.

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::builder::{annotate, any, delete, kubelet, machine_gone, not, phase, seconds, slack};
use scenario::step::KubeletAction;
use serde_json::json;

use super::external_remediation::full_disk;
use super::health_check_steps::{CHECK, acting, checked_pool, failed, requested};
use super::worlds::{Pool, case, pool, status};
use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A28",
        name: "request-outlives-check",
        origin: "found in a review",
        group: Group::HealthChecks,
        confidence: Confidence::Cause,
        cases: vec![case("A28", check_is_deleted(), &["I25", EXPECTED])],
        open: "",
    }
}

fn check_is_deleted() -> Scenario {
    let story = story(
        "a28-check-is-deleted",
        "A check is deleted while a machine that it marked is preserved: its request ends, and it is kept when it recovers.",
    );
    let patient = Pool {
        patient: true,
        kept_for: Some("1h0m0s"),
        ..pool(2)
    };
    checked_pool(story, &patient, full_disk(json!({})))
        .step(annotate("Machine", "md-a-1", keys::PRESERVE_ANNOTATION, "when-failed"))
        .step(kubelet("md-a-1", KubeletAction::FillDisk))
        .eventually(acting() + slack(), phase("md-a-1", Phase::FailedPreserved))
        .eventually(slack(), requested("md-a-1"))
        .step(delete("MachineHealthCheck", CHECK))
        .step(kubelet("md-a-1", KubeletAction::FreeDisk))
        .eventually(seconds(600), not(any([failed("md-a-1"), requested("md-a-1")])))
        .eventually(slack(), status(POOL, "availableReplicas", 2))
        .never(seconds(2 * 3600), machine_gone("md-a-1"))
}
