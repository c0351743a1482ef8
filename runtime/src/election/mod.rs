//! Leader election over one Lease: reading and writing it, each write a compare-and-swap, and running the work only while
//! this process leads.
//!
//! The rules are those of [`step`]. What must not live here: what the work is.

pub mod step;
mod tenure;

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
pub use self::tenure::Tenure;
use self::tenure::Unheard;
use crate::error::brief;

/// How long the Lease may take to be given back at the end.
const RELEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// This process does not lead any more, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeadershipLost(pub String);

/// What a candidate knows while it does not lead.
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
    /// Never goes back: a wall clock that is set back must not make a leadership last longer.
    clock: Clock,
    wall: Clock,
    tenure: Tenure,
    observer: Box<dyn Fn(Candidacy) + Send + Sync>,
    lingers: bool,
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

impl std::fmt::Debug for Elector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elector")
            .field("lease", &self.lease)
            .field("identity", &self.view.identity)
            .finish_non_exhaustive()
    }
}

impl Elector {
    /// A candidate for the Lease of that name.
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
            lingers: false,
            settings,
            view: View {
                lease: None,
                identity,
                renewed_at: None,
            },
            metadata,
        }
    }

    /// Tells `observer` what this candidate knows while it does not lead.
    pub fn observed_by(mut self, observer: impl Fn(Candidacy) + Send + Sync + 'static) -> Self {
        self.observer = Box::new(observer);
        self
    }

    /// Whether the work goes on for a moment after leadership is lost, which it must not in production.
    pub fn lingering(self, lingers: bool) -> Self {
        Self { lingers, ..self }
    }

    /// Renews only where a renewal would be missed, if the pulses tell where.
    pub fn beating(mut self, pulses: Option<Pulses>) -> Self {
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
    /// What `work` returns, or [`LeadershipLost`].
    pub async fn lead<W, F, E>(mut self, cancel: CancellationToken, work: W) -> Result<(), E>
    where
        W: FnOnce(Tenure) -> F,
        F: Future<Output = Result<(), E>>,
        E: From<LeadershipLost>,
    {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(()),
            () = self.acquire() => {}
        }
        tracing::info!(lease = self.lease, identity = self.view.identity, "leading");
        let result = {
            let mut work = pin!(work(self.tenure.clone()));
            tokio::select! {
                biased;
                reason = self.hold() => {
                    if self.lingers {
                        let _ = tokio::time::timeout(RELEASE_TIMEOUT, &mut work).await;
                    }
                    Err(LeadershipLost(reason).into())
                }
                result = &mut work => result,
            }
        };
        if result.is_err() || self.tenure.expires() {
            tracing::info!(lease = self.lease, "the lease is left to expire");
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
                    (self.observer)(Candidacy::Standby);
                    self.clock.until(time)
                }
                Ok(Attempt::Lost) => self.settings.retry_period,
                Err(error) => {
                    (self.observer)(Candidacy::Unknown);
                    tracing::warn!(lease = self.lease, error, "no attempt at leading succeeded yet");
                    self.settings.retry_period
                }
            };
            let holder = self.holder();
            if holder != seen_holder {
                tracing::info!(
                    lease = self.lease,
                    holder = holder.as_deref().unwrap_or_default(),
                    "waiting to lead"
                );
                seen_holder = holder;
            }
            self.clock.sleep(wait).await;
            if let Err(error) = self.observe().await {
                tracing::warn!(lease = self.lease, error, "the lease cannot be read");
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
                    tracing::warn!(lease = self.lease, %error, "the lease was not renewed");
                    self.clock.sleep(self.settings.retry_period.min(self.time_left())).await;
                    if let Err(error) = self.observe().await {
                        tracing::debug!(lease = self.lease, error, "the lease cannot be read");
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
        let lease = &self.lease;
        match self.holder() {
            None => format!("the lease {lease} is gone"),
            Some(holder) if holder != self.view.identity => format!("the lease {lease} is held by {holder:?}"),
            Some(_) => {
                let error = last_error.unwrap_or_else(|| "this process was too slow".to_owned());
                format!("the lease {lease} was not renewed in time: {error}")
            }
        }
    }

    /// One step of the rules.
    async fn attempt(&mut self) -> Result<Attempt, String> {
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
        let released = released.unwrap_or_else(|_| Err(format!("no answer within {} ms", RELEASE_TIMEOUT.as_millis())));
        match released {
            Ok(()) => tracing::info!(lease = self.lease, "the lease is given back"),
            Err(error) => tracing::warn!(lease = self.lease, error, "the lease could not be given back"),
        }
    }

    async fn observe(&mut self) -> Result<(), String> {
        let found = self.within(self.api.get_opt(&self.lease)).await?;
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
            .within(self.api.replace(&self.lease, &PostParams::default(), &lease))
            .await?;
        self.saw(Some(written));
        Ok(())
    }

    /// A request that cannot outlast the leadership.
    async fn within<T>(&self, request: impl Future<Output = kube::Result<T>>) -> Result<T, String> {
        let limit = (self.settings.renew_deadline / 2).min(self.time_left());
        match tokio::time::timeout(limit, request).await {
            Ok(result) => result.map_err(|error| brief(&error)),
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
