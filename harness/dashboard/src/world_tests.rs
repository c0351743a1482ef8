use scenario::{StageKind, kinds};

use super::*;
use crate::faults::{FaultRequest, decide};

fn world() -> LiveWorld {
    let settings = Settings::new(StageKind::Embedded, 1, "0", "drydock up");
    LiveWorld::new(at(0), settings)
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_893_456_000 + seconds).unwrap()
}

fn applied(kind: &str, object: Value) -> Seen {
    Seen::Applied(kinds::find(kind).unwrap(), Box::new(object))
}

fn deleted(kind: &str, object: Value) -> Seen {
    Seen::Deleted(kinds::find(kind).unwrap(), Box::new(object))
}

fn vm(id: &str, machine: &str, state: VmState) -> Seen {
    Seen::Cloud(CloudEvent::Vm(Vm {
        id: id.to_owned(),
        machine: machine.to_owned(),
        machine_uid: format!("uid-{machine}"),
        provider_id: format!("fakecloud:///z1/{id}"),
        node: machine.to_owned(),
        state,
        revision: 1,
    }))
}

fn machine(name: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
        "metadata": { "name": name, "namespace": "default", "uid": format!("uid-{name}"), "creationTimestamp": "2030-01-01T00:00:05Z",
                      "labels": { "node": name, "team": "a" }, "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" } },
        "spec": { "class": { "kind": "MachineClass", "name": "small" }, "providerID": "fakecloud:///z1/vm-1" },
        "status": { "currentStatus": { "phase": phase } },
    })
}

fn class() -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass",
        "metadata": { "name": "small", "namespace": "default" }, "provider": "fakecloud",
        "providerSpec": { "machineType": "small", "image": "linux-1", "zone": "local-1" },
        "secretRef": { "name": "small", "namespace": "default" },
    })
}

fn pod(name: &str, node: &str, phase: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default" }, "spec": { "nodeName": node }, "status": { "phase": phase } })
}

fn node(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "status": { "conditions": [{ "type": "Ready", "status": "True" }] } })
}

#[test]
fn the_pods_of_a_node_are_counted_in_any_order_of_events() {
    let mut world = world();
    world.observe(at(1), applied("Pod", pod("a", "n", "Pending")));
    world.observe(at(2), applied("Node", node("n")));
    world.observe(at(3), applied("Pod", pod("a", "n", "Running")));
    world.observe(at(3), applied("Pod", pod("b", "n", "Failed")));
    let pods = |world: &LiveWorld| world.after(0).changed[0].pods;
    assert_eq!(
        pods(&world),
        Some(Pods {
            running: 1,
            pending: 0,
            failed: 1
        })
    );
    world.observe(at(4), deleted("Pod", pod("b", "n", "Failed")));
    world.observe(at(4), deleted("Pod", pod("a", "n", "Running")));
    assert_eq!(pods(&world), None);
}

#[test]
fn an_object_that_a_new_list_does_not_have_is_gone() {
    let mut world = world();
    world.observe(at(1), applied("Node", node("a")));
    world.observe(at(1), applied("Node", node("b")));
    let number = world.after(0).number;
    world.listed(
        at(2),
        kinds::find("Node").unwrap(),
        &BTreeSet::from([(String::new(), "a".to_owned())]),
    );
    assert_eq!(world.after(number).removed, ["Node/b"]);
}

#[test]
fn terminated_vms_are_forgotten() {
    let mut world = world();
    world.observe(at(1), vm("vm-1", "m-1", VmState::Running));
    assert_eq!(world.after(0).changed[0].zone, "z1");
    world.observe(at(2), vm("vm-1", "m-1", VmState::Terminated));
    assert!(world.after(0).changed.is_empty() && world.state.vms.is_empty());
}

#[test]
fn a_list_of_vms_removes_and_changes_those_that_were_known() {
    let mut world = world();
    let of = |id: &str, state: VmState| match vm(id, id, state) {
        Seen::Cloud(CloudEvent::Vm(vm)) => vm,
        other => panic!("{other:?}"),
    };
    world.listed_vms(at(1), vec![of("vm-1", VmState::Running), of("vm-2", VmState::Running)]);
    let number = world.after(0).number;
    world.listed_vms(at(2), vec![of("vm-2", VmState::Running)]);
    let changes = world.after(number);
    assert_eq!(
        (changes.removed, changes.changed.len()),
        (vec!["VM/vm-1".to_owned()], 0)
    );
    world.listed_vms(at(3), vec![of("vm-2", VmState::Stopped)]);
    assert_eq!(world.after(0).changed[0].state, "stopped");
}

#[test]
fn details_have_the_owners_the_conditions_and_the_events() {
    let mut world = world();
    let owned = |mut object: Value, kind: &str, name: &str| {
        object["metadata"]["ownerReferences"] = json!([{ "kind": kind, "name": name, "controller": true }]);
        object
    };
    let named = |name: &str| json!({ "metadata": { "name": name, "namespace": "default" }, "spec": { "replicas": 1 } });
    world.observe(at(1), applied("MachineDeployment", named("pool")));
    world.observe(
        at(1),
        applied("MachineSet", owned(named("pool-5"), "MachineDeployment", "pool")),
    );
    world.observe(
        at(1),
        applied("Machine", owned(machine("pool-5-x", "Running"), "MachineSet", "pool-5")),
    );
    let event = json!({ "metadata": { "name": "e", "namespace": "default" }, "involvedObject": { "name": "pool-5-x" }, "reason": "Created", "message": "made" });
    world.observe(at(2), applied("Event", event));
    let details = world.details("Machine/default/pool-5-x").unwrap();
    let owners: Vec<&str> = details["owners"]
        .as_array()
        .unwrap()
        .iter()
        .map(|owner| owner["name"].as_str().unwrap())
        .collect();
    assert_eq!(owners, ["pool-5", "pool"]);
    assert_eq!(details["events"][0]["reason"], "Created");
    assert_eq!(world.details("Machine/default/none"), None);
}

#[test]
fn owners_that_form_a_cycle_end() {
    let mut world = world();
    let set = json!({ "metadata": {
        "name": "own", "namespace": "default", "ownerReferences": [{ "kind": "MachineSet", "name": "own", "controller": true }],
    }, "spec": { "replicas": 1 } });
    world.observe(at(1), applied("MachineSet", set));
    let details = world.details("MachineSet/default/own").unwrap();
    assert_eq!(details["owners"].as_array().unwrap().len(), MOST_OWNERS);
}

#[test]
fn a_fault_acts_on_the_vm_of_a_machine_that_changed_last() {
    let mut world = world();
    let revised = |id: &str, revision: u64, state: VmState| match vm(id, "m-1", state) {
        Seen::Cloud(CloudEvent::Vm(vm)) => Seen::Cloud(CloudEvent::Vm(Vm { revision, ..vm })),
        other => other,
    };
    world.observe(at(1), applied("Machine", machine("m-1", "Running")));
    world.observe(at(1), applied("Machine", machine("m-2", "Pending")));
    world.observe(at(2), revised("vm-2", 7, VmState::Running));
    world.observe(at(2), revised("vm-1", 9, VmState::Running));
    world.observe(at(2), revised("vm-3", 8, VmState::Stopped));
    let members: Vec<(String, String)> = world
        .fleet()
        .members
        .into_iter()
        .map(|member| (member.machine, member.vm))
        .collect();
    assert_eq!(members, [("m-1".to_owned(), "vm-1".to_owned())]);
}

#[test]
fn machines_of_two_namespaces_with_the_same_name_have_their_own_vms() {
    let mut world = world();
    for (namespace, uid, id) in [("a", "uid-a", "vm-a"), ("b", "uid-b", "vm-b")] {
        let mut machine = machine("m-1", "Running");
        machine["metadata"]["namespace"] = namespace.into();
        machine["metadata"]["uid"] = uid.into();
        world.observe(at(1), applied("Machine", machine));
        if let Seen::Cloud(CloudEvent::Vm(vm)) = vm(id, "m-1", VmState::Running) {
            let machine_uid = uid.to_owned();
            world.observe(at(2), Seen::Cloud(CloudEvent::Vm(Vm { machine_uid, ..vm })));
        }
    }
    let vms: Vec<String> = world.fleet().members.into_iter().map(|member| member.vm).collect();
    assert_eq!(vms, ["vm-a", "vm-b"]);
}

#[test]
fn the_plan_of_a_machine_without_labels_has_none() {
    let mut world = world();
    let mut bare = machine("m-1", "Running");
    bare["metadata"].as_object_mut().unwrap().remove("labels");
    world.observe(at(1), applied("MachineClass", class()));
    world.observe(at(5), applied("Machine", bare));
    let yaml = world.plan().unwrap();
    assert!(!yaml.contains("labels"), "{yaml}");
}

#[test]
fn the_record_has_the_timeline_and_the_fault() {
    let mut world = world();
    world.observe(at(1), applied("Machine", machine("m-1", "Pending")));
    world.observe(at(2), vm("vm-1", "m-1", VmState::Running));
    world.observe(at(3), applied("Machine", machine("m-1", "Running")));
    let request = FaultRequest {
        fault: "vm.kill".to_owned(),
        targets: vec!["m-1".to_owned()],
        ..FaultRequest::default()
    };
    let plan = decide(&request, &world.fleet(), 1).unwrap();
    world.performed(at(10), &plan.begin);
    world.observe(at(11), vm("vm-1", "m-1", VmState::Stopped));
    let record = world.timeline().record(at(20));
    let summaries: Vec<&str> = record.points.iter().map(|point| point.summary.as_str()).collect();
    assert!(
        summaries.iter().any(|text| text.contains("kill the VM of m-1")),
        "{summaries:?}"
    );
    let states: Vec<&str> = record
        .spans
        .iter()
        .filter(|span| span.class == record::SpanClass::Vm)
        .map(|span| span.label.as_str())
        .collect();
    assert_eq!(states, ["running", "stopped"]);
    assert_eq!(record.meta.lasted.0, 20_000_000);
    // It is a record like any other.
    let text = serde_json::to_vec(&record).unwrap();
    assert_eq!(record::read(&text).unwrap(), record);
}

#[test]
fn a_pause_of_a_process_ends_in_the_timeline() {
    let mut world = world();
    let request = FaultRequest {
        fault: "process.pause".to_owned(),
        seconds: Some(5),
        ..FaultRequest::default()
    };
    let plan = decide(&request, &world.fleet(), 1).unwrap();
    world.performed(at(10), &plan.begin);
    let record = world.timeline().record(at(60));
    let mut pauses = record
        .spans
        .iter()
        .filter(|span| span.class == record::SpanClass::Fault);
    let pause = pauses.next().unwrap();
    assert_eq!((pause.from.0, pause.to.map(|to| to.0)), (10_000_000, Some(15_000_000)));
}

#[test]
fn a_session_is_a_plan_with_the_objects_and_faults_at_their_times() {
    let mut world = world();
    assert!(matches!(world.plan(), Err(PlanError::Empty)));
    world.observe(at(1), applied("MachineClass", class()));
    world.observe(at(5), applied("Machine", machine("m-1", "Running")));
    world.observe(at(6), vm("vm-1", "m-1", VmState::Running));
    let request = FaultRequest {
        fault: "vm.kill".to_owned(),
        targets: vec!["*".to_owned()],
        ..FaultRequest::default()
    };
    let plan = decide(&request, &world.fleet(), 1).unwrap();
    world.performed(at(12), &plan.begin);
    let yaml = world.plan().unwrap();
    let read = scenario::plan::Plan::from_yaml(&yaml, "session.yaml", &[]).unwrap();
    let steps: Vec<String> = read.scenario.steps.iter().map(Step::description).collect();
    assert_eq!(steps.len(), 6, "{steps:?}");
    assert!(
        steps[1].starts_with("wait 5") && steps[3].starts_with("wait 7"),
        "{steps:?}"
    );
    assert!(steps[4].contains("kill the VM of m-1"), "{steps:?}");
    for foreign in ["uid", "providerID", "last-applied", "status", "namespace"] {
        assert!(!yaml.contains(foreign), "{foreign}: {yaml}");
    }
    assert!(yaml.contains("team: a"), "{yaml}");
}

#[test]
fn a_plan_that_is_saved_while_a_fault_lasts_ends_it_at_its_time() {
    let mut world = world();
    world.observe(at(1), applied("MachineClass", class()));
    world.observe(at(5), applied("Machine", machine("m-1", "Running")));
    world.observe(at(6), vm("vm-1", "m-1", VmState::Running));
    let request = FaultRequest {
        fault: "kubelet.partition".to_owned(),
        targets: vec!["m-1".to_owned()],
        seconds: Some(60),
        ..FaultRequest::default()
    };
    let plan = Arc::new(decide(&request, &world.fleet(), 1).unwrap());
    world.performed(at(12), &plan.begin);
    world.begun(1, at(12), &plan);
    let steps = |world: &LiveWorld| -> Vec<String> {
        let read = scenario::plan::Plan::from_yaml(&world.plan().unwrap(), "session.yaml", &[]).unwrap();
        read.scenario.steps.iter().map(Step::description).collect()
    };
    let saved = steps(&world);
    let [.., begin, wait, end, _] = saved.as_slice() else {
        panic!("{saved:?}")
    };
    assert!(begin.contains("partition the kubelet of m-1"), "{saved:?}");
    assert!(wait.starts_with("wait 1m0") || wait.starts_with("wait 60"), "{saved:?}");
    assert!(end.contains("reconnect the kubelet of m-1"), "{saved:?}");
    // After its end, the plan has the end that was performed.
    world.end(1);
    world.performed(at(72), &plan.end);
    assert_eq!(steps(&world), saved);
}

#[test]
fn a_session_contains_an_object_that_is_gone() {
    let mut world = world();
    world.observe(at(1), applied("MachineClass", class()));
    world.observe(at(5), applied("Machine", machine("m-1", "Running")));
    world.observe(at(6), vm("vm-1", "m-1", VmState::Running));
    let request = FaultRequest {
        fault: "vm.kill".to_owned(),
        targets: vec!["m-1".to_owned()],
        ..FaultRequest::default()
    };
    let plan = decide(&request, &world.fleet(), 1).unwrap();
    world.performed(at(12), &plan.begin);
    let mut ending = machine("m-1", "Terminating");
    ending["metadata"]["deletionTimestamp"] = json!(at(20).to_string());
    world.observe(at(20), applied("Machine", ending.clone()));
    world.observe(at(30), deleted("Machine", ending));
    world.observe(at(31), deleted("MachineClass", class()));
    let yaml = world.plan().unwrap();
    let read = scenario::plan::Plan::from_yaml(&yaml, "session.yaml", &[]).unwrap();
    let steps: Vec<String> = read.scenario.steps.iter().map(Step::description).collect();
    let of = |text: &str| {
        steps
            .iter()
            .position(|step| step.contains(text))
            .unwrap_or_else(|| panic!("{text}: {steps:?}"))
    };
    assert!(of("apply MachineClass") < of("apply Machine m-1"), "{steps:?}");
    assert!(of("kill the VM of m-1") < of("delete Machine m-1"), "{steps:?}");
    assert!(steps[of("delete Machine m-1") - 1].starts_with("wait 8"), "{steps:?}");
}

#[test]
fn active_faults_are_those_that_have_an_end() {
    let mut world = world();
    world.observe(at(5), applied("Machine", machine("m-1", "Running")));
    world.observe(at(6), vm("vm-1", "m-1", VmState::Running));
    for (number, fault, seconds) in [
        (1, "vm.kill", None),
        (2, "vm.reboot", None),
        (3, "kubelet.stop", Some(9)),
    ] {
        let request = FaultRequest {
            fault: fault.to_owned(),
            targets: vec!["m-1".to_owned()],
            seconds,
            ..FaultRequest::default()
        };
        let plan = Arc::new(decide(&request, &world.fleet(), number).unwrap());
        world.begun(number, at(10), &plan);
    }
    let active = |world: &LiveWorld| -> Vec<(u64, Option<Timestamp>)> {
        let faults = world.active_faults(None).into_iter();
        faults.map(|fault| (fault.number, fault.until)).collect()
    };
    assert_eq!(active(&world), [(1, None), (3, Some(at(19)))]);
    assert_eq!(world.end(1).unwrap().end.len(), 1);
    assert_eq!(world.end(1), None, "it has ended already");
    assert_eq!(active(&world), [(3, Some(at(19)))]);
}

#[test]
fn a_long_session_keeps_its_memory() {
    let mut world = world();
    let count = i64::try_from(MOST_RECORDED).unwrap() + 10;
    for second in 0..count {
        let state = if second % 2 == 0 {
            VmState::Running
        } else {
            VmState::Stopped
        };
        world.observe(at(second), vm("vm-1", "m-1", state));
    }
    let record = world.timeline().record(at(count));
    assert!(record.points.len() < 100, "{}", record.points.len());
}
