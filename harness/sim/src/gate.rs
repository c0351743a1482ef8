//! The gate around one process: all its requests pass here; effects are numbered, and the process can crash at each
//! of them.
//!
//! This module holds the state of the gate and its controls. `service` forwards requests, `body` forwards response
//! bodies. The supervisor, not the gate, restarts the process.

mod body;
mod disturbance;
mod service;

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

use self::disturbance::{Disturbances, Lagging, later};
use crate::Trace;

pub use body::GateBody;
pub use disturbance::{CrashPoint, DisturbanceKind, Lag, Side};
pub use service::{GateLayer, GateService};

/// The gate of one process. Clones share its state.
///
/// The process builds its clients through [`Gate::api`] and [`Gate::cloud`] in each incarnation. Without crash points
/// a gate only records. The other components of a world have a gate too, so that the trace contains their requests.
#[derive(Clone)]
pub struct Gate(Arc<Shared>);

struct Shared {
    name: String,
    trace: Trace,
    revision: Arc<dyn Fn() -> Option<u64> + Send + Sync>,
    state: Mutex<State>,
    count: Arc<Mutex<Count>>,
    crash: Notify,
    paused: Notify,
}

struct State {
    incarnation: u64,
    open: bool,
    crashed: bool,
    paused_until: Option<Timestamp>,
    /// Called when the process pauses.
    on_pause: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Wakers of the tasks that wait for the end of the pause, in the order in which they began to wait.
    waiting: Vec<Waker>,
    lagging: Option<Lagging>,
}

/// The effects of a group of processes, in one order, and the disturbances that await an effect.
#[derive(Default)]
struct Count {
    passed: u64,
    /// Effects are counted but not stored: two days of heartbeats would fill the memory.
    count_only: bool,
    effects: Vec<RecordedEffect>,
    /// The descriptions of all effects, each stored once: two days of Lease renewals repeat one text.
    descriptions: BTreeSet<Arc<str>>,
    disturbances: Disturbances,
}

/// An [`Effect`] with an interned description. Its index gives its number.
struct RecordedEffect {
    incarnation: u64,
    kind: EffectKind,
    description: Arc<str>,
}

/// One request that changes, or would have changed, state outside the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// Its number, counted from 1 over all incarnations of all processes of the group.
    pub number: u64,
    /// The incarnation of the process that sent it, counted from 1.
    pub incarnation: u64,
    /// The target of the request.
    pub kind: EffectKind,
    /// For instance `PATCH /api/v1/nodes/a` or `CreateMachine`.
    pub description: String,
}

/// The target of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EffectKind {
    /// A write to the API server: POST, PUT, PATCH or DELETE.
    ApiWrite,
    /// A call of the cloud, reads included: they can fail and cost quota.
    CloudCall,
}

/// The decision about a request.
enum Passage {
    /// Hold it forever: its incarnation has ended.
    Closed,
    /// Forward it; crash when the response arrives if there is a crash point.
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
    /// An open gate around the process `name`. `trace` records the requests under that name.
    pub fn new(name: &str, trace: Trace) -> Self {
        Self::with_revision(name, trace, || None)
    }

    /// Like [`Gate::new`]. `revision` returns the API server's current revision, which the trace records with each
    /// response.
    pub fn with_revision(name: &str, trace: Trace, revision: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        Self::in_group(name, trace, Arc::new(revision), Arc::default())
    }

    /// The gate of another process of the same group. All gates of a group share one effect count and its
    /// disturbances: the process that performs an effect is the one that crashes, pauses or lags.
    #[must_use]
    pub fn sibling(&self, name: &str) -> Self {
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
            crashed: false,
            paused_until: None,
            on_pause: None,
            waiting: Vec::new(),
            lagging: None,
        };
        Self(Arc::new(Shared {
            name: name.to_owned(),
            trace,
            revision,
            state: Mutex::new(state),
            count,
            crash: Notify::new(),
            paused: Notify::new(),
        }))
    }

    /// The name of the process.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The layer for the API client of the current incarnation.
    pub fn api(&self) -> GateLayer {
        GateLayer::new(self.clone(), EffectKind::ApiWrite, self.incarnation())
    }

    /// The layer for the cloud (gRPC) client of the current incarnation.
    pub fn cloud(&self) -> GateLayer {
        GateLayer::new(self.clone(), EffectKind::CloudCall, self.incarnation())
    }

    /// Crashes the process of the group that performs this effect. A point that has already passed has no effect.
    pub fn crash_at(&self, point: CrashPoint) {
        self.count().disturbances.arm(point.effect).crash = Some(point.side);
    }

    /// Crashes the process of the group that performs the next effect. Returns the number of that effect; `None`: a crash is armed
    /// at it already.
    pub fn crash_at_next(&self, side: Side) -> Option<u64> {
        let mut count = self.count();
        let effect = count.passed + 1;
        let armed = count.disturbances.arm(effect);
        if armed.crash.is_some() {
            return None;
        }
        armed.crash = Some(side);
        Some(effect)
    }

    /// Pauses the process of the group that performs this effect for `time` before the effect, as SIGSTOP and SIGCONT
    /// do: its requests and deliveries wait. A supervisor ([`process`](crate::process())) has to resume it.
    pub fn pause_at(&self, effect: u64, time: Duration) {
        self.count().disturbances.arm(effect).pause = Some(time);
    }

    /// Delays the watches of the process of the group that performs this effect, from then on and across restarts.
    pub fn lag_at(&self, effect: u64, lag: Lag) {
        self.count().disturbances.arm(effect).lag = Some(lag);
    }

    /// Whether that disturbance has taken effect at that effect.
    pub fn has_hit(&self, effect: u64, kind: DisturbanceKind) -> bool {
        self.count().disturbances.has_hit(effect, kind)
    }

    /// Resumes the process when a pause is over. Never returns.
    pub(crate) async fn serve_pauses<T>(&self) -> T {
        loop {
            let paused = self.0.paused.notified();
            let until = self.lock().paused_until;
            match until {
                Some(until) => {
                    self.trace().clock().sleep_until(until).await;
                    // A pause that ends later may have begun.
                    if self.lock().paused_until == Some(until) {
                        self.resume();
                    }
                }
                None => paused.await,
            }
        }
    }

    /// Ready unless the process is paused; in that case it wakes the task of `context` on resume.
    pub(crate) fn poll_resumed(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.paused_until.is_none() {
            return Poll::Ready(());
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }

    fn is_paused(&self) -> bool {
        self.lock().paused_until.is_some()
    }

    /// When the process receives a watch event that the server sends now.
    fn arrival(&self) -> Timestamp {
        let now = self.trace().clock().now();
        self.lock().lagging.map_or(now, |lagging| lagging.arrival(now))
    }

    fn pause(&self, effect: u64, time: Duration) {
        self.start_pause(time, &format!("pause from effect {effect} for {time:?}"));
    }

    /// Pauses the process for `time`, starting now. Overlapping pauses end at the latest of their ends.
    pub fn pause_for(&self, time: Duration) {
        self.start_pause(time, &format!("pause for {time:?}"));
    }

    /// Sets a function that runs whenever the process pauses.
    pub fn on_pause(&self, handler: impl Fn() + Send + Sync + 'static) {
        self.lock().on_pause = Some(Arc::new(handler));
    }

    fn start_pause(&self, time: Duration, message: &str) {
        let until = later(self.trace().clock().now(), time);
        let on_pause = {
            let mut state = self.lock();
            state.paused_until = state.paused_until.max(Some(until));
            state.on_pause.clone()
        };
        self.trace().fault(self.name(), message);
        if let Some(handler) = on_pause {
            handler();
        }
        self.0.paused.notify_waiters();
    }

    fn resume(&self) {
        let waiting = {
            let mut state = self.lock();
            state.paused_until = None;
            std::mem::take(&mut state.waiting)
        };
        self.trace().fault(self.name(), "goes on");
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns when the current incarnation has crashed.
    pub async fn crashed(&self) {
        loop {
            let crash = self.0.crash.notified();
            if self.lock().crashed {
                return;
            }
            crash.await;
        }
    }

    /// Cuts the current incarnation off: its requests stay pending forever.
    pub fn cut(&self) {
        self.lock().open = false;
    }

    /// Begins the next incarnation if the current one has ended; the effect count continues.
    ///
    /// Clients of an earlier incarnation stay cut off.
    pub fn begin(&self) {
        let waiting = {
            let mut state = self.lock();
            if state.open {
                return;
            }
            state.incarnation += 1;
            state.open = true;
            state.crashed = false;
            state.paused_until = None;
            std::mem::take(&mut state.waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Returns when the process is paused.
    pub async fn paused(&self) {
        loop {
            let paused = self.0.paused.notified();
            if self.is_paused() {
                return;
            }
            paused.await;
        }
    }

    /// Returns when the process is not paused.
    pub async fn resumed(&self) {
        poll_fn(|context| self.poll_resumed(context)).await;
    }

    /// The number of the current incarnation, counted from 1.
    pub fn incarnation(&self) -> u64 {
        self.lock().incarnation
    }

    /// The number of effects in the group, including those that a crash prevented.
    pub fn effects(&self) -> u64 {
        self.count().passed
    }

    /// Makes the gate count effects without storing them, for a process that has many and is never disturbed.
    #[must_use]
    pub fn count_only(self) -> Self {
        self.count().count_only = true;
        self
    }

    /// All effects of the group in order; empty after [`Gate::count_only`].
    pub fn effect_list(&self) -> Vec<Effect> {
        let count = self.count();
        let effects = count.effects.iter().zip(1..);
        effects
            .map(|(effect, number)| Effect {
                number,
                incarnation: effect.incarnation,
                kind: effect.kind,
                description: effect.description.to_string(),
            })
            .collect()
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.0.trace
    }

    fn revision(&self) -> Option<u64> {
        (self.0.revision)()
    }

    fn is_current(&self, incarnation: u64) -> bool {
        let state = self.lock();
        state.open && state.incarnation == incarnation
    }

    /// Numbers the request if it is an effect, and decides what happens to it.
    fn enter(&self, incarnation: u64, effect: Option<(EffectKind, String)>) -> Passage {
        if !self.is_current(incarnation) {
            return Passage::Closed;
        }
        let Some((kind, description)) = effect else {
            return Passage::Open { crash_after: None };
        };
        let mut count = self.count();
        count.passed += 1;
        let number = count.passed;
        if !count.count_only {
            let description = count.intern(&description);
            count.effects.push(RecordedEffect {
                incarnation,
                kind,
                description,
            });
        }
        let armed = count.disturbances.at(number);
        for (kind, armed) in [
            (DisturbanceKind::Pause, armed.pause.is_some()),
            (DisturbanceKind::Lag, armed.lag.is_some()),
        ] {
            if armed {
                count.disturbances.record_hit(number, kind);
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
                self.crash(point);
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

    fn crash(&self, point: CrashPoint) {
        let description = {
            let mut state = self.lock();
            state.open = false;
            state.crashed = true;
            drop(state);
            let mut count = self.count();
            count.disturbances.record_hit(point.effect, DisturbanceKind::Crash);
            let effect = usize::try_from(point.effect - 1)
                .ok()
                .and_then(|index| count.effects.get(index));
            effect.map(|effect| effect.description.to_string()).unwrap_or_default()
        };
        self.trace().fault(self.name(), &format!("{point} ({description})"));
        self.0.crash.notify_waiters();
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
