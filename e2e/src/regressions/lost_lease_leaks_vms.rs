//! R04 `lost-lease-leaks-vms`: nine VMs for three machines within twelve minutes. The API server responded more
//! slowly than the leader's renew deadline while creations were in progress; the successor saw machines without
//! a provider ID and created their VMs again; three times.

use std::time::Duration;

use harness::regression::{Case, Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, Cut, Match, Pattern, Rule, Verb};
use scenario::builder::{
    all, api_fault_by, calls, fault_hits, keep, lease_duration, lift_api_fault, pause_leader, seconds, slow_call,
    vm_count, wait,
};
use scenario::step::{Client, CloudCall};

use super::{POOL, joining, story, well};

const MACHINES: [&str; 3] = ["md-a-1", "md-a-2", "md-a-3"];

pub(super) fn entry() -> Entry {
    Entry {
        id: "R04",
        name: "lost-lease-leaks-vms",
        origin: "MCM#318",
        group: Group::Ledger,
        confidence: Confidence::Cause,
        cases: vec![
            Case {
                id: "R04",
                scenario: three_leaders_lost(),
                mutant: true,
                breaks: &["I1", "I8"],
            },
            Case {
                id: "R04/b",
                scenario: a_leader_wakes_up(),
                mutant: true,
                breaks: &["I1", "I8"],
            },
        ],
        open: "",
    }
}

/// The leader loses its connection to the API server after each machine's creation, before the response
/// arrives; each time the standby takes over. The second and third machine are delayed before their creation,
/// so that one is in progress at each of the three times.
fn three_leaders_lost() -> Scenario {
    let cut = |name: &str, how| api_fault_by(Client::Leader, Rule::new(name, Action::Partition { how }));
    story(
        "r04-lost-lease",
        "The leader loses its Lease three times, each time during a creation: three machines have three VMs.",
    )
    .replicas(2)
    .keeper(POOL, 0, serde_json::Value::Null)
    .steps(MACHINES.map(|machine| {
        slow_call(
            &format!("late-{machine}"),
            CloudCall::CreateMachine,
            machine,
            seconds(20),
        )
    }))
    .step(slow_call(
        "ask-2",
        CloudCall::GetMachineStatus,
        MACHINES[1],
        seconds(20),
    ))
    .step(slow_call(
        "ask-3",
        CloudCall::GetMachineStatus,
        MACHINES[2],
        seconds(50),
    ))
    .step(keep(3))
    .eventually(seconds(30), vm_count(MACHINES[0], 1))
    .step(cut("cut-1", Cut::Hang))
    .eventually(seconds(60), vm_count(MACHINES[1], 1))
    .step(cut("cut-2", Cut::Refuse))
    .step(wait(seconds(20)))
    .step(lift_api_fault("cut-1"))
    .step(wait(seconds(40)))
    .step(lift_api_fault("cut-2"))
    .eventually(seconds(120), vm_count(MACHINES[2], 1))
    .step(cut("cut-3", Cut::Hang))
    .step(wait(seconds(60)))
    .step(lift_api_fault("cut-3"))
    .eventually(lease_duration() + seconds(60) + joining(), all(MACHINES.map(well)))
    .eventually(
        seconds(1),
        all(["cut-1", "cut-2", "cut-3"].map(|cut| fault_hits(cut, 1))),
    )
    .quiet_end(joining())
}

/// The leader pauses after it requested the VM and before the cloud creates one. When it resumes, the standby
/// has led for long, and has created the VM; the old leader's stale watches do not show it.
fn a_leader_wakes_up() -> Scenario {
    let lag = Action::LagWatch {
        by: Duration::from_secs(120),
    };
    let behind = Rule {
        matches: Match {
            verbs: vec![Verb::Watch],
            resource: Some(Pattern::new("machines")),
            ..Match::default()
        },
        ..Rule::new("behind", lag)
    };
    story(
        "r04-b-leader-wakes",
        "A leader pauses before a creation for a minute; when it resumes, another leads, and it no longer calls the \
         cloud.",
    )
    .replicas(2)
    .creates_once()
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(slow_call("ask", CloudCall::GetMachineStatus, MACHINES[0], seconds(5)))
    .step(keep(1))
    .step(wait(seconds(2)))
    .step(api_fault_by(Client::Leader, behind))
    .step(pause_leader(seconds(60)))
    .at_most(1, seconds(300), calls(CloudCall::CreateMachine, MACHINES[0]))
    .meanwhile()
    .eventually(seconds(60), vm_count(MACHINES[0], 1))
    .step(wait(seconds(60)))
    .eventually(joining(), well(MACHINES[0]))
    .eventually(seconds(1), all([fault_hits("ask", 1), fault_hits("behind", 1)]))
}
