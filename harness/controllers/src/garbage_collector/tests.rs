//! Tables over small graphs.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Node as ClusterNode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rstest::rstest;

use super::decide::{Knowledge, Reason, decide};
use super::graph::{Graph, Node};
use crate::{Action, ObjectKey, Propagation, ResourceType};

/// Config maps in `n`, each `NAME OWNER...`; uids equal names. `!` marks foreground deletion, `~` orphaning,
/// `-` deletion without either.
fn graph(objects: &[&str]) -> Graph {
    let mut graph = Graph::default();
    for object in objects {
        let mut words = object.split(' ');
        let name = words.next().unwrap();
        let bare = name.trim_matches(['!', '~', '-']);
        let finalizers = match name.chars().last() {
            Some('!') => vec!["foregroundDeletion".to_owned()],
            Some('~') => vec!["orphan".to_owned()],
            _ => Vec::new(),
        };
        let node = Node {
            resource: Arc::new(ResourceType::of::<ConfigMap>()),
            key: ObjectKey::new("n", bare),
            revision: "1".to_owned(),
            owners: words.map(reference).collect(),
            finalizers,
            deleting: name != bare,
        };
        graph.put(bare, node);
    }
    graph
}

/// A reference written `NAME*` blocks the owner's deletion.
fn reference(text: &str) -> OwnerReference {
    let name = text.trim_end_matches('*');
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        block_owner_deletion: text.ends_with('*').then_some(true),
        controller: None,
    }
}

fn knowledge(answers: &[(&str, bool)]) -> Knowledge {
    let types = [ResourceType::of::<ConfigMap>(), ResourceType::of::<ClusterNode>()];
    Knowledge {
        types: types
            .into_iter()
            .map(|resource| ((resource.group.to_string(), resource.kind.to_string()), resource))
            .collect(),
        answers: answers.iter().map(|(uid, there)| ((*uid).to_owned(), *there)).collect(),
        reported: BTreeSet::new(),
    }
}

#[rstest]
#[case::an_object_of_its_own(&["a"], &[], &[])]
#[case::an_owner_that_is_there(&["o", "a o"], &[], &[])]
#[case::an_unknown_owner(&["a o"], &[], &[Reason::OwnerUnknown])]
#[case::an_owner_that_is_gone(&["a o"], &[("o", false)], &[Reason::OwnersGone])]
#[case::an_owner_that_was_found(&["a o"], &[("o", true)], &[])]
#[case::one_of_two_is_gone(&["o", "a o p"], &[("p", false)], &[Reason::OtherOwnersStay])]
#[case::an_owner_in_foreground_deletion(&["o!", "a o*"], &[], &[Reason::OwnersGone])]
#[case::with_dependents_of_its_own(&["o!", "a o*", "b a"], &[], &[Reason::OwnerWaits])]
#[case::one_of_two_in_foreground_deletion(&["o!", "p", "a o p"], &[], &[Reason::OtherOwnersStay])]
#[case::already_terminating(&["o!", "a- o*"], &[], &[])]
#[case::an_owner_in_background_deletion(&["o-", "a o*"], &[], &[])]
#[case::a_blocked_cycle(&["b! a", "a b*"], &[], &[Reason::Cycle])]
#[case::an_open_cycle(&["b! a", "a b"], &[], &[Reason::OwnerWaits])]
#[case::no_blocking_dependents(&["a!", "b a"], &[], &[Reason::DependentsGone])]
#[case::blocking_dependents(&["a!", "b a*"], &[], &[])]
#[case::dependents_to_orphan(&["a~", "b a", "c a"], &[], &[Reason::Orphaned, Reason::Orphaned, Reason::DependentsOrphaned])]
fn owners_determine_the_fate_of_an_object(
    #[case] objects: &[&str],
    #[case] answers: &[(&str, bool)],
    #[case] reasons: &[Reason],
) {
    let plan = decide("a", &graph(objects), &knowledge(answers));
    assert_eq!(plan.reasons, reasons, "{plan:?}");
    assert_eq!(plan.actions.len(), reasons.len());
}

#[test]
fn an_object_is_deleted_with_preconditions() {
    let plan = decide("a", &graph(&["a o"]), &knowledge(&[("o", false)]));
    let [Action::Delete { deletion, .. }] = plan.actions.as_slice() else {
        panic!("{plan:?}");
    };
    assert_eq!(deletion.preconditions.uid.as_deref(), Some("a"));
    assert_eq!(deletion.preconditions.resource_version.as_deref(), Some("1"));
    assert_eq!(deletion.propagation, Some(Propagation::Background));
}

#[test]
fn an_owner_of_an_unknown_kind_prevents_a_decision() {
    let plan = decide("a", &graph(&["a o"]), &Knowledge::default());
    assert!(plan.actions.is_empty());
}

#[test]
fn an_owner_in_another_namespace_is_reported_once() {
    let mut graph = graph(&["o", "a o"]);
    let mut moved = graph.get("o").unwrap().clone();
    moved.key.namespace = "m".to_owned();
    graph.put("o", moved);
    let mut knowledge = knowledge(&[]);
    let plan = decide("a", &graph, &knowledge);
    assert_eq!(plan.reasons, [Reason::OwnerElsewhere, Reason::OwnerUnknown]);
    knowledge.reported.insert("a".to_owned());
    assert_eq!(decide("a", &graph, &knowledge).reasons, [Reason::OwnerUnknown]);
}

#[test]
fn a_deleted_uid_needs_no_existence_check() {
    let mut graph = graph(&["o", "a o"]);
    graph.remove("o");
    assert_eq!(decide("a", &graph, &knowledge(&[])).reasons, [Reason::OwnersGone]);
}
