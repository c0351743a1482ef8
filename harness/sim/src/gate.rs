//! The gate around one process: everything it does to the outside passes here, is numbered, and
//! can be its last act.
//!
//! What lives here: the gate's state and its controls. How requests pass is in `service`, how
//! answers stream back in `body`. What must not: who restarts the process; that is the supervisor.

mod body;
mod service;
mod strike;

use std::collections::BTreeSet;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use self::strike::{Lagging, Strikes, later};
use crate::Trace;

pub use body::GateBody;
pub use service::{GateLayer, GateService};
pub use strike::{Blow, CrashPoint, Lag, Side};

/// The gate of one process; clones are the same gate.
///
/// The process builds its clients through [`Gate::api`] and [`Gate::cloud`], anew in each
/// incarnation. A gate without crash points records, and nothing else: the other parts of a world
/// get one too, so that their requests are in the trace.
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

struct Shared {
    name: String,
    trace: Trace,
    revision: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
    state: Mutex<State>,
    count: Arc<Mutex<Count>>,
    struck: Notify,
    paused: Notify,
}

struct State {
    incarnation: u64,
    open: bool,
    struck: bool,
    paused_until: Option<Timestamp>,
    /// What is done when it begins to stand still.
    at_pause: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Who goes on when the pause is over, in the order in which they were held up.
    held_up: Vec<Waker>,
    lagging: Option<Lagging>,
}

/// What a group of processes did, in one order, and what is to strike the one that does an effect.
#[derive(Default)]
struct Count {
    passed: u64,
    /// Nobody asks for them: they are counted alone, or two days of heartbeats would fill the memory.
    forgets: bool,
    effects: Vec<Done>,
    /// What effects were, each text once: two days of renewals of a Lease are many.
    descriptions: BTreeSet<Arc<str>>,
    strikes: Strikes,
}

/// An [`Effect`], without a text of its own. Its number is its place.
struct Done {
    incarnation: u64,
    kind: EffectKind,
    description: Arc<str>,
}

/// One thing that the process did, or was about to do, to the world outside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Its number, counted from 1 over all incarnations of all processes of the group.
    pub number: u64,
    /// Which incarnation of the process did it, counted from 1.
    pub incarnation: u64,
    /// Where it went.
    pub kind: EffectKind,
    /// For instance `PATCH /api/v1/nodes/a` or `CreateMachine`.
    pub description: String,
}

/// Where an effect goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EffectKind {
    /// A write to the API server: POST, PUT, PATCH or DELETE.
    ApiWrite,
    /// A call of the cloud, reads included: they may fail, and cost quota.
    CloudCall,
}

/// What a request may do.
enum Passage {
    /// Nothing: its incarnation is over.
    Closed,
    /// Pass; a crash strikes when the answer comes, if there is a point.
    Open { crash_after: Option<CrashPoint> },
}

impl Count {
    fn intern(&mut self, description: &str) -> Arc<str> {
        if let Some(known) = self.descriptions.get(description) {
            return Arc::clone(known);
        }
        let new: Arc<str> = description.into();
        self.descriptions.insert(Arc::clone(&new));
        new
    }
}

impl Gate {
    /// An open gate around the process `name`; what passes is recorded in `trace` under that name.
    pub fn new(name: &str, trace: Trace) -> Self {
        Self::with_revision(name, trace, || None)
    }

    /// As [`Gate::new`]; `revision` tells the API server's current revision, which is recorded with each answer.
    pub fn with_revision(name: &str, trace: Trace, revision: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self::in_group(name, trace, Arc::new(revision), Arc::default())
    }

    /// The gate of another process of the same kind. The two share one count of effects and their crash points: the
    /// process that does the effect of a point is the one that crashes.
    #[must_use]
    pub fn beside(&self, name: &str) -> Self {
        let Shared {
            trace, revision, count, ..
        } = &*self.0;
        Self::in_group(name, trace.clone(), Arc::clone(revision), Arc::clone(count))
    }

    fn in_group(
        name: &str,
        trace: Trace,
        revision: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
        count: Arc<Mutex<Count>>,
    ) -> Self {
        let state = State {
            incarnation: 1,
            open: true,
            struck: false,
            paused_until: None,
            at_pause: None,
            held_up: Vec::new(),
            lagging: None,
        };
        Self(Arc::new(Shared {
            name: name.to_owned(),
            trace,
            revision,
            state: Mutex::new(state),
            count,
            struck: Notify::new(),
            paused: Notify::new(),
        }))
    }

    /// The process's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The layer for the present incarnation's API client.
    pub fn api(&self) -> GateLayer {
        GateLayer::new(self.clone(), EffectKind::ApiWrite, self.incarnation())
    }

    /// The layer for the present incarnation's cloud (gRPC) client.
    pub fn cloud(&self) -> GateLayer {
        GateLayer::new(self.clone(), EffectKind::CloudCall, self.incarnation())
    }

    /// Lets the process of its group that does this effect crash at it. A point that is already passed never strikes.
    pub fn crash_at(&self, point: CrashPoint) {
        self.count().strikes.arm(point.effect).crash = Some(point.side);
    }

    /// Lets the process of its group that does this effect stand still for `time` first, as SIGSTOP and SIGCONT do: its
    /// requests and deliveries wait. It needs a supervisor ([`process`](crate::process()) is one), which lets it go on.
    pub fn pause_at(&self, effect: u64, time: Duration) {
        self.count().strikes.arm(effect).pause = Some(time);
    }

    /// Lets the watches of the process of its group that does this effect lag from then on, over its restarts too.
    pub fn lag_at(&self, effect: u64, lag: Lag) {
        self.count().strikes.arm(effect).lag = Some(lag);
    }

    /// Whether that has struck at that effect.
    pub fn has_struck(&self, effect: u64, blow: Blow) -> bool {
        self.count().strikes.has_struck(effect, blow)
    }

    /// Ends the pauses of the process when their time is over; returns never.
    pub(crate) async fn serve_pauses<T>(&self) -> T {
        loop {
            let paused = self.0.paused.notified();
            let until = self.lock().paused_until;
            match until {
                Some(until) => {
                    self.trace().clock().sleep_until(until).await;
                    self.go_on();
                }
                None => paused.await,
            }
        }
    }

    /// Ready unless the process stands still; then whoever asks is woken when it goes on.
    pub(crate) fn poll_going(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.paused_until.is_none() {
            return Poll::Ready(());
        }
        if !state.held_up.iter().any(|waker| waker.will_wake(context.waker())) {
            state.held_up.push(context.waker().clone());
        }
        Poll::Pending
    }

    fn is_paused(&self) -> bool {
        self.lock().paused_until.is_some()
    }

    /// When a watch event that is there now reaches the process.
    fn arrival(&self) -> Timestamp {
        let now = self.trace().clock().now();
        self.lock().lagging.map_or(now, |lagging| lagging.arrival(now))
    }

    fn pause(&self, effect: u64, time: Duration) {
        self.stand_still(time, &format!("pause from effect {effect} for {time:?}"));
    }

    /// Lets the process stand still from now on for `time`, as [`Gate::pause_at`] does at an effect.
    pub fn pause_for(&self, time: Duration) {
        self.stand_still(time, &format!("pause for {time:?}"));
    }

    /// Does that whenever the process begins to stand still, for whoever goes by what it does all the time.
    pub fn when_it_stands_still(&self, act: impl Fn() + Send + Sync + 'static) {
        self.lock().at_pause = Some(Arc::new(act));
    }

    fn stand_still(&self, time: Duration, words: &str) {
        let until = later(self.trace().clock().now(), time);
        let at_pause = {
            let mut state = self.lock();
            state.paused_until = Some(until);
            state.at_pause.clone()
        };
        self.trace().fault(self.name(), words);
        if let Some(act) = at_pause {
            act();
        }
        self.0.paused.notify_waiters();
    }

    fn go_on(&self) {
        let held_up = {
            let mut state = self.lock();
            state.paused_until = None;
            std::mem::take(&mut state.held_up)
        };
        self.trace().fault(self.name(), "goes on");
        held_up.into_iter().for_each(Waker::wake);
    }

    /// Returns once a crash has struck the present incarnation.
    pub async fn crashed(&self) {
        loop {
            let strike = self.0.struck.notified();
            if self.lock().struck {
                return;
            }
            strike.await;
        }
    }

    /// Cuts the present incarnation off: whatever it still does stays pending for ever.
    pub fn cut(&self) {
        self.lock().open = false;
    }

    /// Begins the next incarnation if the present one is over; counting goes on.
    ///
    /// Clients that were built before belong to the old incarnation and stay cut off.
    pub fn begin(&self) {
        let held_up = {
            let mut state = self.lock();
            if state.open {
                return;
            }
            state.incarnation += 1;
            state.open = true;
            state.struck = false;
            state.paused_until = None;
            std::mem::take(&mut state.held_up)
        };
        held_up.into_iter().for_each(Waker::wake);
    }

    /// Returns once the process stands still.
    pub async fn stands_still(&self) {
        loop {
            let paused = self.0.paused.notified();
            if self.is_paused() {
                return;
            }
            paused.await;
        }
    }

    /// Returns once the process does not stand still.
    pub async fn goes_on(&self) {
        poll_fn(|context| self.poll_going(context)).await;
    }

    /// Which incarnation is the present one, counted from 1.
    pub fn incarnation(&self) -> u64 {
        self.lock().incarnation
    }

    /// How many effects there have been in its group, those included before which a crash struck.
    pub fn effects(&self) -> u64 {
        self.count().passed
    }

    /// Lets it count effects without keeping what they were, as befits a process that does many and is never struck.
    #[must_use]
    pub fn forgetful(self) -> Self {
        self.count().forgets = true;
        self
    }

    /// All effects of its group in order; none of a forgetful one.
    pub fn effect_list(&self) -> Vec<Effect> {
        let count = self.count();
        let effects = count.effects.iter().zip(1..);
        effects
            .map(|(done, number)| Effect {
                number,
                incarnation: done.incarnation,
                kind: done.kind,
                description: done.description.to_string(),
            })
            .collect()
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.0.trace
    }

    fn revision(&self) -> Option<u64> {
        (self.0.revision)()
    }

    fn is_present(&self, incarnation: u64) -> bool {
        let state = self.lock();
        state.open && state.incarnation == incarnation
    }

    /// Numbers the effect, if it is one, and decides what its request may do.
    fn enter(&self, incarnation: u64, effect: Option<(EffectKind, String)>) -> Passage {
        if !self.is_present(incarnation) {
            return Passage::Closed;
        }
        let Some((kind, description)) = effect else {
            return Passage::Open { crash_after: None };
        };
        let mut count = self.count();
        count.passed += 1;
        let number = count.passed;
        if !count.forgets {
            let description = count.intern(&description);
            count.effects.push(Done {
                incarnation,
                kind,
                description,
            });
        }
        let armed = count.strikes.at(number);
        for (blow, armed) in [(Blow::Pause, armed.pause.is_some()), (Blow::Lag, armed.lag.is_some())] {
            if armed {
                count.strikes.note(number, blow);
            }
        }
        drop(count);
        if let Some(lag) = armed.lag {
            self.lag(number, lag);
        }
        if let Some(time) = armed.pause {
            self.pause(number, time);
        }
        let point = armed.crash.map(|side| CrashPoint { effect: number, side });
        match point {
            Some(point) if point.side == Side::Before => {
                self.strike(point);
                Passage::Closed
            }
            crash_after => Passage::Open { crash_after },
        }
    }

    fn lag(&self, effect: u64, lag: Lag) {
        let lagging = Lagging::from(self.trace().clock().now(), lag);
        self.lock().lagging = Some(lagging);
        let Lag { by, lasts } = lag;
        let lasts = lasts.map(|lasts| format!(" for {lasts:?}")).unwrap_or_default();
        self.trace().fault(
            self.name(),
            &format!("watches lag by {by:?} from effect {effect}{lasts}"),
        );
    }

    fn strike(&self, point: CrashPoint) {
        let description = {
            let mut state = self.lock();
            state.open = false;
            state.struck = true;
            drop(state);
            let mut count = self.count();
            count.strikes.note(point.effect, Blow::Crash);
            let effect = usize::try_from(point.effect - 1)
                .ok()
                .and_then(|index| count.effects.get(index));
            effect.map(|effect| effect.description.to_string()).unwrap_or_default()
        };
        self.trace().fault(self.name(), &format!("{point} ({description})"));
        self.0.struck.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.0.count.lock()
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Gate")
            .field("name", &self.0.name)
            .field("incarnation", &self.incarnation())
            .field("effects", &self.effects())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
