//! The cached lists of preserved machines.

use mcm_api::{Machine, PreservationEntry};
use mcm_core::ownership::controller;
use mcm_core::preservation::{ListView, OwnersList};

use super::cluster_state::ClusterState;
use super::work::{Trigger, Work, quiet};
use crate::cache::{Change, Key};

impl ClusterState {
    /// The machine's entry in the cached list of its owner.
    pub(crate) fn owners_list(&self, machine: &Machine) -> ListView {
        let Some(reference) = controller(&machine.metadata) else {
            return ListView::NoList;
        };
        if !self.enabled.owners() {
            return ListView::Unknown;
        }
        let uid = machine.metadata.uid.as_deref().unwrap_or_default();
        let Some(set) = self.sets.get(&Key::new(&self.namespace, &reference.name)) else {
            return ListView::Unknown;
        };
        let Some(reference) = controller(&set.metadata) else {
            return OwnersList::Set(&set).view_of(uid);
        };
        let deployment = self.deployments.get(&Key::new(&self.namespace, &reference.name));
        if defect!(OnlyRollingDeploymentsPreserve | AutomaticPreservationInRollout) {
            return ListView::Unknown;
        }
        deployment.map_or(ListView::Unknown, |one| OwnersList::Deployment(&one).view_of(uid))
    }

    /// The machines that a list marks as released.
    pub(crate) fn released<K>(&self, change: &Change<K>, entries: impl Fn(&K) -> &[PreservationEntry]) -> Vec<Trigger> {
        let new = change.new.iter().flat_map(|new| entries(new));
        new.filter(|entry| entry.released)
            .map(|entry| quiet(Work::Machine(Key::new(&self.namespace, &entry.name))))
            .collect()
    }
}
