//! I13, of preservations: one begins to end within a second of its expiry, or of the edit that moved it into the past or
//! removed it.
//!
//! That much is asked of a controller that has led for a while with nothing in its way; of any other that it ends within a
//! pass, once somebody leads and all is calm. That none ends too early is I5's.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::Check;
use super::check_context::{CheckContext, JudgingRules};
use crate::object::{after, is_deleting, name, text, time, uid};
use crate::world::WorldState;

/// Times in a status are whole seconds.
const SECOND: Duration = Duration::from_secs(1);

/// How long it may take until everything that was written at one moment has been seen.
const SEEN: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Expiries {
    /// Of preserved Machines, by uid.
    known: BTreeMap<String, Expiry>,
    leader: Leader,
    /// Ends that came late, unless another one leads by now. Of a Lease and of Machines is told side by side.
    doubtful: Vec<Doubt>,
}

/// The end of a preservation.
#[derive(Debug)]
struct Expiry {
    machine: String,
    end: End,
    /// Since when that is its end: one that somebody puts into the past, or removes, is due then.
    known: Timestamp,
}

/// When a preservation is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    At(Timestamp),
    /// At once: somebody removed its expiry.
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

/// Who leads among the controllers.
#[derive(Debug, Default)]
struct Leader {
    holder: String,
    /// `None`: there was no other one.
    since: Option<Timestamp>,
}

#[derive(Debug)]
struct Doubt {
    at: Timestamp,
    moment: Timestamp,
    text: String,
}

impl Expiry {
    /// When it is due.
    fn moment(&self) -> Timestamp {
        match self.end {
            End::At(at) => at.max(self.known),
            End::Removed => self.known,
        }
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        rules.due(self.moment(), settling(rules))
    }

    /// It ends with what is seen; what is wrong with that, if the same one led before it was due.
    fn ended(&self, context: &CheckContext) -> Option<Doubt> {
        let (moment, rules) = (self.moment(), context.rules);
        let late = context.at() > rules.timeouts.deadline(moment, SECOND + rules.timeouts.reaction);
        let long_since = |since: Timestamp| settled(since, rules, moment);
        let undisturbed = rules.calm_since.is_some_and(long_since) && rules.stood_still.is_none_or(long_since);
        (late && undisturbed).then(|| Doubt {
            at: context.at(),
            moment,
            text: format!(
                "the preservation of machine {} ends at {}, and was to end at {moment}: {} is known since {}",
                self.machine,
                context.at(),
                self.end,
                self.known
            ),
        })
    }
}

impl Leader {
    fn look(&mut self, context: &CheckContext) {
        let holder = context.world.leadership.as_ref().map(|leads| leads.holder.as_str());
        let holder = holder.unwrap_or_default();
        if self.holder != holder {
            holder.clone_into(&mut self.holder);
            self.since = Some(context.at());
        }
    }
}

impl Check for Expiries {
    fn see(&mut self, context: &CheckContext) -> Option<String> {
        self.leader.look(context);
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
                self.doubtful.extend(ended.and_then(|known| known.ended(context)));
            }
        }
        None
    }

    fn due(&self, rules: &JudgingRules) -> Option<Timestamp> {
        let expiries = self.known.values().filter_map(|expiry| expiry.due(rules));
        let doubts = self.doubtful.iter().map(|doubt| after(doubt.at, SEEN));
        expiries.chain(doubts).min()
    }

    fn overdue(&mut self, now: Timestamp, _: &WorldState, rules: &JudgingRules) -> Option<String> {
        let over = |expiry: &&Expiry| expiry.due(rules).is_some_and(|due| due <= now);
        if let Some(Expiry { machine, end, known }) = self.known.values().find(over) {
            return Some(format!(
                "machine {machine} is still preserved, and {end} is known since {known}"
            ));
        }
        let (seen, open): (Vec<_>, Vec<_>) = std::mem::take(&mut self.doubtful)
            .into_iter()
            .partition(|doubt| after(doubt.at, SEEN) <= now);
        self.doubtful = open;
        let leader = self.leader.since;
        let led = |doubt: &Doubt| leader.is_none_or(|since| settled(since, rules, doubt.moment));
        seen.into_iter().find(led).map(|doubt| doubt.text)
    }
}

/// How long a controller may take to be at work: a pass, and a process that has just started may have to wait for the
/// Lease of the one before.
fn settling(rules: &JudgingRules) -> Duration {
    rules.pass() + rules.timeouts.lease_duration
}

/// Whether what is so since then was long enough so at that moment.
fn settled(since: Timestamp, rules: &JudgingRules, moment: Timestamp) -> bool {
    rules.timeouts.deadline(since, settling(rules)) <= moment
}

/// When a preservation that is under way is over.
fn end(machine: &Value) -> Option<End> {
    if is_deleting(machine) || is_releasing(machine) {
        return None;
    }
    let record = |field: &str| text(machine, &format!("/status/preservation/{field}"));
    // What was kept before has an expiry also while its pods leave once more.
    let had_one = record("stage") == "Preserved" || record("stage") == "Draining" && record("reason") == "Relapse";
    let at = time(machine, "/status/currentStatus/preserveExpiryTime").map(End::At);
    at.or(had_one.then_some(End::Removed))
}

fn is_releasing(machine: &Value) -> bool {
    text(machine, "/status/preservation/stage") == "Releasing"
}
