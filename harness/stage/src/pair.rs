//! A session with two clusters, one for machines and one for their nodes, on any wall-clock stages.
//!
//! mcm and fakecloud are processes on this machine, even with a kind cluster, so that the clusters do not have to reach
//! each other.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use scenario::job::Job;
use scenario::{StageKind, Timeouts};

use super::plane::envtest::Spares;
use super::plane::existing::{self, Session, SessionError};
use super::plane::{Plane, Planes};
use super::role::Role;
use super::{kind, processes};
use crate::result::StageResult;
use crate::{Performer, StageError};

/// The origin of one of the clusters.
#[derive(Debug)]
pub enum Ground {
    /// Started for each run: `embedded` or `envtest`.
    Own(StageKind, Arc<Spares>),
    /// An existing cluster.
    There(Box<Session>),
    /// A kind cluster, created for the session or existing.
    Kind(Box<kind::Cluster>, Box<Session>),
}

impl Ground {
    /// The session that runs share, unless each run starts its own cluster.
    fn session(&self) -> Option<&Session> {
        match self {
            Self::Own(..) => None,
            Self::There(session) | Self::Kind(_, session) => Some(session),
        }
    }

    /// How long the cluster takes to notice a dead kubelet.
    fn node_grace(&self) -> Duration {
        match self {
            Self::Own(..) | Self::Kind(..) => kind::NODE_GRACE,
            Self::There(_) => existing::NODE_GRACE,
        }
    }

    async fn plane(&self, role: Role, namespace: &str, job: &Job, timeouts: &Timeouts) -> Result<Plane, StageError> {
        match self {
            Self::Own(stage, spares) => {
                Ok(Plane::start(*stage, role, namespace, job.plan.seed, timeouts, spares).await?)
            }
            Self::There(session) | Self::Kind(_, session) => Ok(session.place(namespace).await?),
        }
    }

    /// Returns when another session takes over the cluster.
    async fn taken(&self) -> SessionError {
        match self.session() {
            Some(session) => session.taken().await,
            None => pending().await,
        }
    }

    async fn tidy(&self) -> Result<(), SessionError> {
        match self.session() {
            Some(session) => Box::pin(session.tidy()).await,
            None => Ok(()),
        }
    }

    /// Removes everything that the session created in the cluster.
    ///
    /// # Errors
    /// What could not be removed, and why.
    pub async fn end(self) -> Result<(), StageError> {
        match self {
            Self::Own(..) => {}
            Self::There(session) => Box::pin(session.end()).await?,
            Self::Kind(cluster, session) => {
                let ended = Box::pin(session.end()).await;
                cluster.end().await?;
                ended?;
            }
        }
        Ok(())
    }

    /// Describes what the end of the session removes, if anything.
    fn leaves(&self) -> Option<String> {
        match self {
            Self::Own(..) => None,
            Self::There(session) => Some(session.leaves()),
            Self::Kind(cluster, _) => Some(format!("what this session created in cluster {}", cluster.name())),
        }
    }
}

/// A control cluster and a target cluster.
#[derive(Debug)]
pub struct Pair {
    control: Ground,
    target: Ground,
}

impl Pair {
    /// A session with one cluster for machines and one for their nodes.
    pub fn new(control: Ground, target: Ground) -> Self {
        Self { control, target }
    }

    /// Runs a job in a new namespace of both clusters, and removes everything that the run created. If the future is
    /// dropped early, [`Pair::end`] removes the rest.
    pub async fn run(&self, job: &Job, performer: &impl Performer) -> StageResult {
        let failed = |error: StageError| StageResult::new(Err(error), BTreeMap::new());
        let timeouts = Timeouts::on_cluster(self.target.node_grace());
        let mut result = match self.planes(job, &timeouts).await {
            Ok(planes) => tokio::select! {
                biased;
                error = self.control.taken() => failed(error.into()),
                error = self.target.taken() => failed(error.into()),
                result = Box::pin(processes::run(job, performer, planes, timeouts, None)) => result,
            },
            Err(error) => failed(error),
        };
        let (control, target) = (self.control.tidy().await, self.target.tidy().await);
        if let (Err(error), Ok(_)) = (control.and(target), &result.outcome) {
            result.outcome = Err(error.into());
        }
        result
    }

    /// The control planes, with the same namespace in both clusters.
    async fn planes(&self, job: &Job, timeouts: &Timeouts) -> Result<Planes, StageError> {
        let sessions = self.control.session().or_else(|| self.target.session());
        let namespace = sessions.map_or_else(|| super::NAMESPACE.to_owned(), |session| session.namespace_for(job));
        let control = Box::pin(self.control.plane(Role::Control, &namespace, job, timeouts)).await?;
        let target = Box::pin(self.target.plane(Role::Target, &namespace, job, timeouts)).await?;
        Ok(Planes::two(control, target))
    }

    /// Removes everything that the session created in both clusters.
    ///
    /// # Errors
    /// What could not be removed, and why.
    pub async fn end(self) -> Result<(), StageError> {
        let control = Box::pin(self.control.end()).await;
        Box::pin(self.target.end()).await.and(control)
    }

    /// Describes what the end of the session removes, for the user who waits for it.
    pub fn leaves(&self) -> String {
        let parts = [self.control.leaves(), self.target.leaves()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", and ")
    }
}
