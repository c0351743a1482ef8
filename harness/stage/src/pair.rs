//! A session with two clusters, one for machines and one for their nodes, of any stages on the wall clock.
//!
//! mcm and fakecloud are processes on this machine, also where a cluster is kind's: they reach both clusters, which
//! need not reach each other.

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

/// Where one of the clusters is.
#[derive(Debug)]
pub enum Ground {
    /// Started for each run: `embedded` or `envtest`.
    Own(StageKind, Arc<Spares>),
    /// Somebody's.
    There(Box<Session>),
    /// kind's, made for the session or found.
    Kind(Box<kind::Cluster>, Box<Session>),
}

impl Ground {
    /// What runs share, if they share anything.
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

    /// Returns when another session takes the cluster.
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

    /// Removes what the session made in it.
    ///
    /// # Errors
    /// What is left, and why.
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

    /// What is removed at its end, if anything.
    fn leaves(&self) -> Option<String> {
        match self {
            Self::Own(..) => None,
            Self::There(session) => Some(session.leaves()),
            Self::Kind(cluster, _) => Some(format!("what this session made in cluster {}", cluster.name())),
        }
    }
}

/// Both clusters.
#[derive(Debug)]
pub struct Pair {
    control: Ground,
    target: Ground,
}

impl Pair {
    /// One for machines, one for their nodes.
    pub fn new(control: Ground, target: Ground) -> Self {
        Self { control, target }
    }

    /// Runs a job in a new namespace of both, and removes everything that it made. Dropped on the way, the rest is left to
    /// [`Pair::end`].
    pub async fn run(&self, job: &Job, performer: &impl Performer) -> StageResult {
        let broken = |error: StageError| StageResult::new(Err(error), BTreeMap::new());
        let timeouts = Timeouts::on_cluster(self.target.node_grace());
        let mut ran = match self.planes(job, &timeouts).await {
            Ok(planes) => tokio::select! {
                biased;
                error = self.control.taken() => broken(error.into()),
                error = self.target.taken() => broken(error.into()),
                ran = Box::pin(processes::run(job, performer, planes, timeouts, None)) => ran,
            },
            Err(error) => broken(error),
        };
        let (control, target) = (self.control.tidy().await, self.target.tidy().await);
        if let (Err(error), Ok(_)) = (control.and(target), &ran.outcome) {
            ran.outcome = Err(error.into());
        }
        ran
    }

    /// Objects of a scenario are in the same namespace of both.
    async fn planes(&self, job: &Job, timeouts: &Timeouts) -> Result<Planes, StageError> {
        let sessions = self.control.session().or_else(|| self.target.session());
        let namespace = sessions.map_or_else(|| super::NAMESPACE.to_owned(), |session| session.namespace_for(job));
        let control = Box::pin(self.control.plane(Role::Control, &namespace, job, timeouts)).await?;
        let target = Box::pin(self.target.plane(Role::Target, &namespace, job, timeouts)).await?;
        Ok(Planes::two(control, target))
    }

    /// Removes what the session made in both.
    ///
    /// # Errors
    /// What is left, and why.
    pub async fn end(self) -> Result<(), StageError> {
        let control = Box::pin(self.control.end()).await;
        Box::pin(self.target.end()).await.and(control)
    }

    /// What is removed at the end, for a person who waits for it.
    pub fn leaves(&self) -> String {
        let parts = [self.control.leaves(), self.target.leaves()];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", and ")
    }
}
