//! Kills the controller at its next write to the API server, in a world whose requests pass no gates: fault rules of the API
//! server hold back what comes before the kill.

use std::time::Duration;

use apiserver::faults::{Action, At, Faults, Match, Pattern, Rule, Verb};
use dashboard::PerformError;
use scenario::step::{CrashNext, Moment, Process, ProcessAction};
use stage::deploy::MCM_ACCOUNT;

use super::processes::{ProcessChange, Processes};

/// The name of the rule that waits for the write.
const WAITS: &str = "crash-next";
/// The name of the rule that refuses everything after the write, until the process has been killed.
const HOLDS: &str = "crash-next-holds";
/// The verbs of writes.
const WRITES: [Verb; 5] = [
    Verb::Create,
    Verb::Update,
    Verb::Patch,
    Verb::Delete,
    Verb::DeleteCollection,
];
/// The time between two looks at the hits of the rule.
const LOOK: Duration = Duration::from_millis(1);

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
        .map_err(|_| PerformError::Refused("mcm is to be killed at its next write already".to_owned()))?;
    tokio::spawn(async move {
        loop {
            match hits(&faults) {
                Some(0) => tokio::time::sleep(LOOK).await,
                Some(_) => break,
                // A user has removed the rule.
                None => return drop(faults.remove(HOLDS)),
            }
        }
        let killed = processes.change(Process::Mcm, ProcessChange::Action(ProcessAction::Kill));
        let killed = killed.await;
        for rule in [WAITS, HOLDS] {
            faults.remove(rule);
        }
        if killed.is_ok() {
            // A failure is reported by the owner of the stage, which starts the process later.
            let _ = processes
                .change(Process::Mcm, ProcessChange::Action(ProcessAction::Start))
                .await;
        }
    });
    Ok(())
}

/// The first write has no effect, or has one and no response; no later one has an effect.
fn rules(at: Moment) -> Vec<Rule> {
    let of_writes = |name: &str, at, times| {
        let mut rule = Rule::new(name, Action::Drop { at });
        rule.matches = Match {
            client: Some(Pattern::new(&format!("*:{MCM_ACCOUNT}"))),
            verbs: WRITES.to_vec(),
            times,
            ..Match::default()
        };
        rule
    };
    match at {
        Moment::Before => vec![of_writes(WAITS, At::BeforeCommit, None)],
        Moment::After => vec![
            of_writes(WAITS, At::AfterCommit, Some(1)),
            of_writes(HOLDS, At::BeforeCommit, None),
        ],
    }
}

/// How often the awaited write came; `None`: nothing waits for it.
fn hits(faults: &Faults) -> Option<u64> {
    let status = faults.list().into_iter().find(|status| status.rule.name == WAITS);
    status.map(|status| status.hits)
}
