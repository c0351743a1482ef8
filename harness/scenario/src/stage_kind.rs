//! Where a scenario runs.

use serde::{Deserialize, Serialize};

use crate::step::Process;

/// The stages that exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum StageKind {
    /// Everything in this process, in virtual time, replayed from a seed.
    Sim,
    /// The API server in this process; mcm and fakecloud are processes of their own; wall clock.
    Embedded,
    /// As `embedded`, with a real etcd and kube-apiserver as child processes.
    Envtest,
    /// As `embedded`, with a cluster that is there, in a namespace of its own.
    Kubeconfig,
    /// A cluster of kind's; mcm and fakecloud are pods in it.
    Kind,
}

impl StageKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Sim, Self::Embedded, Self::Envtest, Self::Kubeconfig, Self::Kind];

    /// Why nothing can strike that process at an effect on this stage; `None`: it can.
    pub fn why_no_gate(self, process: Process) -> Option<&'static str> {
        match (self, process) {
            (Self::Sim, _) | (Self::Embedded | Self::Envtest | Self::Kubeconfig, Process::Mcm) => None,
            (Self::Kind, Process::Mcm) => Some("the effects of a pod are not counted; use --stage embedded or sim"),
            (_, Process::Controllers) => Some("the controllers are a process of their own on stage sim only"),
            (_, Process::Fakecloud) => Some("fakecloud's effects are counted on stage sim only"),
        }
    }

    /// Why a world whose machines are on this stage cannot have its nodes on `target`; `None`: it can.
    pub fn why_no_target(self, target: Self) -> Option<String> {
        let fits = (self == Self::Sim) == (target == Self::Sim);
        let words = "virtual time and the wall clock do not mix; sim goes with sim, the others with each other";
        (!fits)
            .then(|| format!("nodes of a control cluster on stage {self} cannot join one on stage {target}: {words}"))
    }

    /// Whether all runs use one cluster, so that they come one after another.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Kubeconfig | Self::Kind)
    }

    /// Of this stage, and the one where nodes join if that is another, the first whose cluster all runs use.
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
    fn what_runs_in_virtual_time_has_its_nodes_there() {
        for (stage, target) in StageKind::ALL
            .into_iter()
            .flat_map(|one| StageKind::ALL.map(|other| (one, other)))
        {
            let virtual_ones = [stage, target]
                .into_iter()
                .filter(|stage| *stage == StageKind::Sim)
                .count();
            assert_eq!(
                stage.why_no_target(target).is_none(),
                virtual_ones != 1,
                "{stage} {target}"
            );
        }
    }
}
