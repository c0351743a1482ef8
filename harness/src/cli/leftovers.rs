//! Removes what killed runs have left, before a command creates a world and by `drydock doctor --clean`.

use std::path::{Path, PathBuf};

use clock::Clock;
use judge::evaluate::{between, short};
use stage::leftovers::{Kind, Leftover, find};

use super::Outcome;
use super::finding::Finding;
use super::running_world;

/// Removes leftovers and prints one line if there were any. Deleting a kind cluster takes seconds, so that only commands
/// that create one do it.
pub(super) fn remove_before_start(on_kind: bool) {
    let (mut removed, mut bytes, mut failures) = (0_usize, 0_u64, Vec::new());
    for leftover in find_all()
        .iter()
        .filter(|leftover| on_kind || leftover.cluster().is_none())
    {
        match leftover.remove() {
            Ok(()) => {
                removed += 1;
                bytes = bytes.saturating_add(leftover.bytes);
            }
            Err(error) => failures.push(error.to_string()),
        }
    }
    if let Some(file) = left_file()
        && std::fs::remove_file(&file).is_ok()
    {
        removed += 1;
    }
    if removed > 0 {
        crate::cli::output::complain!("drydock: removed {} of killed runs ({})", counted(removed), size(bytes));
    }
    if let Some(failure) = failures.first() {
        crate::cli::output::complain!("drydock: {failure}; `drydock doctor --clean` tries again");
    }
}

/// The removal of a leftover.
enum Removal {
    NotRequested,
    Done,
    Failed(String),
}

impl Removal {
    fn of<E: std::fmt::Display>(requested: bool, remove: impl FnOnce() -> Result<(), E>) -> Self {
        if !requested {
            return Self::NotRequested;
        }
        match remove() {
            Ok(()) => Self::Done,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

/// Finds all leftovers, or removes them. Fails if one cannot be removed.
pub(super) fn report(clean: bool, findings: &mut Vec<Finding>) -> Outcome {
    let mut outcome = Outcome::Passed;
    // First, because found leftovers are locked, as by an owner.
    let file = left_file();
    let found = find_all();
    let total = found.len() + usize::from(file.is_some());
    let mut add = |what: String, removal: Removal| {
        findings.push(match removal {
            Removal::NotRequested => Finding::problem("leftover", what),
            Removal::Done => Finding::ok("removed", what),
            Removal::Failed(reason) => {
                outcome = Outcome::Failed;
                Finding::problem("leftover", format!("{what}: {reason}"))
            }
        });
    };
    for leftover in &found {
        add(describe(leftover), Removal::of(clean, || leftover.remove()));
    }
    if let Some(file) = file {
        let what = format!("{}: the file of a killed `drydock up`", file.display());
        add(what, Removal::of(clean, || std::fs::remove_file(&file)));
    }
    match (total, clean) {
        (0, _) => findings.push(Finding::ok("leftovers", "none")),
        (total, false) => findings.push(Finding::problem(
            "leftovers",
            format!("{} of killed runs: drydock doctor --clean", counted(total)),
        )),
        (_, true) => {}
    }
    outcome
}

/// Whether the cluster belongs to a leftover.
pub(super) fn has_cluster(name: &str) -> bool {
    find_all().iter().any(|leftover| leftover.cluster() == Some(name))
}

fn find_all() -> Vec<Leftover> {
    find(&std::env::temp_dir())
}

/// The file that a killed `drydock up` left in this folder.
fn left_file() -> Option<PathBuf> {
    running_world::left(Path::new("."))
}

/// What a leftover is, its size and its age, in one line.
fn describe(leftover: &Leftover) -> String {
    let what = match &leftover.kind {
        Kind::Folder { command, cluster } => {
            let command = if command.is_empty() { "a run" } else { command };
            let cluster = cluster.as_deref();
            let cluster = cluster.map_or_else(String::new, |name| format!(" and the kind cluster {name}"));
            format!("the folder of `{command}`{cluster}")
        }
        Kind::Reservation => "the reservation of a kind cluster".to_owned(),
    };
    let since = match leftover.since {
        Some(since) => format!("since {since:.0}, {} ago", short(between(since, Clock::wall().now()))),
        None => "age unknown".to_owned(),
    };
    format!("{}: {what}, {}, {since}", leftover.path.display(), size(leftover.bytes))
}

fn counted(number: usize) -> String {
    match number {
        1 => "1 leftover".to_owned(),
        _ => format!("{number} leftovers"),
    }
}

/// A size in the largest unit that gives a number of at least one.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, "0 B")]
    #[case(999, "999 B")]
    #[case(1_000, "1 kB")]
    #[case(12_345_678, "12 MB")]
    fn sizes_have_the_largest_unit(#[case] bytes: u64, #[case] expected: &str) {
        assert_eq!(size(bytes), expected);
    }
}
