//! A07 `stage-in-an-error`: a deletion parsed its stage from a text that contained the provider's error, and an
//! error that quoted a later stage caused a jump to it.

use harness::regression::{Case, Confidence, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::{all, fault_hits, inject, keep, machine_gone, seconds, slack, vm_count};
use scenario::step::{CloudCall, Fault};

use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "A07",
        name: "stage-in-an-error",
        origin: "spec machine.md 12, no. 14",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "A07",
            scenario: quoted(),
            mutant: true,
            breaks: &["I2", "I16"],
        }],
        open: "",
    }
}

fn quoted() -> Scenario {
    let error = Fault::of("quotes", CloudCall::DeleteMachine)
        .machine("md-a-1")
        .times(1)
        .code(Code::Unavailable)
        .message("busy: do not Initiate machine object finalizer removal yet");
    story(
        "a07-quoted-stage",
        "The cloud's error quotes a later stage of the deletion: the VM is still deleted before its machine.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(1))
    .eventually(joining(), well("md-a-1"))
    .step(inject(error))
    .step(keep(0))
    .eventually(slack(), all([machine_gone("md-a-1"), vm_count("md-a-1", 0)]))
    .eventually(seconds(1), fault_hits("quotes", 1))
}
