//! `drydock doctor`: reports which stages can run here, and what is missing for the others.

use clap::Args;
use scenario::StageKind;
use stage::kind;
use stage::plane::envtest;

use super::output::say;
use super::{Ended, Outcome, availability, block_on, health, leftovers};

#[derive(Args, Debug)]
pub(super) struct Doctor {
    /// Removes what killed runs have left: temporary folders, programs and kind clusters
    #[arg(long)]
    clean: bool,
}

impl Doctor {
    pub(super) fn execute(self) -> Ended {
        let outcomes = [check_stages()?, health::report()?, leftovers::report(self.clean)];
        Ok(match outcomes.contains(&Outcome::Failed) {
            true => Outcome::Failed,
            false => Outcome::Passed,
        })
    }
}

fn check_stages() -> Ended {
    let exact = if ::sim::exact_replay() {
        "runs replay exactly"
    } else {
        "replay is not exact on this platform"
    };
    say!("sim       ready; {exact}");
    let problems = availability::problems(StageKind::Embedded)?;
    if problems.is_empty() {
        say!("embedded  ready");
    }
    for problem in &problems {
        say!("embedded  not ready: {problem}");
    }
    match envtest::Programs::find() {
        Ok(programs) => say!(
            "envtest   ready; etcd and kube-apiserver in {}",
            programs.folder().display()
        ),
        Err(problem) => say!("envtest   not ready: {problem}"),
    }
    match block_on(kind::unavailable())? {
        None => say!("kind      ready"),
        Some(problem) => say!("kind      not ready: {problem}"),
    }
    for cluster in block_on(kind::leftovers())?.unwrap_or_default() {
        // The cluster of a killed session of this user is among the leftovers.
        if !leftovers::has_cluster(&cluster) {
            say!(
                "kind      cluster {cluster} belongs to a running session, or to a killed one with another TMPDIR: \
                 kind delete cluster --name {cluster}"
            );
        }
    }
    say!(
        "kubeconfig specify the cluster: --kubeconfig FILE [--context NAME]; a run removes everything that it creates"
    );
    let kubectl = match which::which("kubectl") {
        Ok(path) => path.display().to_string(),
        Err(_) => "not found; only needed to inspect the world of `drydock up`".to_owned(),
    };
    say!("kubectl   {kubectl}");
    Ok(if problems.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed
    })
}
