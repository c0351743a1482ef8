use rstest::rstest;
use serde_json::json;

use super::*;
use crate::engine::kinds;
use crate::engine::observe::Seen;
use crate::stage::cloud::{CloudEvent, Vm, VmState};

fn vm(id: &str, uid: &str, state: VmState) -> Seen {
    Seen::Cloud(CloudEvent::Vm(Vm {
        id: id.to_owned(),
        machine: "m".to_owned(),
        machine_uid: uid.to_owned(),
        provider_id: format!("fakecloud:///z/{id}"),
        state,
        revision: 1,
    }))
}

fn machine(provider_id: &str) -> Box<serde_json::Value> {
    Box::new(json!({ "metadata": { "name": "m", "uid": "u" }, "spec": { "providerID": provider_id } }))
}

fn applied(provider_id: &str) -> Seen {
    Seen::Applied(kinds::find("Machine").unwrap(), machine(provider_id))
}

fn node(provider_id: &str, labels: serde_json::Value, managers: &[&str]) -> Seen {
    let managers: Vec<_> = managers
        .iter()
        .map(|manager| json!({ "manager": manager, "operation": "Update", "time": "2026-01-01T00:00:00Z" }))
        .collect();
    let node = json!({
        "metadata": { "name": "n", "labels": labels, "managedFields": managers },
        "spec": { "providerID": provider_id, "taints": [{ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }] },
    });
    Seen::Applied(kinds::find("Node").unwrap(), Box::new(node))
}

fn foreign(labels: serde_json::Value, managers: &[&str]) -> Seen {
    node("kind://docker/n", labels, managers)
}

fn deleted() -> Seen {
    Seen::Deleted(kinds::find("Machine").unwrap(), machine(""))
}

#[rstest]
#[case::one_vm(vec![vm("a", "u", VmState::Running)], None)]
#[case::two_live(vec![vm("a", "u", VmState::Running), vm("b", "u", VmState::Pending)], Some("I1"))]
#[case::a_stopped_one_counts(vec![vm("a", "u", VmState::Stopped), vm("b", "u", VmState::Running)], Some("I1"))]
#[case::one_on_its_way_out(vec![vm("a", "u", VmState::Stopping), vm("b", "u", VmState::Running)], None)]
#[case::of_two_machines(vec![vm("a", "u", VmState::Running), vm("b", "w", VmState::Running)], None)]
#[case::nothing_left(vec![applied(""), vm("a", "u", VmState::Terminated), deleted()], None)]
#[case::a_vm_left(vec![applied(""), vm("a", "u", VmState::Stopped), deleted()], Some("I2a"))]
#[case::one_provider_id(vec![applied(""), applied("a"), applied("a")], None)]
#[case::another_provider_id(vec![applied("a"), applied("b")], Some("provider-id"))]
#[case::a_foreign_node_changes(vec![foreign(json!({}), &[]), foreign(json!({ "a": "b" }), &[])], Some("foreign-nodes"))]
#[case::a_foreign_node_stays(vec![foreign(json!({}), &[]), foreign(json!({}), &[])], None)]
#[case::a_kubelet_writes_its_node(vec![foreign(json!({}), &["kubelet"]), foreign(json!({ "a": "b" }), &["kubelet"])], None)]
#[case::mcm_writes_a_foreign_node(vec![foreign(json!({}), &["kubelet"]), foreign(json!({}), &["kubelet", "mcm"])], Some("foreign-nodes"))]
#[case::our_own_node_changes(vec![node("fakecloud:///z/n", json!({}), &[]), node("fakecloud:///z/n", json!({ "a": "b" }), &["mcm"])], None)]
fn each_invariant_finds_its_breach(#[case] story: Vec<Seen>, #[case] broken: Option<&str>) {
    let mut world = WorldState::default();
    let mut found = None;
    for what in story {
        let observation = Observation {
            at: jiff::Timestamp::UNIX_EPOCH,
            what,
        };
        world.absorb(&observation);
        found = found.or(check(&world, &observation));
    }
    assert_eq!(found.as_ref().map(|violation| violation.invariant), broken, "{found:?}");
}
