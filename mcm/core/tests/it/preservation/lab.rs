//! A test fixture that performs the plans of one machine on its view; its API server may refuse actions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use mcm_api::{Machine, Phase, PreservationEntry, keys};
use mcm_core::machine::{Action, Claimed, Failure, NodeView, Plan, Pod, Settings, View, decide};
use mcm_core::ownership::reference;
use mcm_core::preservation::{Admission, ListView};

use crate::fixtures::*;

/// cluster-autoscaler's annotation that disables the scale-down of a node.
pub const SCALE_DOWN_DISABLED: &str = keys::SCALE_DOWN_DISABLED_ANNOTATION;

/// A machine of a set, and the answer of the owner's list to its claims.
#[derive(Clone)]
pub struct Lab {
    pub view: View,
    pub settings: Settings,
    pub now: Timestamp,
    /// The answer of the owner's list to a claim.
    pub answer: Result<(), Admission>,
    /// Actions that the API server refuses.
    pub refuses: fn(&Action) -> bool,
    performed: Vec<String>,
}

impl Lab {
    pub fn new(view: View) -> Self {
        let mut view = view;
        view.machine.metadata.owner_references = Some(vec![reference("MachineSet", &<_>::default())]);
        view.pods = Some(Vec::new());
        view.owners_list = ListView::Known {
            maximum: 1,
            rolling: false,
            deployed: true,
            entry: None,
            others: BTreeSet::new(),
        };
        Self {
            view,
            settings: Settings::default(),
            now: minute(1),
            answer: Ok(()),
            refuses: |_| false,
            performed: Vec::new(),
        }
    }

    /// Performs plans until there is nothing to do at this moment; returns the performed actions.
    pub fn settle(&mut self) -> Vec<String> {
        self.performed.clear();
        for _ in 0..30 {
            let plan = self.decide();
            if plan.actions.is_empty() && plan.status.is_none() {
                self.view.failure = None;
                return std::mem::take(&mut self.performed);
            }
            self.carry_out(plan);
        }
        panic!("the machine does not settle: {:?}", self.performed);
    }

    pub fn decide(&self) -> Plan {
        decide(&self.view, &self.settings, self.now)
    }

    /// Performs a plan like the shell: a refused action ends the pass.
    pub fn carry_out(&mut self, plan: Plan) {
        self.view.failure = None;
        if let Some(memory) = plan.drain.clone() {
            self.view.drain = memory;
        }
        for action in &plan.actions {
            if (self.refuses)(action) {
                self.view.failure = Some(Failure {
                    action: action.clone(),
                    conflict: false,
                    not_found: false,
                    message: "refused".to_owned(),
                });
                return;
            }
            self.perform(action);
        }
        self.performed.extend(actions(&plan));
        let claim = match plan.actions.last() {
            Some(Action::Claim { again, .. }) => Some(*again),
            _ => None,
        };
        if let Some(status) = plan.status {
            let phase = status.current_status.phase.clone().unwrap();
            let stage = status.preservation.as_ref().map(|record| format!(" {}", record.stage));
            self.performed.push(format!("[{phase}{}]", stage.unwrap_or_default()));
            self.view.machine.status = status;
        }
        self.view.claim = claim.map(|again| Claimed {
            again,
            answer: self.answer,
        });
    }

    fn perform(&mut self, action: &Action) {
        match action {
            Action::PatchMachine(patch) => {
                let annotations = self.view.machine.metadata.annotations.get_or_insert_default();
                change(annotations, &patch.annotations);
            }
            Action::PatchNode { patch, .. } => {
                let NodeView::Present(node) = &mut self.view.node else {
                    return;
                };
                let node = Arc::make_mut(node);
                change(node.metadata.annotations.get_or_insert_default(), &patch.annotations);
                if let Some(taints) = &patch.taints {
                    node.spec.get_or_insert_default().taints = Some(taints.clone());
                }
            }
            Action::SetPreservedCondition {
                status,
                reason,
                message,
                ..
            } => {
                let condition = NodeCondition {
                    reason: Some(reason.clone()),
                    message: Some(message.clone()),
                    ..condition(keys::PRESERVED_CONDITION, if *status { "True" } else { "False" })
                };
                let mut conditions = self.view.machine.status.conditions.clone();
                conditions.retain(|present| present.type_ != keys::PRESERVED_CONDITION);
                conditions.push(condition);
                self.conditions(&conditions);
            }
            Action::Claim { by, .. } if self.answer.is_ok() => self.set_entry(Some(PreservationEntry {
                by: by.clone(),
                ..PreservationEntry::default()
            })),
            Action::LeaveOwnersList => self.set_entry(None),
            _ => {}
        }
    }

    pub fn set_entry(&mut self, new: Option<PreservationEntry>) {
        if let ListView::Known { entry, .. } = &mut self.view.owners_list {
            *entry = new;
        }
    }

    pub fn is_entered(&self) -> bool {
        matches!(&self.view.owners_list, ListView::Known { entry: Some(_), .. })
    }

    /// Sets the conditions of the node and their copies in the machine.
    pub fn conditions(&mut self, conditions: &[NodeCondition]) {
        self.view.machine.status.conditions = conditions.to_vec();
        if let NodeView::Present(node) = &mut self.view.node {
            let node = Arc::make_mut(node);
            node.status.get_or_insert_default().conditions = Some(conditions.to_vec());
        }
    }

    /// The node reports these conditions; its preserved condition is kept.
    pub fn reports(&mut self, conditions: Vec<NodeCondition>) {
        let present = self.view.machine.status.conditions.iter();
        let preserved = present
            .filter(|condition| condition.type_ == keys::PRESERVED_CONDITION)
            .cloned();
        let all: Vec<_> = conditions.into_iter().chain(preserved).collect();
        self.conditions(&all);
    }

    pub fn annotate(&mut self, kind: &str, key: &str, value: Option<&str>) {
        let changes = BTreeMap::from([(key.to_owned(), value.map(str::to_owned))]);
        let metadata = match (kind, &mut self.view.node) {
            ("Node", NodeView::Present(node)) => &mut Arc::make_mut(node).metadata,
            _ => &mut self.view.machine.metadata,
        };
        change(metadata.annotations.get_or_insert_default(), &changes);
    }

    /// Requests a preservation by an annotation of the `Node` or `Machine`.
    pub fn request(&mut self, kind: &str, value: &str) {
        self.annotate(kind, keys::PRESERVE_ANNOTATION, Some(value));
    }

    pub fn node_annotation(&self, key: &str) -> Option<String> {
        self.view
            .node
            .present()?
            .metadata
            .annotations
            .as_ref()?
            .get(key)
            .cloned()
    }

    pub fn machine_annotation(&self, key: &str) -> Option<String> {
        self.view.machine.metadata.annotations.as_ref()?.get(key).cloned()
    }

    pub fn machine(&self) -> &Machine {
        &self.view.machine
    }

    pub fn phase(&self) -> String {
        self.machine().status.current_status.phase.as_ref().unwrap().to_string()
    }

    pub fn expiry(&self) -> Option<Timestamp> {
        self.machine()
            .status
            .current_status
            .preserve_expiry_time
            .as_ref()
            .map(|time| time.0)
    }

    /// The machine fails during a rollout, which ends its preservation.
    pub fn fails_in_a_rollout(&mut self) {
        self.answer = Err(Admission::RollingOut);
        self.reports(unhealthy());
        self.settle();
        self.now = minute(30);
        self.settle();
        assert_eq!((self.phase().as_str(), self.expiry()), ("Failed", None));
    }

    pub fn is_tainted(&self) -> bool {
        let spec = self.view.node.present().and_then(|node| node.spec.as_ref());
        let mut taints = spec.into_iter().flat_map(|spec| spec.taints.iter().flatten());
        taints.any(|taint| taint.key == keys::PRESERVED_TAINT)
    }
}

fn change(annotations: &mut BTreeMap<String, String>, changes: &BTreeMap<String, Option<String>>) {
    for (key, value) in changes {
        match value {
            Some(value) => annotations.insert(key.clone(), value.clone()),
            None => annotations.remove(key),
        };
    }
}

/// A machine that is Unknown for longer than its health timeout.
pub fn failing() -> Lab {
    let mut lab = Lab::new(with_conditions(with_vm(Phase::Unknown), &unhealthy()));
    lab.now = minute(11);
    lab
}

/// A failed machine that is preserved.
pub fn kept() -> Lab {
    let mut lab = failing();
    lab.settle();
    assert_eq!(lab.phase(), "Failed:Preserved");
    lab
}

/// A failing machine whose kubelet still terminates pods, with a pod that terminates slowly.
pub fn stuck() -> Lab {
    let mut lab = failing();
    lab.reports(vec![condition("Ready", "True"), condition("DiskPressure", "True")]);
    lab.view.pods = Some(vec![Pod {
        ends: Some(minute(500)),
        ..pod("web")
    }]);
    lab
}

/// A machine that was preserved while it was Running, and failed during a rollout.
pub fn rolled() -> Lab {
    let mut lab = Lab::new(running());
    lab.request("Machine", "now");
    lab.settle();
    lab.fails_in_a_rollout();
    lab
}
