//! R07 `list-lag-duplicates-vm`: a cloud whose lookups lagged showed none of a machine's VMs, then several; all but one
//! stayed.

use harness::regression::{Case, Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{
    error_code, fail_call, keep, long_retry, make_vm, medium_retry, seconds, struck, vm_count, wait,
};
use harness::scenario::step::CloudCall;
use mcm_api::Code;

use super::{POOL, joining, story};

const MACHINE: &str = "md-a-1";

pub(super) fn entry() -> Entry {
    Entry {
        id: "R07",
        name: "list-lag-duplicates-vm",
        origin: "P-AWS#54, MCM PR#667",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R07/surplus",
            scenario: surplus(),
            mutant: false,
            breaks: &[],
        }],
        open: "a new VM that lookups do not show for a while",
    }
}

/// Two VMs of the machine's name are there when it looks: the surplus one goes within a minute, and the machine takes the
/// other.
fn surplus() -> Scenario {
    story(
        "r07-surplus",
        "The cloud says that a machine has several VMs: within a minute one is left, and the machine becomes Running on it.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(fail_call("first", CloudCall::CreateMachine, MACHINE, 1, Code::Unavailable))
    .step(keep(1))
    .eventually(seconds(30), struck("first", 1))
    .steps([make_vm(MACHINE, true), make_vm(MACHINE, true)])
    .eventually(medium_retry() + seconds(30), error_code(MACHINE, Code::OutOfRange))
    .eventually(seconds(60), vm_count(MACHINE, 1))
    .step(wait(long_retry()))
    .always(seconds(60), vm_count(MACHINE, 1))
    .eventually(joining() + long_retry(), vm_count(MACHINE, 1))
}
