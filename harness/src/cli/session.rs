//! A session with a cluster that all jobs share: it begins, the jobs run one after another, it ends, whatever happens.

use super::stage::StageArguments;
use super::{Interrupts, Usage};
use crate::runner::{self, Job, Ran, RunResult};
use crate::stage::StageKind;
use crate::stage::plane::existing;

/// A cluster that is up, and what of it goes at the end.
enum Session {
    Kubeconfig(existing::Session),
}

impl Session {
    async fn start(stage: StageKind, arguments: &StageArguments) -> Result<Self, Usage> {
        match stage {
            StageKind::Kubeconfig => {
                let access = arguments.agreed()?;
                Ok(Self::Kubeconfig(existing::Session::start(&access).await?))
            }
            _ => Err(Usage(format!("stage {stage} is not available in this build"))),
        }
    }

    async fn run(&self, job: &Job) -> Ran {
        match self {
            Self::Kubeconfig(session) => session.run(job).await,
        }
    }

    async fn end(self) -> Result<(), String> {
        match self {
            Self::Kubeconfig(session) => session.end().await,
        }
    }

    /// What is removed at the end.
    fn leaves(&self) -> String {
        match self {
            Self::Kubeconfig(session) => session.leaves(),
        }
    }
}

/// Runs all jobs on one cluster. Interrupted, it removes what is there before it returns.
pub(super) async fn run(
    stage: StageKind,
    jobs: &[Job],
    arguments: &StageArguments,
    finished: impl Fn(&RunResult),
) -> Result<Vec<RunResult>, Usage> {
    let mut interrupts = Interrupts::new()?;
    let (session, interrupted) = {
        // What is begun is finished, so that it can be ended.
        let mut starting = std::pin::pin!(Session::start(stage, arguments));
        tokio::select! {
            biased;
            () = interrupts.next() => (starting.await?, true),
            session = &mut starting => (session?, false),
        }
    };
    let mut results = Vec::new();
    let mut interrupted = interrupted;
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
