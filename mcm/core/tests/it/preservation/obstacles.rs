//! Preservation with obstacles: an API server that refuses writes, a template with the same annotations, an owner's
//! list with other entries, a replaced Node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::machine::NodeTemplateSpec;
use mcm_api::{NodeName, PreservationStage, PreservedBy, keys};
use mcm_core::machine::{Action, Answer, Failure, MachinePatch, NodeView};
use mcm_core::preservation::{Admission, ListView};
use rstest::rstest;

use super::lab::{Lab, SCALE_DOWN_DISABLED, failing, kept, rolled, stuck};
use crate::fixtures::*;

fn node_patches(action: &Action) -> bool {
    matches!(action, Action::PatchNode { .. })
}

fn machine_patches(action: &Action) -> bool {
    matches!(action, Action::PatchMachine(_))
}

fn preserved_conditions(action: &Action) -> bool {
    matches!(action, Action::SetPreservedCondition { .. })
}

/// Node patches with labels, which come from the template.
fn label_patches(action: &Action) -> bool {
    matches!(action, Action::PatchNode { patch, .. } if !patch.labels.is_empty())
}

fn template(lab: &mut Lab, labels: &[(&str, &str)], annotations: &[(&str, &str)]) {
    let texts = |pairs: &[(&str, &str)]| {
        let pairs = pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Some(pairs.collect::<BTreeMap<_, _>>()).filter(|texts| !texts.is_empty())
    };
    let mut template = NodeTemplateSpec::default();
    template.metadata.labels = texts(labels);
    template.metadata.annotations = texts(annotations);
    lab.view.machine.spec.node_template = Some(template);
}

#[rstest]
#[case::marks_of_the_node(node_patches)]
#[case::its_condition(preserved_conditions)]
fn a_preservation_starts_after_the_drain_timeout_although_node_writes_fail(#[case] refuses: fn(&Action) -> bool) {
    let mut lab = failing();
    lab.reports(vec![condition("Ready", "True"), condition("DiskPressure", "True")]);
    lab.refuses = refuses;
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
    lab.now = minute(11 + 120);
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    assert_eq!(lab.expiry(), Some(minute(11 + 120 + 72 * 60)));
}

#[rstest]
#[case::marks_of_the_node(node_patches)]
#[case::its_condition(preserved_conditions)]
#[case::annotations_of_the_machine(machine_patches)]
fn the_end_of_a_failed_machines_preservation_does_not_wait_for_refused_writes(#[case] refuses: fn(&Action) -> bool) {
    let mut lab = failing();
    lab.request("Node", "when-failed");
    lab.settle();
    lab.refuses = refuses;
    lab.now = lab.expiry().unwrap();
    lab.settle();
    let status = &lab.machine().status;
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
    assert!(!status.is_preserved());
    assert_eq!(
        status.preservation.as_ref().unwrap().stage,
        PreservationStage::Releasing
    );
}

/// Every plan starts with the condition of the in-place update.
#[test]
fn the_end_of_a_failed_machines_preservation_does_not_wait_for_refused_update_conditions() {
    let mut lab = kept();
    if let NodeView::Present(node) = &mut lab.view.node {
        let node = Arc::make_mut(node);
        let labels = node.metadata.labels.get_or_insert_default();
        labels.insert(keys::CANDIDATE_FOR_UPDATE_LABEL.to_owned(), "true".to_owned());
    }
    let ends = lab.expiry().unwrap();
    lab.refuses = |action| matches!(action, Action::SetNodeCondition { .. });
    lab.now = ends;
    for _ in 0..10 {
        let plan = lab.decide();
        lab.carry_out(plan);
    }
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
}

#[rstest]
#[case::refused(false, false, true)]
#[case::conflict(true, false, false)]
#[case::unrecorded_answer(false, true, false)]
fn an_expiry_is_handled_before_refused_writes_and_after_conflicts_and_answers(
    #[case] conflict: bool,
    #[case] answered: bool,
    #[case] ends: bool,
) {
    let mut lab = kept();
    lab.now = lab.expiry().unwrap();
    lab.view.failure = Some(Failure {
        action: Action::PatchMachine(MachinePatch::default()),
        conflict,
        not_found: false,
        message: "no".to_owned(),
    });
    if answered {
        lab.view.answers = vec![Answer::Update {
            spec: String::new(),
            result: Ok(()),
        }];
    }
    let plan = lab.decide();
    assert_eq!((plan.status.is_some(), plan.after_failure), (ends, !ends), "{plan:?}");
}

/// A refused deletion is not repeated within the same pass.
#[test]
fn a_refused_deletion_is_requested_once_per_pass() {
    let mut lab = failing();
    lab.view.machine.metadata.owner_references = None;
    lab.view.owners_list = ListView::NoList;
    lab.request("Node", "when-failed");
    lab.settle();
    lab.refuses = |action| *action == Action::DeleteMachine;
    lab.now = lab.expiry().unwrap();
    while !lab.decide().actions.contains(&Action::DeleteMachine) {
        let plan = lab.decide();
        lab.carry_out(plan);
    }
    let plan = lab.decide();
    lab.carry_out(plan);
    let plan = lab.decide();
    assert!(plan.after_failure && plan.actions.is_empty(), "{plan:?}");
}

#[test]
fn the_deletion_of_a_node_deletes_its_preserved_machine() {
    let mut lab = kept();
    if let NodeView::Present(node) = &mut lab.view.node {
        let node = Arc::make_mut(node);
        node.metadata.deletion_timestamp = Some(Time(minute(12)));
    }
    assert_eq!(actions(&lab.decide()), ["delete machine"]);
}

#[rstest]
#[case::marks_of_the_node(node_patches)]
#[case::its_condition(preserved_conditions)]
#[case::annotations_of_the_machine(machine_patches)]
fn a_failed_standalone_machine_is_deleted_at_its_expiry_although_writes_fail(#[case] refuses: fn(&Action) -> bool) {
    let mut lab = failing();
    lab.view.machine.metadata.owner_references = None;
    lab.view.owners_list = ListView::NoList;
    lab.request("Node", "when-failed");
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    lab.refuses = refuses;
    lab.now = lab.expiry().unwrap();
    let deleted = (0..10).any(|_| {
        let plan = lab.decide();
        let deletes = plan.actions.contains(&Action::DeleteMachine);
        lab.carry_out(plan);
        deletes
    });
    assert!(deleted);
}

#[rstest]
#[case::marks_of_the_node(node_patches)]
#[case::its_condition(preserved_conditions)]
fn a_recovered_machine_leaves_the_owners_list_although_node_writes_fail(#[case] refuses: fn(&Action) -> bool) {
    let mut lab = kept();
    assert!(lab.is_entered());
    lab.refuses = refuses;
    if let NodeView::Present(node) = &mut lab.view.node {
        let node = Arc::make_mut(node);
        // Ensures that the plan has a Node patch.
        node.metadata
            .annotations
            .get_or_insert_default()
            .remove(SCALE_DOWN_DISABLED);
    }
    lab.reports(healthy());
    lab.conditions(&healthy());
    lab.settle();
    assert_eq!(lab.phase(), "Running:Preserved");
    assert!(!lab.is_entered());
}

#[test]
fn an_expiry_does_not_wait_for_the_copy_of_the_node_annotation() {
    let mut lab = kept();
    lab.refuses = machine_patches;
    lab.request("Node", "when-failed");
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    lab.now = lab.expiry().unwrap();
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
}

#[test]
fn a_running_machine_is_released_when_node_writes_succeed_again() {
    let mut lab = Lab::new(running());
    lab.request("Node", "now");
    lab.settle();
    lab.refuses = node_patches;
    lab.now = lab.expiry().unwrap();
    lab.settle();
    assert_eq!(lab.node_annotation(SCALE_DOWN_DISABLED).as_deref(), Some("true"));
    assert!(lab.machine().status.preservation.is_some());
    lab.refuses = |_| false;
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), lab.node_annotation(SCALE_DOWN_DISABLED)),
        ("Running", None)
    );
    assert_eq!(lab.machine().status.preservation, None);
}

#[test]
fn a_refused_node_template_does_not_block_a_preservation() {
    let mut lab = failing();
    template(&mut lab, &[("pool", "not allowed")], &[]);
    lab.refuses = label_patches;
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    assert!(lab.is_tainted());
    lab.now = lab.expiry().unwrap();
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
    assert!(!lab.is_tainted());
}

#[test]
fn a_preservation_request_in_the_template_applies_again_after_the_expiry() {
    let mut lab = failing();
    template(&mut lab, &[], &[(keys::PRESERVE_ANNOTATION, "when-failed")]);
    lab.settle();
    assert_eq!(
        lab.machine().status.preservation.as_ref().unwrap().by,
        PreservedBy::Node
    );
    lab.reports(healthy());
    lab.settle();
    assert_eq!(lab.phase(), "Running:Preserved");
    lab.now = lab.expiry().unwrap();
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Running", None));
    assert_eq!(
        lab.machine_annotation(keys::PRESERVE_ANNOTATION).as_deref(),
        Some("when-failed"),
        "the annotation remains for the next failure"
    );
}

#[test]
fn a_failed_machine_with_a_request_in_its_template_is_released_at_its_expiry() {
    let mut lab = failing();
    template(&mut lab, &[], &[(keys::PRESERVE_ANNOTATION, "when-failed")]);
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    lab.now = lab.expiry().unwrap();
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
    assert_eq!(lab.node_annotation(keys::PRESERVE_ANNOTATION), None);
}

#[test]
fn a_template_that_allows_scale_down_applies_before_and_after_a_preservation() {
    let mut lab = Lab::new(running());
    template(&mut lab, &[], &[(SCALE_DOWN_DISABLED, "false")]);
    lab.settle();
    assert_eq!(lab.node_annotation(SCALE_DOWN_DISABLED).as_deref(), Some("false"));
    lab.request("Machine", "now");
    lab.settle();
    assert_eq!(lab.node_annotation(SCALE_DOWN_DISABLED).as_deref(), Some("true"));
    template(&mut lab, &[], &[]);
    lab.settle();
    assert_eq!(
        lab.node_annotation(SCALE_DOWN_DISABLED).as_deref(),
        Some("true"),
        "a template change applies after the preservation"
    );
    lab.request("Machine", "false");
    lab.settle();
    assert_eq!(lab.node_annotation(SCALE_DOWN_DISABLED), None);
}

#[test]
fn an_entry_of_a_withdrawn_request_does_not_exceed_the_maximum() {
    let mut lab = failing();
    lab.set_entry(Some(mcm_api::PreservationEntry {
        by: PreservedBy::Machine,
        ..<_>::default()
    }));
    lab.answer = Err(Admission::Full);
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
}

#[test]
fn a_request_withdrawn_during_the_claim_does_not_exceed_the_maximum() {
    let mut lab = failing();
    lab.request("Machine", "when-failed");
    let claim = lab.decide();
    assert_eq!(actions(&claim), ["claim machine again"]);
    lab.carry_out(claim);
    lab.annotate("Machine", keys::PRESERVE_ANNOTATION, None);
    lab.answer = Err(Admission::Full);
    let done = lab.settle();
    assert!(done.contains(&"claim auto".to_owned()), "{done:?}");
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
    assert!(!lab.is_entered(), "the machine left the list");
}

#[test]
fn the_owner_decides_whether_a_rollout_is_in_progress() {
    let mut lab = failing();
    lab.view.owners_list = ListView::Known {
        maximum: 1,
        rolling: true,
        deployed: true,
        entry: None,
        others: BTreeSet::new(),
    };
    lab.request("Machine", "when-failed");
    let done = lab.settle();
    assert_eq!(
        done.first().map(String::as_str),
        Some("claim machine again"),
        "{done:?}"
    );
    assert_eq!(lab.phase(), "Failed:Preserved", "the cache was stale");
}

#[test]
fn scale_down_stays_disabled_for_a_rollout_when_a_preservation_ends() {
    let mut lab = Lab::new(running());
    lab.request("Machine", "now");
    lab.settle();
    if let ListView::Known { rolling, .. } = &mut lab.view.owners_list {
        *rolling = true;
    }
    lab.request("Machine", "false");
    lab.settle();
    assert_eq!(lab.phase(), "Running");
    assert_eq!(lab.node_annotation(SCALE_DOWN_DISABLED).as_deref(), Some("true"));
    assert_eq!(
        lab.node_annotation(keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION)
            .as_deref(),
        Some("true"),
        "the rollout removes the annotation when it ends"
    );
}

fn uid(lab: &mut Lab, uid: &str) {
    if let NodeView::Present(node) = &mut lab.view.node {
        let node = Arc::make_mut(node);
        node.metadata.uid = Some(uid.to_owned());
    }
}

fn record_uid(lab: &Lab) -> String {
    lab.machine().status.preservation.as_ref().unwrap().node_uid.clone()
}

#[test]
fn a_missing_annotation_of_another_node_is_not_a_removal() {
    let mut lab = failing();
    uid(&mut lab, "first");
    lab.request("Node", "when-failed");
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), record_uid(&lab).as_str()),
        ("Failed:Preserved", "first")
    );
    lab.annotate("Node", keys::PRESERVE_ANNOTATION, None);
    uid(&mut lab, "second");
    lab.settle();
    assert_eq!(
        lab.machine_annotation(keys::PRESERVE_ANNOTATION).as_deref(),
        Some("when-failed")
    );
    lab.reports(healthy());
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), record_uid(&lab).as_str()),
        ("Running:Preserved", "first")
    );
    lab.request("Node", "now");
    lab.settle();
    assert_eq!(record_uid(&lab), "second", "the request now comes from the second node");
    lab.annotate("Node", keys::PRESERVE_ANNOTATION, None);
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Running", None));
}

#[test]
fn another_node_does_not_withdraw_a_request_before_or_after_the_start_of_a_preservation() {
    let mut lab = Lab::new(running());
    uid(&mut lab, "first");
    lab.request("Node", "when-failed");
    lab.settle();
    assert_eq!(
        lab.machine_annotation(keys::PRESERVE_ANNOTATION).as_deref(),
        Some("when-failed")
    );
    lab.annotate("Node", keys::PRESERVE_ANNOTATION, None);
    uid(&mut lab, "second");
    lab.settle();
    assert_eq!(
        lab.machine_annotation(keys::PRESERVE_ANNOTATION).as_deref(),
        Some("when-failed")
    );
    lab.reports(unhealthy());
    lab.settle();
    lab.now = minute(11);
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), record_uid(&lab).as_str()),
        ("Failed:Preserved", "second"),
        "the machine is preserved with its current Node"
    );
    lab.reports(healthy());
    lab.settle();
    uid(&mut lab, "first");
    lab.settle();
    assert_eq!(
        (lab.phase(), lab.machine_annotation(keys::PRESERVE_ANNOTATION)),
        ("Running".to_owned(), None),
        "the Node that requested the preservation is back without its annotation"
    );
    assert_eq!(lab.machine_annotation(keys::LAST_APPLIED_PRESERVE_UID_ANNOTATION), None);
}

#[test]
fn a_machine_that_failed_without_a_node_stays_preserved_when_a_node_joins() {
    let mut lab = failing();
    uid(&mut lab, "first");
    lab.request("Node", "when-failed");
    lab.now = minute(5);
    lab.settle();
    assert_eq!(
        lab.machine_annotation(keys::PRESERVE_ANNOTATION).as_deref(),
        Some("when-failed")
    );
    let mut node = std::mem::replace(&mut lab.view.node, NodeView::Absent);
    lab.now = minute(11);
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), record_uid(&lab).as_str()),
        ("Failed:Preserved", "")
    );
    if let NodeView::Present(node) = &mut node {
        let node = Arc::make_mut(node);
        node.metadata.annotations = None;
    }
    lab.view.node = node;
    uid(&mut lab, "second");
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    assert_eq!(
        lab.machine_annotation(keys::PRESERVE_ANNOTATION).as_deref(),
        Some("when-failed")
    );
}

#[test]
fn a_remaining_request_does_not_start_another_preservation() {
    let mut lab = rolled();
    lab.answer = Ok(());
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), lab.expiry()),
        ("Failed", None),
        "the rollout has ended, and there is no new request"
    );
    lab.annotate("Machine", keys::PRESERVE_ANNOTATION, None);
    lab.settle();
    lab.request("Machine", "now");
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
}

#[test]
fn a_failure_during_the_end_of_a_preservation_starts_a_new_one() {
    let mut lab = Lab::new(running());
    lab.request("Machine", "now");
    lab.settle();
    let ends = lab.expiry();
    lab.reports(unhealthy());
    lab.settle();
    lab.request("Machine", "false");
    lab.refuses = node_patches;
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Unknown", ends));
    lab.request("Machine", "when-failed");
    lab.refuses = |_| false;
    lab.now = minute(30);
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    let later = minute(30).checked_add(SignedDuration::from_hours(72)).unwrap();
    assert_eq!(lab.expiry(), Some(later));
}

#[test]
fn a_preserved_machine_claims_its_lost_entry_again() {
    let mut lab = kept();
    lab.set_entry(None);
    let done = lab.settle();
    assert_eq!(done, ["claim auto again"]);
    assert_eq!(lab.phase(), "Failed:Preserved");
}

#[test]
fn a_removed_node_label_is_restored_before_pods_are_evicted() {
    let mut lab = stuck();
    lab.settle();
    assert_eq!(lab.phase(), "Failed");
    let labels = lab.view.machine.metadata.labels.as_mut().unwrap();
    let name = labels.remove(keys::NODE_LABEL).and_then(NodeName::new);
    lab.view.labelled_node = name.clone();
    lab.view.node = NodeView::Unknown;
    let patch = lab.decide().actions.into_iter().next();
    let Some(Action::PatchMachine(patch)) = patch else {
        panic!("{patch:?}");
    };
    assert_eq!(patch.node, name);
}

/// The Node with the recorded name belongs to a former machine.
#[test]
fn a_preserved_machine_without_a_vm_records_no_node() {
    let mut lab = stuck();
    lab.settle();
    lab.view.machine.spec.provider_id.clear();
    let labels = lab.view.machine.metadata.labels.as_mut().unwrap();
    lab.view.labelled_node = labels.remove(keys::NODE_LABEL).and_then(NodeName::new);
    lab.view.node = NodeView::Absent;
    let names = |action: &Action| matches!(action, Action::PatchMachine(patch) if patch.node.is_some());
    assert!(!lab.decide().actions.iter().any(names), "{:?}", lab.decide());
}

/// The label identifies the Node from which the preservation must be removed.
#[test]
fn a_removed_node_label_is_restored_before_a_preservation_ends() {
    let mut lab = Lab::new(running());
    lab.request("Node", "now");
    lab.settle();
    let labels = lab.view.machine.metadata.labels.as_mut().unwrap();
    let name = labels.remove(keys::NODE_LABEL).and_then(NodeName::new);
    lab.view.labelled_node = name.clone();
    let node = std::mem::replace(&mut lab.view.node, NodeView::Unknown);
    lab.now = lab.expiry().unwrap();
    let patch = lab.decide().actions.into_iter().next();
    let Some(Action::PatchMachine(patch)) = patch else {
        panic!("{patch:?}");
    };
    assert_eq!(patch.node, name);
    let labels = lab.view.machine.metadata.labels.as_mut().unwrap();
    labels.insert(keys::NODE_LABEL.to_owned(), name.unwrap().into());
    lab.view.node = node;
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Running", None));
    assert_eq!(
        (
            lab.node_annotation(SCALE_DOWN_DISABLED),
            lab.node_annotation(keys::PRESERVE_ANNOTATION)
        ),
        (None, None)
    );
}

#[test]
fn preservation_does_not_restore_the_node_label_of_an_unpreserved_machine() {
    let mut lab = Lab::new(running());
    let labels = lab.view.machine.metadata.labels.as_mut().unwrap();
    lab.view.labelled_node = labels.remove(keys::NODE_LABEL).and_then(NodeName::new);
    lab.view.node = NodeView::Unknown;
    assert_eq!(lab.settle(), [""; 0]);
}
