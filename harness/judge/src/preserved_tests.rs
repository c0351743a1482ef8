use jiff::Timestamp;
use rstest::rstest;
use scenario::cloud::{CloudEvent, Vm, VmState};
use scenario::{Timeouts, kinds};
use serde_json::json;

use super::*;

/// A world that counts preservation events.
struct ObservedWorld {
    world: WorldState,
    rules: JudgingRules,
    events: Vec<String>,
}

impl ObservedWorld {
    fn new() -> Self {
        Self {
            world: WorldState::default(),
            rules: JudgingRules::new(Timeouts::production(), Timestamp::UNIX_EPOCH),
            events: Vec::new(),
        }
    }

    fn observe(mut self, what: Seen) -> Self {
        let observation = Observation {
            at: Timestamp::UNIX_EPOCH,
            what,
        };
        let before = self.world.absorb(&observation);
        let events = events(&observation, before.as_ref(), &self.world, &self.rules);
        self.events.extend(events);
        self
    }

    fn apply(self, kind: &str, object: Value) -> Self {
        self.observe(Seen::Applied(kinds::find(kind).unwrap(), Box::new(object)))
    }

    fn vm(self, state: VmState) -> Self {
        self.observe(Seen::Cloud(CloudEvent::Vm(Vm {
            id: "a".to_owned(),
            machine: "m".to_owned(),
            machine_uid: "u".to_owned(),
            provider_id: "fakecloud:///z/a".to_owned(),
            node: "n".to_owned(),
            state,
            revision: if state.is_live() { 1 } else { 2 },
        })))
    }

    fn deleted_by_user(mut self, kind: &str, name: &str) -> Self {
        let object = (kind.to_owned(), name.to_owned());
        self.rules.deleted_by_user.insert(object);
        self
    }
}

fn owned_by(kind: &str, name: &str) -> Value {
    json!([{ "kind": kind, "name": name, "controller": true }])
}

fn deployment(class: &str) -> Value {
    json!({
        "metadata": { "name": "md" },
        "spec": { "template": { "spec": { "class": { "name": class } } } },
    })
}

fn set(replicas: u32) -> Value {
    json!({
        "metadata": { "name": "ms", "ownerReferences": owned_by("MachineDeployment", "md") },
        "spec": { "replicas": replicas, "template": { "spec": { "class": { "name": "a" } } } },
    })
}

/// A failed machine of the set that drains for preservation.
fn draining(deleted: Option<&str>) -> Value {
    json!({
        "metadata": {
            "name": "m", "uid": "u", "labels": { "node": "n" },
            "ownerReferences": owned_by("MachineSet", "ms"), "deletionTimestamp": deleted,
        },
        "status": { "currentStatus": { "phase": "Failed" }, "preservation": { "stage": "Draining", "by": "node" } },
    })
}

#[rstest]
#[case::the_set_is_scaled_down("a", 0, None, VmState::Running, &["scale-down during a drain"])]
#[case::the_deployment_changed_its_class("b", 1, None, VmState::Running, &["rollout during a drain"])]
#[case::a_user_deletes_it("a", 0, Some(("Machine", "m")), VmState::Running, &[])]
#[case::a_user_deletes_it_in_a_rollout("b", 0, Some(("Machine", "m")), VmState::Running, &[])]
#[case::a_user_deletes_its_node("a", 0, Some(("Node", "n")), VmState::Running, &[])]
#[case::its_vm_has_ended("a", 0, None, VmState::Terminated, &[])]
#[case::without_a_reason("a", 1, None, VmState::Running, &[])]
fn only_owners_end_a_drain_early(
    #[case] class: &str,
    #[case] replicas: u32,
    #[case] deleted: Option<(&str, &str)>,
    #[case] vm: VmState,
    #[case] expected: &[&str],
) {
    let story = ObservedWorld::new()
        .apply("MachineDeployment", deployment(class))
        .apply("MachineSet", set(replicas))
        .vm(VmState::Running)
        .apply("Machine", draining(None))
        .vm(vm);
    let story = match deleted {
        Some((kind, name)) => story.deleted_by_user(kind, name),
        None => story,
    };
    let story = story.apply("Machine", draining(Some("1970-01-01T00:00:00Z")));
    assert_eq!(story.events, expected);
}

#[rstest]
#[case::it_drains("Draining", true)]
#[case::it_is_preserved("Preserved", false)]
fn a_crash_counts_while_a_machine_drains(#[case] stage: &str, #[case] counts: bool) {
    let machine = json!({ "metadata": { "name": "m" }, "status": { "preservation": { "stage": stage } } });
    let story = ObservedWorld::new().apply("Machine", machine);
    assert_eq!(crashed(&story.world).is_some(), counts);
}

#[rstest]
#[case::of_a_deployment(owned_by("MachineDeployment", "md"), &[])]
#[case::standalone(Value::Null, &["kept by a set alone"])]
fn a_standalone_set_preserves_machines(#[case] owners: Value, #[case] expected: &[&str]) {
    let set = |entries: Value| {
        json!({
            "metadata": { "name": "ms", "ownerReferences": owners },
            "status": { "preservations": entries },
        })
    };
    let story = ObservedWorld::new()
        .apply("MachineSet", set(Value::Null))
        .apply("MachineSet", set(json!([{ "name": "m" }])));
    assert_eq!(story.events, expected);
}

#[rstest]
#[case::by_a_deployment("autoPreserveFailedMax", true, &["limit reached"])]
#[case::by_a_set_with_the_upstream_field("autoPreserveFailedMachineMax", false, &["limit reached"])]
#[case::none_may_be_preserved("unknown", false, &[])]
fn a_reached_limit_is_counted(#[case] field: &str, #[case] of_deployment: bool, #[case] expected: &[&str]) {
    let full = |name: &str, owners: Value| {
        json!({
            "metadata": { "name": name, "ownerReferences": owners },
            "spec": { field: 1 },
            "status": { "preservations": [{ "name": "other" }] },
        })
    };
    let machine = |phase: &str| {
        json!({
            "metadata": { "name": "m", "ownerReferences": owned_by("MachineSet", "ms") },
            "status": { "currentStatus": { "phase": phase } },
        })
    };
    let story = if of_deployment {
        ObservedWorld::new()
            .apply("MachineDeployment", full("md", Value::Null))
            .apply("MachineSet", set(1))
    } else {
        ObservedWorld::new().apply("MachineSet", full("ms", Value::Null))
    };
    let story = story
        .apply("Machine", machine("Unknown"))
        .apply("Machine", machine("Failed"));
    assert_eq!(story.events, expected);
}

#[rstest]
#[case::preserved(Some("1970-01-04T00:00:00Z"), &["named, and stays"])]
#[case::not_preserved(None, &[])]
fn a_listed_machine_that_is_preserved_leaves_the_list(#[case] expiry: Option<&str>, #[case] expected: &[&str]) {
    let deployment = |list: Option<&str>| json!({ "metadata": { "name": "md", "annotations": { keys::TRIGGER_DELETION_ANNOTATION: list } } });
    let machine = json!({
        "metadata": { "name": "m" },
        "status": { "currentStatus": { "phase": "Running", "preserveExpiryTime": expiry } },
    });
    let story = ObservedWorld::new()
        .apply("Machine", machine)
        .apply("MachineDeployment", deployment(Some("m~1970-01-01T00:00:00Z")))
        .apply("MachineDeployment", deployment(None));
    assert_eq!(story.events, expected);
}

#[test]
fn requests_of_a_template_and_of_the_first_version_are_counted() {
    let machine = |annotations: Value, stage: &str| {
        json!({
            "metadata": { "name": "m", "annotations": annotations },
            "spec": { "nodeTemplate": { "metadata": { "annotations": { keys::PRESERVE_ANNOTATION: "when-failed" } } } },
            "status": { "currentStatus": { "phase": "Unknown" }, "preservation": { "stage": stage, "by": "node" } },
        })
    };
    let first = json!({ keys::PRESERVE_WHEN_FAILED_ANNOTATION: "true" });
    let today = json!({ keys::PRESERVE_ANNOTATION: "when-failed" });
    let story = ObservedWorld::new()
        .apply("Machine", machine(first, ""))
        .apply("Machine", machine(today.clone(), ""))
        .apply("Machine", machine(today, "Draining"));
    let expected = [
        "the first version's word",
        "failed, kept by node",
        "failed, kept as its template asks",
    ];
    assert_eq!(story.events, expected);
}
