//! A worker's session with the clusters that all its jobs use. It starts before the first job and ends after the last
//! one, also after a failure.

use std::sync::Arc;

use scenario::StageKind;
use scenario::job::Job;
use stage::StageResult;
use stage::kind::{self, KindOptions, Progress};
use stage::pair::{Ground, Pair};
use stage::plane::existing::{self, Access};
use stage::role::Role;
use tokio_util::sync::CancellationToken;

use super::Stop;
use super::stage::StageArguments;
use crate::engine::ScenarioEngine;

/// The clusters of a session, and what the session removes at its end.
pub(super) enum Session {
    Kubeconfig(Box<existing::Session>),
    Kind(Box<kind::Cluster>),
    Pair(Box<Pair>),
}

/// The parameters of a session.
pub(super) struct Start<'a> {
    /// Any of the jobs: all have the same stage and the same report folder.
    pub(super) job: &'a Job,
    pub(super) arguments: &'a StageArguments,
    pub(super) confirmed: &'a ConfirmedClusters,
    /// Prints the progress.
    pub(super) progress: Progress,
}

impl Session {
    /// Starts a session; `None`: jobs of the stage share no cluster. If it is stopped, it removes everything that it
    /// created.
    pub(super) async fn start(start: Start<'_>, stop: &CancellationToken) -> Result<Option<Self>, Stop> {
        let (stage, target) = (start.job.stage, start.job.target);
        if stage.shared_of(target).is_none() {
            return Ok(None);
        }
        if let Some(target) = target {
            let control = Box::pin(ground(
                &start,
                stage,
                Role::Control,
                start.confirmed.control.as_ref(),
                stop,
            ))
            .await?;
            return match Box::pin(ground(
                &start,
                target,
                Role::Target,
                start.confirmed.target.as_ref(),
                stop,
            ))
            .await
            {
                Ok(target) => Ok(Some(Self::Pair(Box::new(Pair::new(control, target))))),
                Err(usage) => {
                    Box::pin(control.end()).await?;
                    Err(usage)
                }
            };
        }
        Ok(Some(match &start.confirmed.control {
            Some(access) => Self::Kubeconfig(Box::new(connected(access, Role::Both, stop).await?)),
            None => {
                let options = start.arguments.kind_options(&start.job.reports);
                Self::Kind(Box::new(created(&options, start.progress, stop).await?))
            }
        }))
    }

    pub(super) async fn run(&self, job: &Job, engine: &ScenarioEngine) -> StageResult {
        match self {
            Self::Kubeconfig(session) => Box::pin(session.run(job, engine)).await,
            Self::Kind(cluster) => Box::pin(cluster.run(job, engine)).await,
            Self::Pair(pair) => Box::pin(pair.run(job, engine)).await,
        }
    }

    /// Removes everything that is not kept; `interrupted`: prints what it removes.
    pub(super) async fn end(self, interrupted: bool) -> Result<(), Stop> {
        if interrupted {
            crate::cli::output::complain!("drydock: interrupted; removing {}", self.leaves());
        }
        match self {
            Self::Kubeconfig(session) => Box::pin(session.end()).await?,
            Self::Kind(cluster) => cluster.end().await?,
            Self::Pair(pair) => Box::pin(pair.end()).await?,
        }
        Ok(())
    }

    /// Description of what is removed at the end.
    fn leaves(&self) -> String {
        match self {
            Self::Kubeconfig(session) => session.leaves(),
            Self::Kind(cluster) => format!("everything that this session created in cluster {}", cluster.name()),
            Self::Pair(pair) => pair.leaves(),
        }
    }
}

/// Prepares one of two clusters.
async fn ground(
    start: &Start<'_>,
    stage: StageKind,
    role: Role,
    access: Option<&Access>,
    stop: &CancellationToken,
) -> Result<Ground, Stop> {
    if let Some(access) = access {
        return Ok(Ground::There(Box::new(connected(access, role, stop).await?)));
    }
    if !stage.is_shared() {
        return Ok(Ground::Own(stage, Arc::default()));
    }
    let options = start.arguments.kind_options_of(role, &start.job.reports);
    let cluster = created(&options, start.progress.clone(), stop).await?;
    let access = Access {
        kubeconfig: cluster.kubeconfig().to_owned(),
        context: None,
    };
    match Box::pin(connected(&access, role, stop)).await {
        Ok(session) => Ok(Ground::Kind(Box::new(cluster), Box::new(session))),
        Err(usage) => {
            cluster.end().await?;
            Err(usage)
        }
    }
}

/// Creates a kind cluster. If it is stopped, the incomplete cluster is dropped.
async fn created(options: &KindOptions, progress: Progress, stop: &CancellationToken) -> Result<kind::Cluster, Stop> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(Stop::Cancelled),
        cluster = kind::Cluster::start(options, progress) => Ok(cluster?),
    }
}

/// Starts a session with an existing cluster. If it is stopped, the start completes within seconds, and the session is
/// ended to remove what it created.
async fn connected(access: &Access, role: Role, stop: &CancellationToken) -> Result<existing::Session, Stop> {
    let mut starting = std::pin::pin!(existing::Session::start(access, role));
    tokio::select! {
        biased;
        () = stop.cancelled() => {
            Box::pin(starting.await?.end()).await?;
            Err(Stop::Cancelled)
        }
        session = &mut starting => session.map_err(unavailable),
    }
}

fn unavailable(error: impl std::error::Error) -> Stop {
    Stop::Unavailable(error.to_string())
}

/// The existing clusters whose use the user confirmed.
#[derive(Debug, Default)]
pub(super) struct ConfirmedClusters {
    control: Option<Access>,
    target: Option<Access>,
}

impl ConfirmedClusters {
    /// Asks for confirmation if the stage of the job is an existing cluster.
    ///
    /// # Errors
    /// When the cluster cannot be read, or the user does not confirm.
    pub(super) fn ask(job: &Job, arguments: &StageArguments) -> Result<Self, Stop> {
        let control = (job.stage == StageKind::Kubeconfig).then(|| arguments.confirmed_cluster());
        let target = (job.target == Some(StageKind::Kubeconfig)).then(|| arguments.confirmed_target());
        Ok(Self {
            control: control.transpose()?,
            target: target.transpose()?,
        })
    }
}
