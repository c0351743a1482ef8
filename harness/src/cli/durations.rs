//! Durations of previous runs by stage and number of jobs, stored in `.drydock/durations.json` of the current folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use scenario::StageKind;

use crate::report::files;

const FILE: &str = ".drydock/durations.json";
/// Durations of fewer jobs are not recorded, because such runs are short.
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

/// Duration of the last run with that number of jobs on the stage; `None`: it is unknown.
pub(super) fn last(stage: StageKind, jobs: usize) -> Option<Duration> {
    let seconds = read(Path::new(FILE)).remove(&key(stage, jobs))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Records the duration of a run. Ignores errors, because the record is only informative.
pub(super) fn note(stage: StageKind, jobs: usize, took: Duration) {
    if jobs < FEWEST {
        return;
    }
    let path = Path::new(FILE);
    let mut durations = read(path);
    durations.insert(key(stage, jobs), took.as_secs_f64());
    if let Ok(text) = serde_json::to_vec_pretty(&durations) {
        let _ = files::write_file(path, &text);
    }
}
