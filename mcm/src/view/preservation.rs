//! The cached lists of preserved machines.

use mcm_api::{Machine, PreservationEntry};
use mcm_core::ownership::controller;
use mcm_core::preservation::{Ledger, Standing};

use super::cluster_state::ClusterState;
use super::work::{Trigger, Work, quiet};
use crate::cache::{Change, Key};

impl ClusterState {
    /// The machine's entry in the cached list of its owner.
    pub(crate) fn standing(&self, machine: &Machine) -> Standing {
        let Some(reference) = controller(&machine.metadata) else {
            return Standing::Nobody;
        };
        if !self.enabled.owners() {
            return Standing::Unknown;
        }
        let uid = machine.metadata.uid.as_deref().unwrap_or_default();
        let Some(set) = self.sets.get(&Key::new(&self.namespace, &reference.name)) else {
            return Standing::Unknown;
        };
        let Some(reference) = controller(&set.metadata) else {
            return Ledger::Set(&set).standing(uid);
        };
        let deployment = self.deployments.get(&Key::new(&self.namespace, &reference.name));
        if defect!(OnlyRollingDeploymentsPreserve | AutomaticPreservationInRollout) {
            return Standing::Unknown;
        }
        deployment.map_or(Standing::Unknown, |one| Ledger::Deployment(&one).standing(uid))
    }

    /// The machines that a list marks as released.
    pub(crate) fn released<K>(&self, change: &Change<K>, entries: impl Fn(&K) -> &[PreservationEntry]) -> Vec<Trigger> {
        let new = change.new.iter().flat_map(|new| entries(new));
        new.filter(|entry| entry.released)
            .map(|entry| quiet(Work::Machine(Key::new(&self.namespace, &entry.name))))
            .collect()
    }
}
