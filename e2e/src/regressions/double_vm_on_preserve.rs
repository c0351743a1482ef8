//! R77 `double-vm-on-preserve`: after an update some machines had two VMs, and others could not be deleted. Our
//! interpretation: a preservation wrote a stale copy of a machine without its VM, and the next pass created
//! another one.

use std::time::Duration;

use harness::regression::{Confidence, Entry, Group};
use mcm_api::{Phase, keys};
use scenario::Scenario;
use scenario::api_faults::{Action, Verb};
use scenario::builder::{all, annotate, exists, fault_hits, keep, machine_gone, phase, seconds, slack, wait};

use super::worlds::{api_fails, case};
use super::{POOL, joining, story, well};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R77",
        name: "double-vm-on-preserve",
        origin: "STACKIT PR#186",
        group: Group::Preservation,
        confidence: Confidence::Guess,
        cases: vec![case("R77", young_machines(), &["I1", "I16", "I19"])],
        open: "deletions without a phase: R74 and R64 have machines without one",
    }
}

/// Three machines are preserved a second after their creation, with watch events that arrive ten seconds late.
fn young_machines() -> Scenario {
    let lag = Action::LagWatch {
        by: Duration::from_secs(10),
    };
    let new_machines = ["md-a-4", "md-a-5", "md-a-6"];
    let there = |machine: &str| exists("Machine", machine);
    story(
        "r77-young-machines",
        "Machines are preserved a second after their creation: each has one VM, and its deletion leaves nothing \
         behind.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(3))
    .eventually(joining(), all(["md-a-1", "md-a-2", "md-a-3"].map(well)))
    .step(api_fails(&[Verb::Watch], "machines", lag))
    .step(keep(6))
    .eventually(slack(), all(new_machines.map(there)))
    .step(wait(seconds(1)))
    .steps(new_machines.map(|machine| annotate("Machine", machine, keys::PRESERVE_ANNOTATION, "now")))
    .eventually(
        joining() + slack(),
        all(new_machines.map(|machine| phase(machine, Phase::RunningPreserved))),
    )
    .step(wait(seconds(20 * 60)))
    .step(keep(3))
    .eventually(joining(), all(new_machines.map(machine_gone)))
    .eventually(seconds(1), fault_hits("api", 1))
    .quiet_end(slack())
}
