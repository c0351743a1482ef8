//! Maps changes of machines, classes, Secrets, Nodes, pods and attachments to work.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt;
use mcm_api::{Machine, MachineClass, keys};
use mcm_core::class::secrets_of;

use super::cluster_state::ClusterState;
use super::watches::Delivery;
use super::work::{Trigger, Work, quiet};
use crate::cache::{Change, Key};

impl ClusterState {
    /// Maps changes to work of the enabled controllers.
    pub(super) fn all<K>(&self, changes: Vec<Change<K>>, rule: fn(&Self, &Change<K>) -> Vec<Trigger>) -> Vec<Trigger> {
        let triggers = changes.iter().flat_map(|change| rule(self, change));
        triggers.filter(|trigger| self.enabled.runs(&trigger.work)).collect()
    }

    /// Maps what a watch delivered to work. An object that cannot be decoded is reported by a pass of its own.
    pub(super) fn triggered<K>(
        &self,
        delivery: Delivery<K>,
        rule: fn(&Self, &Change<K>) -> Vec<Trigger>,
        work: fn(Key) -> Work,
    ) -> Vec<Trigger> {
        let mut triggers = self.all(delivery.changes, rule);
        let damaged = delivery.damaged.into_iter().map(work);
        triggers.extend(damaged.filter(|work| self.enabled.runs(work)).map(quiet));
        triggers
    }

    /// The work that results from this process's own changes.
    pub(crate) fn own_triggers(&self) -> Vec<Trigger> {
        let mut triggers = self.all(self.machines.take_own_changes(), ClusterState::own_machine_changed);
        triggers.extend(self.all(self.sets.take_own_changes(), ClusterState::set_changed));
        triggers.extend(self.all(self.deployments.take_own_changes(), ClusterState::deployment_changed));
        if let Some(target) = &self.target {
            triggers.extend(self.all(target.nodes.take_own_changes(), ClusterState::own_node_changed));
        }
        triggers
    }

    pub(super) fn machine_changed(&self, change: &Change<Machine>) -> Vec<Trigger> {
        self.guard.machine_changed(change);
        let hurry = change.is_edit(|machine| machine.metadata.generation);
        let Some(machine) = change.either() else {
            return Vec::new();
        };
        if change.new.is_none() {
            self.requested_deletions.forget(&Key::of(&**machine));
        }
        if change.new.is_none()
            && let Some(target) = &self.target
            && let Some(node) = machine.labels().get(keys::NODE_LABEL)
        {
            target.nodes.forget_deletion(&Key::new("", node));
        }
        let mut triggers = vec![Trigger {
            work: Work::Machine(Key::of(&**machine)),
            hurry,
        }];
        let classes = |side: &Option<Arc<Machine>>| side.as_ref().map(|machine| machine.spec.class.name.clone());
        let (before, after) = (classes(&change.old), classes(&change.new));
        if before != after {
            let changed = before.into_iter().chain(after);
            triggers.extend(changed.map(|class| quiet(Work::Class(Key::new(&self.namespace, class)))));
        }
        triggers.extend(self.owners_of_machine(change));
        triggers.extend(self.health_checks_of_machine(change));
        triggers
    }

    pub(super) fn class_changed(&self, change: &Change<MachineClass>) -> Vec<Trigger> {
        let Some(class) = change.either() else {
            return Vec::new();
        };
        let mut triggers = vec![quiet(Work::Class(Key::of(&**class)))];
        let secrets = [&change.old, &change.new]
            .into_iter()
            .flatten()
            .flat_map(|class| secrets_of(class));
        triggers.extend(secrets.map(|(namespace, name)| quiet(Work::Secret(Key::new(namespace, name)))));
        triggers.extend(self.machines_using(class, change.is_news(|class| class.metadata.generation)));
        triggers
    }

    pub(super) fn secret_changed(&self, change: &Change<Secret>) -> Vec<Trigger> {
        let Some(secret) = change.either() else {
            return Vec::new();
        };
        let key = Key::of(&**secret);
        let own = (key.namespace.clone(), key.name.clone());
        let hurry = change.is_news(|secret| secret.data.clone());
        let classes = self
            .classes
            .all()
            .into_iter()
            .filter(|class| secrets_of(class).contains(&own));
        let mut triggers: Vec<_> = classes.flat_map(|class| self.machines_using(&class, hurry)).collect();
        triggers.push(quiet(Work::Secret(key)));
        triggers
    }

    fn machines_using(&self, class: &MachineClass, hurry: bool) -> Vec<Trigger> {
        let machines = self.machines_of_class(&class.name_any());
        machines
            .iter()
            .filter(|_| !defect!(ClassChangeWakesNoMachine | UnusableClassSilencesDeletion))
            .map(|machine| Trigger {
                work: Work::Machine(Key::of(&**machine)),
                hurry,
            })
            .collect()
    }

    pub(super) fn node_changed(&self, change: &Change<Node>) -> Vec<Trigger> {
        let Some(node) = change.either() else { return Vec::new() };
        let mut triggers = self.machines_on(&node.name_any());
        if change.new.is_none()
            && triggers.is_empty()
            && let Some(target) = &self.target
        {
            target.nodes.forget_deletion(&Key::of(&**node));
        }
        if let Some(machine) = node.labels().get(keys::MACHINE_NAME_LABEL) {
            let key = Key::new(&self.namespace, machine);
            if self.machines.get(&key).is_some() {
                triggers.push(quiet(Work::Machine(key)));
            }
        }
        triggers.extend(self.health_checks_of_node(change));
        triggers
    }

    /// The work after this process wrote a Node: its machine, if an update in place was requested or has ended.
    fn own_node_changed(&self, change: &Change<Node>) -> Vec<Trigger> {
        let update_labels = |node: &Option<Arc<Node>>| {
            let labels = [
                keys::CANDIDATE_FOR_UPDATE_LABEL,
                keys::SELECTED_FOR_UPDATE_LABEL,
                keys::UPDATE_RESULT_LABEL,
            ];
            node.as_ref()
                .map(|node| labels.map(|label| node.labels().get(label).cloned()))
        };
        if change.new.is_none() || update_labels(&change.old) == update_labels(&change.new) {
            return Vec::new();
        }
        self.node_changed(change)
    }

    pub(super) fn pod_changed(&self, change: &Change<Pod>) -> Vec<Trigger> {
        let node = change
            .either()
            .and_then(|pod| pod.spec.as_ref())
            .and_then(|spec| spec.node_name.as_deref());
        node.map(|node| self.machines_on(node)).unwrap_or_default()
    }

    pub(super) fn attachment_changed(&self, change: &Change<VolumeAttachment>) -> Vec<Trigger> {
        let Some(attachment) = change.either() else {
            return Vec::new();
        };
        if defect!(DrainListenerFillsUp) && crate::memory::drains::defects::fills_up() {
            return Vec::new();
        }
        let mut triggers = self.machines_on(&attachment.spec.node_name);
        if let Some(volume) = &attachment.spec.source.persistent_volume_name {
            let waiting = self.drains.waiting_for(volume).into_iter();
            triggers.extend(waiting.map(|key| quiet(Work::Machine(key))));
        }
        triggers
    }

    fn machines_on(&self, node: &str) -> Vec<Trigger> {
        let machines = self.machines_of_node(node);
        machines
            .iter()
            .map(|machine| quiet(Work::Machine(Key::of(&**machine))))
            .collect()
    }
}

#[cfg(test)]
mod tests;
