//! Leader election as `mcm_core::election` decides it, over a Lease of the control cluster.
//!
//! What lives here: reading and writing the Lease, each write a compare-and-swap, and running the work
//! only between. What must not: the rules, and what the work is.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use clock::{Clock, Pulses};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use mcm_core::election::{self, ObservedLease, Settings, Step, View};
use tokio_util::sync::CancellationToken;

pub(crate) use self::tenure::Tenure;
use self::tenure::Unheard;
use crate::Error;
use crate::metrics::{Activity, Readiness};

mod tenure;

/// The Lease that all processes compete for.
pub(crate) const LEASE: &str = "machine-controller-manager";

/// How long the Lease may take to be given back at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// One candidate.
pub(crate) struct Elector {
    api: Api<Lease>,
    /// Never goes back: a wall clock that is set back must not make a leadership last longer.
    clock: Clock,
    wall: Clock,
    tenure: Tenure,
    readiness: Readiness,
    settings: Settings,
    view: View,
    /// Labels and annotations of the Lease, which are somebody else's.
    metadata: ObjectMeta,
}

/// How far an attempt came.
enum Attempt {
    Written,
    WaitUntil(Timestamp),
    Lost,
}

impl Elector {
    pub(crate) fn new(
        client: Client,
        namespace: &str,
        identity: String,
        settings: Settings,
        clock: Clock,
        readiness: Readiness,
    ) -> Self {
        let metadata = ObjectMeta {
            name: Some(LEASE.to_owned()),
            namespace: Some(namespace.to_owned()),
            ..ObjectMeta::default()
        };
        Self {
            api: Api::namespaced(client, namespace),
            clock: Clock::simulated(clock.now()),
            wall: clock,
            tenure: Tenure::until(Timestamp::MIN),
            readiness,
            settings,
            view: View {
                lease: None,
                identity,
                renewed_at: None,
            },
            metadata,
        }
    }

    /// Renews only where a renewal would be missed, if somebody knows where: see [`Environment::pulses`](crate::Environment).
    pub(crate) fn beating(mut self, pulses: Option<Pulses>) -> Self {
        self.tenure = self.tenure.beating(pulses.map(|pulses| Unheard {
            pulses,
            name: self.view.identity.clone(),
            clock: self.wall.clone(),
            settings: self.settings,
        }));
        self
    }

    /// Runs `work` while this process leads, and gives the Lease back when the work ends. Returns
    /// without having worked when `cancel` comes first. `work` is dropped when leadership is lost; then,
    /// as after [`Tenure::let_expire`], the Lease is left to expire.
    ///
    /// # Errors
    /// What `work` returns, or [`Error::LeadershipLost`].
    pub(crate) async fn lead<W, F>(mut self, cancel: CancellationToken, work: W) -> Result<(), Error>
    where
        W: FnOnce(Tenure) -> F,
        F: Future<Output = Result<(), Error>>,
    {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(()),
            () = self.acquire() => {}
        }
        tracing::info!(lease = LEASE, identity = self.view.identity, "leading");
        let result = {
            let mut work = pin!(work(self.tenure.clone()));
            tokio::select! {
                biased;
                reason = self.hold() => {
                    if defect!(LeadershipCheckedOncePerPass) {
                        let _ = tokio::time::timeout(RELEASE_TIMEOUT, &mut work).await;
                    }
                    Err(Error::LeadershipLost(reason))
                }
                result = &mut work => result,
            }
        };
        if result.is_err() || self.tenure.expires() {
            tracing::info!(lease = LEASE, "the lease is left to expire");
        } else {
            self.release().await;
        }
        result
    }

    /// Tries until this process leads.
    async fn acquire(&mut self) {
        let mut seen_holder = None;
        loop {
            let wait = match self.attempt().await {
                Ok(Attempt::Written) => return,
                Ok(Attempt::WaitUntil(time)) => {
                    self.readiness.set(Activity::Standby);
                    self.clock.until(time)
                }
                Ok(Attempt::Lost) => self.settings.retry_period,
                Err(error) => {
                    self.readiness.set(Activity::Starting);
                    tracing::warn!(lease = LEASE, error, "no attempt at leading succeeded yet");
                    self.settings.retry_period
                }
            };
            let holder = self.holder();
            if holder != seen_holder {
                tracing::info!(
                    lease = LEASE,
                    holder = holder.as_deref().unwrap_or_default(),
                    "waiting to lead"
                );
                seen_holder = holder;
            }
            self.clock.sleep(wait).await;
            if let Err(error) = self.observe().await {
                tracing::warn!(lease = LEASE, error, "the lease cannot be read");
            }
        }
    }

    /// Renews until that is no longer possible; says why.
    async fn hold(&mut self) -> String {
        let mut last_error = None;
        self.rest().await;
        loop {
            match self.attempt().await {
                Ok(Attempt::Written) => {
                    last_error = None;
                    self.rest().await;
                }
                Ok(Attempt::WaitUntil(time)) => self.clock.sleep_until(time).await,
                Ok(Attempt::Lost) => return self.why_lost(last_error),
                Err(error) => {
                    tracing::warn!(lease = LEASE, %error, "the lease was not renewed");
                    self.clock.sleep(self.settings.retry_period.min(self.time_left())).await;
                    if let Err(error) = self.observe().await {
                        tracing::debug!(lease = LEASE, error, "the lease cannot be read");
                    }
                    last_error = Some(error);
                }
            }
        }
    }

    /// Leads on after a write for as long as nobody would miss a renewal.
    async fn rest(&mut self) {
        let Some(renewed_at) = self.view.renewed_at else { return };
        if let Some(last) = self.tenure.rest(renewed_at).await {
            self.view.renewed_at = Some(last);
        }
    }

    fn why_lost(&self, last_error: Option<String>) -> String {
        match self.holder() {
            None => format!("the lease {LEASE} is gone"),
            Some(holder) if holder != self.view.identity => format!("the lease {LEASE} is held by {holder:?}"),
            Some(_) => {
                let error = last_error.unwrap_or_else(|| "this process was too slow".to_owned());
                format!("the lease {LEASE} was not renewed in time: {error}")
            }
        }
    }

    /// One step of the rules.
    async fn attempt(&mut self) -> Result<Attempt, String> {
        if self.view.lease.is_none() && self.view.renewed_at.is_none() {
            self.observe().await?;
        }
        let (now, wall) = (self.clock.now(), self.wall.now());
        match election::step(&self.view, &self.settings, now) {
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
        let until = wall.checked_add(self.settings.renew_deadline);
        self.tenure.extend(until.unwrap_or(Timestamp::MAX));
        Ok(Attempt::Written)
    }

    async fn release(&mut self) {
        let Some(spec) = election::release(&self.view, self.clock.now()) else {
            return;
        };
        let Some(version) = self.view.lease.as_ref().map(|lease| lease.resource_version.clone()) else {
            return;
        };
        let released = tokio::time::timeout(RELEASE_TIMEOUT, self.replace(spec, version)).await;
        let released = released.unwrap_or_else(|_| Err(format!("no answer within {} ms", RELEASE_TIMEOUT.as_millis())));
        match released {
            Ok(()) => tracing::info!(lease = LEASE, "the lease is given back"),
            Err(error) => tracing::warn!(lease = LEASE, error, "the lease could not be given back"),
        }
    }

    async fn observe(&mut self) -> Result<(), String> {
        let found = self.within(self.api.get_opt(LEASE)).await?;
        self.saw(found);
        Ok(())
    }

    async fn create(&mut self, spec: LeaseSpec) -> Result<(), String> {
        let lease = Lease {
            metadata: self.metadata.clone(),
            spec: Some(spec),
        };
        let written = self.within(self.api.create(&PostParams::default(), &lease)).await?;
        self.saw(Some(written));
        Ok(())
    }

    async fn replace(&mut self, spec: LeaseSpec, version: String) -> Result<(), String> {
        let metadata = ObjectMeta {
            resource_version: Some(version),
            ..self.metadata.clone()
        };
        let lease = Lease {
            metadata,
            spec: Some(spec),
        };
        let written = self
            .within(self.api.replace(LEASE, &PostParams::default(), &lease))
            .await?;
        self.saw(Some(written));
        Ok(())
    }

    /// A request that cannot outlast the leadership.
    async fn within<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
        let limit = (self.settings.renew_deadline / 2).min(self.time_left());
        match tokio::time::timeout(limit, request).await {
            Ok(result) => result.map_err(|error| crate::error::brief(&error)),
            Err(_) => Err(format!("no answer within {} ms", limit.as_millis())),
        }
    }

    fn time_left(&self) -> Duration {
        let Some(renewed_at) = self.view.renewed_at else {
            return self.settings.renew_deadline;
        };
        let deadline = renewed_at
            .checked_add(self.settings.renew_deadline)
            .unwrap_or(Timestamp::MAX);
        self.clock.until(deadline)
    }

    fn saw(&mut self, lease: Option<Lease>) {
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

#[cfg(test)]
mod tests;
