//! The machines of the simulated world: `mcm_core::machine` decides about each machine, which has its own simulated
//! cloud. While the controller waits, the environment proceeds: VMs boot, pods terminate, and node agents perform
//! in-place updates.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::machine::LastOperation;
use mcm_api::{Machine, Phase, State, keys};
use mcm_core::machine::{Settings, Sibling, is_drained_in_place};
use mcm_core::preservation::OwnersList;

use super::api::is_deletable;
use super::world::World;
use crate::fixtures::{condition, pod};
use crate::world::World as Life;

/// The condition reason at which the node agent starts the in-place update.
const READY_FOR_UPDATE: &str = "ReadyForUpdate";

impl World {
    /// Runs one decision about the machine; while the controller waits, its cloud and its node proceed.
    pub(super) fn act_machine(&mut self, name: &str) -> bool {
        let Some(machine) = self.machines.get(name).cloned() else {
            return false;
        };
        let mut life = self.life_of(name, &machine);
        life.decide_once();
        let decided = self.apply_life(name, &life, &machine);
        if !decided && !self.broken.contains(&machine.spec.class.name) {
            life.boot();
        }
        let acted = decided || self.apply_life(name, &life, &machine);
        life.narrative.clear();
        if self.machines.contains_key(name) {
            self.lives.insert(name.to_owned(), life);
        }
        acted || self.end_pods(name) || self.update_node(name) || self.start_components(name)
    }

    /// The current objects of the machine, and the state of its controller and cloud.
    fn life_of(&mut self, name: &str, machine: &Arc<Machine>) -> Life {
        let existing = self.lives.remove(name);
        let mut life = existing.unwrap_or_else(|| Life::of(Machine::clone(machine), Settings::default()));
        life.machine = Some(Machine::clone(machine));
        life.node = self.nodes.get(name).map(|node| Node::clone(node));
        life.now = self.now;
        life.siblings = self.siblings_of(name, machine);
        let uid = machine.metadata.uid.as_deref().unwrap_or_default();
        let deployment = self.deployment.as_ref();
        life.owners_list = deployment.map_or_else(Default::default, |one| OwnersList::Deployment(one).view_of(uid));
        let is_drained = life
            .node
            .as_ref()
            .is_some_and(|node| machine.metadata.deletion_timestamp.is_some() || is_drained_in_place(node));
        let left = if is_drained {
            *self.draining.entry(name.to_owned()).or_insert(self.drain)
        } else {
            self.draining.remove(name);
            0
        };
        life.pods = (left > 0).then(|| pod("web-1")).into_iter().collect();
        life.pods_linger = true;
        life
    }

    /// The siblings of the machine, if its decisions depend on them.
    fn siblings_of(&self, name: &str, machine: &Machine) -> Vec<Sibling> {
        let others = self.machines.iter().filter(|(other, _)| *other != name);
        let siblings = others.map(|(other, machine)| Sibling::of(other.as_str().try_into().unwrap(), &machine.status));
        if needs_no_siblings(machine) {
            Vec::new()
        } else {
            siblings.collect()
        }
    }

    /// Copies changes of machine and node to the world; returns whether anything changed.
    fn apply_life(&mut self, name: &str, life: &Life, before: &Machine) -> bool {
        let mut acted = false;
        if life.node.as_ref() != self.nodes.get(name).map(|node| &**node) {
            acted = true;
            self.revision += 1;
            self.nodes.remove(name);
            if let Some(mut node) = life.node.clone() {
                self.bump(&mut node.metadata);
                self.nodes.insert(name.to_owned(), Arc::new(node));
            }
        }
        if life.machine.as_ref() != Some(before) {
            acted = true;
            self.revision += 1;
            self.machines.remove(name);
            self.log_phase_change(name, life, before);
            if let Some(mut machine) = life.machine.clone() {
                self.bump(&mut machine.metadata);
                assert!(!is_deletable(&machine.metadata), "{name} has no finalizer");
                self.machines.insert(name.to_owned(), Arc::new(machine));
            }
        }
        acted
    }

    /// Logs the decision that changed the machine's phase.
    fn log_phase_change(&mut self, name: &str, life: &Life, before: &Machine) {
        let phase = life
            .machine
            .as_ref()
            .map(|machine| &machine.status.current_status.phase);
        if phase == Some(&before.status.current_status.phase) {
            return;
        }
        let line = life.narrative.last().cloned().unwrap_or_default();
        self.log(format!("machine {name}: {line}"));
        if phase == Some(&Some(Phase::Failed)) {
            self.note_disturbance();
        }
        if phase == Some(&Some(Phase::InPlaceUpdating)) {
            let selected = self.nodes.get(name).is_some_and(|node| is_selected(node));
            assert!(
                selected,
                "the node of {name} is not selected for an update:\n{}",
                self.tail()
            );
        }
    }

    /// Advances the termination of the pod on a draining node.
    fn end_pods(&mut self, name: &str) -> bool {
        match self.draining.get_mut(name).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                // The change is visible to actors that list pods.
                self.revision += 1;
                true
            }
            None => false,
        }
    }

    /// The node agent performs the in-place update of a node that is ready for it.
    fn update_node(&mut self, name: &str) -> bool {
        let Some(node) = self.nodes.get(name) else { return false };
        let reason = |condition: &NodeCondition| {
            condition.type_ == keys::IN_PLACE_UPDATE_CONDITION && condition.reason.as_deref() == Some(READY_FOR_UPDATE)
        };
        let due = is_healthy(node) && conditions(node).iter().any(reason) && !has(node, keys::UPDATE_RESULT_LABEL);
        if !due {
            return false;
        }
        let result = if self.failing_updates > 0 {
            self.failing_updates -= 1;
            "failed"
        } else {
            keys::UPDATE_SUCCESSFUL
        };
        self.log(format!("  (the update of node {name}: {result})"));
        self.edit_node(name, |node| {
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert(keys::UPDATE_RESULT_LABEL.to_owned(), result.to_owned());
        });
        true
    }

    /// The critical components of the node become ready: its taint is removed.
    fn start_components(&mut self, name: &str) -> bool {
        let waits = |node: &Node| {
            let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
            taints
                .into_iter()
                .any(|taint| taint.key == keys::CRITICAL_COMPONENTS_TAINT)
        };
        if !self.nodes.get(name).is_some_and(|node| waits(node) && is_healthy(node)) {
            return false;
        }
        self.edit_node(name, |node| {
            let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
            taints.retain(|taint| taint.key != keys::CRITICAL_COMPONENTS_TAINT);
        });
        true
    }

    /// The kubelet of the machine's node starts or stops.
    pub fn set_ready(&mut self, name: &str, ready: bool) {
        if !self.nodes.contains_key(name) {
            return;
        }
        self.note_disturbance();
        let status = if ready { "True" } else { "Unknown" };
        let condition = NodeCondition {
            last_transition_time: Some(Time(self.now)),
            ..condition("Ready", status)
        };
        self.edit_node(name, |node| {
            let status = node.status.get_or_insert_default();
            let conditions = status.conditions.get_or_insert_default();
            conditions.retain(|present| present.type_ != condition.type_);
            conditions.push(condition.clone());
        });
    }

    /// Puts the machine into the phase, and its node into a matching state.
    pub fn enter(&mut self, name: &str, phase: Phase) {
        let now = Time(self.now);
        self.log(format!("machine {name}: {phase}"));
        let failed = matches!(phase.base(), Phase::Failed | Phase::Unknown);
        let available = self.is_available(&self.machines[name]);
        self.set_ready(name, !failed);
        let copied = self.nodes.get(name).map(|node| conditions(node).to_vec());
        self.edit_machine(name, |machine| {
            let state = if phase.base() == &Phase::Failed {
                State::Failed
            } else {
                State::Successful
            };
            let status = &mut machine.status;
            status.conditions = copied.clone().unwrap_or_default();
            status.current_status.phase = Some(phase.clone());
            status.current_status.last_update_time = Some(now.clone());
            status.last_operation = Some(LastOperation {
                state: Some(state),
                ..LastOperation::default()
            });
        });
        if available && !self.is_available(&self.machines[name]) {
            self.note_failure();
        }
    }
}

/// Whether decisions about the machine do not depend on its siblings. Views of a thousand machines with all siblings
/// would be slow.
pub(super) fn needs_no_siblings(machine: &Machine) -> bool {
    let phase = machine.status.current_status.base();
    matches!(phase, None | Some(Phase::Pending | Phase::Running | Phase::Terminating))
}

fn conditions(node: &Node) -> &[NodeCondition] {
    let status = node.status.as_ref();
    status
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default()
}

fn is_healthy(node: &Node) -> bool {
    let ready = |condition: &NodeCondition| condition.type_ == "Ready" && condition.status == "True";
    conditions(node).iter().any(ready)
}

pub(super) fn has(node: &Node, label: &str) -> bool {
    let labels = node.metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key(label))
}

pub(super) fn is_selected(node: &Node) -> bool {
    has(node, keys::SELECTED_FOR_UPDATE_LABEL)
}
