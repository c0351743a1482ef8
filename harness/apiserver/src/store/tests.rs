use serde_json::json;

use super::*;

const PODS: &str = "pods";

fn store(history: usize) -> Store {
    let store = Store::new(1000, history, None);
    store.open(PODS);
    store
}

fn draft(namespace: &str, name: &str, value: &str) -> Draft {
    let object = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": { "namespace": namespace, "name": name, "uid": "u", "labels": { "value": value } },
    });
    Draft::new(&object, Vec::new()).unwrap()
}

fn create(store: &Store, name: &str) -> Arc<Object> {
    store.put(PODS, None, draft("default", name, "0"), None).unwrap()
}

fn update(store: &Store, name: &str, value: &str) -> Arc<Object> {
    let current = store.get(PODS, &Key::new("default", name)).unwrap();
    store
        .put(PODS, Some(current.revision), draft("default", name, value), None)
        .unwrap()
}

fn remove(store: &Store, name: &str) {
    let current = store.get(PODS, &Key::new("default", name)).unwrap();
    store
        .remove(PODS, current.revision, draft("default", name, "last"))
        .unwrap();
}

fn names(listing: &Listing) -> Vec<String> {
    let entries = listing.objects.iter();
    entries
        .map(|object| format!("{}={}", object.key.name, object.meta.labels["value"]))
        .collect()
}

#[test]
fn every_write_gets_the_next_revision_and_contains_it() {
    let store = store(10);
    let first = create(&store, "a");
    let second = create(&store, "b");
    assert_eq!((first.revision, second.revision), (1001, 1002));
    assert_eq!(second.value().unwrap()["metadata"]["resourceVersion"], "1002");
    assert_eq!(store.revision(), 1002);
}

#[test]
fn a_write_with_an_old_revision_changes_nothing() {
    let store = store(10);
    let first = create(&store, "a");
    update(&store, "a", "1");
    let raced = store.put(PODS, Some(first.revision), draft("default", "a", "2"), None);
    assert_eq!(raced.unwrap_err(), Refused::Raced);
    assert_eq!(
        store.put(PODS, None, draft("default", "a", "2"), None).unwrap_err(),
        Refused::Raced
    );
    assert_eq!(store.revision(), 1002);
}

#[test]
fn a_write_can_depend_on_another_object() {
    let store = store(10);
    store.open("namespaces");
    let namespace = store.put("namespaces", None, draft("", "default", "0"), None).unwrap();
    let mut relied = Unchanged {
        table: "namespaces".to_owned(),
        key: namespace.key.clone(),
        revision: namespace.revision,
    };
    store
        .put(PODS, None, draft("default", "a", "0"), Some(&relied))
        .unwrap();
    relied.revision -= 1;
    assert_eq!(
        store
            .put(PODS, None, draft("default", "b", "0"), Some(&relied))
            .unwrap_err(),
        Refused::Raced
    );
}

#[test]
fn a_list_at_an_older_revision_returns_the_objects_of_that_revision() {
    let store = store(10);
    create(&store, "a");
    create(&store, "b");
    let then = store.revision();
    update(&store, "a", "1");
    remove(&store, "b");
    create(&store, "c");
    let scope = Scope::default();
    assert_eq!(names(&store.list(PODS, &scope, Some(then)).unwrap()), ["a=0", "b=0"]);
    assert_eq!(names(&store.list(PODS, &scope, None).unwrap()), ["a=1", "c=0"]);
    let behind = Scope {
        namespace: Some("default".to_owned()),
        after: Some(Key::new("default", "a")),
    };
    assert_eq!(names(&store.list(PODS, &behind, Some(then)).unwrap()), ["b=0"]);
}

#[test]
fn a_list_covers_its_namespace_only() {
    let store = store(10);
    for namespace in ["a", "b", "b-2"] {
        store.put(PODS, None, draft(namespace, "x", "0"), None).unwrap();
    }
    let scope = Scope {
        namespace: Some("b".to_owned()),
        after: None,
    };
    assert_eq!(store.list(PODS, &scope, None).unwrap().objects.len(), 1);
    assert!(!store.is_empty(PODS, Some("b")));
    assert!(store.is_empty(PODS, Some("c")));
}

#[test]
fn history_is_bounded_and_older_changes_are_compacted() {
    let store = store(2);
    let first = create(&store, "a");
    for value in ["1", "2", "3"] {
        update(&store, "a", value);
    }
    assert_eq!(
        store.list(PODS, &Scope::default(), Some(first.revision)).unwrap_err(),
        Lost::Compacted
    );
    assert_eq!(store.cursor(PODS, Some(first.revision)).unwrap_err(), Lost::Compacted);
    let mut cursor = store.cursor(PODS, Some(first.revision + 1)).unwrap();
    let changes = store.read(&mut cursor, 10).unwrap();
    assert_eq!(
        changes.iter().map(|change| change.revision).collect::<Vec<_>>(),
        [1003, 1004]
    );
}

#[test]
fn a_cursor_reads_each_change_once_and_in_order() {
    let store = store(10);
    let (_, mut cursor) = store.snapshot(PODS, &Scope::default()).unwrap();
    create(&store, "a");
    update(&store, "a", "1");
    remove(&store, "a");
    let kinds = |changes: Vec<Change>| changes.iter().map(|change| change.kind).collect::<Vec<_>>();
    assert_eq!(
        kinds(store.read(&mut cursor, 2).unwrap()),
        [ChangeKind::Added, ChangeKind::Modified]
    );
    assert_eq!(kinds(store.read(&mut cursor, 2).unwrap()), [ChangeKind::Deleted]);
    assert_eq!(kinds(store.read(&mut cursor, 2).unwrap()), []);
}

#[test]
fn compaction_loses_cursors_that_are_behind_and_keeps_those_that_are_not() {
    let store = store(10);
    let mut behind = store.cursor(PODS, None).unwrap();
    create(&store, "a");
    let mut abreast = store.cursor(PODS, None).unwrap();
    store.compact();
    create(&store, "b");
    assert_eq!(store.read(&mut behind, 10).unwrap_err(), Lost::Compacted);
    assert_eq!(store.read(&mut abreast, 10).unwrap().len(), 1);
}

#[test]
fn watches_of_a_retired_table_read_the_remaining_changes_and_end() {
    let store = store(10);
    let mut cursor = store.cursor(PODS, None).unwrap();
    create(&store, "a");
    store.retire(PODS).unwrap();
    assert_eq!(store.read(&mut cursor, 10).unwrap().len(), 1);
    assert_eq!(store.read(&mut cursor, 10).unwrap_err(), Lost::Gone);
    assert_eq!(
        store.put(PODS, None, draft("default", "b", "0"), None).unwrap_err(),
        Refused::Gone
    );
    store.open(PODS);
    create(&store, "b");
    assert_eq!(store.read(&mut cursor, 10).unwrap_err(), Lost::Gone);
}

#[tokio::test]
async fn a_waiting_cursor_wakes_at_the_next_change() {
    let store = store(10);
    let mut cursor = store.cursor(PODS, None).unwrap();
    assert!(store.read(&mut cursor, 1).unwrap().is_empty());
    let (_, _) = tokio::join!(cursor.changed(), async { create(&store, "a") });
}

#[test]
fn version_and_revision_can_be_replaced_in_the_text() {
    let store = store(10);
    let object = create(&store, "a");
    let other: serde_json::Value = serde_json::from_slice(&object.encoded("example.com/v2", 7)).unwrap();
    assert_eq!(other["apiVersion"], "example.com/v2");
    assert_eq!(other["metadata"]["resourceVersion"], "7");
    assert_eq!(object.encoded("v1", object.revision), *object.bytes());
}

#[test]
fn the_revision_of_an_embedded_object_does_not_change() {
    let value = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": { "annotations": { "last": "{\"metadata\":{\"resourceVersion\":\"\"}}" }, "name": "a" },
        "spec": { "metadata": { "resourceVersion": "5" } },
    });
    let object = Draft::new(&value, Vec::new()).unwrap().finish(9).value().unwrap();
    assert_eq!(object["spec"], value["spec"]);
    assert_eq!(object["metadata"]["annotations"], value["metadata"]["annotations"]);
    assert_eq!(object["metadata"]["resourceVersion"], "9");
}

#[test]
fn history_is_bounded_by_size_too() {
    let store = store(1000);
    let text = "x".repeat(3 * 1024 * 1024);
    let first = create(&store, "a");
    for step in 0..30 {
        update(&store, "a", &format!("{step}{text}"));
    }
    assert_eq!(store.cursor(PODS, Some(first.revision)).unwrap_err(), Lost::Compacted);
    // Each change has the new and the previous state.
    let kept = store.revision() - store.oldest(PODS).unwrap();
    assert!((8..12).contains(&kept), "{kept}");
}

/// Panics in each call.
#[derive(Debug)]
struct Panics;

impl CommitListener for Panics {
    fn committed(&self, _: &Commit<'_>) {
        panic!("planted");
    }
}

#[test]
fn a_commit_is_complete_even_if_a_listener_panics() {
    let store = Store::new(1000, 10, Some(Arc::new(Panics)));
    store.open(PODS);
    let write = std::panic::AssertUnwindSafe(|| create(&store, "a"));
    assert!(std::panic::catch_unwind(write).is_err());
    assert_eq!(store.revision(), 1001);
    let mut cursor = store.cursor(PODS, Some(1000)).unwrap();
    let changes = store.read(&mut cursor, 10).unwrap();
    assert_eq!(changes.iter().map(|change| change.revision).collect::<Vec<_>>(), [1001]);
}
