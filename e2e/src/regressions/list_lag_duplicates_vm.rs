//! R07 `list-lag-duplicates-vm`: a cloud with delayed lookups showed none of a machine's VMs, then several; all
//! but one stayed.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::api_faults::{Match, Pattern, Rule};
use scenario::builder::{
    all, api_fault_by, calls, create_vm, error_code, fail_call, fault_hits, inject, keep, long_retry, medium_retry,
    seconds, vm_count, wait,
};
use scenario::step::{Client, CloudCall, Fault};

use super::{POOL, joining, refused, story, well};

const MACHINE: &str = "md-a-1";

pub(super) fn entry() -> Entry {
    Entry {
        id: "R07",
        name: "list-lag-duplicates-vm",
        origin: "P-AWS#54, MCM PR#667",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R07",
                scenario: lags(),
                mutant: true,
                breaks: &["I1"],
            },
            Case {
                id: "R07/b",
                scenario: surplus(),
                mutant: true,
                breaks: &[EXPECTED],
            },
        ],
        open: "",
    }
}

/// For a minute and a half the cloud does not show the created VM, and the first status with it is not written.
fn lags() -> Scenario {
    let lag = |name: &str, call| inject(Fault::of(name, call).stale(seconds(90)));
    let status = Rule {
        matches: Match {
            resource: Some(Pattern::new("machines/status")),
            times: Some(2),
            ..Match::default()
        },
        ..Rule::new("unwritten", refused(500))
    };
    story(
        "r07-lookups-lag",
        "Lookups lag a minute and a half behind a creation, and its status is not written: the machine gets no second \
         VM.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .steps([
        lag("lag-of-lookups", CloudCall::GetMachineStatus),
        lag("lag-of-lists", CloudCall::ListMachines),
    ])
    .step(api_fault_by(Client::Mcm, status))
    .at_most(1, seconds(600), calls(CloudCall::CreateMachine, MACHINE))
    .meanwhile()
    .step(keep(1))
    .eventually(joining(), well(MACHINE))
    .eventually(
        seconds(1),
        all([fault_hits("unwritten", 1), fault_hits("lag-of-lookups", 1)]),
    )
    .quiet_end(joining())
}

/// Two VMs of the machine's name exist at its creation: the surplus VM is deleted within a minute, and the
/// machine adopts the other.
fn surplus() -> Scenario {
    story(
        "r07-b-surplus",
        "The cloud reports several VMs for a machine: within a minute one is left, and the machine becomes Running on \
         it.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(fail_call(
        "first",
        CloudCall::CreateMachine,
        MACHINE,
        1,
        Code::Unavailable,
    ))
    .step(keep(1))
    .eventually(seconds(30), fault_hits("first", 1))
    .steps([create_vm(MACHINE, true), create_vm(MACHINE, true)])
    .eventually(medium_retry() + seconds(30), error_code(MACHINE, Code::OutOfRange))
    .eventually(seconds(60), vm_count(MACHINE, 1))
    .step(wait(long_retry()))
    .always(seconds(60), vm_count(MACHINE, 1))
    .eventually(joining() + long_retry(), vm_count(MACHINE, 1))
}
