//! R35 `flap-resets-creation-timeout`: machines failed long after their creation timeout, which counted from
//! the last change of their phase.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::{creation_timeout, fail_calls, fault_hits, keep, lift, machine_gone, seconds, slack, wait};
use scenario::step::CloudCall;

use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R35",
        name: "flap-resets-creation-timeout",
        origin: "MCM#1009, MCM PR#1015",
        group: Group::Timeouts,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R35",
            scenario: created_late(),
            mutant: true,
            breaks: &["I13", EXPECTED],
        }],
        open: "",
    }
}

fn created_late() -> Scenario {
    story(
        "r35-created-late",
        "A creation succeeds after a quarter of an hour, and the node never joins: the machine fails after twenty \
         minutes, not later.",
    )
    .boots_in(seconds(10 * 3600))
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(fail_calls(
        "broken",
        CloudCall::CreateMachine,
        "md-a-1",
        Code::Unavailable,
    ))
    .step(keep(1))
    .step(wait(seconds(15 * 60)))
    .step(lift("broken"))
    .eventually(
        creation_timeout() - seconds(15 * 60) + 3 * slack(),
        machine_gone("md-a-1"),
    )
    .eventually(seconds(1), fault_hits("broken", 10))
    .step(keep(0))
    .eventually(seconds(120), machine_gone("md-a-2"))
    // The keeper may stop before it replaces the machine.
    .may_miss()
}
