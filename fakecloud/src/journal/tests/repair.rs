//! Check and repair of each class of damage.

use std::path::PathBuf;

use durable::lines::{lines, write_line};

use super::damage::{Sample, sample};
use super::*;
use crate::inspect::{Checked, InspectError, Note, check, repair};
use crate::journal::format::{self, CHANGES, LEDGER, NEXT_CHANGES, NEXT_LEDGER};
use crate::journal::reader::Contents;

/// A folder with these files, in a folder of its own for the copies beside it.
struct Folder {
    _outer: tempfile::TempDir,
    path: PathBuf,
}

impl Folder {
    fn new(contents: &Contents) -> Self {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("ledger");
        std::fs::create_dir(&path).unwrap();
        for (name, content) in [(LEDGER, &contents.ledger), (CHANGES, &contents.changes)] {
            if let Some(content) = content {
                std::fs::write(path.join(name), content).unwrap();
            }
        }
        Self { _outer: outer, path }
    }

    fn files(&self) -> [Option<Vec<u8>>; 2] {
        files(&self.path)
    }
}

fn files(folder: &Path) -> [Option<Vec<u8>>; 2] {
    [LEDGER, CHANGES].map(|name| std::fs::read(folder.join(name)).ok())
}

/// Flips a bit in the line with this index; negative ones count from the end.
fn flip(text: &mut Option<Vec<u8>>, index: isize) {
    let text = text.as_mut().unwrap();
    let offsets: Vec<usize> = lines(text).map(|line| line.offset).collect();
    let index = index.rem_euclid(offsets.len() as isize) as usize;
    text[offsets[index] + 25] ^= 4;
}

/// A log of the generation before.
fn older_log(contents: &mut Contents) {
    let state = crate::journal::load::load(contents).unwrap().unwrap();
    contents.changes = Some(format::generation(state.state, 1, state.frame).unwrap().1);
}

#[rstest]
#[case::step(|c: &mut Contents| flip(&mut c.changes, 1), CHANGES, "1 damaged and ", &["a"])]
#[case::last_step(|c: &mut Contents| flip(&mut c.changes, -1), CHANGES, "1 damaged and 0 sound lines", &["a", "b"])]
#[case::vm(|c: &mut Contents| flip(&mut c.ledger, 1), LEDGER, ": 1 VM, of step", &["a", "b"])]
#[case::settings(|c: &mut Contents| flip(&mut c.ledger, -1), LEDGER, "limits and credentials set at run time", &["a", "b"])]
#[case::header_of_ledger(|c: &mut Contents| flip(&mut c.ledger, 0), LEDGER, "nothing", &["a", "b"])]
#[case::header_of_log(|c: &mut Contents| flip(&mut c.changes, 0), CHANGES, "nothing", &["a", "b"])]
#[case::no_log(|c: &mut Contents| c.changes = None, CHANGES, "every step after step ", &["a"])]
#[case::no_ledger(|c: &mut Contents| c.ledger = None, LEDGER, "1 VM, 1 disk, 1 network interface, 1 volume", &["a", "b"])]
#[case::old_log(older_log, CHANGES, "every step after step ", &["a"])]
#[tokio::test]
async fn a_repair_says_what_it_keeps_and_loses(
    #[case] spoil: fn(&mut Contents),
    #[case] file: &str,
    #[case] loss: &str,
    #[case] kept: &[&str],
) {
    let Sample { mut contents, .. } = sample().await;
    spoil(&mut contents);
    let folder = Folder::new(&contents);
    let before = folder.files();
    let Checked::Damaged { damage, plan: Ok(plan) } = check(&folder.path).unwrap() else {
        panic!("the damage is not found");
    };
    assert_eq!((damage.file, folder.files()), (file, before.clone()));

    let copy = folder.path.with_file_name("copy");
    let elsewhere = repair(&folder.path, Some(&copy)).unwrap().unwrap();
    assert_eq!((folder.files(), elsewhere.backup), (before.clone(), None));
    assert!(matches!(
        repair(&folder.path, Some(&copy)),
        Err(InspectError::NotEmpty(_))
    ));

    let repaired = repair(&folder.path, None).unwrap().unwrap();
    assert_eq!((&repaired.plan, &elsewhere.plan), (&plan, &plan));
    assert_eq!(files(&repaired.backup.unwrap()), before);
    assert_eq!(files(&copy), folder.files());
    let lost: Vec<String> = plan.lost.iter().map(ToString::to_string).collect();
    let lost = if lost.is_empty() {
        "nothing".to_owned()
    } else {
        lost.join("\n")
    };
    assert!(lost.contains(loss), "{lost}");

    let Checked::Sound { summary, notes } = check(&folder.path).unwrap() else {
        panic!("the repaired files are damaged");
    };
    assert_eq!((&summary, notes), (&plan.kept, Vec::new()));
    assert!(repair(&folder.path, None).unwrap().is_none());
    // The repaired ledger is used on.
    let names = life(&folder.path, async |cloud| {
        let names: Vec<String> = cloud.step(|cloud, _| cloud.vms().map(|vm| vm.owner.name.clone()).collect());
        cloud.driver().create_machine(request("new")).await.unwrap();
        names
    })
    .await;
    assert_eq!(names, kept);
}

#[tokio::test]
async fn a_foreign_log_is_not_applied() {
    let (own, other) = (sample().await.contents, sample().await.contents);
    let folder = Folder::new(&Contents {
        changes: other.changes,
        ..own
    });
    let repaired = repair(&folder.path, None).unwrap().unwrap();
    assert!(
        repaired.damage.to_string().contains("belongs to the ledger"),
        "{}",
        repaired.damage
    );
    assert_eq!(repaired.plan.kept.rows.vms, 1);
}

#[tokio::test]
async fn lost_vms_are_named_from_the_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger");
    life(&path, async |cloud| {
        for name in ["a", "b"] {
            cloud.driver().create_machine(request(name)).await.unwrap();
            cloud.settled().await.unwrap();
        }
        cloud.driver().delete_machine(request("a")).await.unwrap();
    })
    .await;
    std::fs::remove_file(path.join(CHANGES)).unwrap();
    let plan = repair(&path, None).unwrap().unwrap().plan;
    let vms: Vec<String> = plan.vms.iter().map(ToString::to_string).collect();
    let text = vms.join("\n");
    assert_eq!(vms.len(), 2, "{text}");
    assert!(text.contains("of default/b, pending at "), "{text}");
    assert!(
        text.contains(", does not exist any more") && text.contains(", is pending again"),
        "{text}"
    );
}

#[tokio::test]
async fn the_previous_versions_files_are_sound_until_they_are_damaged() {
    let sample = sample().await;
    let mut contents = sample.earlier();
    let folder = Folder::new(&contents);
    let before = folder.files();
    assert!(matches!(
        check(&folder.path).unwrap(),
        Checked::Sound { notes, .. } if notes == [Note::Earlier]
    ));
    assert!(repair(&folder.path, None).unwrap().is_none());
    assert_eq!(folder.files(), before);
    flip(&mut contents.changes, -1);
    let folder = Folder::new(&contents);
    let repaired = repair(&folder.path, None).unwrap().unwrap();
    assert_eq!(repaired.plan.kept.rows.vms, 2);
    assert!(matches!(check(&folder.path).unwrap(), Checked::Sound { .. }));
}

#[tokio::test]
async fn a_check_changes_nothing_and_mentions_an_incomplete_line() {
    let mut contents = sample().await.contents;
    contents.changes.as_mut().unwrap().extend(b"0123");
    let folder = Folder::new(&contents);
    let before = folder.files();
    let Checked::Sound { summary, notes } = check(&folder.path).unwrap() else {
        panic!("an incomplete line is no damage");
    };
    assert_eq!((summary.rows.vms, summary.rows.volumes), (2, 1));
    assert_eq!(notes, [Note::Torn(4)]);
    assert_eq!(folder.files(), before);
    assert_eq!(std::fs::read_dir(&folder.path).unwrap().count(), 2);
}

#[tokio::test]
async fn a_folder_in_use_or_without_a_ledger_is_not_checked() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    assert!(matches!(check(&missing), Err(InspectError::NoFolder(_))));
    assert!(matches!(repair(&missing, None), Err(InspectError::NoFolder(_))));
    assert!(matches!(check(folder.path()), Err(InspectError::NoLedger(_))));
    life(folder.path(), async |cloud| {
        cloud.driver().create_machine(request("a")).await.unwrap();
        for error in [
            check(folder.path()).unwrap_err(),
            repair(folder.path(), None).unwrap_err(),
        ] {
            assert!(error.to_string().contains("in use by another fakecloud"), "{error}");
        }
    })
    .await;
    std::fs::write(folder.path().join(LEDGER), "garbage").unwrap();
    std::fs::write(folder.path().join(CHANGES), "garbage").unwrap();
    assert!(matches!(
        check(folder.path()).unwrap(),
        Checked::Damaged {
            plan: Err(Unrecoverable::NoHeader),
            ..
        }
    ));
    assert!(matches!(repair(folder.path(), None), Err(InspectError::Nothing { .. })));
}

/// Changes the rows of `ledger.json`, with valid checksums.
fn rewrite(contents: &mut Contents, change: impl Fn(&mut serde_json::Value)) {
    let ledger = contents.ledger.take().unwrap();
    let mut rows = Vec::new();
    for line in lines(&ledger) {
        let mut row: serde_json::Value = line.decode().unwrap();
        change(&mut row);
        write_line(&mut rows, &row).unwrap();
    }
    contents.ledger = Some(rows);
}

/// Sets the value at a path.
fn set(row: &mut serde_json::Value, path: &str, to: &str) {
    if let Some(value) = row.pointer_mut(path) {
        *value = serde_json::from_str(to).unwrap();
    }
}

#[rstest]
#[case::number("/Vm/0", "999", "the row of VM number 999 contains VM ", "which has the number 1")]
#[case::last_number(
    "/Small/last_ordinal",
    "0",
    "has the number 1",
    "the last number that was assigned is 0"
)]
#[case::excess(
    "/Small/last_ordinal",
    "18446744073709551615",
    "the number of the last VM is 18446744073709551615",
    "is the maximum"
)]
#[case::zone(
    "/Vm/1/zone",
    "\"elsewhere\"",
    "of the zone elsewhere has the provider id ",
    "not fakecloud:///elsewhere/"
)]
#[case::disk("/Disk/0", "\"disk-0\"", "the row of disk disk-0 contains disk ", "")]
#[case::volume("/Volume/1/id", "\"w\"", "the row of volume v contains volume w", "")]
#[tokio::test]
async fn sound_files_whose_rows_contradict_each_other_are_neither_repaired_nor_used(
    #[case] path: &str,
    #[case] to: &str,
    #[case] expected: &str,
    #[case] other: &str,
) {
    let mut contents = sample().await.contents;
    rewrite(&mut contents, |row| set(row, path, to));
    // Without later steps, which contain rows and settings, too. The incomplete line is not removed either.
    let header = lines(contents.changes.as_ref().unwrap()).nth(1).unwrap().offset;
    contents.changes.as_mut().unwrap().truncate(header + 3);
    let folder = Folder::new(&contents);
    let before = folder.files();
    let Checked::Contradictory { error, .. } = check(&folder.path).unwrap() else {
        panic!("the contradiction is not found");
    };
    let texts = [
        error.to_string(),
        repair(&folder.path, None).unwrap_err().to_string(),
        repair(&folder.path, Some(&folder.path.with_file_name("copy")))
            .unwrap_err()
            .to_string(),
        Journal::open(&folder.path, AUDIT).unwrap_err().to_string(),
    ];
    for text in texts {
        assert!(text.contains(expected) && text.contains(other), "{text}");
        assert!(!text.contains("damaged"), "{text}");
    }
    assert!(folder.files() == before);
    assert_eq!(std::fs::read_dir(folder.path.parent().unwrap()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_repair_refuses_to_write_rows_that_contradict_each_other() {
    let mut contents = sample().await.contents;
    rewrite(&mut contents, |row| set(row, "/Vm/0", "999"));
    flip(&mut contents.changes, -1);
    let folder = Folder::new(&contents);
    let before = folder.files();
    assert!(matches!(
        check(&folder.path),
        Ok(Checked::Damaged {
            plan: Err(Unrecoverable::Contradictory(_)),
            ..
        })
    ));
    let error = repair(&folder.path, None).unwrap_err();
    assert!(matches!(error, InspectError::Nothing { .. }));
    assert!(
        error.to_string().contains("the row of VM number 999 contains"),
        "{error}"
    );
    assert!(folder.files() == before);
}

#[rstest]
#[case::with_the_same_header(|header: &mut serde_json::Value| header["version"] = 3.into())]
#[case::with_another_header(|header: &mut serde_json::Value| *header = serde_json::json!({"version": 3, "program": "9.1.0", "shards": 2}))]
#[tokio::test]
async fn the_files_of_a_later_version_are_not_called_damaged_and_stay(
    #[case] change: fn(&mut serde_json::Value),
    #[values(true, false)] damaged: bool,
) {
    let mut contents = sample().await.contents;
    rewrite(&mut contents, |row| {
        set(row, "/program", "\"9.1.0\"");
        if row.get("version").is_some() {
            change(row);
        }
    });
    if damaged {
        flip(&mut contents.changes, 1);
        flip(&mut contents.ledger, 1);
    }
    let folder = Folder::new(&contents);
    let before = folder.files();
    for error in [
        check(&folder.path).unwrap_err(),
        repair(&folder.path, None).unwrap_err(),
        Journal::open(&folder.path, AUDIT).unwrap_err().into(),
    ] {
        let text = error.to_string();
        assert!(
            text.contains("ledger.json was written by fakecloud 9.1.0, in version 3 of the format"),
            "{text}"
        );
        assert!(text.contains("use fakecloud 9.1.0 for this folder"), "{text}");
        assert!(!text.contains("damaged") && !text.contains("repair"), "{text}");
    }
    assert!(folder.files() == before);
}

#[tokio::test]
async fn a_repair_keeps_a_copy_of_every_file_that_it_replaces_or_removes() {
    let mut contents = sample().await.contents;
    flip(&mut contents.changes, -1);
    let folder = Folder::new(&contents);
    for name in [NEXT_CHANGES, NEXT_LEDGER] {
        std::fs::write(folder.path.join(name), format!("left over: {name}")).unwrap();
    }
    let names = [LEDGER, CHANGES, NEXT_CHANGES, NEXT_LEDGER];
    let all = |folder: &Path| names.map(|name| std::fs::read(folder.join(name)).ok());
    let before = all(&folder.path);
    let backup = repair(&folder.path, None).unwrap().unwrap().backup.unwrap();
    assert!(all(&backup) == before);
    let [_, _, next_changes, next_ledger] = all(&folder.path);
    assert_eq!((next_changes, next_ledger), (None, None));
}
