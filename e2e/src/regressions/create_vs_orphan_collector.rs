//! R03 `create-vs-orphan-collector`: a machine whose first creation failed got a VM by the second attempt, and
//! the orphan collection deleted it within seconds.

use harness::regression::{Case, Confidence, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::{
    all, delete_machine, fail_call, fault_hits, keep, medium_retry, orphan_period, seconds, slow_call, slow_creation,
    vm_count, wait,
};
use scenario::step::CloudCall;

use super::{POOL, joining, story, well};

const FOURTH: &str = "md-a-4";

pub(super) fn entry() -> Entry {
    Entry {
        id: "R03",
        name: "create-vs-orphan-collector",
        origin: "MCM#583",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R03",
                scenario: orphan_collection_during_creation(),
                mutant: true,
                breaks: &["I3"],
            },
            Case {
                id: "R03/b",
                scenario: two_processes(),
                mutant: true,
                breaks: &["I1", "I3"],
            },
        ],
        open: "",
    }
}

/// The deletion of the first machine triggers the orphan collection while the second attempt has created a VM
/// that is not recorded yet.
fn orphan_collection_during_creation() -> Scenario {
    story(
        "r03-create-vs-collector",
        "The orphan collection runs during the second attempt to create a machine: its VM stays.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(3))
    .eventually(joining(), all(["md-a-1", "md-a-2", "md-a-3"].map(well)))
    .step(fail_call(
        "first",
        CloudCall::CreateMachine,
        FOURTH,
        1,
        Code::Unavailable,
    ))
    .step(keep(4))
    .eventually(seconds(30), fault_hits("first", 1))
    .step(slow_call("second", CloudCall::CreateMachine, FOURTH, seconds(60)))
    .eventually(medium_retry() + seconds(60), vm_count(FOURTH, 1))
    .step(wait(seconds(10)))
    .step(delete_machine("md-a-1"))
    .eventually(seconds(120) + joining(), well(FOURTH))
    .eventually(seconds(1), fault_hits("second", 1))
    .quiet_end(joining())
}

/// With the defect every process leads: both reconcile the machine, and the second one calls the cloud before
/// the first one's VM exists.
fn two_processes() -> Scenario {
    story(
        "r03-b-two-processes",
        "Two processes serve one class during a creation: one of them creates the machine's only VM, and neither \
         collects it.",
    )
    .replicas(2)
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(slow_creation("slow", "md-a-1", seconds(60)))
    .step(keep(1))
    .eventually(seconds(60) + joining(), well("md-a-1"))
    .eventually(seconds(1), fault_hits("slow", 1))
    .step(wait(orphan_period()))
    .eventually(seconds(1), well("md-a-1"))
}
