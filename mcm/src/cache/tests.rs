//! An older version never replaces a newer one, in any order of events.

use k8s_openapi::api::core::v1::Node;
use mcm_api::keys;

use runtime::decode::Problem;

use super::*;
use crate::view::NodeIndex;

fn cache() -> Cache<Node> {
    Cache::new().tracking_deletions()
}

fn node(name: &str, revision: u64) -> Node {
    let mut node = Node::default();
    node.metadata.name = Some(name.into());
    node.metadata.uid = Some(format!("uid-of-{name}"));
    node.metadata.resource_version = Some(revision.to_string());
    let machine = format!("m{}", revision % 2);
    node.metadata.labels = Some([(keys::MACHINE_NAME_LABEL.to_owned(), machine)].into());
    node
}

fn list(cache: &Cache<Node>, nodes: Vec<Node>) -> Vec<Change<Node>> {
    cache.apply(Event::<Node>::Init);
    for node in nodes {
        cache.apply(Event::InitApply(node));
    }
    cache.apply(Event::<Node>::InitDone)
}

fn revision_of(cache: &Cache<Node>, name: &str) -> Option<u64> {
    cache.get(&Key::new("", name)).as_deref().and_then(revision)
}

#[test]
fn a_list_replaces_the_objects_and_reports_deletions() {
    let cache = cache();
    assert!(!cache.synced());
    list(&cache, vec![node("a", 1), node("b", 2)]);
    assert!(cache.synced());
    let changes = list(&cache, vec![node("b", 2), node("c", 3)]);
    let changed: Vec<_> = changes
        .iter()
        .map(|change| {
            (
                change.old.as_ref().map(|old| old.name_any()),
                change.new.as_ref().map(|new| new.name_any()),
            )
        })
        .collect();
    assert_eq!(changed, [(Some("a".into()), None), (None, Some("c".into()))]);
    assert!(cache.was_deleted(&Key::new("", "a")) && !cache.was_deleted(&Key::new("", "b")));
}

#[test]
fn an_own_write_is_cached_at_once_and_its_watch_event_changes_nothing() {
    let cache = cache();
    list(&cache, vec![node("a", 1)]);
    cache.wrote(node("a", 5));
    assert_eq!(revision_of(&cache, "a"), Some(5));
    assert!(
        cache.apply(Event::Apply(node("a", 1))).is_empty(),
        "older than the write"
    );
    assert!(
        cache.apply(Event::Apply(node("a", 5))).is_empty(),
        "the watch event of the write"
    );
    assert_eq!(cache.apply(Event::Apply(node("a", 6))).len(), 1);
    assert!(
        list(&cache, vec![node("a", 4)]).is_empty(),
        "a list from a lagging server"
    );
    assert_eq!(revision_of(&cache, "a"), Some(6));
}

/// The revisions of the nodes before and after each change.
fn revisions(changes: &[Change<Node>]) -> Vec<(Option<u64>, Option<u64>)> {
    let side = |node: &Option<Arc<Node>>| node.as_deref().and_then(revision);
    changes
        .iter()
        .map(|change| (side(&change.old), side(&change.new)))
        .collect()
}

#[test]
fn a_change_of_another_writer_in_the_response_to_an_own_write_is_reported_when_the_watch_delivers_it() {
    let cache = cache();
    list(&cache, vec![node("a", 1)]);
    cache.wrote(node("a", 4));
    let deliver = |revision| revisions(&cache.apply(Event::Apply(node("a", revision))));
    assert_eq!(deliver(1), [], "known before the write");
    assert_eq!(deliver(2), [(Some(1), Some(4))], "another writer's");
    assert_eq!(deliver(2), [], "delivered again");
    cache.wrote(node("a", 6));
    assert_eq!(deliver(3), [(Some(4), Some(6))]);
    assert_eq!(deliver(4), [], "the own write");
    assert_eq!(deliver(5), [(Some(6), Some(6))]);
    assert_eq!(deliver(6), []);
    assert_eq!(deliver(5), [], "the watch has caught up");
    assert_eq!(deliver(7), [(Some(6), Some(7))]);
}

#[test]
fn what_an_own_read_returned_is_reported_when_the_watch_delivers_it() {
    let cache = cache();
    list(&cache, vec![node("a", 1)]);
    cache.read(node("a", 2));
    let deliver = |revision| revisions(&cache.apply(Event::Apply(node("a", revision))));
    assert_eq!(deliver(2), [(Some(1), Some(2))]);
    assert_eq!(deliver(2), []);
}

/// A list does not contain the versions that another writer wrote before.
#[test]
fn a_list_that_contains_an_own_write_reports_a_change() {
    let cache = cache();
    list(&cache, vec![node("a", 1)]);
    cache.wrote(node("a", 3));
    assert_eq!(revisions(&list(&cache, vec![node("a", 3)])), [(Some(1), Some(3))]);
    assert!(list(&cache, vec![node("a", 3)]).is_empty());
}

#[test]
fn a_recreated_object_has_no_unconfirmed_versions() {
    let cache = cache();
    list(&cache, vec![node("a", 1)]);
    cache.wrote(node("a", 3));
    cache.removed(&node("a", 3));
    let mut successor = node("a", 5);
    successor.metadata.uid = Some("another".into());
    cache.wrote(successor.clone());
    assert_eq!(cache.apply(Event::Apply(node("a", 2))).len(), 0);
    assert_eq!(cache.apply(Event::Delete(node("a", 4))).len(), 0);
    assert_eq!(revisions(&cache.apply(Event::Apply(successor))), []);
}

#[test]
fn an_own_delete_is_not_undone_by_late_events() {
    let cache = cache();
    list(&cache, vec![node("a", 1)]);
    cache.removed(&node("a", 1));
    assert!(cache.apply(Event::Apply(node("a", 2))).is_empty());
    assert_eq!(revision_of(&cache, "a"), None);
    cache.apply(Event::Delete(node("a", 3)));
    let mut successor = node("a", 9);
    successor.metadata.uid = Some("another".into());
    assert_eq!(cache.apply(Event::Apply(successor)).len(), 1);
    assert!(!cache.was_deleted(&Key::new("", "a")));
}

#[test]
fn a_late_response_does_not_restore_a_deleted_object() {
    let cache = cache();
    list(&cache, vec![node("a", 1)]);
    cache.apply(Event::Delete(node("a", 4)));
    cache.wrote(node("a", 3));
    assert_eq!(
        revision_of(&cache, "a"),
        None,
        "the response is older than the deletion"
    );
    assert!(cache.was_deleted(&Key::new("", "a")));
}

#[test]
fn an_object_missing_from_a_lagging_list_can_reappear() {
    let cache = cache();
    list(&cache, vec![node("a", 3)]);
    list(&cache, Vec::new());
    cache.apply(Event::Apply(node("a", 3)));
    assert_eq!(revision_of(&cache, "a"), Some(3));
}

#[test]
fn the_number_of_remembered_uids_is_limited() {
    let mut deleted = DeletedUids::default();
    for number in 0..=DeletedUids::LIMIT {
        deleted.insert(number.to_string());
    }
    assert!(!deleted.contains("0") && deleted.contains("1"));
    assert_eq!(deleted.uids.len(), DeletedUids::LIMIT);
}

#[test]
fn a_late_delete_event_of_a_predecessor_keeps_the_successor() {
    let cache = cache();
    let mut successor = node("a", 9);
    successor.metadata.uid = Some("another".into());
    list(&cache, vec![successor]);
    assert!(cache.apply(Event::Delete(node("a", 3))).is_empty());
    assert_eq!(revision_of(&cache, "a"), Some(9));
}

#[test]
fn indexes_follow_the_objects() {
    let cache = cache();
    list(&cache, vec![node("b", 1), node("a", 3)]);
    let names = |machine: &str| {
        cache
            .find(NodeIndex::Machine, machine)
            .iter()
            .map(|node| node.name_any())
            .collect::<Vec<_>>()
    };
    assert_eq!(names("m1"), ["a", "b"]);
    cache.apply(Event::Apply(node("a", 4)));
    assert_eq!((names("m0"), names("m1")), (vec!["a".to_owned()], vec!["b".to_owned()]));
    cache.apply(Event::Delete(node("b", 5)));
    assert!(names("m1").is_empty());
}

#[test]
fn a_list_does_not_remove_what_this_process_created_after_the_list_was_requested() {
    let cache = cache();
    list(&cache, vec![node("a", 1), node("b", 2)]);
    cache.apply(Event::<Node>::Init);
    cache.wrote(node("c", 7));
    cache.removed(&node("b", 2));
    let mut another = node("b", 8);
    another.metadata.uid = Some("uid-of-another-b".into());
    cache.wrote(another);
    cache.apply(Event::InitApply(node("b", 2)));
    let changes = cache.apply(Event::<Node>::InitDone);
    assert_eq!(changes.len(), 1, "only a is missing: {changes:?}");
    assert!(cache.get(&Key::new("", "a")).is_none());
    assert_eq!(revision_of(&cache, "b"), Some(8));
    assert_eq!(revision_of(&cache, "c"), Some(7));
}

fn partial(node: Node, field: &str) -> Decoded<Node> {
    let problem = Problem {
        field: field.to_owned(),
        message: "not a string".to_owned(),
    };
    Decoded::Partial(node, Problems(vec![problem]))
}

fn metadata(node: &Node) -> Decoded<Node> {
    let (_, problems) = partial(node.clone(), "spec").into_parts();
    Decoded::Metadata(Box::new(node.metadata.clone()), problems)
}

fn damage(cache: &Cache<Node>, name: &str) -> Option<String> {
    cache
        .damage(&Key::new("", name))
        .map(|damage| damage.problems.to_string())
}

#[test]
fn a_partial_object_is_cached_and_damaged_until_a_whole_version_arrives() {
    let cache = cache();
    list(&cache, vec![]);
    assert_eq!(cache.apply(Event::Apply(partial(node("a", 1), "spec.x"))).len(), 1);
    assert_eq!(revision_of(&cache, "a"), Some(1));
    assert_eq!(damage(&cache, "a").as_deref(), Some("spec.x: not a string"));
    assert_eq!(cache.take_newly_damaged(), [Key::new("", "a")]);
    cache.apply(Event::Apply(partial(node("a", 2), "spec.x")));
    assert_eq!(cache.take_newly_damaged(), [], "the same damage is reported once");
    cache.apply(Event::Apply(partial(node("a", 3), "spec.y")));
    assert_eq!(cache.take_newly_damaged(), [Key::new("", "a")]);
    cache.apply(Event::Apply(node("a", 4)));
    assert_eq!((damage(&cache, "a"), cache.damaged_count()), (None, 0));
}

#[test]
fn an_object_without_a_usable_version_keeps_its_last_one() {
    let cache = cache();
    list(&cache, vec![node("a", 1)]);
    assert!(cache.apply(Event::Apply(metadata(&node("a", 2)))).is_empty());
    assert_eq!(revision_of(&cache, "a"), Some(1));
    assert!(damage(&cache, "a").is_some());
    cache.apply(Event::<Node>::Init);
    cache.apply(Event::InitApply(metadata(&node("a", 3))));
    cache.apply(Event::InitApply(metadata(&node("b", 4))));
    let changes = cache.apply(Event::<Node>::InitDone);
    assert!(changes.is_empty(), "both exist: {changes:?}");
    assert_eq!(revision_of(&cache, "a"), Some(1));
    assert!(cache.exists(&Key::new("", "b")) && cache.get(&Key::new("", "b")).is_none());
    assert_eq!(cache.damaged_count(), 2);
}

#[test]
fn the_damage_of_a_deleted_object_is_forgotten() {
    for by_list in [false, true] {
        let cache = cache();
        list(&cache, vec![]);
        cache.apply(Event::Apply(partial(node("a", 1), "spec.x")));
        cache.apply(Event::Apply(metadata(&node("b", 2))));
        if by_list {
            list(&cache, vec![]);
        } else {
            cache.apply(Event::Delete(partial(node("a", 3), "spec.x")));
            cache.apply(Event::Delete(metadata(&node("b", 4))));
        }
        assert_eq!(
            (cache.damaged_count(), cache.all().len()),
            (0, 0),
            "by a list: {by_list}"
        );
    }
}
