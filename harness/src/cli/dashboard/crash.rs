//! Kills the controller at its next write to the API server, in a world whose requests pass no gates: fault rules of the API
//! server hold back what comes before the kill.

use std::time::Duration;

use apiserver::faults::{Action, At, Faults, Match, Pattern, Rule, Verb};
use dashboard::PerformError;
use scenario::step::{CrashNext, Moment, Process, ProcessAction};
use stage::deploy::MCM_ACCOUNT;

use super::processes::{ProcessChange, Processes};

/// The written resources, with names. Renewals of the Lease are not among them: in virtual time they are no effects.
const RESOURCES: [(&str, &str); 3] = [("machines", "machine*"), ("nodes", "nodes*"), ("pods", "pods*")];
/// The verbs of writes.
const WRITES: [Verb; 5] = [
    Verb::Create,
    Verb::Update,
    Verb::Patch,
    Verb::Delete,
    Verb::DeleteCollection,
];
/// The time between two checks of the hits.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Arms the crash. A spawned task kills the process when the write comes, and starts it again.
///
/// # Errors
/// When another process is to crash, or a crash is armed already.
pub(super) fn arm(processes: Processes, faults: Faults, crash: CrashNext) -> Result<(), PerformError> {
    if crash.process != Process::Mcm {
        return Err(PerformError::Refused(format!(
            "the writes of {} are not known in this world",
            crash.process
        )));
    }
    faults
        .add_all(rules(crash.at))
        .map_err(|_| PerformError::Refused("a crash of mcm at its next write is already armed".to_owned()))?;
    tokio::spawn(async move {
        loop {
            match hits(&faults) {
                Some(0) => tokio::time::sleep(POLL_INTERVAL).await,
                Some(_) => break,
                // A user has removed the rules.
                None => return remove_rules(&faults),
            }
        }
        let killed = processes.change(Process::Mcm, ProcessChange::Action(ProcessAction::Kill));
        let killed = killed.await;
        remove_rules(&faults);
        if killed.is_ok() {
            // A failure is reported by the owner of the stage, which starts the process later.
            let _ = processes
                .change(Process::Mcm, ProcessChange::Action(ProcessAction::Start))
                .await;
        }
    });
    Ok(())
}

/// The first write has no effect, or has one and no response; later ones have no effect.
fn rules(at: Moment) -> Vec<Rule> {
    let of_writes = |name: &str, resource: &str, at, times| {
        let mut rule = Rule::new(name, Action::Drop { at });
        rule.matches = Match {
            client: Some(Pattern::new(format!("*:{MCM_ACCOUNT}"))),
            verbs: WRITES.to_vec(),
            resource: Some(Pattern::new(resource)),
            times,
            ..Match::default()
        };
        rule
    };
    let (side, times) = match at {
        Moment::Before => (At::BeforeCommit, None),
        Moment::After => (At::AfterCommit, Some(1)),
    };
    let detectors = RESOURCES.map(|(name, resource)| of_writes(&detector(name), resource, side, times));
    let barriers = RESOURCES.map(|(name, resource)| of_writes(&barrier(name), resource, At::BeforeCommit, None));
    match at {
        // The detectors have an effect on each write.
        Moment::Before => detectors.to_vec(),
        Moment::After => detectors.into_iter().chain(barriers).collect(),
    }
}

/// The name of the rule that detects the write.
fn detector(resource: &str) -> String {
    format!("crash-next-{resource}")
}

/// The name of the rule that refuses later writes, until the process has been killed.
fn barrier(resource: &str) -> String {
    format!("crash-next-{resource}-later")
}

fn remove_rules(faults: &Faults) {
    for (resource, _) in RESOURCES {
        faults.remove(&detector(resource));
        faults.remove(&barrier(resource));
    }
}

/// How often the awaited write came; `None`: nothing waits for it.
fn hits(faults: &Faults) -> Option<u64> {
    let detectors = RESOURCES.map(|(resource, _)| detector(resource));
    let statuses = faults.list();
    let of_detectors = statuses.iter().filter(|status| detectors.contains(&status.rule.name));
    of_detectors.map(|status| status.hits).reduce(u64::saturating_add)
}
