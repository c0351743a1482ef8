//! Preservation where others stand in its way: a server that refuses writes, a template that wants the same annotations,
//! a list that somebody else was entered in, a Node that is another one.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::machine::NodeTemplateSpec;
use mcm_api::{NodeName, PreservationStage, PreservedBy, keys};
use mcm_core::machine::{Action, Answer, Failure, MachinePatch, NodeView};
use mcm_core::preservation::{Gate, Standing};
use rstest::rstest;

use super::lab::{CA, Lab, failing, kept, rolled, stuck};
use crate::fixtures::*;

fn node_marks(action: &Action) -> bool {
    matches!(action, Action::PatchNode { .. })
}

fn annotations_of_machines(action: &Action) -> bool {
    matches!(action, Action::PatchMachine(_))
}

fn conditions_of_nodes(action: &Action) -> bool {
    matches!(action, Action::SetPreservedCondition { .. })
}

/// What the template wants of the Node, which the server refuses: its label stays away.
fn labels_of_the_template(action: &Action) -> bool {
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
#[case::marks_of_the_node(node_marks)]
#[case::its_condition(conditions_of_nodes)]
fn a_drain_does_not_hold_a_preservation_up_though_its_node_cannot_be_written(#[case] refuses: fn(&Action) -> bool) {
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
#[case::marks_of_the_node(node_marks)]
#[case::its_condition(conditions_of_nodes)]
#[case::annotations_of_the_machine(annotations_of_machines)]
fn the_end_of_a_failed_machine_does_not_wait_for_writes_that_are_refused(#[case] refuses: fn(&Action) -> bool) {
    let mut lab = failing();
    lab.ask("Node", "when-failed");
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

/// The update's own mark comes first, at every look.
#[test]
fn the_end_of_a_failed_machine_does_not_wait_for_marks_of_an_update_that_are_refused() {
    let mut lab = kept();
    if let NodeView::Present(node) = &mut lab.view.node {
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
#[case::it_is_refused(false, false, true)]
#[case::it_conflicts(true, false, false)]
#[case::an_answer_waits(false, true, false)]
fn an_end_goes_before_what_is_refused_and_after_what_is_decided_anew_or_recorded(
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

/// As often as it is looked at, and no oftener.
#[test]
fn a_deletion_that_is_refused_is_asked_for_once_a_look() {
    let mut lab = failing();
    lab.view.machine.metadata.owner_references = None;
    lab.view.ledger = Standing::Nobody;
    lab.ask("Node", "when-failed");
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
fn a_node_that_a_person_deletes_takes_its_machine_along_though_it_is_kept() {
    let mut lab = kept();
    if let NodeView::Present(node) = &mut lab.view.node {
        node.metadata.deletion_timestamp = Some(Time(minute(12)));
    }
    assert_eq!(actions(&lab.decide()), ["delete machine"]);
}

#[rstest]
#[case::marks_of_the_node(node_marks)]
#[case::its_condition(conditions_of_nodes)]
#[case::annotations_of_the_machine(annotations_of_machines)]
fn a_failed_machine_of_no_set_is_deleted_at_its_end_whatever_is_refused(#[case] refuses: fn(&Action) -> bool) {
    let mut lab = failing();
    lab.view.machine.metadata.owner_references = None;
    lab.view.ledger = Standing::Nobody;
    lab.ask("Node", "when-failed");
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
#[case::marks_of_the_node(node_marks)]
#[case::its_condition(conditions_of_nodes)]
fn a_place_is_free_once_its_machine_runs_again_though_its_node_cannot_be_written(#[case] refuses: fn(&Action) -> bool) {
    let mut lab = kept();
    assert!(lab.is_entered());
    lab.refuses = refuses;
    if let NodeView::Present(node) = &mut lab.view.node {
        // So that there is something to write.
        node.metadata.annotations.get_or_insert_default().remove(CA);
    }
    lab.reports(healthy());
    lab.conditions(&healthy());
    lab.settle();
    assert_eq!(lab.phase(), "Running:Preserved");
    assert!(!lab.is_entered());
}

#[test]
fn an_expiry_does_not_wait_until_the_machine_says_what_its_node_asks() {
    let mut lab = kept();
    lab.refuses = annotations_of_machines;
    lab.ask("Node", "when-failed");
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    lab.now = lab.expiry().unwrap();
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
}

#[test]
fn a_machine_that_serves_is_let_go_once_its_node_can_be_written_again() {
    let mut lab = Lab::new(running());
    lab.ask("Node", "now");
    lab.settle();
    lab.refuses = node_marks;
    lab.now = lab.expiry().unwrap();
    lab.settle();
    assert_eq!(lab.node(CA).as_deref(), Some("true"));
    assert!(lab.machine().status.preservation.is_some());
    lab.refuses = |_| false;
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.node(CA)), ("Running", None));
    assert_eq!(lab.machine().status.preservation, None);
}

#[test]
fn what_the_template_wants_and_the_server_refuses_hinders_no_preservation() {
    let mut lab = failing();
    template(&mut lab, &[("pool", "not allowed")], &[]);
    lab.refuses = labels_of_the_template;
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    assert!(lab.is_tainted());
    lab.now = lab.expiry().unwrap();
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
    assert!(!lab.is_tainted());
}

#[test]
fn a_template_that_asks_for_preservation_asks_again_when_one_is_over() {
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
        lab.own(keys::PRESERVE_ANNOTATION).as_deref(),
        Some("when-failed"),
        "for the next failure"
    );
}

#[test]
fn a_failed_machine_whose_template_asks_for_preservation_goes_when_its_time_is_over() {
    let mut lab = failing();
    template(&mut lab, &[], &[(keys::PRESERVE_ANNOTATION, "when-failed")]);
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    lab.now = lab.expiry().unwrap();
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
    assert_eq!(lab.node(keys::PRESERVE_ANNOTATION), None);
}

#[test]
fn a_template_that_lets_the_autoscaler_in_does_so_before_and_after() {
    let mut lab = Lab::new(running());
    template(&mut lab, &[], &[(CA, "false")]);
    lab.settle();
    assert_eq!(lab.node(CA).as_deref(), Some("false"));
    lab.ask("Machine", "now");
    lab.settle();
    assert_eq!(lab.node(CA).as_deref(), Some("true"));
    template(&mut lab, &[], &[]);
    lab.settle();
    assert_eq!(
        lab.node(CA).as_deref(),
        Some("true"),
        "what changes meanwhile comes later"
    );
    lab.ask("Machine", "false");
    lab.settle();
    assert_eq!(lab.node(CA), None);
}

#[test]
fn who_is_entered_for_a_person_is_not_kept_beyond_the_maximum_when_nobody_asks_any_more() {
    let mut lab = failing();
    lab.entry(Some(mcm_api::PreservationEntry {
        by: PreservedBy::Machine,
        ..<_>::default()
    }));
    lab.answer = Err(Gate::Full);
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
}

#[test]
fn who_takes_a_request_back_while_the_list_is_asked_gets_no_place_beyond_the_maximum() {
    let mut lab = failing();
    lab.ask("Machine", "when-failed");
    let claim = lab.decide();
    assert_eq!(actions(&claim), ["claim machine again"]);
    lab.carry_out(claim);
    lab.annotate("Machine", keys::PRESERVE_ANNOTATION, None);
    lab.answer = Err(Gate::Full);
    let done = lab.settle();
    assert!(done.contains(&"claim auto".to_owned()), "{done:?}");
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Failed", None));
    assert!(!lab.is_entered(), "its place is free again");
}

#[test]
fn whether_a_rollout_is_under_way_is_asked_where_it_is_known() {
    let mut lab = failing();
    lab.view.ledger = Standing::Known {
        maximum: 1,
        rolling: true,
        deployed: true,
        entry: None,
        others: BTreeSet::new(),
    };
    lab.ask("Machine", "when-failed");
    let done = lab.settle();
    assert_eq!(
        done.first().map(String::as_str),
        Some("claim machine again"),
        "{done:?}"
    );
    assert_eq!(lab.phase(), "Failed:Preserved", "the cache was late");
}

#[test]
fn the_autoscaler_stays_away_for_a_rollout_when_a_preservation_ends() {
    let mut lab = Lab::new(running());
    lab.ask("Machine", "now");
    lab.settle();
    if let Standing::Known { rolling, .. } = &mut lab.view.ledger {
        *rolling = true;
    }
    lab.ask("Machine", "false");
    lab.settle();
    assert_eq!(lab.phase(), "Running");
    assert_eq!(lab.node(CA).as_deref(), Some("true"));
    assert_eq!(
        lab.node(keys::SCALE_DOWN_DISABLED_BY_US_ANNOTATION).as_deref(),
        Some("true"),
        "the rollout takes it away at its end"
    );
}

fn uid(lab: &mut Lab, uid: &str) {
    if let NodeView::Present(node) = &mut lab.view.node {
        node.metadata.uid = Some(uid.to_owned());
    }
}

fn record_uid(lab: &Lab) -> String {
    lab.machine().status.preservation.as_ref().unwrap().node_uid.clone()
}

#[test]
fn what_another_node_does_not_say_was_never_removed_from_it() {
    let mut lab = failing();
    uid(&mut lab, "first");
    lab.ask("Node", "when-failed");
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), record_uid(&lab).as_str()),
        ("Failed:Preserved", "first")
    );
    lab.annotate("Node", keys::PRESERVE_ANNOTATION, None);
    uid(&mut lab, "second");
    lab.settle();
    assert_eq!(lab.own(keys::PRESERVE_ANNOTATION).as_deref(), Some("when-failed"));
    lab.reports(healthy());
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), record_uid(&lab).as_str()),
        ("Running:Preserved", "first")
    );
    lab.ask("Node", "now");
    lab.settle();
    assert_eq!(record_uid(&lab), "second", "now it is that one that asks");
    lab.annotate("Node", keys::PRESERVE_ANNOTATION, None);
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Running", None));
}

#[test]
fn another_node_takes_no_request_back_before_a_preservation_begins_nor_after() {
    let mut lab = Lab::new(running());
    uid(&mut lab, "first");
    lab.ask("Node", "when-failed");
    lab.settle();
    assert_eq!(lab.own(keys::PRESERVE_ANNOTATION).as_deref(), Some("when-failed"));
    lab.annotate("Node", keys::PRESERVE_ANNOTATION, None);
    uid(&mut lab, "second");
    lab.settle();
    assert_eq!(lab.own(keys::PRESERVE_ANNOTATION).as_deref(), Some("when-failed"));
    lab.reports(unhealthy());
    lab.settle();
    lab.now = minute(11);
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), record_uid(&lab).as_str()),
        ("Failed:Preserved", "second"),
        "it is kept with the Node that it has"
    );
    lab.reports(healthy());
    lab.settle();
    uid(&mut lab, "first");
    lab.settle();
    assert_eq!(
        (lab.phase(), lab.own(keys::PRESERVE_ANNOTATION)),
        ("Running".to_owned(), None),
        "the Node that asked is there again, and does not ask"
    );
    assert_eq!(lab.own(keys::LAST_APPLIED_PRESERVE_UID_ANNOTATION), None);
}

#[test]
fn a_machine_that_had_no_node_when_it_failed_stays_kept_when_one_joins_that_does_not_ask() {
    let mut lab = failing();
    uid(&mut lab, "first");
    lab.ask("Node", "when-failed");
    lab.now = minute(5);
    lab.settle();
    assert_eq!(lab.own(keys::PRESERVE_ANNOTATION).as_deref(), Some("when-failed"));
    let mut node = std::mem::replace(&mut lab.view.node, NodeView::Absent);
    lab.now = minute(11);
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), record_uid(&lab).as_str()),
        ("Failed:Preserved", "")
    );
    if let NodeView::Present(node) = &mut node {
        node.metadata.annotations = None;
    }
    lab.view.node = node;
    uid(&mut lab, "second");
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    assert_eq!(lab.own(keys::PRESERVE_ANNOTATION).as_deref(), Some("when-failed"));
}

#[test]
fn a_request_that_outlives_the_preservation_of_a_failed_machine_asks_for_no_other_one() {
    let mut lab = rolled();
    lab.answer = Ok(());
    lab.settle();
    assert_eq!(
        (lab.phase().as_str(), lab.expiry()),
        ("Failed", None),
        "the rollout is over, and nobody asked anew"
    );
    lab.annotate("Machine", keys::PRESERVE_ANNOTATION, None);
    lab.settle();
    lab.ask("Machine", "now");
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
}

#[test]
fn a_failure_while_a_preservation_ends_is_a_new_one() {
    let mut lab = Lab::new(running());
    lab.ask("Machine", "now");
    lab.settle();
    let ends = lab.expiry();
    lab.reports(unhealthy());
    lab.settle();
    lab.ask("Machine", "false");
    lab.refuses = node_marks;
    lab.settle();
    assert_eq!((lab.phase().as_str(), lab.expiry()), ("Unknown", ends));
    lab.ask("Machine", "when-failed");
    lab.refuses = |_| false;
    lab.now = minute(30);
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    let later = minute(30).checked_add(SignedDuration::from_hours(72)).unwrap();
    assert_eq!(lab.expiry(), Some(later));
}

#[test]
fn what_is_kept_stays_kept_when_its_entry_is_lost() {
    let mut lab = kept();
    lab.entry(None);
    let done = lab.settle();
    assert_eq!(done, ["claim auto again"]);
    assert_eq!(lab.phase(), "Failed:Preserved");
}

#[test]
fn a_label_that_somebody_took_away_is_written_again_before_pods_are_asked_to_leave() {
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

/// The Node of that name is one that another machine left.
#[test]
fn a_machine_without_a_vm_takes_no_node_however_long_it_is_kept() {
    let mut lab = stuck();
    lab.settle();
    lab.view.machine.spec.provider_id.clear();
    let labels = lab.view.machine.metadata.labels.as_mut().unwrap();
    lab.view.labelled_node = labels.remove(keys::NODE_LABEL).and_then(NodeName::new);
    lab.view.node = NodeView::Absent;
    let names = |action: &Action| matches!(action, Action::PatchMachine(patch) if patch.node.is_some());
    assert!(!lab.decide().actions.iter().any(names), "{:?}", lab.decide());
}

/// Only by it is known where to take the marks from.
#[test]
fn a_label_that_somebody_took_away_is_written_again_before_a_preservation_ends() {
    let mut lab = Lab::new(running());
    lab.ask("Node", "now");
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
    assert_eq!((lab.node(CA), lab.node(keys::PRESERVE_ANNOTATION)), (None, None));
}

#[test]
fn the_label_of_a_machine_that_nobody_keeps_is_not_preservations_matter() {
    let mut lab = Lab::new(running());
    let labels = lab.view.machine.metadata.labels.as_mut().unwrap();
    lab.view.labelled_node = labels.remove(keys::NODE_LABEL).and_then(NodeName::new);
    lab.view.node = NodeView::Unknown;
    assert_eq!(lab.settle(), [""; 0]);
}
