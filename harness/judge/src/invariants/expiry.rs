//! I13 for preservations: a preservation starts to end within a second of its expiry, or of the edit that moved the
//! expiry into the past or removed it.
//!
//! This holds for a controller that has led undisturbed for some time. Otherwise the preservation must end within a
//! pass after a leader exists and the last disturbance ended. I5 checks that none ends too early.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::Check;
use super::check_context::CheckContext;
use super::judging_rules::JudgingRules;
use crate::object::{after, is_deleting, name, text, time, uid};
use crate::world::WorldState;

/// Timestamps in a status have whole seconds.
const ONE_SECOND: Duration = Duration::from_secs(1);

/// How long the watches may take to deliver everything that was written at one moment.
const SEEN: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Expiries {
    /// By uid of a preserved Machine.
    known: BTreeMap<String, Expiry>,
    leader: Leader,
    /// Late ends that are violations unless the leader changed meanwhile. The watches of Leases and Machines have no
    /// common order.
    suspected: Vec<Suspicion>,
}

/// The end of a preservation.
#[derive(Debug)]
struct Expiry {
    machine: String,
    end: End,
    /// Since when this end is known. An expiry that is moved into the past, or removed, is due at that time.
    known: Timestamp,
}

/// When a preservation has to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    At(Timestamp),
    /// At once, because its expiry was removed.
    Removed,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::At(at) => write!(f, "its expiry {at}"),
            Self::Removed => f.write_str("the removal of its expiry"),
        }
    }
}

/// The current leader among the controllers.
#[derive(Debug, Default)]
struct Leader {
    holder: String,
    /// Since when it leads; `None`: there was no other leader before.
    since: Option<Timestamp>,
}

#[derive(Debug)]
struct Suspicion {
    at: Timestamp,
    due_time: Timestamp,
    text: String,
}

impl Expiry {
    /// When the end is due.
    fn due_time(&self) -> Timestamp {
        match self.end {
            End::At(at) => at.max(self.known),
            End::Removed => self.known,
        }
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        rules.due(self.due_time(), settling(rules))
    }

    /// Returns a suspicion if this event ends the preservation late in an undisturbed run; it is confirmed unless the
    /// leader changed.
    fn ended(&self, context: &CheckContext) -> Option<Suspicion> {
        let (due_time, rules) = (self.due_time(), context.rules);
        let late = context.at() > rules.timeouts.deadline(due_time, ONE_SECOND + rules.timeouts.reaction);
        let long_since = |since: Timestamp| settled(since, rules, due_time);
        let undisturbed = rules.undisturbed_since.is_some_and(long_since) && rules.paused_until.is_none_or(long_since);
        (late && undisturbed).then(|| Suspicion {
            at: context.at(),
            due_time,
            text: format!(
                "the preservation of machine {} ends at {} instead of {due_time}: {} is known since {}",
                self.machine,
                context.at(),
                self.end,
                self.known
            ),
        })
    }
}

impl Leader {
    fn update(&mut self, context: &CheckContext) {
        let holder = context.world.leadership.as_ref().map(|leads| leads.holder.as_str());
        let holder = holder.unwrap_or_default();
        if self.holder != holder {
            holder.clone_into(&mut self.holder);
            self.since = Some(context.at());
        }
    }
}

impl Check for Expiries {
    fn observe(&mut self, context: &CheckContext) -> Option<String> {
        self.leader.update(context);
        if let Some(machine) = context.deleted("Machine") {
            self.known.remove(uid(machine));
        }
        let machine = context.applied("Machine")?;
        let known = self.known.get(uid(machine));
        match end(machine) {
            Some(end) if known.is_some_and(|known| known.end == end) => {}
            Some(end) => {
                let expiry = Expiry {
                    machine: name(machine).to_owned(),
                    end,
                    known: context.at(),
                };
                self.known.insert(uid(machine).to_owned(), expiry);
            }
            None => {
                let known = self.known.remove(uid(machine));
                let ended = known.filter(|_| is_releasing(machine) && !is_deleting(machine));
                self.suspected.extend(ended.and_then(|known| known.ended(context)));
            }
        }
        None
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        let expiries = self.known.values().filter_map(|expiry| expiry.due(rules));
        let suspicions = self.suspected.iter().map(|suspicion| after(suspicion.at, SEEN));
        expiries.chain(suspicions).min()
    }

    fn overdue(&mut self, now: Timestamp, _: &WorldState, rules: &JudgingRules) -> Option<String> {
        let over = |expiry: &&Expiry| expiry.due(rules).is_some_and(|due| due <= now);
        if let Some(Expiry { machine, end, known }) = self.known.values().find(over) {
            return Some(format!(
                "machine {machine} is still preserved, although {end} is known since {known}"
            ));
        }
        let (seen, open): (Vec<_>, Vec<_>) = std::mem::take(&mut self.suspected)
            .into_iter()
            .partition(|suspicion| after(suspicion.at, SEEN) <= now);
        self.suspected = open;
        let leader = self.leader.since;
        let led = |suspicion: &Suspicion| leader.is_none_or(|since| settled(since, rules, suspicion.due_time));
        seen.into_iter().find(led).map(|suspicion| suspicion.text)
    }
}

/// How long a controller may take to become ready: one pass, plus the Lease of its predecessor.
fn settling(rules: &JudgingRules) -> Duration {
    rules.pass() + rules.timeouts.lease_duration
}

/// Whether a state that exists since `since` had settled by `due_time`.
fn settled(since: Timestamp, rules: &JudgingRules, due_time: Timestamp) -> bool {
    rules.timeouts.deadline(since, settling(rules)) <= due_time
}

/// The end of a preservation that has not ended.
fn end(machine: &Value) -> Option<End> {
    if is_deleting(machine) || is_releasing(machine) {
        return None;
    }
    let record = |field: &str| text(machine, &format!("/status/preservation/{field}"));
    // A Machine that was preserved before keeps its expiry while its pods are drained again.
    let had_expiry = record("stage") == "Preserved" || record("stage") == "Draining" && record("reason") == "Relapse";
    let at = time(machine, "/status/currentStatus/preserveExpiryTime").map(End::At);
    at.or(had_expiry.then_some(End::Removed))
}

fn is_releasing(machine: &Value) -> bool {
    text(machine, "/status/preservation/stage") == "Releasing"
}
