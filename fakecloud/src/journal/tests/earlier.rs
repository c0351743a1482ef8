//! The files of the previous version, which have no checksums: they are rewritten only if all of their content is understood.

use super::damage::{flips, sample};
use super::*;
use crate::journal::format::{CHANGES, LEDGER, NEXT_CHANGES};
use crate::journal::load::load;
use crate::journal::reader::{Contents, LogFile};
use crate::journal::salvage::salvage;

#[tokio::test]
async fn the_files_of_the_previous_version_are_read_and_rewritten() {
    let sample = sample().await;
    let (contents, folder) = (sample.earlier(), tempfile::tempdir().unwrap());
    let loaded = load(&contents).unwrap().unwrap();
    assert_eq!(loaded.state, *sample.states.last().unwrap());
    let mut torn = contents;
    torn.changes.as_mut().unwrap().extend(b"0123456789abcdef {\"num");
    assert_eq!(load(&torn).unwrap().unwrap().state, loaded.state);
    std::fs::write(folder.path().join(LEDGER), torn.ledger.unwrap()).unwrap();
    std::fs::write(folder.path().join(CHANGES), torn.changes.unwrap()).unwrap();
    for _ in 0..2 {
        let found = Journal::open(folder.path(), AUDIT).unwrap();
        assert_eq!(found.state.unwrap(), loaded.state);
        let now = load(&Contents::read(folder.path()).unwrap()).unwrap().unwrap();
        assert_eq!((now.generation, now.frame), (1, loaded.frame));
        assert!(matches!(now.log, LogFile::Current(extent) if extent.torn == 0));
    }
}

#[tokio::test]
async fn damage_of_the_previous_versions_files_is_an_error_too() {
    let sample = sample().await;
    let contents = sample.earlier();
    let text = contents.changes.clone().unwrap();
    for (at, flipped) in flips(&text) {
        let damaged = Contents {
            changes: Some(flipped),
            ..contents.clone()
        };
        let damage = load(&damaged).unwrap_err();
        assert!(damage.file == CHANGES && damage.offset <= at, "byte {at}: {damage}");
    }
    let missing = Contents {
        changes: None,
        ..contents.clone()
    };
    assert_eq!(
        load(&missing).unwrap_err().to_string(),
        "changes.log is damaged at byte 0 (line 1): the file is missing"
    );
    let mut cut = contents;
    let ledger = cut.ledger.as_mut().unwrap();
    ledger.truncate(ledger.len() - 9);
    let damage = load(&cut).unwrap_err();
    assert!(damage.file == LEDGER && damage.offset > 2, "{damage}");
    assert_eq!(salvage(&cut).unwrap_err(), Unrecoverable::Unreadable);
}

/// Without checksums these changes of a letter are valid JSON.
#[rstest]
#[case::unknown_field("\"removed\":", "\"removee\":", "the field vms.1.removee is not known")]
#[case::number_of_a_vm("\"vms\":{\"1\":", "\"vms\":{\"2\":", "the row of VM number 2 contains VM ")]
#[case::id_of_a_disk("\"disks\":{\"", "\"disks\":{\"x", "the row of disk x")]
#[case::repeated_key("\"holds\":[]", "\"holds\":[],\"holds\":[]", "the key \"holds\" exists twice")]
#[tokio::test]
async fn the_previous_versions_state_is_checked_completely_before_it_is_rewritten(
    #[case] from: &str,
    #[case] to: &str,
    #[case] expected: &str,
) {
    let folder = tempfile::tempdir().unwrap();
    let contents = sample().await.earlier();
    let ledger = String::from_utf8(contents.ledger.unwrap()).unwrap();
    assert!(ledger.contains(from), "{ledger}");
    let files = [
        (LEDGER, ledger.replacen(from, to, 1).into_bytes()),
        (CHANGES, contents.changes.unwrap()),
    ];
    for (name, content) in &files {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let error = Journal::open(folder.path(), AUDIT).unwrap_err().to_string();
    assert!(error.contains(expected) && !error.contains('\n'), "{error}");
    for (name, content) in &files {
        assert!(std::fs::read(folder.path().join(name)).unwrap() == *content, "{name}");
    }
    assert!(!folder.path().join(NEXT_CHANGES).exists());
}
