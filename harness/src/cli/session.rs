//! A session with clusters that all jobs share: it begins, the jobs run one after another, it ends, whatever happens.

use std::path::Path;

use super::stage::StageArguments;
use super::{Interrupts, Usage};
use crate::runner::{self, Job, Ran, RunResult};
use crate::stage::StageKind;
use crate::stage::kind::{self, KindOptions, Progress};
use crate::stage::pair::{Ground, Pair};
use crate::stage::plane::existing::{self, Access};
use crate::stage::role::Role;

/// What is up, and what of it goes at the end.
enum Session {
    Kubeconfig(Box<existing::Session>),
    Kind(Box<kind::Cluster>),
    Pair(Box<Pair>),
}

impl Session {
    /// Begins. Interrupted, it leaves nothing.
    async fn start(how: Start<'_>, agreed: Agreed, interrupts: &mut Interrupts) -> Result<Self, Usage> {
        if let Some(target) = how.target {
            let control = Box::pin(ground(&how, how.stage, Role::Control, agreed.control, interrupts)).await?;
            return match Box::pin(ground(&how, target, Role::Target, agreed.target, interrupts)).await {
                Ok(target) => Ok(Self::Pair(Box::new(Pair::new(control, target)))),
                Err(usage) => {
                    Box::pin(control.end()).await?;
                    Err(usage)
                }
            };
        }
        Ok(match agreed.control {
            Some(access) => Self::Kubeconfig(Box::new(there(&access, Role::Both, interrupts).await?)),
            None => {
                let options = how.arguments.kind_options(how.reports);
                Self::Kind(Box::new(made(&options, how.progress, interrupts).await?))
            }
        })
    }

    async fn run(&self, job: &Job) -> Ran {
        match self {
            Self::Kubeconfig(session) => Box::pin(session.run(job)).await,
            Self::Kind(cluster) => Box::pin(cluster.run(job)).await,
            Self::Pair(pair) => Box::pin(pair.run(job)).await,
        }
    }

    async fn end(self) -> Result<(), String> {
        match self {
            Self::Kubeconfig(session) => Box::pin(session.end()).await,
            Self::Kind(cluster) => cluster.end().await,
            Self::Pair(pair) => Box::pin(pair.end()).await,
        }
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
    access: Option<Access>,
    interrupts: &mut Interrupts,
) -> Result<Ground, Usage> {
    if let Some(access) = access {
        return Ok(Ground::There(Box::new(there(&access, role, interrupts).await?)));
    }
    if !stage.is_shared() {
        return Ok(Ground::Own(stage));
    }
    let options = how.arguments.kind_options_of(role, how.reports);
    let cluster = made(&options, how.progress.clone(), interrupts).await?;
    let access = Access {
        kubeconfig: cluster.kubeconfig().to_owned(),
        context: None,
    };
    match Box::pin(there(&access, role, interrupts)).await {
        Ok(session) => Ok(Ground::Kind(Box::new(cluster), Box::new(session))),
        Err(usage) => {
            cluster.end().await?;
            Err(usage)
        }
    }
}

/// A cluster of kind's. Interrupted, it is dropped on the way.
async fn made(options: &KindOptions, progress: Progress, interrupts: &mut Interrupts) -> Result<kind::Cluster, Usage> {
    tokio::select! {
        biased;
        () = interrupts.next() => Err(Usage("interrupted".to_owned())),
        cluster = kind::Cluster::start(options, progress) => Ok(cluster?),
    }
}

/// A session with a cluster that is there. Interrupted, it is ended: what is made in a few seconds is then removed.
async fn there(access: &Access, role: Role, interrupts: &mut Interrupts) -> Result<existing::Session, Usage> {
    let mut starting = std::pin::pin!(existing::Session::start(access, role));
    tokio::select! {
        biased;
        () = interrupts.next() => {
            Box::pin(starting.await?.end()).await?;
            Err(Usage("interrupted".to_owned()))
        }
        session = &mut starting => Ok(session?),
    }
}

/// How a session begins.
pub(super) struct Start<'a> {
    pub(super) stage: StageKind,
    /// Where nodes join, if that is another cluster.
    pub(super) target: Option<StageKind>,
    pub(super) arguments: &'a StageArguments,
    /// Where a start that fails leaves its logs.
    pub(super) reports: &'a Path,
    /// Who hears of the steps.
    pub(super) progress: Progress,
}

/// Clusters of somebody that a person agreed to use.
struct Agreed {
    control: Option<Access>,
    target: Option<Access>,
}

/// Runs all jobs on the same clusters. Interrupted, it removes what is there before it returns.
pub(super) async fn run(how: Start<'_>, jobs: &[Job], finished: impl Fn(&RunResult)) -> Result<Vec<RunResult>, Usage> {
    // Asked before Ctrl-C is listened for, so that it ends the question, too.
    let somebodys = |stage: StageKind| stage == StageKind::Kubeconfig;
    let agreed = Agreed {
        control: somebodys(how.stage).then(|| how.arguments.agreed()).transpose()?,
        target: how
            .target
            .filter(|target| somebodys(*target))
            .map(|_| how.arguments.agreed_target())
            .transpose()?,
    };
    let mut interrupts = Interrupts::new()?;
    let session = Box::pin(Session::start(how, agreed, &mut interrupts)).await?;
    let mut results = Vec::new();
    let mut interrupted = false;
    for job in jobs {
        if interrupted {
            break;
        }
        tokio::select! {
            biased;
            () = interrupts.next() => interrupted = true,
            result = runner::timed(job, session.run(job)) => {
                finished(&result);
                results.push(result);
            }
        }
    }
    let leaves = session.leaves();
    if interrupted {
        eprintln!("drydock: interrupted; removing {leaves}");
    }
    let mut ending = std::pin::pin!(session.end());
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut ending => break ended,
            () = interrupts.next() => eprintln!("drydock: still removing {leaves}; wait"),
        }
    };
    ended?;
    if interrupted {
        return Err(Usage("interrupted".to_owned()));
    }
    Ok(results)
}
