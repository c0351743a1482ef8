//! Kills the controller at its next write to the API server, in a world whose requests pass no gates: fault rules of the API
//! server hold back what comes before the kill.

use std::time::Duration;

use apiserver::faults::{Action, At, Faults, Match, Pattern, Rule, Verb};
use dashboard::PerformError;
use scenario::step::{CrashNext, Moment, Process, ProcessAction};
use stage::deploy::MCM_ACCOUNT;

use super::processes::{ProcessChange, Processes};

/// The rules that detect the write, by their names, with the resources. Renewals of the Lease are no such writes: in virtual time they
/// are no effects.
const DETECTORS: [(&str, &str); 3] = [
    ("crash-next-machines", "machine*"),
    ("crash-next-nodes", "nodes*"),
    ("crash-next-pods", "pods*"),
];
/// The rules that refuse later writes, until the process has been killed.
const BARRIERS: [(&str, &str); 3] = [
    ("crash-next-later-machines", "machine*"),
    ("crash-next-later-nodes", "nodes*"),
    ("crash-next-later-pods", "pods*"),
];
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

/// Arms the crash, and kills the process in a task of its own when the write comes.
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
    let detectors = DETECTORS.map(|(name, resource)| of_writes(name, resource, side, times));
    let barriers = BARRIERS.map(|(name, resource)| of_writes(name, resource, At::BeforeCommit, None));
    detectors.into_iter().chain(barriers).collect()
}

fn remove_rules(faults: &Faults) {
    for (name, _) in DETECTORS.iter().chain(&BARRIERS) {
        faults.remove(name);
    }
}

/// How often the awaited write came; `None`: nothing waits for it.
fn hits(faults: &Faults) -> Option<u64> {
    let statuses = faults.list();
    let of_detectors = statuses
        .iter()
        .filter(|status| DETECTORS.iter().any(|(name, _)| *name == status.rule.name));
    of_detectors.map(|status| status.hits).reduce(|one, other| one + other)
}
