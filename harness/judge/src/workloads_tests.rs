use rstest::rstest;
use scenario::builder::*;
use scenario::expect::{Expectation, Temporal};
use scenario::observation::{Observation, Seen};
use scenario::{Scenario, Step, Timeouts, kinds};
use serde_json::json;

use super::*;
use crate::armed::{Armed, Verdict};
use crate::evaluate::holds;

fn seen(world: &mut WorldState, kind: &str, object: Value) {
    world.absorb(&Observation {
        at: jiff::Timestamp::UNIX_EPOCH,
        what: Seen::Applied(kinds::find(kind).unwrap(), Box::new(object)),
    });
}

fn pod(name: &str, node: &str, ready: &str, deleting: bool) -> Value {
    let mut pod = json!({
        "metadata": { "name": name, "namespace": "ns", "uid": name, "labels": { "app": "web" } },
        "spec": { "nodeName": node },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] },
    });
    if deleting {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    pod
}

/// Two ready pods on m-1, one of them deleting; one pod on m-2 that is not ready; one without a node.
fn world() -> WorldState {
    let mut world = WorldState::default();
    seen(&mut world, "Pod", pod("a", "m-1", "True", false));
    seen(&mut world, "Pod", pod("b", "m-1", "True", true));
    seen(&mut world, "Pod", pod("c", "m-2", "False", false));
    let pending = json!({
        "metadata": { "name": "d", "namespace": "ns", "labels": { "app": "web" } }, "spec": {},
        "status": { "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }] },
    });
    seen(&mut world, "Pod", pending);
    let other = json!({ "metadata": { "name": "e", "namespace": "ns", "labels": { "app": "other" } } });
    seen(&mut world, "Pod", other);
    world
}

#[rstest]
#[case::all(pods("web"), 4)]
#[case::on_a_node(pods("web").on("m-1"), 2)]
#[case::ready_without_deleting(pods("web").are(PodState::Ready), 1)]
#[case::terminating(pods("web").are(PodState::Terminating), 1)]
#[case::unschedulable(pods("web").are(PodState::Unschedulable), 1)]
#[case::on_a_node_and_in_a_state(pods("web").on("m-2").are(PodState::Ready), 0)]
#[case::of_an_unknown_workload(pods("db"), 0)]
fn pods_are_counted_by_workload_node_and_state(#[case] which: Pods, #[case] number: usize) {
    let world = world();
    assert_eq!(super::selected(&which, &world).count(), number);
    let timeouts = Timeouts::short();
    assert!(holds(&which.clone().exactly(number), &world, &timeouts));
    assert!(!holds(&which.at_least(number + 1), &world, &timeouts));
}

#[test]
fn a_volume_is_attached_to_the_nodes_of_its_attachments() {
    let mut world = WorldState::default();
    let volume = json!({
        "metadata": { "name": "pv" }, "spec": { "claimRef": { "name": "data-db-0", "namespace": "ns" } },
    });
    seen(&mut world, "PersistentVolume", volume);
    for (node, attached) in [("m-1", true), ("m-2", false)] {
        let attachment = json!({
            "metadata": { "name": format!("to-{node}") },
            "spec": { "nodeName": node, "source": { "persistentVolumeName": "pv" } },
            "status": { "attached": attached },
        });
        seen(&mut world, "VolumeAttachment", attachment);
    }
    let timeouts = Timeouts::short();
    let holds = |condition| holds(&condition, &world, &timeouts);
    assert!(holds(attached_to("data-db-0", "m-1")) && holds(attached_at_most("data-db-0", 1)));
    assert!(!holds(attached_to("data-db-0", "m-2")) && !holds(attached_at_most("data-db-0", 0)));
    assert!(holds(volumes_of("data-db-0", 1)) && holds(volumes_of("data-db-1", 0)));
}

/// The expectation that a condition holds throughout, started in `world`.
fn throughout(that: Condition, world: &WorldState) -> Armed {
    let scenario = Scenario::new("story", "").throughout(that);
    let Some(Step::Expect(expectation)) = scenario.steps.into_iter().next() else {
        panic!("no expectation")
    };
    assert!(matches!(
        &expectation,
        Expectation {
            holds: Temporal::Throughout,
            meanwhile: true,
            ..
        }
    ));
    Armed::new(expectation, jiff::Timestamp::UNIX_EPOCH, world)
}

fn is_missed(armed: &mut Armed, world: &WorldState) -> bool {
    let verdict = armed.judge(jiff::Timestamp::UNIX_EPOCH, world, &Timeouts::production());
    matches!(verdict, Verdict::Missed(_))
}

#[test]
fn pods_are_the_same_until_one_of_them_is_being_deleted() {
    let mut world = world();
    let mut same = throughout(same_pods("web", "m-2"), &world);
    assert!(!is_missed(&mut same, &world));
    seen(&mut world, "Pod", pod("f", "m-2", "True", false));
    assert!(!is_missed(&mut same, &world), "a new pod does not change the others");
    seen(&mut world, "Pod", pod("c", "m-2", "False", true));
    assert!(is_missed(&mut same, &world));
}

#[test]
fn same_pods_is_missed_without_pods() {
    let world = world();
    assert!(is_missed(&mut throughout(same_pods("web", "m-3"), &world), &world));
}

#[test]
fn a_field_is_unchanged_until_its_value_changes() {
    let mut world = world();
    let mut unchanged = throughout(unchanged("Pod", "c", "/spec/nodeName"), &world);
    assert!(!is_missed(&mut unchanged, &world));
    seen(&mut world, "Pod", pod("c", "m-1", "True", false));
    assert!(is_missed(&mut unchanged, &world));
}
