//! Leader election with one Lease: reads and writes it, with a compare-and-swap for each write, and runs the work only
//! while this process leads.
//!
//! The rules are in [`step`]. The work is generic.

pub mod step;
mod tenure;
mod thread;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use clock::{Clock, Pulses};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

pub use self::step::Settings;
use self::step::{ObservedLease, Step, View};
use self::tenure::PulseRenewal;
pub use self::tenure::Tenure;
pub use self::thread::lead_on_own_thread;
use crate::error::brief;

/// The timeout of releasing the Lease at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// This process does not lead any more; contains the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeadershipLost(pub String);

/// The state of a candidate that does not lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Candidacy {
    /// The Lease cannot be read.
    Unknown,
    /// Another process leads.
    Standby,
}

/// One candidate.
pub struct Elector {
    api: Api<Lease>,
    /// The name of the Lease that all candidates compete for.
    lease: String,
    /// A monotonic clock: setting back the wall clock must not extend the leadership.
    clock: Clock,
    wall: Clock,
    tenure: Tenure,
    observer: Box<dyn Fn(Candidacy) + Send + Sync>,
    lateness: Box<dyn Fn(Duration) + Send + Sync>,
    lingers: bool,
    settings: Settings,
    view: View,
    /// Name, namespace and foreign metadata of the Lease, which writes preserve.
    metadata: ObjectMeta,
}

/// Why the Lease cannot be read or written.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error("{}", brief(.0))]
    Request(#[from] kube::Error),
    #[error("no response within {} ms", .0.as_millis())]
    NoResponse(Duration),
}

/// The result of an attempt.
enum Attempt {
    Written,
    WaitUntil(Timestamp),
    Lost,
}

impl std::fmt::Debug for Elector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elector")
            .field("lease", &self.lease)
            .field("identity", &self.view.identity)
            .finish_non_exhaustive()
    }
}

impl Elector {
    /// A candidate for the Lease `lease`.
    pub fn new(
        client: Client,
        namespace: &str,
        lease: &str,
        identity: String,
        settings: Settings,
        clock: Clock,
    ) -> Self {
        let metadata = ObjectMeta {
            name: Some(lease.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        };
        Self {
            api: Api::namespaced(client, namespace),
            lease: lease.to_owned(),
            clock: Clock::simulated(clock.now()),
            wall: clock,
            tenure: Tenure::until(Timestamp::MIN),
            observer: Box::new(|_| ()),
            lateness: Box::new(|_| ()),
            lingers: false,
            settings,
            view: View {
                lease: None,
                identity,
                renewed_at: None,
                failed: false,
            },
            metadata,
        }
    }

    /// Calls `observer` with the state of this candidate while it does not lead.
    pub fn observed_by(mut self, observer: impl Fn(Candidacy) + Send + Sync + 'static) -> Self {
        self.observer = Box::new(observer);
        self
    }

    /// Calls `lateness` before each renewal with the time that has passed since the renewal was due: how long this
    /// process or its thread did not run.
    pub fn measured_by(mut self, lateness: impl Fn(Duration) + Send + Sync + 'static) -> Self {
        self.lateness = Box::new(lateness);
        self
    }

    /// Sets whether the work continues briefly after leadership is lost. It must not in production.
    pub fn lingering(self, lingers: bool) -> Self {
        Self { lingers, ..self }
    }

    /// Replaces renewals by pulses while those are uninterrupted; `None`: always renews.
    pub fn renewing_by_pulse(mut self, pulses: Option<Pulses>) -> Self {
        self.tenure = self.tenure.renewing_by_pulse(pulses.map(|pulses| PulseRenewal {
            pulses,
            name: self.view.identity.clone(),
            clock: self.wall.clone(),
            settings: self.settings,
        }));
        self
    }

    /// Runs `work` while this process leads, and releases the Lease when the work ends. Returns without
    /// starting it if `cancel` is cancelled first. Drops `work` when leadership is lost; the Lease then
    /// expires, as after [`Tenure::let_expire`] or an error of `work`. The default of `T` means that `work` did not start.
    ///
    /// # Errors
    /// What `work` returns, or [`LeadershipLost`].
    pub async fn lead<W, F, T, E>(mut self, cancel: CancellationToken, work: W) -> Result<T, E>
    where
        W: FnOnce(Tenure) -> F,
        F: Future<Output = Result<T, E>>,
        T: Default,
        E: From<LeadershipLost>,
    {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(T::default()),
            () = self.acquire() => {}
        }
        tracing::info!(lease = self.lease, identity = self.view.identity, "leading");
        let result = {
            let mut work = pin!(work(self.tenure.clone()));
            tokio::select! {
                biased;
                reason = self.keep_renewing() => {
                    if self.lingers {
                        let _ = tokio::time::timeout(RELEASE_TIMEOUT, &mut work).await;
                    }
                    Err(LeadershipLost(reason).into())
                }
                result = &mut work => result,
            }
        };
        if result.is_err() || self.tenure.expires() {
            tracing::info!(lease = self.lease, "the lease will expire");
        } else {
            self.release().await;
        }
        result
    }

    /// Tries to acquire the Lease until this process leads.
    async fn acquire(&mut self) {
        let mut last_holder = None;
        loop {
            let wait = match self.attempt().await {
                Ok(Attempt::Written) => return,
                Ok(Attempt::WaitUntil(time)) => {
                    (self.observer)(Candidacy::Standby);
                    self.clock.until(time)
                }
                Ok(Attempt::Lost) => self.settings.retry_period,
                Err(error) => {
                    (self.observer)(Candidacy::Unknown);
                    tracing::warn!(lease = self.lease, %error, "acquiring the lease failed");
                    self.settings.retry_period
                }
            };
            let holder = self.holder();
            if holder != last_holder {
                tracing::info!(
                    lease = self.lease,
                    holder = holder.as_deref().unwrap_or_default(),
                    "waiting to lead"
                );
                last_holder = holder;
            }
            self.clock.sleep(wait).await;
            if let Err(error) = self.observe().await {
                tracing::warn!(lease = self.lease, %error, "the lease cannot be read");
            }
        }
    }

    /// Renews the Lease until leadership is lost; returns the reason.
    async fn keep_renewing(&mut self) -> String {
        let mut last_error = None;
        self.renew_by_pulse().await;
        loop {
            match self.attempt().await {
                Ok(Attempt::Written) => {
                    last_error = None;
                    self.renew_by_pulse().await;
                }
                Ok(Attempt::WaitUntil(time)) => {
                    self.clock.sleep_until(time).await;
                    self.report_lateness(time);
                }
                Ok(Attempt::Lost) => return self.why_lost(last_error),
                Err(error) => {
                    tracing::warn!(lease = self.lease, %error, "renewing the lease failed");
                    self.view.failed = true;
                    self.clock.sleep(self.settings.retry_period.min(self.time_left())).await;
                    if let Err(error) = self.observe().await {
                        tracing::debug!(lease = self.lease, %error, "the lease cannot be read");
                    }
                    last_error = Some(error);
                }
            }
        }
    }

    fn report_lateness(&self, due: Timestamp) {
        let late = Duration::try_from(self.clock.now().duration_since(due)).unwrap_or_default();
        (self.lateness)(late);
        if late > self.settings.retry_period {
            let milliseconds = late.as_millis();
            tracing::warn!(
                lease = self.lease,
                milliseconds,
                "the lease is renewed late: this process did not run"
            );
        }
    }

    /// Leads without renewals after a write while a pulse replaces them.
    async fn renew_by_pulse(&mut self) {
        let Some(renewed_at) = self.view.renewed_at else { return };
        if let Some(last) = self.tenure.renew_by_pulse(renewed_at).await {
            self.view.renewed_at = Some(last);
        }
    }

    fn why_lost(&self, last_error: Option<LeaseError>) -> String {
        let lease = &self.lease;
        match self.holder() {
            None => format!("the lease {lease} was deleted"),
            Some(holder) if holder != self.view.identity => format!("the lease {lease} is held by {holder:?}"),
            Some(_) => {
                let reason =
                    last_error.map_or_else(|| "this process was too slow".to_owned(), |error| error.to_string());
                format!("the lease {lease} was not renewed in time: {reason}")
            }
        }
    }

    /// Performs one step of the rules.
    async fn attempt(&mut self) -> Result<Attempt, LeaseError> {
        if self.view.lease.is_none() && self.view.renewed_at.is_none() {
            self.observe().await?;
        }
        let (now, wall) = (self.clock.now(), self.wall.now());
        match step::step(&self.view, &self.settings, now) {
            Step::Acquire {
                spec,
                resource_version: None,
            } => self.create(spec).await?,
            Step::Acquire {
                spec,
                resource_version: Some(version),
            }
            | Step::Renew {
                spec,
                resource_version: version,
            } => {
                self.replace(spec, version).await?;
            }
            Step::Wait(time) => return Ok(Attempt::WaitUntil(time)),
            Step::Lost => return Ok(Attempt::Lost),
        }
        self.view.renewed_at = Some(now);
        self.view.failed = false;
        let until = wall.checked_add(self.settings.renew_deadline);
        self.tenure.extend(until.unwrap_or(Timestamp::MAX));
        Ok(Attempt::Written)
    }

    async fn release(&mut self) {
        let Some(spec) = step::release(&self.view, self.clock.now()) else {
            return;
        };
        let Some(version) = self.view.lease.as_ref().map(|lease| lease.resource_version.clone()) else {
            return;
        };
        let released = tokio::time::timeout(RELEASE_TIMEOUT, self.replace(spec, version)).await;
        let timed_out = |_| Err(LeaseError::NoResponse(RELEASE_TIMEOUT));
        let released = released.unwrap_or_else(timed_out);
        match released {
            Ok(()) => tracing::info!(lease = self.lease, "the lease is released"),
            Err(error) => tracing::warn!(lease = self.lease, %error, "releasing the lease failed"),
        }
    }

    async fn observe(&mut self) -> Result<(), LeaseError> {
        let found = self.within(self.api.get_opt(&self.lease)).await?;
        self.store(found);
        Ok(())
    }

    async fn create(&mut self, spec: LeaseSpec) -> Result<(), LeaseError> {
        let lease = Lease {
            metadata: self.metadata.clone(),
            spec: Some(spec),
        };
        let written = self.within(self.api.create(&PostParams::default(), &lease)).await?;
        self.store(Some(written));
        Ok(())
    }

    async fn replace(&mut self, spec: LeaseSpec, version: String) -> Result<(), LeaseError> {
        let metadata = ObjectMeta {
            resource_version: Some(version),
            ..self.metadata.clone()
        };
        let lease = Lease {
            metadata,
            spec: Some(spec),
        };
        let written = self
            .within(self.api.replace(&self.lease, &PostParams::default(), &lease))
            .await?;
        self.store(Some(written));
        Ok(())
    }

    /// Performs a request with a timeout, so that it does not outlast the leadership.
    async fn within<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, LeaseError> {
        let limit = (self.settings.renew_deadline / 2).min(self.time_left());
        match tokio::time::timeout(limit, request).await {
            Ok(result) => Ok(result?),
            Err(_) => Err(LeaseError::NoResponse(limit)),
        }
    }

    fn time_left(&self) -> Duration {
        let Some(renewed_at) = self.view.renewed_at else {
            return self.settings.renew_deadline;
        };
        let limit = step::give_up_after(self.view.failed, &self.settings);
        self.clock
            .until(renewed_at.checked_add(limit).unwrap_or(Timestamp::MAX))
    }

    fn store(&mut self, lease: Option<Lease>) {
        let Some(lease) = lease else {
            self.view.lease = None;
            return;
        };
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let unchanged = self
            .view
            .lease
            .as_ref()
            .is_some_and(|seen| seen.resource_version == version);
        if !unchanged {
            self.view.lease = Some(ObservedLease {
                spec: lease.spec.unwrap_or_default(),
                resource_version: version,
                observed_at: self.clock.now(),
            });
        }
        self.metadata.labels = lease.metadata.labels;
        self.metadata.annotations = lease.metadata.annotations;
        self.metadata.owner_references = lease.metadata.owner_references;
    }

    fn holder(&self) -> Option<String> {
        self.view
            .lease
            .as_ref()
            .and_then(|lease| lease.spec.holder_identity.clone())
    }
}
