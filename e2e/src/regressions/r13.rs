//! R13 `partial-create-leaks-nic`: network interfaces were left when machines without a VM had been deleted.

use harness::regression::{Case, Confidence, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{inject, keep, machine_gone, seconds, slack, struck, wait};
use harness::scenario::step::{CloudCall, Effect, Fault};
use mcm_api::Code;

use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R13",
        name: "partial-create-leaks-nic",
        origin: "MCM#73, MCM#936, CAPO#1404",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R13",
            scenario: partial(),
            mutant: true,
            breaks: &["I16"],
        }],
        open: "a driver that makes another interface at each attempt: that is a matter of the driver",
    }
}

fn partial() -> Scenario {
    let fault = Fault::of("half", CloudCall::CreateMachine).code(Code::ResourceExhausted);
    story(
        "r13-interface-without-vm",
        "A creation makes a network interface and then meets the quota; the machine is deleted: nothing is left of it.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(inject(fault.effect(Effect::OnlyNics)))
    .step(keep(1))
    .step(wait(seconds(600)))
    .step(keep(0))
    .eventually(slack(), machine_gone("md-a-1"))
    .eventually(seconds(1), struck("half", 1))
    .quiet_end(slack())
}
