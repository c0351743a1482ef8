//! A session with a cluster that all jobs share: it begins, the jobs run one after another, it ends, whatever happens.

use std::path::Path;

use super::stage::StageArguments;
use super::{Interrupts, Usage};
use crate::runner::{self, Job, Ran, RunResult};
use crate::stage::StageKind;
use crate::stage::kind::{self, Progress};
use crate::stage::plane::existing::{self, Access};

/// A cluster that is up, and what of it goes at the end.
enum Session {
    Kubeconfig(Box<existing::Session>),
    Kind(Box<kind::Cluster>),
}

impl Session {
    /// Begins. Interrupted, it leaves nothing: a cluster of kind's is dropped on the way; what is made in a cluster
    /// that is there is made in a few seconds, and then removed.
    async fn start(how: Start<'_>, access: Option<Access>, interrupts: &mut Interrupts) -> Result<Self, Usage> {
        let Some(access) = access else {
            let options = how.arguments.kind_options(how.reports);
            return tokio::select! {
                biased;
                () = interrupts.next() => Err(Usage("interrupted".to_owned())),
                cluster = kind::Cluster::start(&options, how.progress) => Ok(Self::Kind(Box::new(cluster?))),
            };
        };
        let mut starting = std::pin::pin!(existing::Session::start(&access));
        tokio::select! {
            biased;
            () = interrupts.next() => {
                Box::pin(starting.await?.end()).await?;
                Err(Usage("interrupted".to_owned()))
            }
            session = &mut starting => Ok(Self::Kubeconfig(Box::new(session?))),
        }
    }

    async fn run(&self, job: &Job) -> Ran {
        match self {
            Self::Kubeconfig(session) => Box::pin(session.run(job)).await,
            Self::Kind(cluster) => Box::pin(cluster.run(job)).await,
        }
    }

    async fn end(self) -> Result<(), String> {
        match self {
            Self::Kubeconfig(session) => Box::pin(session.end()).await,
            Self::Kind(cluster) => cluster.end().await,
        }
    }

    /// What is removed at the end.
    fn leaves(&self) -> String {
        match self {
            Self::Kubeconfig(session) => session.leaves(),
            Self::Kind(cluster) => format!("what this session made in cluster {}", cluster.name()),
        }
    }
}

/// How a session begins.
pub(super) struct Start<'a> {
    pub(super) stage: StageKind,
    pub(super) arguments: &'a StageArguments,
    /// Where a start that fails leaves its logs.
    pub(super) reports: &'a Path,
    /// Who hears of the steps.
    pub(super) progress: Progress,
}

/// Runs all jobs on one cluster. Interrupted, it removes what is there before it returns.
pub(super) async fn run(how: Start<'_>, jobs: &[Job], finished: impl Fn(&RunResult)) -> Result<Vec<RunResult>, Usage> {
    // Asked before Ctrl-C is listened for, so that it ends the question, too.
    let access = match how.stage {
        StageKind::Kubeconfig => Some(how.arguments.agreed()?),
        _ => None,
    };
    let mut interrupts = Interrupts::new()?;
    let session = Box::pin(Session::start(how, access, &mut interrupts)).await?;
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
