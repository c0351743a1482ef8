//! A27 `change-in-response-unseen`: a machine stayed Pending although its node was Ready. The kubelet had written Ready just
//! before mcm wrote the node's label; the response to this write contained both, and the watch event of Ready, which came
//! later, was older than the cached node and triggered nothing.

use std::time::Duration;

use harness::regression::{Confidence, EXPECTED, Entry, Group};
use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::api_faults::{Action, Verb};
use scenario::builder::{annotate, fault_hits, field, phase, seconds};

use super::story;
use super::worlds::{api_fails, case, class, pool, settled, to_class};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A27",
        name: "change-in-response-unseen",
        origin: "found in a run of CI",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![case("A27", preservation_requested(), &[EXPECTED])],
        open: "",
    }
}

fn preservation_requested() -> Scenario {
    let late = Duration::from_secs(30);
    let story = story(
        "a27-preservation-requested",
        "A user requests a preservation on a node just before mcm writes a taint to this node, whose watch is late: the \
         machine is preserved.",
    )
    .step(class("class-b", "z1"));
    settled(story, &[pool(2)])
        .step(api_fails(&[Verb::Watch], "nodes", Action::LagWatch { by: late }))
        .step(annotate("Node", "md-a-1", keys::PRESERVE_ANNOTATION, "now"))
        .step(to_class("class-b"))
        .eventually(
            seconds(1),
            field("Node", "md-a-1", "/spec/taints/0/effect", "PreferNoSchedule"),
        )
        .eventually(seconds(late.as_secs() + 1), phase("md-a-1", Phase::RunningPreserved))
        .eventually(seconds(1), fault_hits("api", 1))
}
