//! R38 `crashloop-never-failed`: machines whose creation failed repeatedly stayed beyond their creation
//! timeout.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use mcm_api::{Code, Phase};
use scenario::Scenario;
use scenario::builder::{
    annotate, any, create_machine, creation_timeout, fail_calls, fault_hits, inject, keep, machine_gone, phase,
    seconds, slack, wait,
};
use scenario::step::{CloudCall, Fault};
use serde_json::json;

use super::{POOL, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R38",
        name: "crashloop-never-failed",
        origin: "MCM#838, MCM#790",
        group: Group::Timeouts,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R38",
                scenario: annotated(),
                mutant: true,
                breaks: &[EXPECTED, "I13"],
            },
            Case {
                id: "R38/b",
                scenario: between_attempts(),
                mutant: true,
                breaks: &[EXPECTED, "I13"],
            },
        ],
        open: "",
    }
}

/// Each attempt takes three minutes, and a user writes the machine every minute.
fn annotated() -> Scenario {
    let slow = Fault::of("slow", CloudCall::CreateMachine)
        .code(Code::DeadlineExceeded)
        .latency(seconds(180));
    let touches = (0..30).flat_map(|number: u32| {
        let touch = annotate("Machine", "m-1", "drydock.example/touched", &number.to_string());
        [wait(seconds(60)), touch]
    });
    story(
        "r38-annotated",
        "Creations fail after three minutes each while a user annotates the machine: it is Failed after its creation \
         timeout.",
    )
    .step(inject(slow))
    .step(create_machine("m-1"))
    .eventually(creation_timeout() + seconds(180) + slack(), phase("m-1", Phase::Failed))
    .meanwhile()
    .steps(touches)
    .eventually(seconds(1), fault_hits("slow", 5))
}

/// The timeout passes between two attempts.
fn between_attempts() -> Scenario {
    story(
        "r38-b-between-attempts",
        "The cloud has no capacity for a machine, and its creation timeout passes between two attempts: it is Failed \
         at that time.",
    )
    .keeper(POOL, 0, json!({ "creationTimeout": "15m0s" }))
    .step(fail_calls(
        "full",
        CloudCall::CreateMachine,
        "md-a-1",
        Code::ResourceExhausted,
    ))
    .step(keep(1))
    .eventually(slack(), phase("md-a-1", Phase::CrashLoopBackOff))
    .eventually(
        seconds(15 * 60) + slack(),
        any([phase("md-a-1", Phase::Failed), machine_gone("md-a-1")]),
    )
    .eventually(seconds(1), fault_hits("full", 2))
}
