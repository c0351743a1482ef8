//! Tables of changes and the sets and deployments that they trigger, and of ownership.
//!
//! The deployments `md` and `other` select by a label with their name; set `ms` belongs to `md`. Keys of absent objects
//! have no effect and are ignored.

use jiff::Timestamp;
use kube::runtime::watcher::Event;
use mcm_api::{Phase, Preservation, PreservationStage};
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::view::EnabledControllers;

fn state() -> ClusterState {
    let enabled = EnabledControllers {
        machines: true,
        sets: true,
        deployments: true,
        health_checks: false,
    };
    let state = ClusterState::new("default", true, enabled, Timestamp::UNIX_EPOCH);
    for name in ["md", "other"] {
        state.deployments.apply(Event::Apply(deployment(name)));
    }
    state
}

fn object(kind: &str, name: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "1",
            "labels": { "name": "md" }, "ownerReferences": [],
        },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "name": name } }, "class": { "kind": kind, "name": "small" },
            "template": { "spec": { "class": { "kind": "MachineClass", "name": "small" } } },
        },
    })
}

fn deployment(name: &str) -> MachineDeployment {
    serde_json::from_value(object("MachineDeployment", name)).unwrap()
}

/// The fields of a set or machine that matter to its owner.
#[derive(Clone, Copy, Debug)]
struct Member {
    label: &'static str,
    /// Kind, name and uid of its controller.
    owner: Option<(&'static str, &'static str, &'static str)>,
    leaving: bool,
    version: u32,
}

const MD: (&str, &str, &str) = ("MachineDeployment", "md", "uid-md");
const OTHER: (&str, &str, &str) = ("MachineDeployment", "other", "uid-other");
const UNKNOWN: (&str, &str, &str) = ("MachineDeployment", "unknown", "uid-unknown");
const MS: (&str, &str, &str) = ("MachineSet", "ms", "uid-ms");
const MS2: (&str, &str, &str) = ("MachineSet", "ms2", "uid-ms2");
const NO_SET: (&str, &str, &str) = ("MachineSet", "unknown", "uid-unknown");

/// An object without an owner that no selector matches.
const STRAY: Member = Member {
    label: "unselected",
    owner: None,
    leaving: false,
    version: 1,
};

fn of(owner: (&'static str, &'static str, &'static str)) -> Member {
    Member {
        owner: Some(owner),
        ..STRAY
    }
}

fn orphan(label: &'static str) -> Member {
    Member { label, ..STRAY }
}

impl Member {
    fn leaving(self) -> Self {
        Self { leaving: true, ..self }
    }

    /// The object in its next version.
    fn then(self) -> Self {
        Self {
            version: self.version + 1,
            ..self
        }
    }

    fn as_set(self, name: &str) -> MachineSet {
        let mut set = object("MachineSet", name);
        set["spec"]["selector"]["matchLabels"] = json!({ "name": name });
        serde_json::from_value(self.written(set)).unwrap()
    }

    fn as_machine(self, name: &str) -> Machine {
        serde_json::from_value(self.written(object("MachineClass", name))).unwrap()
    }

    fn written(self, mut object: Value) -> Value {
        let metadata = &mut object["metadata"];
        metadata["labels"]["name"] = json!(self.label);
        metadata["resourceVersion"] = json!(self.version.to_string());
        if let Some((kind, name, uid)) = self.owner {
            metadata["ownerReferences"] = json!([{
                "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": true,
            }]);
        }
        if self.leaving {
            metadata["deletionTimestamp"] = json!("2027-01-15T08:00:00Z");
        }
        object
    }
}

/// The names of the existing deployments and sets among the triggers.
fn triggered(state: &ClusterState, triggers: &[Trigger]) -> (Vec<String>, Vec<String>) {
    let (mut deployments, mut sets) = (Vec::new(), Vec::new());
    for trigger in triggers {
        match &trigger.work {
            Work::Deployment(key) if state.deployments.get(key).is_some() => deployments.push(key.name.clone()),
            Work::Set(key) if state.sets.get(key).is_some() => sets.push(key.name.clone()),
            _ => {}
        }
    }
    (deployments, sets)
}

#[rstest]
#[case::added(false, Event::Apply)]
#[case::updated(true, Event::Apply)]
#[case::deleted(true, Event::Delete)]
fn a_changed_deployment_triggers_itself_only(
    #[case] known: bool,
    #[case] event: fn(MachineDeployment) -> Event<MachineDeployment>,
) {
    let state = state();
    let mut changed = deployment("third");
    if known {
        state.deployments.apply(Event::Apply(changed.clone()));
        changed.metadata.resource_version = Some("2".to_owned());
    }
    let changes = state.deployments.apply(event(changed));
    let triggers: Vec<_> = changes
        .iter()
        .flat_map(|change| state.deployment_changed(change))
        .collect();
    let keys: Vec<_> = triggers
        .iter()
        .filter(|trigger| matches!(trigger.work, Work::Deployment(_)))
        .collect();
    assert_eq!(keys, [&quiet(Work::Deployment(Key::new("default", "third")))]);
}

/// Any change of a selected orphan triggers the deployment, which adopts it; upstream considers labels and owner only.
#[rstest]
#[case::added_by_its_owner(None, Some(of(MD)), &["md"])]
#[case::added_while_it_is_deleted(None, Some(of(MD).leaving()), &["md"])]
#[case::added_by_its_labels(None, Some(orphan("md")), &["md"])]
#[case::added_with_labels_of_another(None, Some(orphan("other")), &["other"])]
#[case::added_with_unselected_labels(None, Some(STRAY), &[])]
#[case::added_with_an_unknown_owner(None, Some(of(UNKNOWN)), &[])]
#[case::the_same_version(Some(of(MD)), Some(of(MD)), &[])]
#[case::a_new_version(Some(of(MD)), Some(of(MD).then()), &["md"])]
#[case::its_deletion_begins(Some(of(MD)), Some(of(MD).leaving().then()), &["md"])]
#[case::an_orphans_label_changes(Some(orphan("md")), Some(orphan("other").then()), &["md", "other"])]
#[case::its_owner_is_removed(Some(of(MD)), Some(STRAY.then()), &["md"])]
#[case::no_owner_before_and_after(Some(STRAY), Some(STRAY.then()), &[])]
#[case::an_orphan_that_is_selected(Some(orphan("md")), Some(orphan("md").then()), &["md"])]
#[case::it_moves_to_another(Some(of(MD)), Some(of(OTHER).then()), &["md", "other"])]
#[case::deleted(Some(of(MD)), None, &["md"])]
#[case::deleted_without_an_owner(Some(STRAY), None, &[])]
#[case::deleted_with_an_unknown_owner(Some(of(UNKNOWN)), None, &[])]
fn a_changed_set_triggers_its_deployments(
    #[case] before: Option<Member>,
    #[case] after: Option<Member>,
    #[case] expected: &[&str],
) {
    let state = state();
    if let Some(before) = before {
        state.sets.apply(Event::Apply(before.as_set("ms")));
    }
    let event = match after {
        Some(after) => Event::Apply(after.as_set("ms")),
        None => Event::Delete(before.unwrap().as_set("ms")),
    };
    let changes = state.sets.apply(event);
    let triggers: Vec<_> = changes.iter().flat_map(|change| state.set_changed(change)).collect();
    let (deployments, sets) = triggered(&state, &triggers);
    assert_eq!(deployments, expected);
    assert_eq!(
        sets.len(),
        usize::from(after.is_some() && !changes.is_empty()),
        "the set itself"
    );
}

/// `ms` of `md`, `ms2` of `other`, and `free` without an owner.
fn with_sets() -> ClusterState {
    let state = state();
    for (name, member) in [("ms", of(MD)), ("ms2", of(OTHER)), ("free", STRAY)] {
        state.sets.apply(Event::Apply(member.as_set(name)));
    }
    state
}

#[rstest]
#[case::added_by_its_owner(None, Some(of(MS)), &["md"], &["ms"])]
#[case::added_by_its_labels(None, Some(orphan("ms")), &[], &["ms"])]
#[case::added_while_it_is_deleted(None, Some(of(MS).leaving()), &["md"], &["ms"])]
#[case::added_with_an_unknown_owner(None, Some(of(NO_SET)), &[], &[])]
#[case::added_with_unselected_labels(None, Some(STRAY), &[], &[])]
#[case::its_set_has_no_owner(None, Some(of(("MachineSet", "free", "uid-free"))), &[], &["free"])]
#[case::the_same_version(Some(of(MS)), Some(of(MS)), &[], &[])]
#[case::a_new_version_without_changes(Some(of(MS)), Some(of(MS).then()), &[], &[])]
#[case::its_deletion_begins(Some(of(MS)), Some(of(MS).leaving().then()), &["md"], &["ms"])]
#[case::its_labels_change(Some(of(MS)), Some(Member { label: "ms", ..of(MS) }.then()), &["md"], &["ms"])]
#[case::its_owner_is_removed(Some(of(MS)), Some(STRAY.then()), &["md"], &["ms"])]
#[case::it_moves_to_another(Some(of(MS)), Some(of(MS2).then()), &["md", "other"], &["ms", "ms2"])]
#[case::deleted(Some(of(MS)), None, &["md"], &["ms"])]
#[case::deleted_without_an_owner(Some(STRAY), None, &[], &[])]
fn a_changed_machine_triggers_its_owners(
    #[case] before: Option<Member>,
    #[case] after: Option<Member>,
    #[case] of_deployments: &[&str],
    #[case] of_sets: &[&str],
) {
    let state = with_sets();
    if let Some(before) = before {
        state.machines.apply(Event::Apply(before.as_machine("m")));
    }
    let event = match after {
        Some(after) => Event::Apply(after.as_machine("m")),
        None => Event::Delete(before.unwrap().as_machine("m")),
    };
    let changes = state.machines.apply(event);
    let triggers: Vec<_> = changes
        .iter()
        .flat_map(|change| state.owners_of_machine(change))
        .collect();
    let (deployments, sets) = triggered(&state, &triggers);
    assert_eq!((deployments, sets), (owned(of_deployments), owned(of_sets)));
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn updating(mut machine: Machine, reason: Option<&str>) -> Machine {
    let condition = |reason: &str| json!({ "type": "InPlaceUpdate", "status": "True", "reason": reason });
    machine.status.conditions = reason
        .into_iter()
        .map(|one| serde_json::from_value(condition(one)).unwrap())
        .collect();
    machine
}

/// Upstream reacts to success only; here a failure also triggers a decision, which has no steps.
#[rstest]
#[case::no_conditions(None, None, false)]
#[case::the_same_condition(Some("ReadyForUpdate"), Some("ReadyForUpdate"), false)]
#[case::update_failed(None, Some("UpdateFailed"), true)]
#[case::update_successful(None, Some("UpdateSuccessful"), true)]
#[case::ready_and_then_successful(Some("ReadyForUpdate"), Some("UpdateSuccessful"), true)]
fn progress_of_an_update_in_place_triggers_the_deployment(
    #[case] before: Option<&str>,
    #[case] after: Option<&str>,
    #[case] triggers_deployment: bool,
) {
    let state = with_sets();
    state
        .machines
        .apply(Event::Apply(updating(of(MS).as_machine("m"), before)));
    let changes = state
        .machines
        .apply(Event::Apply(updating(of(MS).then().as_machine("m"), after)));
    let triggers: Vec<_> = changes
        .iter()
        .flat_map(|change| state.owners_of_machine(change))
        .collect();
    assert_eq!(
        triggered(&state, &triggers).0,
        owned(if triggers_deployment { &["md"] } else { &[] })
    );
}

#[test]
fn a_changed_phase_triggers_the_set() {
    let state = with_sets();
    state.machines.apply(Event::Apply(of(MS).as_machine("m")));
    let mut failed = of(MS).then().as_machine("m");
    failed.status.current_status.phase = Some(Phase::Failed);
    let changes = state.machines.apply(Event::Apply(failed));
    let triggers: Vec<_> = changes
        .iter()
        .flat_map(|change| state.owners_of_machine(change))
        .collect();
    assert_eq!(triggered(&state, &triggers).1, ["ms"]);
}

#[rstest]
#[case::found(of(MD), Some("md"))]
#[case::of_another_kind(of(("Shoot", "md", "uid-shoot")), None)]
#[case::another_uid(of(("MachineDeployment", "md", "uid-before")), None)]
#[case::another_name(of(("MachineDeployment", "unknown", "uid-md")), None)]
#[case::no_owner(orphan("md"), None)]
fn the_deployment_of_a_set(#[case] set: Member, #[case] expected: Option<&str>) {
    let found = state().deployment_of(&set.as_set("ms"));
    let name = found.as_ref().and_then(|found| found.metadata.name.as_deref());
    assert_eq!(name, expected);
}

#[rstest]
#[case::both_by_their_labels([orphan("md"), orphan("md")], &["ms", "ms2"])]
#[case::both_by_their_owner([of(MD), of(MD)], &["ms", "ms2"])]
#[case::neither_label_nor_owner([STRAY, STRAY], &[])]
#[case::one_of_two([orphan("md"), orphan("other")], &["ms"])]
#[case::one_is_of_a_deployment_of_that_name_before([of(MD), of(("MachineDeployment", "md", "uid-before"))], &["ms"])]
fn the_sets_of_a_deployment(#[case] sets: [Member; 2], #[case] expected: &[&str]) {
    let state = state();
    for (name, set) in ["ms", "ms2"].into_iter().zip(sets) {
        state.sets.apply(Event::Apply(set.as_set(name)));
    }
    let found = state.sets_for(&deployment("md")).into_iter();
    let names: Vec<_> = found.filter_map(|set| set.metadata.name.clone()).collect();
    assert_eq!(names, expected);
}

#[test]
fn a_deployment_with_an_invalid_selector_has_no_orphans() {
    let state = state();
    state.sets.apply(Event::Apply(orphan("md").as_set("ms")));
    let mut wrong = object("MachineDeployment", "md");
    wrong["spec"]["selector"] = json!({ "matchExpressions": [{ "key": "name", "operator": "Is", "values": ["md"] }] });
    let wrong: MachineDeployment = serde_json::from_value(wrong).unwrap();
    assert!(state.sets_for(&wrong).is_empty());
}

#[rstest]
#[case::by_their_owner([of(MS), of(MS)], &["m", "m2"])]
#[case::orphans_by_their_labels([orphan("ms"), orphan("ms")], &["m", "m2"])]
#[case::neither_label_nor_owner([STRAY, STRAY], &[])]
#[case::one_is_another_sets([of(MS), of(MS2)], &["m"])]
#[case::one_is_of_a_set_of_that_name_before([of(MS), of(("MachineSet", "ms", "uid-before"))], &["m"])]
fn the_machines_of_a_set(#[case] machines: [Member; 2], #[case] expected: &[&str]) {
    let state = with_sets();
    for (name, machine) in ["m", "m2"].into_iter().zip(machines) {
        state.machines.apply(Event::Apply(machine.as_machine(name)));
    }
    let found = state.machines_for(&of(MD).as_set("ms")).into_iter();
    let names: Vec<_> = found.filter_map(|machine| machine.metadata.name.clone()).collect();
    assert_eq!(names, expected);
    let orphans = machines.iter().filter(|machine| machine.owner.is_none()).count();
    let controlled = state.machines_of(&of(MD).as_set("ms")).len();
    assert_eq!(
        controlled,
        if orphans > 0 { 0 } else { expected.len() },
        "orphans are not controlled yet"
    );
}

fn failed_in(stage: PreservationStage) -> Machine {
    let mut machine = Machine::default();
    machine.status.current_status.phase = Some(Phase::Failed);
    machine.status.preservation = Some(Preservation {
        stage,
        ..Preservation::default()
    });
    machine
}

#[rstest]
#[case::its_preservation_ends_before_its_pods_have_left(PreservationStage::Releasing, true)]
#[case::unchanged(PreservationStage::Draining, false)]
fn the_end_of_a_preservation_affects_the_set(#[case] stage: PreservationStage, #[case] expected: bool) {
    assert_eq!(
        affects_owners(&failed_in(PreservationStage::Draining), &failed_in(stage)),
        expected
    );
}
