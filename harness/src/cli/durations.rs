//! How long runs of so many scenarios took last, kept in `.drydock/durations.json` of the current folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use scenario::StageKind;

use crate::report::folder;

const FILE: &str = ".drydock/durations.json";
/// Fewer jobs are over before anybody has read how long they will take.
const FEWEST: usize = 10;

/// Seconds by stage and number of jobs.
type Durations = BTreeMap<String, f64>;

fn key(stage: StageKind, jobs: usize) -> String {
    format!("{stage} {jobs}")
}

fn read(path: &Path) -> Durations {
    let text = std::fs::read(path).ok();
    text.and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default()
}

/// How long so many jobs on that stage took last; `None`: nobody knows.
pub(super) fn last(stage: StageKind, jobs: usize) -> Option<Duration> {
    let seconds = read(Path::new(FILE)).remove(&key(stage, jobs))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Notes how long they took. It is a convenience: what cannot be written is not.
pub(super) fn note(stage: StageKind, jobs: usize, took: Duration) {
    if jobs < FEWEST {
        return;
    }
    let path = Path::new(FILE);
    let mut durations = read(path);
    durations.insert(key(stage, jobs), took.as_secs_f64());
    if let Ok(text) = serde_json::to_vec_pretty(&durations) {
        let _ = folder::write_file(path, &text);
    }
}
