//! The stages where scenarios run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::process::Process;

/// A stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StageKind {
    /// Everything in this process, in virtual time, replayed from a seed.
    Sim,
    /// The API server in this process; mcm and fakecloud are separate processes; wall clock.
    Embedded,
    /// As `embedded`, with a real etcd and kube-apiserver as child processes.
    Envtest,
    /// As `embedded`, with an existing cluster, in a separate namespace.
    Kubeconfig,
    /// A kind cluster; mcm and fakecloud are pods in it.
    Kind,
}

impl StageKind {
    /// All stages.
    pub const ALL: [Self; 5] = [Self::Sim, Self::Embedded, Self::Envtest, Self::Kubeconfig, Self::Kind];

    /// Why a process cannot be crashed or paused at an effect on this stage; `None`: it can.
    pub fn why_no_gate(self, process: Process) -> Option<&'static str> {
        match (self, process) {
            (_, Process::Drivers) => Some("the calls of a driver process are effects of the mcm that requested them"),
            (Self::Sim, _) | (Self::Embedded | Self::Envtest | Self::Kubeconfig, Process::Mcm) => None,
            (Self::Kind, Process::Mcm) => Some("the effects of a pod are not counted; use --stage embedded or sim"),
            (_, Process::Controllers) => Some("the controllers are a separate process on stage sim only"),
            (_, Process::Fakecloud) => Some("fakecloud's effects are counted on stage sim only"),
            (_, Process::HealthChecks) => {
                Some("the effects of the process of health checks are counted on stage sim only")
            }
            (_, Process::Remediation) => {
                Some("the effects of the remediation controller are counted on stage sim only")
            }
        }
    }

    /// Why a world with its machines on this stage cannot have its nodes on `target`; `None`: it can.
    pub fn why_no_target(self, target: Self) -> Option<String> {
        let same_clock = (self == Self::Sim) == (target == Self::Sim);
        let reason =
            "virtual time and the wall clock cannot be combined; sim goes with sim, the others with each other";
        (!same_clock)
            .then(|| format!("nodes of a control cluster on stage {self} cannot join one on stage {target}: {reason}"))
    }

    /// Whether all runs share one cluster and therefore run one after another.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Kubeconfig | Self::Kind)
    }

    /// The first shared stage of this stage and the stage of its nodes.
    pub fn shared_of(self, target: Option<Self>) -> Option<Self> {
        std::iter::once(self).chain(target).find(|stage| stage.is_shared())
    }
}

impl std::fmt::Display for StageKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Sim => "sim",
            Self::Embedded => "embedded",
            Self::Envtest => "envtest",
            Self::Kubeconfig => "kubeconfig",
            Self::Kind => "kind",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simulated_world_has_its_nodes_on_the_same_stage() {
        for (stage, target) in StageKind::ALL
            .into_iter()
            .flat_map(|stage| StageKind::ALL.map(|target| (stage, target)))
        {
            let simulated = [stage, target]
                .into_iter()
                .filter(|stage| *stage == StageKind::Sim)
                .count();
            assert_eq!(
                stage.why_no_target(target).is_none(),
                simulated != 1,
                "{stage} {target}"
            );
        }
    }
}
