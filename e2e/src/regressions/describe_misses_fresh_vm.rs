//! R08 `describe-misses-fresh-vm`: nodes joined without the initialization after the creation, because the
//! cloud did not find the VM yet.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::{Code, Phase};
use scenario::Scenario;
use scenario::builder::{all, calls_at_least, fault_hits, inject, keep, phase, seconds};
use scenario::step::{CloudCall, Fault};

use super::{POOL, joining, story, well};

const MACHINE: &str = "md-a-1";

pub(super) fn entry() -> Entry {
    Entry {
        id: "R08",
        name: "describe-misses-fresh-vm",
        origin: "MCM#933, MCM PR#940",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R08",
            scenario: not_known_yet(),
            mutant: true,
            breaks: &[EXPECTED],
        }],
        open: "decided otherwise: NotFound from InitializeMachine skips the initialization, as upstream documents it; \
         here the error is Unavailable",
    }
}

fn not_known_yet() -> Scenario {
    let fault = Fault::of("unknown", CloudCall::InitializeMachine)
        .machine(MACHINE)
        .times(3);
    story(
        "r08-not-initialized",
        "The initialization of a VM fails three times: mcm retries, and the machine is not Running before.",
    )
    .require_initialize()
    .boots_in(seconds(1))
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(inject(fault.code(Code::Unavailable)))
    .step(keep(1))
    .never(seconds(14), phase(MACHINE, Phase::Running))
    .eventually(
        joining(),
        all([well(MACHINE), calls_at_least(CloudCall::InitializeMachine, MACHINE, 4)]),
    )
    .eventually(seconds(1), fault_hits("unknown", 3))
}
