//! R78 `preserve-not-inert`: preservation wrote to machines that did not use it.

use harness::regression::{Case, Confidence, Entry, Group};
use scenario::Scenario;
use scenario::builder::{all, kubelet, machine_gone, seconds, wait};
use scenario::step::KubeletAction;

use super::worlds::{at_size, class, failing, pool, scale, settled, to_class};
use super::{joining, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R78",
        name: "preserve-not-inert",
        origin: "MCM PR#1118, MCM PR#1107",
        group: Group::Preservation,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R78",
            scenario: used_by_nobody(),
            mutant: true,
            breaks: &["I17", "I18"],
        }],
        open: "",
    }
}

/// No preservation is requested, and none is allowed.
fn used_by_nobody() -> Scenario {
    let story = story(
        "r78-used-by-nobody",
        "Machines are created, scaled, rolled and lost, and none is preserved: mcm's writes are those of a build \
         without preservation.",
    )
    .step(class("class-b", "z1"));
    settled(story, &[pool(3)])
        .step(kubelet("md-a-1", KubeletAction::Stop))
        .eventually(failing() + joining(), all([machine_gone("md-a-1"), at_size(3)]))
        .step(scale(5))
        .eventually(seconds(600), at_size(5))
        .step(scale(2))
        .eventually(seconds(600), at_size(2))
        .step(to_class("class-b"))
        .eventually(seconds(1800), at_size(2))
        .step(wait(seconds(3600)))
}
