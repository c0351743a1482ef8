//! Writes the report folder of a failed run.
//!
//! It contains no credentials: Secrets are watched without their data, and the ledger stores no user data.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use ::record::{RunRecord, activity, narrative};
use judge::world::WorldState;
use scenario::job::{Job, PLAN};
use scenario::result::{FailureResult, RunResult};
use scenario::signature::Cause;
use serde::Serialize;

use super::files::{RESULT, write_file};
use super::record::{self, Ran};
use super::store;

/// Writes the report folder of a failed run, and sets the fields of the result that refer to it. `ran`: what is known of
/// the run, if it returned.
///
/// # Errors
/// When it cannot be written.
pub fn write(job: &Job, result: &mut RunResult, ran: Option<Ran<'_>>) -> io::Result<()> {
    store::unmark(job, result)?;
    let stage = ran.as_ref().map(|ran| ran.stage);
    let folder = &store::create(job)?;
    result.report = Some(folder.clone());
    // A run that only ends in another state is repeated by the command that compares.
    let compares = |failure: &FailureResult| failure.signature.cause == Cause::End;
    if !result.failure.as_ref().is_some_and(compares) {
        result.replay = job.replay(folder);
    }
    let plan = job.plan.to_yaml().map_err(io::Error::other)?;
    write_file(&folder.join(PLAN), plan.as_bytes())?;
    if let Some(Ok(outcome)) = stage.map(|stage| &stage.outcome) {
        write_world(folder, &outcome.world)?;
    }
    for (name, log) in stage.iter().flat_map(|stage| &stage.logs) {
        write_file(&folder.join(name), log)?;
    }
    let has_run = ran.is_some();
    let record = record::complete(job, result, ran)?;
    if has_run {
        result.narrative = record::texts(&record);
    }
    write_file(&folder.join(RESULT), &serde_json::to_vec_pretty(result)?)?;
    write_file(&folder.join("narrative.txt"), text_of(result, &record).as_bytes())?;
    record::write(folder, &record)
}

/// The objects and VMs at the end of a run.
fn write_world(folder: &Path, world: &WorldState) -> io::Result<()> {
    let objects: Vec<_> = world.objects.values().collect();
    write_file(&folder.join("objects.yaml"), yaml(&objects)?.as_bytes())?;
    let vms: Vec<_> = world.vms.values().collect();
    write_file(&folder.join("vms.yaml"), yaml(&vms)?.as_bytes())
}

/// The narrative of a failed run, with its command and what the controller did in numbers.
fn text_of(result: &RunResult, record: &RunRecord) -> String {
    let mut text = format!(
        "scenario {} on {} with seed {}\n",
        result.scenario,
        result.place(),
        result.seed
    );
    for line in narrative(record) {
        let _ = writeln!(text, "{line}");
    }
    if let Some(failure) = &result.failure {
        let place = match failure.step {
            0 => "at the end".to_owned(),
            step => format!("in step {step}"),
        };
        let _ = writeln!(text, "\nfailed {place}: {}", failure.reason);
    }
    let _ = writeln!(text, "replay with: {}", result.replay);
    if result.failure.is_some() {
        let _ = write!(text, "\n{}", activity(record));
    }
    text
}

fn yaml<T: Serialize>(value: &T) -> io::Result<String> {
    serde_saphyr::to_string(value).map_err(io::Error::other)
}
