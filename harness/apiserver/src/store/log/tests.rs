//! A store that is read from its log equals the one that wrote it, whenever that ended.

use std::sync::Arc;

use clock::{Seed, Stream};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::{Draft, Key, Object, Refused, Scope, Store};
use super::*;

const TABLES: [&str; 2] = ["pods", "widgets.example.com"];
const HISTORY: usize = 1000;

fn new_store(first: u64) -> Store {
    let store = Store::new(first, HISTORY, None);
    TABLES.iter().for_each(|table| store.open(table));
    store
}

fn draft(name: &str, value: u64) -> Draft {
    let object = json!({
        "kind": "Pod", "apiVersion": "v1", "metadata": { "namespace": "default", "name": name }, "value": value,
    });
    Draft::new(&object, Vec::new()).unwrap()
}

/// A store that writes into a new folder.
fn written() -> (TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = new_store(1000);
    store.put(TABLES[0], None, draft("first", 0), None).unwrap();
    store.write_to(folder.path(), None).unwrap();
    (folder, store)
}

/// Creates, changes or removes a random object.
fn write(store: &Store, random: &mut Stream) {
    let table = TABLES[usize::from(random.chance(0.5))];
    let name = format!("o{}", random.below(5));
    let current = store.get(table, &Key::new("default", &name));
    let draft = draft(&name, random.below(1000));
    match current.map(|object| object.revision) {
        Some(revision) if random.chance(0.3) => drop(store.remove(table, revision, draft).unwrap()),
        expected => drop(store.put(table, expected, draft, None).unwrap()),
    }
}

fn read(folder: &Path) -> Result<Store, LoadError> {
    let loaded = load(folder)?.unwrap();
    let store = new_store(loaded.base);
    let draft = |entry: &Entry| Draft::new(&serde_json::from_str::<Value>(&entry.text).unwrap(), Vec::new()).unwrap();
    for entry in &loaded.objects {
        store.restore_object(&entry.table, draft(entry), entry.revision);
    }
    for change in &loaded.changes {
        match change {
            Record::Put(entry) => store.restore_change(&entry.table, draft(entry), entry.revision, false),
            Record::Delete(entry) => store.restore_change(&entry.table, draft(entry), entry.revision, true),
            Record::Retire(table) => store.restore_retirement(table, loaded.revision()),
        }
    }
    store.restore_revision(loaded.revision());
    Ok(store)
}

fn texts(objects: &[Arc<Object>]) -> Vec<(u64, String)> {
    let text = |object: &Arc<Object>| (object.revision, String::from_utf8(object.bytes().to_vec()).unwrap());
    objects.iter().map(text).collect()
}

/// The objects of all tables at a revision, in their encoded form.
fn objects(store: &Store, at: Option<u64>) -> Vec<Vec<(u64, String)>> {
    let of = |table: &&str| texts(&store.list(table, &Scope::default(), at).unwrap().objects);
    TABLES.iter().map(of).collect()
}

fn assert_equal(read: &Store, written: &Store) {
    assert_eq!(read.revision(), written.revision());
    assert_eq!(objects(read, None), objects(written, None));
}

#[test]
fn a_restored_store_has_the_objects_and_the_history_of_the_written_one() {
    for seed in 0..50 {
        let mut random = Seed::new(seed).stream("log");
        let (folder, store) = written();
        let began = store.revision();
        for _ in 0..random.below(40) {
            write(&store, &mut random);
        }
        let restored = read(folder.path()).unwrap();
        assert_equal(&restored, &store);
        for revision in began..=store.revision() {
            assert_eq!(objects(&restored, Some(revision)), objects(&store, Some(revision)));
        }
        for table in TABLES {
            let changes = |store: &Store| {
                let mut cursor = store.cursor(table, Some(began)).unwrap();
                let changes = store.read(&mut cursor, 100).unwrap();
                let of = |change: Change| (change.kind.event(), texts(&[change.object]), change.previous.is_some());
                changes.into_iter().map(of).collect::<Vec<_>>()
            };
            assert_eq!(changes(&restored), changes(&store), "the changes of {table}");
        }
    }
}

#[test]
fn a_store_continues_its_log_after_each_restart_and_through_generations() {
    let mut random = Seed::new(1).stream("log");
    let (folder, mut store) = written();
    for round in 0..20 {
        if let Some(log) = &mut store.lock().log {
            // Every few changes a generation begins.
            log.limit = 500;
        }
        for _ in 0..random.below(20) {
            write(&store, &mut random);
        }
        let before = objects(&store, None);
        let revision = store.revision();
        drop(store);
        let loaded = load(folder.path()).unwrap().unwrap();
        store = read(folder.path()).unwrap();
        store.write_to(folder.path(), Some(&loaded)).unwrap();
        assert_eq!(
            (objects(&store, None), store.revision()),
            (before, revision),
            "round {round}"
        );
    }
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert!(files <= 4, "{files} files are left");
    assert!(load(folder.path()).unwrap().unwrap().last.generation > 5);
}

/// The process can end at any moment of a write: what was acknowledged before is there, and nothing else.
#[test]
fn a_log_that_was_cut_anywhere_contains_all_complete_changes() {
    let mut random = Seed::new(2).stream("log");
    let (folder, store) = written();
    let path = folder.path().join("changes-1");
    let mut lengths = vec![(std::fs::metadata(&path).unwrap().len(), objects(&store, None))];
    for _ in 0..6 {
        write(&store, &mut random);
        lengths.push((std::fs::metadata(&path).unwrap().len(), objects(&store, None)));
    }
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    for length in lengths[0].0..=whole.len() as u64 {
        std::fs::write(&path, &whole[..usize::try_from(length).unwrap()]).unwrap();
        let (_, expected) = lengths.iter().rev().find(|(end, _)| *end <= length).unwrap();
        assert_eq!(
            objects(&read(folder.path()).unwrap(), None),
            *expected,
            "cut at {length}"
        );
    }
    // After an incomplete line, the log continues with a complete one.
    std::fs::write(&path, &whole[..whole.len() - 3]).unwrap();
    let loaded = load(folder.path()).unwrap().unwrap();
    let store = read(folder.path()).unwrap();
    store.write_to(folder.path(), Some(&loaded)).unwrap();
    write(&store, &mut random);
    assert_equal(&read(folder.path()).unwrap(), &store);
}

#[test]
fn damage_is_reported_with_its_place_and_changes_no_file() {
    let mut random = Seed::new(3).stream("log");
    let (folder, store) = written();
    for _ in 0..3 {
        write(&store, &mut random);
    }
    drop(store);
    for name in ["objects-1", "changes-1"] {
        let path = folder.path().join(name);
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x20;
            std::fs::write(&path, &damaged).unwrap();
            let error = read(folder.path()).map(|store| store.revision()).unwrap_err();
            let LoadError::Damaged(damage) = &error else {
                panic!("byte {at} of {name}: {error}");
            };
            assert!(
                damage.file == path && damage.offset <= at,
                "byte {at} of {name}: {error}"
            );
            assert_eq!(std::fs::read(&path).unwrap(), damaged);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(
            matches!(read(folder.path()), Err(LoadError::Damaged(_))),
            "{name} is missing"
        );
        std::fs::write(&path, &whole).unwrap();
    }
    assert!(read(folder.path()).is_ok());
}

#[test]
fn a_file_of_a_later_version_is_refused() {
    let (folder, _) = written();
    let mut header = Vec::new();
    let later = json!({ "version": 2, "file": "objects", "compressed": true });
    durable::lines::write_line(&mut header, &later).unwrap();
    std::fs::write(folder.path().join("objects-1"), header).unwrap();
    let error = read(folder.path()).map(|store| store.revision()).unwrap_err();
    assert!(matches!(error, LoadError::Later { version: 2, .. }), "{error}");
}

#[test]
fn a_change_that_cannot_be_written_does_not_happen() {
    let (folder, store) = written();
    let path = folder.path().join("changes-1");
    if let Some(log) = &mut store.lock().log {
        log.changes = File::open(&path).unwrap();
    }
    let revision = store.revision();
    let refused = store.put(TABLES[0], None, draft("a", 1), None).unwrap_err();
    assert!(matches!(refused, Refused::Unwritten(_)), "{refused}");
    assert_eq!(store.revision(), revision);
    assert!(store.get(TABLES[0], &Key::new("default", "a")).is_none());
    assert!(store.retire(TABLES[1]).is_err());
    assert!(store.list(TABLES[1], &Scope::default(), None).is_ok());
    assert_equal(&read(folder.path()).unwrap(), &store);
}

#[test]
fn a_retired_table_stays_empty() {
    let (folder, store) = written();
    store.put(TABLES[1], None, draft("a", 1), None).unwrap();
    store.retire(TABLES[1]).unwrap();
    store.open(TABLES[1]);
    store.put(TABLES[1], None, draft("b", 1), None).unwrap();
    assert_equal(&read(folder.path()).unwrap(), &store);
}

/// The older files stay until the objects of a generation are complete.
#[test]
fn a_generation_whose_objects_cannot_be_written_continues_the_one_before() {
    let mut random = Seed::new(4).stream("log");
    let (folder, store) = written();
    let obstacle = folder.path().join("objects-2.new");
    std::fs::create_dir(&obstacle).unwrap();
    if let Some(log) = &mut store.lock().log {
        log.limit = 0;
    }
    for _ in 0..10 {
        write(&store, &mut random);
    }
    assert_equal(&read(folder.path()).unwrap(), &store);
    std::fs::remove_dir(&obstacle).unwrap();
    if let Some(log) = &mut store.lock().log {
        log.finish_objects();
        log.limit = 0;
    }
    write(&store, &mut random);
    let (expected, revision) = (objects(&store, None), store.revision());
    drop(store);
    let restored = read(folder.path()).unwrap();
    assert_eq!((objects(&restored, None), restored.revision()), (expected, revision));
    assert_eq!(load::generations(folder.path()).unwrap(), [3]);
}

/// The first start ended before it had written all objects: nothing was acknowledged.
#[test]
fn a_first_start_that_was_interrupted_leaves_a_new_folder() {
    let (folder, store) = written();
    drop(store);
    std::fs::rename(folder.path().join("objects-1"), folder.path().join("objects-1.new")).unwrap();
    assert!(load(folder.path()).unwrap().is_none());
    let store = new_store(1000);
    store.write_to(folder.path(), None).unwrap();
    store.put(TABLES[0], None, draft("a", 1), None).unwrap();
    assert_equal(&read(folder.path()).unwrap(), &store);
}

#[test]
fn a_generation_that_cannot_begin_leaves_the_current_one() {
    let mut random = Seed::new(5).stream("log");
    let (folder, store) = written();
    let obstacle = folder.path().join("changes-2");
    std::fs::create_dir(&obstacle).unwrap();
    if let Some(log) = &mut store.lock().log {
        log.limit = 0;
    }
    for _ in 0..3 {
        write(&store, &mut random);
    }
    let generation = store.lock().log.as_ref().map(|log| log.generation);
    assert_eq!(generation, Some(1));
    std::fs::remove_dir(&obstacle).unwrap();
    assert_equal(&read(folder.path()).unwrap(), &store);
}
