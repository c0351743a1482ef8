//! Runs cases one after another and deletes what they create.

use mcm_api::Machine;
use tokio_util::sync::CancellationToken;

use crate::cases::Case;
use crate::leftovers::wait_for_leftovers;
use crate::session::Stopwatch;
use crate::verdict::{Stop, Verdict};
use crate::{CaseResult, Leftover, Outcome, Report, Session};

/// Why a case of a stopped run has no result.
const STOPPED: &str = "the run was stopped";

/// Runs `cases` in this order. After each case, also a failed or stopped one, its machines are deleted; at the end, the
/// VMs that remain are deleted by their provider ids. `on_result` receives each result. When `stop` is cancelled, the
/// run ends after the cleanup.
pub async fn run(
    session: &Session,
    cases: &[Case],
    stop: &CancellationToken,
    mut on_result: impl FnMut(&CaseResult),
) -> Report {
    // Without a list, only the machines of the run are checked at the end.
    *session.before.lock() = session.list().await.unwrap_or_default();
    let mut report = Report::default();
    for case in cases {
        if stop.is_cancelled() {
            break;
        }
        let stopwatch = Stopwatch::start();
        let first = session.machines().len();
        let verdict = tokio::select! {
            verdict = case.run(session) => verdict,
            () = stop.cancelled() => Err(Stop::Skipped(STOPPED.to_owned())),
        };
        delete_all(session, &session.machines()[first..]).await;
        let result = CaseResult {
            name: case.name,
            rule: case.rule,
            outcome: outcome(session, verdict),
            duration: stopwatch.elapsed(),
        };
        on_result(&result);
        report.results.push(result);
    }
    report.stopped = stop.is_cancelled();
    report.leftovers = remove_leftovers(session).await;
    report
}

/// Errors of a driver may contain secrets, which no report may contain.
fn outcome(session: &Session, verdict: Verdict) -> Outcome {
    match verdict {
        Ok(()) => Outcome::Passed,
        Err(Stop::Failed(reason)) => Outcome::Failed(session.redact(&reason)),
        Err(Stop::Skipped(reason)) => Outcome::Skipped(session.redact(&reason)),
    }
}

/// Failures show in the search for leftovers.
async fn delete_all(session: &Session, machines: &[Machine]) {
    for machine in machines {
        let _ = session.delete(machine).await;
    }
}

/// Deletes what remains by provider id. Returns the VMs that remain nevertheless.
async fn remove_leftovers(session: &Session) -> Vec<Leftover> {
    let leftovers = wait_for_leftovers(session).await;
    if leftovers.is_empty() {
        return leftovers;
    }
    for leftover in leftovers.iter().filter(|leftover| leftover.provider_id.is_some()) {
        let mut machine = session.machine();
        machine.metadata.name = Some(leftover.machine.to_string());
        machine.metadata.uid = None;
        machine.spec.provider_id = leftover.provider_id.as_deref().unwrap_or_default().to_owned();
        let _ = session.delete(&machine).await;
    }
    wait_for_leftovers(session).await
}
