//! R13 `partial-create-leaks-nic`: network interfaces were left after machines without a VM had been deleted.

use harness::regression::{Case, Confidence, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::{fault_hits, inject, keep, machine_gone, seconds, slack, wait};
use scenario::step::{CloudCall, Fault, Partial, Step};

use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R13",
        name: "partial-create-leaks-nic",
        origin: "MCM#73, MCM#936, CAPO#1404",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R13",
                scenario: partial(),
                mutant: true,
                breaks: &["I16"],
            },
            Case {
                id: "R13/b",
                scenario: repeated(),
                mutant: true,
                breaks: &["I16"],
            },
        ],
        open: "",
    }
}

/// Creations create a network interface and then fail.
fn partial_creation(code: Code) -> Step {
    let fault = Fault::of("half", CloudCall::CreateMachine).code(code);
    inject(fault.partial(Partial::Nics))
}

fn partial() -> Scenario {
    story(
        "r13-interface-without-vm",
        "A creation creates a network interface and then exceeds the quota; the machine is deleted: nothing is left of \
         it.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(partial_creation(Code::ResourceExhausted))
    .step(keep(1))
    .step(wait(seconds(600)))
    .step(keep(0))
    .eventually(slack(), machine_gone("md-a-1"))
    .eventually(seconds(1), fault_hits("half", 1))
    .quiet_end(slack())
}

/// The driver finds the leftover of an attempt by the name of its machine, and reuses it.
fn repeated() -> Scenario {
    story(
        "r13-b-repeated",
        "A creation fails repeatedly after it created a network interface: the next attempt finds it, and at most one \
         exists.",
    )
    .creates_once()
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(partial_creation(Code::Internal))
    .step(keep(1))
    .step(wait(seconds(600)))
    .step(keep(0))
    .eventually(slack(), machine_gone("md-a-1"))
    .eventually(seconds(1), fault_hits("half", 2))
    .quiet_end(slack())
}
