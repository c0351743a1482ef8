//! Faults: what can go wrong between a client and this server, on purpose and as declared.
//!
//! Rules are data; whether one strikes is decided here, purely, from a request's facts, the time and
//! the rule's own random stream. Carrying it out is the front end's (`http`). Nothing here knows what
//! the objects mean.

mod action;
mod check;
mod live;
mod pattern;
mod period;
mod rule;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clock::{Clock, Seed};
use jiff::Timestamp;

pub use action::{Action, At, Behind, Class, Cut};
pub use check::Invalid;
pub use live::{Facts, Freshness, Status};
pub use pattern::Pattern;
pub use rule::{Match, Rule, Verb, Window};

use live::Live;

/// The fault rules of one server. Clones are the same rules.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    clock: Clock,
    seed: Seed,
    /// When the server was made; windows count from here.
    start: Timestamp,
    /// Whether there is anything to ask: without rules a request costs this one look.
    busy: AtomicBool,
    rules: Mutex<Rules>,
}

#[derive(Debug, Default)]
struct Rules {
    live: Vec<Live>,
    added: u64,
}

impl Faults {
    /// No rules; windows count from now.
    pub fn new(clock: Clock, seed: Seed) -> Self {
        Self(Arc::new(Shared {
            start: clock.now(),
            clock,
            seed,
            busy: AtomicBool::new(false),
            rules: Mutex::default(),
        }))
    }

    /// Adds a rule behind the others. It holds from now on, for watches that are open already too.
    ///
    /// # Errors
    /// When the rule is not acceptable, or there is one of that name.
    pub fn add(&self, rule: Rule) -> Result<(), Invalid> {
        rule.check()?;
        let mut rules = self.lock();
        if rules.live.iter().any(|live| live.rule.name == rule.name) {
            return Err(Invalid {
                rule: rule.name,
                field: "name".to_owned(),
                problem: "there is a rule of that name".to_owned(),
                fix: "choose another, or remove that one first".to_owned(),
            });
        }
        rules.added += 1;
        let stream = self.0.seed.stream(&format!("fault {}", rule.name));
        let live = Live::new(rules.added, rule, stream);
        rules.live.push(live);
        self.0.busy.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Removes a rule: what it holds back goes on. Returns it with its counters; `None`: there is none
    /// of that name.
    pub fn remove(&self, name: &str) -> Option<Status> {
        let mut rules = self.lock();
        let index = rules.live.iter().position(|live| live.rule.name == name)?;
        let removed = rules.live.remove(index).status();
        self.0.busy.store(!rules.live.is_empty(), Ordering::SeqCst);
        Some(removed)
    }

    /// Removes all rules and returns them with their counters.
    pub fn clear(&self) -> Vec<Status> {
        let mut rules = self.lock();
        let removed = rules.live.drain(..).map(|live| live.status()).collect();
        self.0.busy.store(false, Ordering::SeqCst);
        removed
    }

    /// All rules with their counters, in the order in which they are asked.
    pub fn list(&self) -> Vec<Status> {
        self.lock().live.iter().map(Live::status).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Rules> {
        self.0.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn elapsed(&self, now: Timestamp) -> Duration {
        Duration::try_from(now.duration_since(self.0.start)).unwrap_or(Duration::ZERO)
    }
}
