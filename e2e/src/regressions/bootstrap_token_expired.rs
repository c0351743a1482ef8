//! R37 `bootstrap-token-expired`: machines with a longer creation timeout of their own could not join, because
//! their token had expired.

use harness::regression::{Case, Confidence, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::{fail_calls, fault_hits, keep, lift, patch_spec, seconds, slack, wait};
use scenario::step::CloudCall;
use serde_json::json;

use super::{POOL, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R37",
        name: "bootstrap-token-expired",
        origin: "MCM#772, CAPI#1433",
        group: Group::Timeouts,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R37",
                scenario: slow_boot(),
                mutant: true,
                breaks: &["I13"],
            },
            Case {
                id: "R37/b",
                scenario: old_token(),
                mutant: true,
                breaks: &["I13"],
            },
        ],
        open: "",
    }
}

fn slow_boot() -> Scenario {
    story(
        "r37-token-expired",
        "A machine with a creation timeout of 50 minutes boots in 35: its bootstrap token is still valid.",
    )
    .boots_in(seconds(35 * 60))
    .keeper(POOL, 0, json!({ "creationTimeout": "50m0s" }))
    .step(keep(1))
    .eventually(seconds(36 * 60) + slack(), well("md-a-1"))
    .quiet_end(slack())
}

/// The token was created with a timeout of twenty minutes; then a user raised the timeout to fifty.
fn old_token() -> Scenario {
    story(
        "r37-b-old-token",
        "A creation succeeds after half an hour of errors, when the token of the first attempt is about to expire: the \
         machine joins.",
    )
    .boots_in(seconds(10 * 60))
    .keeper(POOL, 0, json!({ "creationTimeout": "20m0s" }))
    .step(fail_calls("broken", CloudCall::CreateMachine, "md-a-1", Code::Internal))
    .step(keep(1))
    .step(wait(seconds(5 * 60)))
    .step(patch_spec("Machine", "md-a-1", json!({ "creationTimeout": "50m0s" })))
    .step(wait(seconds(25 * 60)))
    .step(lift("broken"))
    .eventually(seconds(15 * 60), well("md-a-1"))
    .eventually(seconds(1), fault_hits("broken", 5))
    .quiet_end(slack())
}
