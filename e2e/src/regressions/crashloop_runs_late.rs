//! R39 `crashloop-runs-late`: a machine whose creation had failed at first was Running only ten minutes after
//! its node had become ready.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::{boot_delay, fail_call, fault_hits, keep, seconds, short_retry};
use scenario::step::CloudCall;

use super::{POOL, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R39",
        name: "crashloop-runs-late",
        origin: "MCM#805, MCM PR#806",
        group: Group::Timeouts,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R39",
            scenario: failed_at_first(),
            mutant: true,
            breaks: &[EXPECTED],
        }],
        open: "",
    }
}

fn failed_at_first() -> Scenario {
    story(
        "r39-failed-at-first",
        "The first creation fails, the second succeeds: the machine is Running half a minute after its node is ready.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(fail_call(
        "first",
        CloudCall::CreateMachine,
        "md-a-1",
        1,
        Code::Unavailable,
    ))
    .step(keep(1))
    .eventually(short_retry() + boot_delay() + seconds(30), well("md-a-1"))
    .eventually(seconds(1), fault_hits("first", 1))
}
