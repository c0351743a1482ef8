//! Simulates the whole lifecycle of one machine, with its node, its cloud and a controller that may crash between any
//! two actions.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use mcm_api::{Machine, MachineStatus, keys};
use mcm_core::machine::{
    Action, Answer, CallKind, CloudCall, DrainMemory, EvictionOutcome, Failure, NodeView, NodeWrite, Plan, Pod,
    Settings, Sibling, TokenView, View, decide,
};
use mcm_core::preservation::ListView;

use crate::cloud::Cloud;
use crate::fixtures::{actions, class, condition, healthy, machine, node, pod, secret, start};
use crate::patches::merged;

/// The state that a crash of the controller does not affect.
pub struct World {
    pub machine: Option<Machine>,
    pub node: Option<Node>,
    pub pods: Vec<Pod>,
    /// Whether evicted and deleted pods keep running; otherwise they are deleted at once.
    pub pods_linger: bool,
    pub token: Option<String>,
    pub cloud: Cloud,
    /// The other machines of its deployment.
    pub siblings: Vec<Sibling>,
    /// The machine's view of its owner's list of preserved machines.
    pub owners_list: ListView,
    /// A user deletes the machine during the next cloud call of this kind.
    pub deleted_during: Option<CallKind>,
    pub now: Timestamp,
    pub settings: Settings,
    /// One line per decision or external event.
    pub narrative: Vec<String>,
    /// The machine and its node in the controller's cache, if the cache is stale.
    pub stale: Option<(Machine, Option<Node>)>,
    /// The in-memory state of the machine's drain.
    drain: DrainMemory,
    provider_ids: Vec<String>,
}

/// What the controller observed since its last write.
#[derive(Default)]
struct Observed {
    answers: Vec<Answer>,
    token: TokenView,
    failure: Option<Failure>,
}

/// What follows a decision.
enum Next {
    /// Decide again with the answers of the performed actions.
    WithAnswers,
    /// Decide again from a fresh view.
    Again,
    End(End),
}

/// How a run of the controller ended.
pub enum End {
    /// The controller sleeps for this time.
    Sleeps(Duration),
    Crashed,
    /// The machine is deleted.
    Deleted,
}

impl World {
    pub fn new(settings: Settings) -> Self {
        let mut machine = machine();
        machine.metadata.finalizers = None;
        Self::of(machine, settings)
    }

    /// The world of a machine that no controller has reconciled yet.
    pub fn of(machine: Machine, settings: Settings) -> Self {
        Self {
            machine: Some(machine),
            node: None,
            pods: Vec::new(),
            pods_linger: false,
            token: None,
            cloud: Cloud::default(),
            siblings: Vec::new(),
            owners_list: ListView::Unknown,
            deleted_during: None,
            now: start(),
            settings,
            narrative: Vec::new(),
            stale: None,
            drain: DrainMemory::default(),
            provider_ids: Vec::new(),
        }
    }

    /// Runs the controller until it sleeps, or crashes it after `actions_before_crash` actions.
    pub fn run(&mut self, mut actions_before_crash: usize) -> End {
        let mut observed = Observed::default();
        for _ in 0..100 {
            match self.decide(&mut observed, &mut actions_before_crash) {
                Next::End(end) => return end,
                Next::WithAnswers => {}
                Next::Again if observed.failure.is_some() => {}
                Next::Again => observed = Observed::default(),
            }
        }
        panic!("the controller does not settle:\n{}", self.narrative.join("\n"));
    }

    /// Runs one decision of the controller, including the calls whose answers it requires.
    pub fn decide_once(&mut self) {
        let (mut observed, mut actions_before_crash) = (Observed::default(), usize::MAX);
        while let Next::WithAnswers = self.decide(&mut observed, &mut actions_before_crash) {}
    }

    fn decide(&mut self, observed: &mut Observed, actions_before_crash: &mut usize) -> Next {
        let Some(view) = self.view(observed) else {
            return Next::End(End::Deleted);
        };
        let plan = decide(&view, &self.settings, self.now);
        self.record(&plan);
        if let Some(memory) = plan.drain {
            self.drain = memory;
        }
        for action in &plan.actions {
            if *actions_before_crash == 0 {
                return self.crash();
            }
            *actions_before_crash -= usize::from(!matches!(action, Action::RecordEvent { .. } | Action::Observe(_)));
            observed.failure = self.perform(action, &view, observed);
            self.check_invariants();
            if observed.failure.is_some() {
                return Next::Again;
            }
        }
        let awaits_answers = plan.status.is_none() && plan.wake.is_none();
        if let Some(status) = plan.status {
            if *actions_before_crash == 0 {
                return self.crash();
            }
            *actions_before_crash -= 1;
            if !self.write_status(&view, &plan.actions, status) {
                return Next::End(End::Sleeps(self.settings.retry.conflict));
            }
        }
        match plan.wake {
            Some(wake) if !wake.is_zero() => {
                self.stale = None;
                Next::End(End::Sleeps(wake))
            }
            _ if awaits_answers => Next::WithAnswers,
            _ => Next::Again,
        }
    }

    /// Writes the status to the version that the decision observed or that its own patches created.
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
        self.narrative.push("  (the controller crashes)".to_owned());
        self.drain = DrainMemory::default();
        Next::End(End::Crashed)
    }

    fn view(&self, observed: &mut Observed) -> Option<View> {
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
            Some(node) => NodeView::Present(Arc::new(node.clone())),
            None => NodeView::Absent,
        };
        Some(View {
            machine,
            class: Some(Arc::new(class())),
            secret: secret(),
            target: true,
            node,
            bootstrap_token: observed.token.clone(),
            siblings: self.siblings.clone(),
            owners_list: self.owners_list.clone(),
            drain: self.drain.clone(),
            pods: Some(self.pods.clone()),
            pods_listed: true,
            answers: observed.answers.clone(),
            failure: observed.failure.take(),
            ..View::default()
        })
    }

    fn record(&mut self, plan: &Plan) {
        let mut line = plan.reason.to_string();
        let actions = actions(plan);
        if !actions.is_empty() {
            line += &format!(" -> {}", actions.join(", "));
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

    /// Performs the action; returns a conflict if the object is newer than the one that the decision observed.
    fn perform(&mut self, action: &Action, view: &View, observed: &mut Observed) -> Option<Failure> {
        let observed_machine = self
            .stale
            .as_ref()
            .map_or_else(|| self.machine.clone(), |_| Some(view.machine.clone()));
        if let (Some(observed_machine), Some(machine)) = (observed_machine, &mut self.machine)
            && let Some(patch) = action.machine_patch(&observed_machine)
        {
            if observed_machine.metadata.resource_version != machine.metadata.resource_version {
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
            let others = node.metadata.finalizers.take().unwrap_or_default();
            node.metadata.finalizers = Some(others.clone());
            *node = merged(node, patch.value());
            if let NodeWrite::OfAnyVersion(_) = patch {
                let finalizers = node.metadata.finalizers.get_or_insert_default();
                finalizers.extend(others);
                finalizers.sort();
                finalizers.dedup();
            }
            self.collect_node();
            return None;
        }
        match action {
            Action::Call(call) => observed.answers.push(self.call(call)),
            Action::EnsureBootstrapToken(_) => {
                let token = self.token.get_or_insert_with(|| "0123456789abcdef".to_owned());
                observed.token = TokenView::Present(token.clone());
            }
            Action::DeleteBootstrapToken(_) => self.token = None,
            Action::EvictPod { uid, .. } | Action::DeletePod { uid, .. } => self.terminate_pod(uid),
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
            Action::Claim { .. } | Action::LeaveOwnersList => panic!("this world has no owner's list: {action:?}"),
            _ => {}
        }
        None
    }

    /// The API server accepts the eviction or deletion of the pod.
    fn terminate_pod(&mut self, uid: &str) {
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
        conditions.retain(|present| present.type_ != condition.type_);
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

    /// Boots the VM: its kubelet registers a healthy node, which runs one pod.
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

    /// A user deletes the machine.
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

    pub fn advance(&mut self, time: Duration) {
        self.now = self.now.checked_add(time).unwrap();
    }

    pub fn phase(&self) -> String {
        let phase = self
            .machine
            .as_ref()
            .and_then(|machine| machine.status.current_status.phase.as_ref());
        phase.map(ToString::to_string).unwrap_or_default()
    }

    /// The first violated invariant, if there is one.
    pub fn violation(&mut self) -> Option<String> {
        if self.cloud.vms.len() > 1 {
            return Some(format!("one machine has the VMs {:?}", self.cloud.vms.keys()));
        }
        match &self.machine {
            None if !self.cloud.vms.is_empty() => {
                return Some("a VM still exists after its machine is deleted".to_owned());
            }
            Some(machine) if !machine.spec.provider_id.is_empty() => {
                self.provider_ids.push(machine.spec.provider_id.clone());
                self.provider_ids.dedup();
            }
            _ => {}
        }
        (self.provider_ids.len() > 1).then(|| format!("the provider id changed: {:?}", self.provider_ids))
    }

    fn check_invariants(&mut self) {
        if let Some(violation) = self.violation() {
            panic!("{violation}\n{}", self.narrative.join("\n"));
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
