//! A01 `outage-timer-never-reset`: two short outages hours apart counted as one, and the controller froze
//! immediately in the second.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Phase;
use scenario::Scenario;
use scenario::api_faults::{Match, Pattern, Rule, Verb};
use scenario::builder::{
    all, api_fault_by, fault_hits, health_timeout, keep, kubelet, machine_gone, node_grace, phase, seconds, slack, wait,
};
use scenario::step::{Client, KubeletAction, Step};

use super::{POOL, joining, refused, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A01",
        name: "outage-timer-never-reset",
        origin: "spec machine.md 12, no. 20",
        group: Group::Freeze,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "A01",
            scenario: twice(),
            mutant: true,
            breaks: &[EXPECTED, "I13"],
        }],
        open: "",
    }
}

/// One of mcm's availability checks of the API server gets no response.
fn away(name: &str) -> Step {
    let rule = Rule {
        matches: Match {
            verbs: vec![Verb::Get],
            resource: Some(Pattern::new("machines")),
            object: Some(Pattern::new("dummy_name")),
            times: Some(1),
            ..Match::default()
        },
        ..Rule::new(name, refused(503))
    };
    api_fault_by(Client::Mcm, rule)
}

/// A process that was frozen restarts the timeouts of unhealthy machines, which makes the freeze visible.
fn twice() -> Scenario {
    story(
        "a01-two-outages",
        "An API server is unavailable for seconds, and again an hour later: an unhealthy machine fails in time.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(1))
    .eventually(joining(), well("md-a-1"))
    .step(away("first"))
    .step(wait(seconds(3600)))
    .eventually(seconds(1), fault_hits("first", 1))
    .step(kubelet("md-a-1", KubeletAction::Stop))
    .eventually(node_grace() + slack(), phase("md-a-1", Phase::Unknown))
    .step(away("second"))
    .never(seconds(300), phase("md-a-1", Phase::Running))
    .eventually(seconds(1), fault_hits("second", 1))
    .eventually(health_timeout() + slack(), machine_gone("md-a-1"))
    .eventually(joining(), all([well("md-a-2")]))
}
