//! Faults: declared failures between clients and this server.
//!
//! Rules are data. This module decides whether a rule hits a request, as a pure function of the request's facts, the
//! time and the rule's own random stream; the front end (`http`) performs the action. It does not interpret objects.

mod action;
mod check;
mod decide;
mod facts;
mod live;
mod marks;
mod open_watch;
mod parse;
mod pattern;
mod period;
mod rule;
mod verb;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clock::{Clock, Seed};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

pub use action::{Action, At, Behind, Class, Cut};
pub use check::Invalid;
pub(crate) use decide::{Hit, Passage};
pub use facts::{Facts, Freshness};
pub use live::Status;
pub(crate) use marks::Marks;
pub(crate) use open_watch::{OpenWatch, WatchEffect};
pub use parse::{Unreadable, parse};
pub use pattern::Pattern;
pub use rule::{Match, Rule, Window};
pub use verb::Verb;

use live::Live;

use crate::life::Life;
use crate::signal;
use quantity::Saturating as _;

/// The fault rules of one server. Clones share them.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    seed: Seed,
    /// The start time of the server, from which windows count.
    start: Timestamp,
    /// Whether there are rules: without rules the cost is one flag check.
    busy: AtomicBool,
    rules: Mutex<Rules>,
    life: Arc<Life>,
    marks: Arc<Marks>,
    revisions: signal::Receiver<u64>,
}

#[derive(Debug, Default)]
struct Rules {
    live: Vec<Live>,
    added: u64,
    /// The end of a downtime.
    down_until: Option<Timestamp>,
}

impl Faults {
    /// No rules; windows count from now.
    pub(crate) fn new(
        clock: Clock,
        seed: Seed,
        life: Arc<Life>,
        marks: Arc<Marks>,
        revisions: signal::Receiver<u64>,
    ) -> Self {
        Self(Arc::new(Shared {
            start: clock.now(),
            seed,
            busy: AtomicBool::new(false),
            rules: Mutex::default(),
            life,
            marks,
            revisions,
        }))
    }

    /// The start of the server, from which the windows of rules count.
    pub fn start(&self) -> Timestamp {
        self.0.start
    }

    /// Adds a rule after the others. It takes effect immediately, also on open watches.
    ///
    /// # Errors
    /// If the rule is invalid or its name is in use.
    pub fn add(&self, rule: Rule) -> Result<(), Invalid> {
        self.add_all(vec![rule])
    }

    /// Adds all rules after the others, or none on an error.
    ///
    /// # Errors
    /// As [`Faults::add`], for the first invalid rule.
    pub fn add_all(&self, added: Vec<Rule>) -> Result<(), Invalid> {
        let mut rules = self.lock();
        let mut names: BTreeSet<&str> = rules.live.iter().map(|live| live.rule.name.as_str()).collect();
        for rule in &added {
            rule.check()?;
            if !names.insert(&rule.name) {
                return Err(Invalid {
                    rule: rule.name.clone(),
                    field: "name".to_owned(),
                    problem: "there is a rule of that name".to_owned(),
                    fix: "choose another, or remove that one first".to_owned(),
                });
            }
        }
        for rule in added {
            rules.added.raise(1);
            let stream = self.0.seed.stream(&format!("fault {}", rule.name));
            let live = Live::new(rules.added, rule, stream);
            rules.live.push(live);
        }
        self.update(&rules);
        Ok(())
    }

    /// Removes a rule; delayed requests and watches continue. Returns the rule with its counters; `None` if there is
    /// no rule of that name.
    pub fn remove(&self, name: &str) -> Option<Status> {
        let mut rules = self.lock();
        let index = rules.live.iter().position(|live| live.rule.name == name)?;
        let removed = rules.live.remove(index).status();
        self.update(&rules);
        Some(removed)
    }

    /// Removes all rules and returns them with their counters.
    pub fn clear(&self) -> Vec<Status> {
        let mut rules = self.lock();
        let removed = rules.live.drain(..).map(|live| live.status()).collect();
        self.update(&rules);
        removed
    }

    /// All rules with their counters, in order of evaluation.
    pub fn list(&self) -> Vec<Status> {
        self.lock().live.iter().map(Live::status).collect()
    }

    /// The newest revision of the server.
    fn revision(&self) -> u64 {
        *self.0.revisions.borrow()
    }

    /// Notifies requests and watches of changed rules.
    fn update(&self, rules: &Rules) {
        let busy = !rules.live.is_empty() || rules.down_until.is_some();
        self.0.busy.store(busy, Ordering::SeqCst);
        let longest = rules.live.iter().filter_map(|live| live.rule.action.staleness()).max();
        self.0.marks.keep(longest, self.revision());
        self.0.life.rules_changed();
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.0.rules.lock()
    }

    /// The time since the start of the server.
    fn elapsed(&self, now: Timestamp) -> Duration {
        Duration::try_from(now.duration_since(self.0.start)).unwrap_or(Duration::ZERO)
    }
}
