//! A small world for whole lives: one machine, its node, its cloud, and a controller that may die between any two
//! actions.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use mcm_api::{Machine, MachineStatus, keys};
use mcm_core::machine::{
    Action, Answer, CallKind, CloudCall, DrainMemory, EvictionOutcome, Failure, NodeView, Plan, Pod, Settings, Sibling,
    TokenView, View, decide,
};
use mcm_core::preservation::Standing;

use crate::cloud::Cloud;
use crate::fixtures::{actions, class, condition, healthy, machine, node, pod, secret, start};
use crate::patches::merged;

/// Everything that outlives the controller.
pub struct World {
    pub machine: Option<Machine>,
    pub node: Option<Node>,
    pub pods: Vec<Pod>,
    /// Pods that are asked to go take their time. Otherwise they are gone at once.
    pub pods_linger: bool,
    pub token: Option<String>,
    pub cloud: Cloud,
    /// The other machines of its deployment.
    pub siblings: Vec<Sibling>,
    /// What its deployment's list of preserved machines says of it.
    pub ledger: Standing,
    /// A person deletes the machine during the next call of this kind.
    pub deleted_during: Option<CallKind>,
    pub now: Timestamp,
    pub settings: Settings,
    /// What happened, a line each.
    pub narrative: Vec<String>,
    /// The machine and its node as the controller's cache has them, where that is behind.
    pub stale: Option<(Machine, Option<Node>)>,
    /// What is remembered of its drain.
    drain: DrainMemory,
    provider_ids: Vec<String>,
}

/// What the controller learnt since it last wrote anything.
#[derive(Default)]
struct Learnt {
    answers: Vec<Answer>,
    token: TokenView,
    failure: Option<Failure>,
}

/// What follows a decision.
enum Next {
    /// Another one, with the answer to what it asked.
    Asked,
    /// Another one at once.
    Again,
    /// Nothing for now.
    End(End),
}

/// How a run of the controller ended.
pub enum End {
    /// It sleeps so long.
    Sleeps(Duration),
    /// It died.
    Crashed,
    /// The machine is gone.
    Gone,
}

impl World {
    pub fn new(settings: Settings) -> Self {
        let mut machine = machine();
        machine.metadata.finalizers = None;
        Self::of(machine, settings)
    }

    /// The world of a machine that nobody has looked at yet.
    pub fn of(machine: Machine, settings: Settings) -> Self {
        Self {
            machine: Some(machine),
            node: None,
            pods: Vec::new(),
            pods_linger: false,
            token: None,
            cloud: Cloud::default(),
            siblings: Vec::new(),
            ledger: Standing::Unknown,
            deleted_during: None,
            now: start(),
            settings,
            narrative: Vec::new(),
            stale: None,
            drain: DrainMemory::default(),
            provider_ids: Vec::new(),
        }
    }

    /// The controller works until it has nothing to do now, or dies after `survives` actions.
    pub fn run(&mut self, mut survives: usize) -> End {
        let mut learnt = Learnt::default();
        for _ in 0..100 {
            match self.decide(&mut learnt, &mut survives) {
                Next::End(end) => return end,
                Next::Asked => {}
                Next::Again if learnt.failure.is_some() => {}
                Next::Again => learnt = Learnt::default(),
            }
        }
        panic!("the controller does not come to rest:\n{}", self.narrative.join("\n"));
    }

    /// The controller decides once, with the answers to whatever it has to ask for that.
    pub fn turn(&mut self) {
        let (mut learnt, mut survives) = (Learnt::default(), usize::MAX);
        while let Next::Asked = self.decide(&mut learnt, &mut survives) {}
    }

    fn decide(&mut self, learnt: &mut Learnt, survives: &mut usize) -> Next {
        let Some(view) = self.view(learnt) else {
            return Next::End(End::Gone);
        };
        let plan = decide(&view, &self.settings, self.now);
        self.tell(&plan);
        if let Some(memory) = plan.drain {
            self.drain = memory;
        }
        for action in &plan.actions {
            if *survives == 0 {
                return self.crash();
            }
            *survives -= usize::from(!matches!(action, Action::RecordEvent { .. } | Action::Observe(_)));
            learnt.failure = self.perform(action, &view, learnt);
            self.check();
            if learnt.failure.is_some() {
                return Next::Again;
            }
        }
        let asks = plan.status.is_none() && plan.wake.is_none();
        if let Some(status) = plan.status {
            if *survives == 0 {
                return self.crash();
            }
            *survives -= 1;
            if !self.write_status(&view, &plan.actions, status) {
                return Next::End(End::Sleeps(self.settings.retry.conflict));
            }
        }
        match plan.wake {
            Some(wake) if !wake.is_zero() => {
                self.stale = None;
                Next::End(End::Sleeps(wake))
            }
            _ if asks => Next::Asked,
            _ => Next::Again,
        }
    }

    /// A status is written over the version that the decision saw or that its own patches made.
    fn write_status(&mut self, view: &View, actions: &[Action], status: MachineStatus) -> bool {
        let patched = actions
            .iter()
            .any(|action| action.machine_patch(&view.machine).is_some());
        let stale = self
            .stale
            .take()
            .is_some_and(|(machine, _)| Some(machine) != self.machine);
        if stale && !patched {
            self.narrative.push("  (the machine was written meanwhile)".to_owned());
            return false;
        }
        if let Some(machine) = &mut self.machine {
            machine.status = status;
            bump(&mut machine.metadata);
        }
        true
    }

    fn crash(&mut self) -> Next {
        self.narrative.push("  (the controller dies)".to_owned());
        self.drain = DrainMemory::default();
        Next::End(End::Crashed)
    }

    fn view(&self, learnt: &mut Learnt) -> Option<View> {
        let current = (self.machine.clone()?, self.node.clone());
        let (machine, node) = self.stale.clone().unwrap_or(current);
        let labelled = machine
            .metadata
            .labels
            .iter()
            .flatten()
            .any(|(key, _)| key == keys::NODE_LABEL);
        let node = match &node {
            _ if !labelled => NodeView::Unknown,
            Some(node) => NodeView::Present(Box::new(node.clone())),
            None => NodeView::Absent,
        };
        Some(View {
            machine,
            class: Some(class()),
            secret: secret(),
            target: true,
            node,
            bootstrap_token: learnt.token.clone(),
            siblings: self.siblings.clone(),
            ledger: self.ledger.clone(),
            drain: self.drain.clone(),
            pods: Some(self.pods.clone()),
            pods_listed: true,
            answers: learnt.answers.clone(),
            failure: learnt.failure.take(),
            ..View::default()
        })
    }

    fn tell(&mut self, plan: &Plan) {
        let mut line = plan.reason.to_string();
        let does = actions(plan);
        if !does.is_empty() {
            line += &format!(" -> {}", does.join(", "));
        }
        if let Some(status) = &plan.status {
            let phase = status
                .current_status
                .phase
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            line += &format!(" => {phase}");
        }
        self.narrative.push(line);
    }

    /// The failure, where the action met a newer object than the decision saw.
    fn perform(&mut self, action: &Action, view: &View, learnt: &mut Learnt) -> Option<Failure> {
        let seen = self
            .stale
            .as_ref()
            .map_or_else(|| self.machine.clone(), |_| Some(view.machine.clone()));
        if let (Some(seen), Some(machine)) = (seen, &mut self.machine)
            && let Some(patch) = action.machine_patch(&seen)
        {
            if seen.metadata.resource_version != machine.metadata.resource_version {
                self.stale = None;
                return conflict(action);
            }
            *machine = merged(machine, &patch);
            bump(&mut machine.metadata);
            self.stale = None;
            let finished = machine.metadata.finalizers.iter().flatten().next().is_none();
            if finished && machine.metadata.deletion_timestamp.is_some() {
                self.machine = None;
            }
            return None;
        }
        if let Some(node) = &mut self.node
            && let Some(patch) = action.node_patch(node, view.machine.metadata.name.as_deref().unwrap())
        {
            *node = merged(node, &patch);
            self.collect_node();
            return None;
        }
        match action {
            Action::Call(call) => learnt.answers.push(self.call(call)),
            Action::EnsureBootstrapToken(_) => {
                let token = self.token.get_or_insert_with(|| "0123456789abcdef".to_owned());
                learnt.token = TokenView::Present(token.clone());
            }
            Action::DeleteBootstrapToken(_) => self.token = None,
            Action::EvictPod { uid, .. } | Action::DeletePod { uid, .. } => self.send_away(uid),
            Action::DeleteNode { .. } => {
                if let Some(node) = &mut self.node {
                    node.metadata.deletion_timestamp = Some(Time(self.now));
                }
                self.collect_node();
            }
            Action::DeleteMachine => self.delete(),
            Action::SetNodeCondition {
                type_, reason, message, ..
            } => self.set_condition(condition(type_, "True"), reason, message),
            Action::SetPreservedCondition {
                status,
                reason,
                message,
                ..
            } => {
                let status = if *status { "True" } else { "False" };
                self.set_condition(condition(keys::PRESERVED_CONDITION, status), reason, message);
            }
            Action::SetTerminatingCondition { reason, message, .. } => {
                self.set_condition(condition("Terminating", "True"), reason, message);
            }
            Action::Claim { .. } | Action::LeaveLedger => panic!("nobody keeps a list here: {action:?}"),
            _ => {}
        }
        None
    }

    /// The API server takes the pod's eviction or deletion; how long the pod takes is its own affair.
    fn send_away(&mut self, uid: &str) {
        self.drain.attempted(uid, self.now, EvictionOutcome::Accepted);
        if !self.pods_linger {
            self.pods.retain(|pod| pod.uid != uid);
        }
    }

    fn set_condition(&mut self, condition: NodeCondition, reason: &str, message: &str) {
        let status = self.node.as_mut().and_then(|node| node.status.as_mut());
        let Some(conditions) = status.and_then(|status| status.conditions.as_mut()) else {
            return;
        };
        conditions.retain(|known| known.type_ != condition.type_);
        conditions.push(NodeCondition {
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_transition_time: Some(Time(self.now)),
            ..condition
        });
    }

    fn collect_node(&mut self) {
        let metadata = self.node.as_ref().map(|node| &node.metadata);
        if metadata.is_some_and(|metadata| {
            metadata.deletion_timestamp.is_some() && metadata.finalizers.iter().flatten().next().is_none()
        }) {
            self.node = None;
        }
    }

    fn call(&mut self, call: &CloudCall) -> Answer {
        if self.deleted_during == Some(call.kind) {
            self.delete();
        }
        self.cloud.call(call)
    }

    /// The kubelet of a VM that booted registers a healthy node with a pod on it.
    pub fn boot(&mut self) {
        if self.cloud.vms.values().any(|initialized| *initialized) && self.node.is_none() && self.token.is_some() {
            let mut node = node(&healthy());
            node.metadata.name = self.machine.as_ref().and_then(|machine| machine.metadata.name.clone());
            node.metadata.labels = None;
            node.metadata.finalizers = None;
            self.node = Some(node);
            self.pods = vec![pod("web-1")];
            self.narrative.push("  (the node joins)".to_owned());
        }
    }

    /// A person deletes the machine.
    pub fn delete(&mut self) {
        if let Some(machine) = &mut self.machine {
            machine.metadata.deletion_timestamp.get_or_insert(Time(self.now));
            bump(&mut machine.metadata);
            if machine.metadata.finalizers.iter().flatten().next().is_none() {
                self.machine = None;
            }
            self.narrative.push("  (the machine is deleted)".to_owned());
        }
    }

    pub fn pass(&mut self, time: Duration) {
        self.now = self.now.checked_add(time).unwrap();
    }

    pub fn phase(&self) -> String {
        let phase = self
            .machine
            .as_ref()
            .and_then(|machine| machine.status.current_status.phase.as_ref());
        phase.map(ToString::to_string).unwrap_or_default()
    }

    /// What must hold at every moment; the first breach, if there is one.
    pub fn breach(&mut self) -> Option<String> {
        if self.cloud.vms.len() > 1 {
            return Some(format!("one machine has the VMs {:?}", self.cloud.vms.keys()));
        }
        match &self.machine {
            None if !self.cloud.vms.is_empty() => return Some("a VM outlived its machine".to_owned()),
            Some(machine) if !machine.spec.provider_id.is_empty() => {
                self.provider_ids.push(machine.spec.provider_id.clone());
                self.provider_ids.dedup();
            }
            _ => {}
        }
        (self.provider_ids.len() > 1).then(|| format!("the provider id changed: {:?}", self.provider_ids))
    }

    fn check(&mut self) {
        if let Some(breach) = self.breach() {
            panic!("{breach}\n{}", self.narrative.join("\n"));
        }
    }
}

fn conflict(action: &Action) -> Option<Failure> {
    Some(Failure {
        action: action.clone(),
        conflict: true,
        not_found: false,
        message: "conflict".to_owned(),
    })
}

fn bump(metadata: &mut ObjectMeta) {
    let version: u64 = metadata.resource_version.as_deref().unwrap_or("0").parse().unwrap();
    metadata.resource_version = Some((version + 1).to_string());
}
