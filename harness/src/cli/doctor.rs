//! `drydock doctor`: reports which stages can run here, and what is missing for the others.

use clap::Args;
use scenario::StageKind;
use stage::kind;
use stage::plane::envtest;
use terminal::{OutputFormat, structured};

use super::finding::Finding;
use super::output::print;
use super::{Ended, Outcome, Stop, availability, block_on, health, leftovers};

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  drydock doctor\n  drydock doctor --clean\n  drydock doctor -o json")]
pub(super) struct Doctor {
    /// Removes what killed runs have left: temporary folders, programs and kind clusters
    #[arg(long)]
    clean: bool,

    #[command(flatten)]
    output: OutputFormat,
}

impl Doctor {
    pub(super) fn execute(self) -> Ended {
        let mut findings = Vec::new();
        let outcomes = [
            check_stages(&mut findings)?,
            health::report(&mut findings)?,
            leftovers::report(self.clean, &mut findings),
        ];
        let lines = || findings.iter().map(|finding| finding.line() + "\n").collect();
        print(&structured(self.output.format, &findings)?.unwrap_or_else(lines))?;
        Ok(match outcomes.contains(&Outcome::Failed) {
            true => Outcome::Failed,
            false => Outcome::Passed,
        })
    }
}

/// Fails only if the stage that needs nothing else than the programs cannot run.
fn check_stages(findings: &mut Vec<Finding>) -> Result<Outcome, Stop> {
    findings.push(match ::sim::exact_replay() {
        true => Finding::ok("sim", "ready; runs replay exactly"),
        false => Finding::ok("sim", "ready; replay is not exact on this platform"),
    });
    let problems = availability::problems(StageKind::Embedded)?;
    let outcome = if problems.is_empty() {
        findings.push(Finding::ok("embedded", "ready"));
        Outcome::Passed
    } else {
        let not_ready = |problem: &String| Finding::problem("embedded", format!("not ready: {problem}"));
        findings.extend(problems.iter().map(not_ready));
        Outcome::Failed
    };
    findings.push(match envtest::Programs::find() {
        Ok(programs) => {
            let folder = programs.folder().display().to_string();
            Finding::ok("envtest", format!("ready; etcd and kube-apiserver in {folder}"))
        }
        Err(problem) => Finding::problem("envtest", format!("not ready: {problem}")),
    });
    findings.push(match block_on(kind::unavailable())? {
        None => Finding::ok("kind", "ready"),
        Some(problem) => Finding::problem("kind", format!("not ready: {problem}")),
    });
    for cluster in block_on(kind::leftovers())?.unwrap_or_default() {
        // The cluster of a killed session of this user is among the leftovers.
        if !leftovers::has_cluster(&cluster) {
            let message = format!(
                "cluster {cluster} belongs to a running session, or to a killed one with another TMPDIR: kind delete \
                 cluster --name {cluster}"
            );
            findings.push(Finding::ok("kind", message));
        }
    }
    findings.push(Finding::ok(
        "kubeconfig",
        "specify the cluster: --kubeconfig FILE [--context NAME]; a run removes everything that it creates",
    ));
    findings.push(match which::which("kubectl") {
        Ok(path) => Finding::ok("kubectl", path.display().to_string()),
        Err(_) => Finding::ok("kubectl", "not found; only needed to inspect the world of `drydock up`"),
    });
    Ok(outcome)
}
