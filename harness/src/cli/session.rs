//! A worker's session with the clusters that all its jobs use: it begins, the jobs run one after another, it ends, whatever
//! happens.

use std::sync::Arc;

use scenario::StageKind;
use scenario::job::Job;
use stage::StageResult;
use stage::kind::{self, KindOptions, Progress};
use stage::pair::{Ground, Pair};
use stage::plane::existing::{self, Access};
use stage::role::Role;
use tokio_util::sync::CancellationToken;

use super::Usage;
use super::stage::StageArguments;
use crate::engine::ScenarioEngine;

/// What is up, and what of it goes at the end.
pub(super) enum Session {
    Kubeconfig(Box<existing::Session>),
    Kind(Box<kind::Cluster>),
    Pair(Box<Pair>),
}

/// How a session begins.
pub(super) struct Start<'a> {
    /// Any of the jobs: all are for the same stage and leave reports in the same folder.
    pub(super) job: &'a Job,
    pub(super) arguments: &'a StageArguments,
    pub(super) agreed: &'a Agreed,
    /// Who hears of the steps.
    pub(super) progress: Progress,
}

impl Session {
    /// Begins; `None`: jobs of that stage share nothing. Stopped, it leaves nothing.
    pub(super) async fn start(how: Start<'_>, stop: &CancellationToken) -> Result<Option<Self>, Usage> {
        let (stage, target) = (how.job.stage, how.job.target);
        if stage.shared_of(target).is_none() {
            return Ok(None);
        }
        if let Some(target) = target {
            let control = Box::pin(ground(&how, stage, Role::Control, how.agreed.control.as_ref(), stop)).await?;
            return match Box::pin(ground(&how, target, Role::Target, how.agreed.target.as_ref(), stop)).await {
                Ok(target) => Ok(Some(Self::Pair(Box::new(Pair::new(control, target))))),
                Err(usage) => {
                    Box::pin(control.end()).await?;
                    Err(usage)
                }
            };
        }
        Ok(Some(match &how.agreed.control {
            Some(access) => Self::Kubeconfig(Box::new(connected(access, Role::Both, stop).await?)),
            None => {
                let options = how.arguments.kind_options(&how.job.reports);
                Self::Kind(Box::new(created(&options, how.progress, stop).await?))
            }
        }))
    }

    pub(super) async fn run(&self, job: &Job) -> StageResult {
        match self {
            Self::Kubeconfig(session) => Box::pin(session.run(job, &ScenarioEngine)).await,
            Self::Kind(cluster) => Box::pin(cluster.run(job, &ScenarioEngine)).await,
            Self::Pair(pair) => Box::pin(pair.run(job, &ScenarioEngine)).await,
        }
    }

    /// Removes everything that is not kept; `interrupted`: a person waits for it.
    pub(super) async fn end(self, interrupted: bool) -> Result<(), Usage> {
        if interrupted {
            eprintln!("drydock: interrupted; removing {}", self.leaves());
        }
        match self {
            Self::Kubeconfig(session) => Box::pin(session.end()).await?,
            Self::Kind(cluster) => cluster.end().await?,
            Self::Pair(pair) => Box::pin(pair.end()).await?,
        }
        Ok(())
    }

    /// What is removed at the end.
    fn leaves(&self) -> String {
        match self {
            Self::Kubeconfig(session) => session.leaves(),
            Self::Kind(cluster) => format!("what this session made in cluster {}", cluster.name()),
            Self::Pair(pair) => pair.leaves(),
        }
    }
}

/// One of two clusters.
async fn ground(
    how: &Start<'_>,
    stage: StageKind,
    role: Role,
    access: Option<&Access>,
    stop: &CancellationToken,
) -> Result<Ground, Usage> {
    if let Some(access) = access {
        return Ok(Ground::There(Box::new(connected(access, role, stop).await?)));
    }
    if !stage.is_shared() {
        return Ok(Ground::Own(stage, Arc::default()));
    }
    let options = how.arguments.kind_options_of(role, &how.job.reports);
    let cluster = created(&options, how.progress.clone(), stop).await?;
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

/// A cluster of kind's. Stopped, it is dropped on the way.
async fn created(options: &KindOptions, progress: Progress, stop: &CancellationToken) -> Result<kind::Cluster, Usage> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(Usage("interrupted".to_owned())),
        cluster = kind::Cluster::start(options, progress) => Ok(cluster?),
    }
}

/// A session with a cluster that is there. Stopped, it is ended: what it makes in a few seconds is then removed.
async fn connected(access: &Access, role: Role, stop: &CancellationToken) -> Result<existing::Session, Usage> {
    let mut starting = std::pin::pin!(existing::Session::start(access, role));
    tokio::select! {
        biased;
        () = stop.cancelled() => {
            Box::pin(starting.await?.end()).await?;
            Err(Usage("interrupted".to_owned()))
        }
        session = &mut starting => Ok(session?),
    }
}

/// Somebody's clusters that a person agreed to use.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    control: Option<Access>,
    target: Option<Access>,
}

impl Agreed {
    /// Asks where the stage of the job is somebody's cluster.
    ///
    /// # Errors
    /// When the cluster cannot be read, or nobody agrees.
    pub(super) fn ask(job: &Job, arguments: &StageArguments) -> Result<Self, Usage> {
        let control = (job.stage == StageKind::Kubeconfig).then(|| arguments.agreed());
        let target = (job.target == Some(StageKind::Kubeconfig)).then(|| arguments.agreed_target());
        Ok(Self {
            control: control.transpose()?,
            target: target.transpose()?,
        })
    }
}
