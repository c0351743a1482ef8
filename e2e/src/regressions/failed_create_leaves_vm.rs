//! R09 `failed-create-leaves-vm`: VMs of failed creations accumulated; or creations never succeeded again after
//! the quota had been raised.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::Code;
use scenario::Scenario;
use scenario::builder::{
    calls, creation_timeout, fail_calls, fault_hits, inject, keep, lift, long_retry, seconds, wait,
};
use scenario::step::{CloudCall, Fault};

use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R09",
        name: "failed-create-leaves-vm",
        origin: "MCM#355, KMC#2080",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R09",
                scenario: after_effect(),
                mutant: true,
                breaks: &["I1"],
            },
            Case {
                id: "R09/b",
                scenario: no_capacity(),
                mutant: true,
                breaks: &[EXPECTED, "I13"],
            },
        ],
        open: "a VM in a state of error: the cloud has none",
    }
}

/// Three creations report a failure after they have created a VM.
fn after_effect() -> Scenario {
    let fault = Fault::of("failed", CloudCall::CreateMachine)
        .times(3)
        .code(Code::Internal)
        .after_commit();
    story(
        "r09-failed-after-effect",
        "Creations fail after they have created a VM: the next attempt adopts it.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(inject(fault))
    .at_most(1, creation_timeout(), calls(CloudCall::CreateMachine, "md-a-1"))
    .meanwhile()
    .step(keep(1))
    .eventually(creation_timeout(), well("md-a-1"))
    .eventually(seconds(1), fault_hits("failed", 1))
    .quiet_end(joining())
}

/// For 25 minutes there is no capacity, five minutes longer than the creation timeout of the first machine.
fn no_capacity() -> Scenario {
    story(
        "r09-b-quota-raised",
        "The quota is raised after 25 minutes: the first machine has failed by then, and its replacement succeeds.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(fail_calls(
        "full",
        CloudCall::CreateMachine,
        "md-a-*",
        Code::ResourceExhausted,
    ))
    .step(keep(1))
    .step(wait(seconds(25 * 60)))
    .step(lift("full"))
    .eventually(long_retry() + joining(), well("md-a-2"))
    .eventually(seconds(1), fault_hits("full", 3))
}
