//! Whether this machine can run a stage. `drydock doctor` prints it; `run` and `up` check it before their first job.

use std::net::TcpListener;

use scenario::StageKind;
use stage::plane::envtest;
use stage::run_folder::RunFolder;
use stage::{child, kind};

use super::{Stop, block_on};

/// What the stage is missing, each with instructions; empty: it can run. The cluster of stage `kubeconfig` is not
/// contacted.
pub(super) fn problems(stage: StageKind) -> Result<Vec<String>, Stop> {
    Ok(match stage {
        StageKind::Sim | StageKind::Kubeconfig => Vec::new(),
        StageKind::Embedded => programs_and_ports(),
        StageKind::Envtest => envtest::Programs::find()
            .err()
            .map(|error| error.to_string())
            .into_iter()
            .collect(),
        StageKind::Kind => block_on(kind::unavailable())?
            .map(|error| error.to_string())
            .into_iter()
            .collect(),
    })
}

fn programs_and_ports() -> Vec<String> {
    let mut problems = Vec::new();
    for program in ["mcm", "fakecloud"] {
        problems.extend(child::beside(program).err().map(|error| error.to_string()));
    }
    if let Err(error) = TcpListener::bind(("127.0.0.1", 0)) {
        problems.push(format!("cannot open a port on the loopback address: {error}"));
    }
    if let Err(error) = RunFolder::new() {
        problems.push(format!("cannot create a temporary folder: {error}; set TMPDIR"));
    }
    problems
}

/// Checks that this machine can run the stages.
///
/// # Errors
/// What the first unavailable one is missing, in one line.
pub(super) fn check(stages: impl IntoIterator<Item = StageKind>) -> Result<(), Stop> {
    for stage in stages {
        let problems = problems(stage)?;
        if !problems.is_empty() {
            return Err(Stop::Unavailable(unavailable(stage, &problems)));
        }
    }
    Ok(())
}

fn unavailable(stage: StageKind, problems: &[String]) -> String {
    let problems: Vec<String> = problems.iter().map(|problem| one_line(problem)).collect();
    format!(
        "stage {stage} is not available: {}; `drydock doctor` checks all stages",
        problems.join("; ")
    )
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_stage_is_missing_is_one_line() {
        let problems = [
            "etcd is missing:\n  install it".to_owned(),
            "no port is free".to_owned(),
        ];
        assert_eq!(
            unavailable(StageKind::Envtest, &problems),
            "stage envtest is not available: etcd is missing: install it; no port is free; `drydock doctor` checks all \
             stages"
        );
    }
}
