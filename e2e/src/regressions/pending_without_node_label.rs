//! R64 `pending-without-node-label`: machines stayed Pending forever, because the driver had not named their
//! node.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Phase;
use scenario::Scenario;
use scenario::builder::{all, any, creation_timeout, fault_hits, inject, keep, machine_gone, phase, seconds, slack};
use scenario::step::{CloudCall, Fault};

use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R64",
        name: "pending-without-node-label",
        origin: "MCM PR#1070",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R64",
            scenario: nameless(),
            mutant: true,
            breaks: &["I19", "I13", EXPECTED],
        }],
        open: "",
    }
}

fn nameless() -> Scenario {
    let silent = |name: &str, call| inject(Fault::of(name, call).machine("md-a-1").nameless());
    story(
        "r64-nameless",
        "The driver does not name the node of a machine: the machine is not Pending, and fails after its creation \
         timeout.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .steps([
        silent("nameless-creation", CloudCall::CreateMachine),
        silent("nameless-lookup", CloudCall::GetMachineStatus),
    ])
    .step(keep(1))
    .eventually(slack(), phase("md-a-1", Phase::CrashLoopBackOff))
    .eventually(
        creation_timeout() + 3 * slack(),
        any([phase("md-a-1", Phase::Failed), machine_gone("md-a-1")]),
    )
    .eventually(joining() + slack(), all([well("md-a-2"), machine_gone("md-a-1")]))
    .eventually(
        seconds(1),
        all([fault_hits("nameless-creation", 1), fault_hits("nameless-lookup", 1)]),
    )
}
