//! Pods that must not run twice, in some worlds: those of a StatefulSet, often with ReadWriteOnce volumes; whether mcm runs
//! with `--preserve-fencing=stop-vm`; and kubelets that are cut off instead of stopped.

use std::collections::BTreeMap;

use clock::Stream;
use scenario::builder::{stateful_set, storage_class, workload};
use scenario::step::KubeletAction;
use scenario::step::deferred_target::UserAction;
use scenario::{PreserveFencing, Step};

use super::UserActions;

/// The StatefulSet of a world.
#[derive(Debug)]
pub(super) struct Databases {
    exists: bool,
    has_volumes: bool,
    fencing: PreserveFencing,
}

impl Databases {
    pub(super) fn draw(stream: &mut Stream) -> Self {
        let (exists, has_volumes, stops) = (stream.chance(0.6), stream.chance(0.66), stream.chance(0.5));
        Self {
            exists,
            has_volumes,
            fencing: if exists && stops {
                PreserveFencing::StopVm
            } else {
                PreserveFencing::None
            },
        }
    }

    /// mcm's fencing of preserved machines.
    pub(super) fn fencing(&self) -> PreserveFencing {
        self.fencing
    }

    /// Creates the StatefulSet, with a pod for each machine.
    pub(super) fn steps(&self, replicas: u64) -> Vec<Step> {
        let database = workload("db").replicas(u32::try_from(replicas).unwrap_or(1));
        match (self.exists, self.has_volumes) {
            (false, _) => Vec::new(),
            (true, false) => vec![stateful_set(database)],
            (true, true) => vec![storage_class(), stateful_set(database.volume("1Gi"))],
        }
    }
}

/// Cuts half of the kubelets off that would stop: each target of user actions consistently.
pub(super) fn cut_off(user_actions: &mut UserActions, stream: &mut Stream) {
    let mut targets: BTreeMap<String, bool> = BTreeMap::new();
    for (_, step) in user_actions {
        let Step::Deferred(target) = step else {
            continue;
        };
        let UserAction::Kubelet(action) = &mut target.user_action else {
            continue;
        };
        let cut_off = *targets
            .entry(target.called.clone())
            .or_insert_with(|| stream.chance(0.5));
        *action = match *action {
            KubeletAction::Stop if cut_off => KubeletAction::Partition,
            KubeletAction::Start if cut_off => KubeletAction::Reconnect,
            other => other,
        };
    }
}
