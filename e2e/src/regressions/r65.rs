//! R65 `stale-node-adopted`: a new machine became Running on the Node of a dead predecessor of the same name.

use harness::regression::{Case, Confidence, EXPECTED, Entry, Group};
use harness::scenario::Scenario;
use harness::scenario::builder::{create_machine, mcm, phase, seconds, vm};
use harness::scenario::step::{ProcessAction, VmAction};
use mcm_api::Phase;

use super::{joining, removed, story};

pub(super) fn entry() -> Entry {
    Entry {
        id: "R65",
        name: "stale-node-adopted",
        origin: "MCM#633, MCM PR#645",
        group: Group::Loops,
        confidence: Confidence::Cause,
        cases: vec![Case {
            id: "R65",
            scenario: same_name(),
            mutant: true,
            breaks: &["I19", EXPECTED],
        }],
        open: "the node joins before the provider id is stored",
    }
}

/// While mcm is down the machine is removed by force, its VM goes, and its node remains.
fn same_name() -> Scenario {
    story(
        "r65-same-name",
        "A machine has the name of one that was removed by force, whose node is still there: it waits for its own node.",
    )
    .step(create_machine("m-1"))
    .eventually(joining(), phase("m-1", Phase::Running))
    .step(mcm(ProcessAction::Kill))
    .steps(removed("Machine", "m-1"))
    .step(vm("m-1", VmAction::Delete))
    .step(create_machine("m-1"))
    .step(mcm(ProcessAction::Start))
    .never(seconds(60), phase("m-1", Phase::Running))
    .eventually(seconds(25 * 60), phase("m-1", Phase::Running))
    .always(seconds(300), phase("m-1", Phase::Running))
}
