//! The files of the audit log.

use super::*;
use crate::journal::audit::{self, Audit};

const SMALL: AuditLimits = AuditLimits {
    file_size: 1000,
    files: 2,
};

fn record(sequence: u64) -> Record {
    let text = format!(
        r#"{{"sequence":{sequence},"time":"2027-01-01T00:00:00Z","kind":"Command","caller":"Control","operation":"Test",
            "machine":"default/a","vm":"","provider_id":"","state":null,"previous":null,"code":null,"message":"",
            "latency":{{"secs":0,"nanos":0}},"fault":null,"client":""}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn files(folder: &Path) -> Vec<(String, u64)> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let mut files: Vec<(String, u64)> = entries
        .map(|entry| {
            (
                entry.file_name().into_string().unwrap(),
                entry.metadata().unwrap().len(),
            )
        })
        .collect();
    files.sort();
    files
}

fn sequences(folder: &Path, last: u64) -> Vec<u64> {
    let records = audit::read(folder, last).unwrap();
    records.iter().map(|record| record.sequence).collect()
}

#[test]
fn the_files_are_bounded_in_size_and_number_and_are_read_together() {
    let folder = tempfile::tempdir().unwrap();
    let mut audit = Audit::open(folder.path(), SMALL).unwrap();
    for sequence in 1..=40 {
        audit.append(&[record(sequence)]).unwrap();
    }
    let found = files(folder.path());
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]);
    assert!(found.iter().all(|(_, size)| *size <= 1000), "{found:?}");
    let read = sequences(folder.path(), 40);
    assert!(read.len() > 6 && read.last() == Some(&40), "{read:?}");
    assert!(read.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{read:?}");
    assert_eq!(sequences(folder.path(), 39).last(), Some(&39));
}

#[tokio::test]
async fn a_missing_ledger_is_noticed_although_the_current_audit_file_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!audit::has_records(folder.path()).unwrap());
    let mut audit = Audit::open(folder.path(), SMALL).unwrap();
    assert!(!audit::has_records(folder.path()).unwrap());
    audit.append(&[record(1)]).unwrap();
    assert!(audit::has_records(folder.path()).unwrap());
    // The process ended just after a rotation.
    let path = |name| folder.path().join(name);
    std::fs::rename(path("audit.jsonl"), path("audit.jsonl.1")).unwrap();
    std::fs::write(path("audit.jsonl"), "").unwrap();
    assert!(audit::has_records(folder.path()).unwrap());
    let error = Journal::open(folder.path(), SMALL).unwrap_err().to_string();
    assert!(error.contains("the file is missing"), "{error}");
}

#[test]
fn with_a_lower_limit_the_older_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let append = |files, range: std::ops::Range<u64>| {
        let limits = AuditLimits { files, ..SMALL };
        let mut audit = Audit::open(folder.path(), limits).unwrap();
        for sequence in range {
            audit.append(&[record(sequence)]).unwrap();
        }
    };
    append(5, 1..40);
    assert_eq!(files(folder.path()).len(), 6);
    append(1, 40..60);
    assert_eq!(files(folder.path()).len(), 2);
    append(0, 60..80);
    assert_eq!(files(folder.path()).len(), 1);
    assert_eq!(sequences(folder.path(), 100).last(), Some(&79));
}

#[test]
fn a_torn_line_does_not_swallow_the_next_record() {
    use std::io::Write;
    let folder = tempfile::tempdir().unwrap();
    let mut audit = Audit::open(folder.path(), SMALL).unwrap();
    audit.append(&[record(1)]).unwrap();
    let path = folder.path().join("audit.jsonl");
    let mut file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(b"{\"sequence\":2,").unwrap();
    let mut audit = Audit::open(folder.path(), SMALL).unwrap();
    audit.append(&[record(2)]).unwrap();
    assert_eq!(sequences(folder.path(), 2), [1, 2]);
}
