//! The machines of health checks, and the checks that a change triggers.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use mcm_api::{Machine, MachineHealthCheck, keys};
use mcm_core::health_check::{NodeState, Selection, Target, View, may_be_withdrawn, withdrawn};
use mcm_core::remediation::is_paused;
use mcm_core::selector::Matcher;

use super::cluster_state::ClusterState;
use super::work::{Trigger, Work, quiet};
use crate::cache::{Change, Key};

impl ClusterState {
    /// The view of a check, without the requests to other controllers.
    pub(crate) fn health_check_view(&self, check: &MachineHealthCheck) -> View {
        let targets = self.targets(check);
        View {
            check: check.clone(),
            overlaps: self.overlaps(check, &targets),
            targets,
            connection: self.connection.current(),
            ..View::default()
        }
    }

    fn targets(&self, check: &MachineHealthCheck) -> Vec<Target> {
        let Some(matcher) = check.spec.selector.as_ref().and_then(Matcher::new) else {
            return Vec::new();
        };
        let machines = self.machines.all().into_iter();
        machines
            .filter(|machine| matcher.matches(machine.metadata.labels.as_ref()))
            .map(|machine| Target {
                node: self.node_of(&machine),
                machine,
            })
            .collect()
    }

    fn node_of(&self, machine: &Machine) -> NodeState {
        let Some(target) = &self.target else {
            return NodeState::NotObserved;
        };
        let name = machine.labels().get(keys::NODE_LABEL);
        let node = name.and_then(|name| target.nodes.get(&Key::new("", name)));
        node.map_or(NodeState::Absent, NodeState::Present)
    }

    /// The other checks that select the machines, unless they are paused or being deleted.
    fn overlaps(&self, check: &MachineHealthCheck, targets: &[Target]) -> BTreeMap<String, String> {
        let mut overlaps = BTreeMap::new();
        for other in self.health_checks.all() {
            let ends = other.metadata.deletion_timestamp.is_some() || is_paused(&other.metadata);
            if other.metadata.uid == check.metadata.uid || ends {
                continue;
            }
            let Some(matcher) = other.spec.selector.as_ref().and_then(Matcher::new) else {
                continue;
            };
            let both = targets
                .iter()
                .filter(|target| matcher.matches(target.machine.metadata.labels.as_ref()));
            overlaps.extend(both.map(|target| (target.name().to_owned(), other.name_any())));
        }
        overlaps
    }

    /// The check itself, those that may share machines with it, and the machines that it leaves.
    pub(super) fn health_check_changed(&self, change: &Change<MachineHealthCheck>) -> Vec<Trigger> {
        let essence = |check: &MachineHealthCheck| {
            (
                check.spec.clone(),
                check.metadata.annotations.clone(),
                check.metadata.deletion_timestamp.clone(),
                check.metadata.uid.clone(),
            )
        };
        let is_new = change.old.is_none() || change.new.is_none();
        if !is_new && !change.is_edit(essence) {
            return Vec::new();
        }
        let own = change.either().map(|check| Key::of(&**check));
        let mut keys: Vec<Key> = self.health_checks.all().iter().map(|check| Key::of(&**check)).collect();
        keys.extend(own);
        keys.sort();
        keys.dedup();
        let checks = keys.into_iter().map(Work::HealthCheck);
        checks.chain([Work::UncheckedMachines]).map(quiet).collect()
    }

    /// The machines that a check failed and that no check evaluates any more, with the conditions that remain.
    pub(crate) fn unchecked_machines(&self) -> Vec<(Arc<Machine>, Vec<NodeCondition>)> {
        let failed = self
            .machines
            .all()
            .into_iter()
            .filter(|machine| may_be_withdrawn(machine));
        let mut failed = failed.peekable();
        if failed.peek().is_none() {
            return Vec::new();
        }
        let selections = self.selections();
        failed
            .filter_map(|machine| {
                let conditions = withdrawn(&machine, &selections)?;
                Some((machine, conditions))
            })
            .collect()
    }

    fn selections(&self) -> Vec<Selection> {
        let is_complete = |check: &MachineHealthCheck| self.health_checks.damage(&Key::of(check)).is_none();
        let checks = self.health_checks.all();
        let selections = checks.iter().map(|check| Selection::of(check, is_complete(check)));
        selections.flatten().collect()
    }

    /// All checks.
    pub(crate) fn health_check_triggers(&self) -> Vec<Trigger> {
        let all = self.health_checks.all().into_iter();
        all.map(|check| quiet(Work::HealthCheck(Key::of(&*check)))).collect()
    }

    /// The checks that select a machine before or after a change that matters to them.
    pub(super) fn health_checks_of_machine(&self, change: &Change<Machine>) -> Vec<Trigger> {
        if !self.enabled.health_checks || !is_relevant(change, machine_essence) {
            return Vec::new();
        }
        let mut triggers = self.checks_selecting([&change.old, &change.new].into_iter().flatten());
        let is_unchecked =
            |machine: &Arc<Machine>| may_be_withdrawn(machine) && withdrawn(machine, &self.selections()).is_some();
        if change.new.as_ref().is_some_and(is_unchecked) {
            triggers.push(quiet(Work::UncheckedMachines));
        }
        triggers
    }

    /// The checks of a Node's machine. A Node that several machines name, or none, triggers nothing.
    pub(super) fn health_checks_of_node(&self, change: &Change<Node>) -> Vec<Trigger> {
        if !self.enabled.health_checks || !is_relevant(change, node_essence) {
            return Vec::new();
        }
        let Some(node) = change.either() else {
            return Vec::new();
        };
        match self.machines_of_node(&node.name_any()).as_slice() {
            [machine] => self.checks_selecting([machine].into_iter()),
            _ => Vec::new(),
        }
    }

    fn checks_selecting<'a>(&self, machines: impl Iterator<Item = &'a Arc<Machine>> + Clone) -> Vec<Trigger> {
        let checks = self.health_checks.all().into_iter();
        checks
            .filter(|check| {
                let matcher = check.spec.selector.as_ref().and_then(Matcher::new);
                matcher.is_some_and(|matcher| {
                    let mut machines = machines.clone();
                    machines.any(|machine| matcher.matches(machine.metadata.labels.as_ref()))
                })
            })
            .map(|check| quiet(Work::HealthCheck(Key::of(&*check))))
            .collect()
    }
}

fn is_relevant<K, V: PartialEq>(change: &Change<K>, essence: fn(&K) -> V) -> bool {
    change.old.is_none() || change.new.is_none() || change.is_edit(essence)
}

/// A condition without the time of its last heartbeat.
type Essence = (String, String, Option<Time>);

fn essence(condition: &NodeCondition) -> Essence {
    let transition = condition.last_transition_time.clone();
    (condition.type_.clone(), condition.status.clone(), transition)
}

/// What checks use of a machine.
fn machine_essence(machine: &Machine) -> impl PartialEq + use<> {
    let conditions: Vec<Essence> = machine.status.conditions.iter().map(essence).collect();
    (
        machine.metadata.labels.clone(),
        machine.metadata.annotations.clone(),
        machine.metadata.owner_references.clone(),
        machine.metadata.deletion_timestamp.clone(),
        machine.status.current_status.phase.clone(),
        conditions,
        // What the owner does about it, which the check repeats in its status.
        machine
            .status
            .condition(keys::OWNER_REMEDIATED)
            .map(|condition| (condition.reason.clone(), condition.message.clone())),
    )
}

/// What checks use of a Node.
fn node_essence(node: &Node) -> impl PartialEq + use<> {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions.map(|conditions| conditions.iter().map(essence).collect::<Vec<_>>())
}
