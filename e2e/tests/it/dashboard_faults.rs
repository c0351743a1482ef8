//! Each fault that the page of a world offers, as a plan.

use std::time::Duration;

use dashboard::faults::{self, Fault, FaultPlan, FaultRequest, Fleet, Member, Needs};
use scenario::Scenario;
use scenario::builder::{create_machine, wait};
use scenario::plan::Plan;
use serde_json::Value;

use crate::drydock::{drydock, printed};

/// The machine of the plans, and its zone.
const MACHINE: &str = "m-1";
const ZONE: &str = "z1";

/// The fault that another one ends: without it, the cloud or the kubelet refuses the other one.
fn ended_by(name: &str) -> Option<&'static str> {
    match name {
        "vm.start" => Some("vm.stop"),
        "vm.release" => Some("vm.hold"),
        "kubelet.freeDisk" => Some("kubelet.fillDisk"),
        _ => None,
    }
}

/// The steps of a fault.
fn steps_of(fault: &Fault) -> FaultPlan {
    let text = str::to_owned;
    let fleet = Fleet {
        members: vec![Member {
            machine: text(MACHINE),
            vm: text("vm-1"),
            node: text(MACHINE),
            zone: text(ZONE),
            of: None,
        }],
        zones: vec![text(ZONE)],
    };
    let targets = match fault.needs {
        Needs::Machines => vec![text(MACHINE)],
        Needs::Zones => vec![text(ZONE)],
        Needs::Nothing => Vec::new(),
    };
    let request = FaultRequest {
        fault: text(fault.name),
        targets,
        seconds: fault.lasts.then_some(30),
        code: (fault.name == "cloud.code").then(|| text("Unavailable")),
    };
    faults::decide(&request, &fleet, 1).unwrap()
}

/// A plan that creates a machine, lets a fault last for half a minute, and waits for what follows.
fn plan_of(fault: &Fault, all: &[Fault]) -> Plan {
    let name = fault.name.replace('.', "-").to_lowercase();
    // Only a VM that boots has a next state.
    let boots = match fault.name {
        "vm.step" => Duration::from_secs(1),
        _ => Duration::from_mins(3),
    };
    let mut scenario = Scenario::new(&name, fault.title)
        .step(create_machine(MACHINE))
        .step(wait(boots));
    let earlier = ended_by(fault.name).and_then(|name| all.iter().find(|other| other.name == name));
    let steps = steps_of(fault);
    for step in earlier
        .map(|fault| steps_of(fault).begin)
        .into_iter()
        .flatten()
        .chain(steps.begin)
    {
        scenario = scenario.step(step.planned);
    }
    scenario = scenario.step(wait(Duration::from_secs(30)));
    for step in steps.end {
        scenario = scenario.step(step.planned);
    }
    let mut plan = Plan::new(scenario.step(wait(Duration::from_mins(30))), 1);
    plan.may_miss = true;
    plan
}

#[test]
fn the_plan_of_each_fault_ends_and_passes_in_virtual_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["run".to_owned(), "--json".to_owned(), "result.json".to_owned()];
    let all = faults::all();
    for fault in &all {
        let file = format!("{}.yaml", fault.name);
        std::fs::write(folder.path().join(&file), plan_of(fault, &all).to_yaml().unwrap()).unwrap();
        arguments.extend(["--plan".to_owned(), file]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = drydock(folder.path(), &arguments);
    assert!(output.status.success(), "{}", printed(&output));
    let document: Value = serde_json::from_slice(&std::fs::read(folder.path().join("result.json")).unwrap()).unwrap();
    assert_eq!(document["runs"].as_array().unwrap().len(), all.len());
}
