//! Until when a process leads, and where it does so without renewing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clock::{Clock, Pulses};
use jiff::Timestamp;

use parking_lot::Mutex;

use super::step::Settings;

/// Until when this process leads for certain, by the wall clock; renewals move it on.
#[derive(Clone, Debug)]
pub struct Tenure {
    until: Arc<Mutex<Timestamp>>,
    expires: Arc<AtomicBool>,
    unheard: Option<Unheard>,
}

/// Renewals that need not be made, as nobody would miss them: the pulse says the same.
#[derive(Clone, Debug)]
pub(super) struct Unheard {
    pub(super) pulses: Pulses,
    /// Under which name this process beats: its identity.
    pub(super) name: String,
    /// The clock of the pulses.
    pub(super) clock: Clock,
    pub(super) settings: Settings,
}

/// A process that beats. It stops beating when this is dropped, whatever the reason: a crash, or that it leads no more.
struct Beating<'a>(&'a Unheard);

impl Drop for Beating<'_> {
    fn drop(&mut self) {
        self.0.pulses.end(&self.0.name, self.0.clock.now());
    }
}

impl Unheard {
    /// Beats after a renewal at `renewed_at` for as long as it may; answers the last beat, if there was one.
    async fn beat(&self, renewed_at: Timestamp) -> Option<Timestamp> {
        let period = self.settings.retry_period;
        let until = self.pulses.begin(&self.name, renewed_at, period)?;
        let beating = Beating(self);
        tokio::select! {
            biased;
            () = self.pulses.ended(&self.name) => {}
            // The beat after that one is to be heard.
            () = self.clock.sleep_until(until.checked_sub(period).unwrap_or(until)) => {}
        }
        drop(beating);
        self.pulses.last(&self.name, self.clock.now())
    }

    /// Until when the beats until `now` let it lead.
    fn leads_until(&self, now: Timestamp) -> Option<Timestamp> {
        let last = self.pulses.last(&self.name, now)?;
        last.checked_add(self.settings.renew_deadline).ok()
    }
}

impl Tenure {
    /// That of a process that competes with no other.
    pub fn unlimited() -> Self {
        Self::until(Timestamp::MAX)
    }

    pub(super) fn until(until: Timestamp) -> Self {
        Self {
            until: Arc::new(Mutex::new(until)),
            expires: Arc::default(),
            unheard: None,
        }
    }

    pub(super) fn beating(self, unheard: Option<Unheard>) -> Self {
        Self { unheard, ..self }
    }

    /// Has the Lease expire instead of being given back, because something that this process began may
    /// still have an effect: whoever leads next should not begin the same at once.
    pub fn let_expire(&self) {
        self.expires.store(true, Ordering::Relaxed);
    }

    pub(super) fn expires(&self) -> bool {
        self.expires.load(Ordering::Relaxed)
    }

    /// Whether this process leads at that time.
    pub fn holds(&self, now: Timestamp) -> bool {
        let renewed = *self.until.lock();
        let beaten = self.unheard.as_ref().and_then(|unheard| unheard.leads_until(now));
        now < beaten.map_or(renewed, |beaten| beaten.max(renewed))
    }

    /// Whether this process need not renew, as nothing would miss it.
    pub fn is_unheard(&self) -> bool {
        let unheard = self.unheard.as_ref();
        unheard.is_some_and(|unheard| unheard.pulses.beats(&unheard.name))
    }

    pub(super) fn extend(&self, until: Timestamp) {
        *self.until.lock() = until;
    }

    /// Leads on after a renewal at `renewed_at` without another one, where that is allowed and for as long as it is;
    /// answers which would have been the last.
    pub(super) async fn rest(&self, renewed_at: Timestamp) -> Option<Timestamp> {
        self.unheard.as_ref()?.beat(renewed_at).await
    }
}
