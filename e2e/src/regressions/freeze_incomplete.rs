//! R17 `freeze-incomplete`: the controller of a migrated control plane was frozen, because the API server of
//! its nodes was gone, but it still deleted the new control plane's workers as orphans.

use harness::regression::{Case, Confidence, Entry, Group};
use scenario::Scenario;
use scenario::api_faults::{Action, Match, Pattern, Rule};
use scenario::builder::{
    all, api_fault_by, calls, create_vm, delete_machine, fault_hits, keep, lift_api_fault, mcm, seconds, vm_count, wait,
};
use scenario::step::{Client, CloudCall, ProcessAction};

use super::{POOL, joining, story, well};

const MACHINES: [&str; 3] = ["md-a-1", "md-a-2", "md-a-3"];
const OTHERS: [&str; 3] = ["other-1", "other-2", "other-3"];

pub(super) fn entry() -> Entry {
    let case = |id, scenario, mutant| Case {
        id,
        scenario,
        mutant,
        breaks: if mutant { &["I8"] } else { &[] },
    };
    Entry {
        id: "R17",
        name: "freeze-incomplete",
        origin: "MCM#718",
        group: Group::Freeze,
        confidence: Confidence::Symptom,
        cases: vec![
            case("R17", frozen("r17-frozen", "nodes", false), true),
            case("R17/b", frozen("r17-restarted", "nodes", true), true),
            case("R17/machines", frozen("r17-machines", "machines", false), false),
        ],
        open: "",
    }
}

/// For two hours requests for these objects get no response, and another control plane has VMs with the same
/// tags. A machine is deleted in the meantime. Before the end the other control plane releases its VMs: they
/// are orphans from then on.
fn frozen(name: &str, away: &str, restart: bool) -> Scenario {
    let refused = Action::Fail {
        code: 503,
        at: scenario::api_faults::At::default(),
        retry_after: None,
        message: None,
    };
    let rule = Rule {
        matches: Match {
            resource: Some(Pattern::new(away)),
            ..Match::default()
        },
        ..Rule::new("away", refused)
    };
    let story = story(
        name,
        "An API server is unavailable for two hours: no VM is created or deleted, and no VM of another control plane \
         is collected.",
    )
    .keeper(POOL, 0, serde_json::Value::Null)
    .step(keep(3))
    .eventually(joining(), all(MACHINES.map(well)))
    .step(wait(seconds(1200)))
    .step(api_fault_by(Client::Mcm, rule))
    .step(wait(seconds(300)))
    .steps(OTHERS.map(|other| create_vm(other, true)));
    let all_vms_exist = || all(MACHINES.into_iter().chain(OTHERS).map(|name| vm_count(name, 1)));
    let story = story.eventually(seconds(5), all_vms_exist());
    let story = match restart {
        true => story.step(mcm(ProcessAction::Restart)),
        false => story.step(delete_machine(MACHINES[0])),
    };
    story
        .step(wait(seconds(2 * 3600)))
        .eventually(seconds(1), all_vms_exist())
        .eventually(seconds(1), fault_hits("away", 1))
        .step(lift_api_fault("away"))
        .eventually(
            joining() + seconds(600),
            all(MACHINES[1..].iter().map(|name| well(name))),
        )
        .at_most(0, seconds(1), calls(CloudCall::DeleteMachine, MACHINES[1]))
}
