//! A small world for whole lives: one machine, its node, a cloud whose creates are not idempotent,
//! and a controller that may die between any two actions.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use mcm_api::{Code, DriverError, Machine, MachineStatus, VmIdentity, keys};
use mcm_core::machine::{
    Action, Answer, BootstrapToken, CallKind, CloudCall, Failure, NodeView, Plan, Pod, Settings, TokenView, View,
    decide,
};
use serde_json::Value;

use crate::fixtures::{NAME, actions, class, condition, healthy, machine, node, pod, secret, start};

/// Everything that outlives the controller.
pub struct World {
    pub machine: Option<Machine>,
    pub node: Option<Node>,
    pub pods: Vec<Pod>,
    pub token: Option<String>,
    /// Provider ids of VMs that exist, and whether each is initialised.
    pub vms: BTreeMap<String, bool>,
    /// Errors for the next cloud calls of each kind; `true`: after the call had its effect.
    pub errors: Vec<(CallKind, Code, bool)>,
    /// A person deletes the machine during the next call of this kind.
    pub deleted_during: Option<CallKind>,
    pub now: Timestamp,
    pub settings: Settings,
    /// What happened, a line each.
    pub narrative: Vec<String>,
    /// The machine and its node as the controller's cache has them, where that is behind.
    pub stale: Option<(Machine, Option<Node>)>,
    provider_ids: Vec<String>,
    made: usize,
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
        Self {
            machine: Some(machine),
            node: None,
            pods: Vec::new(),
            token: None,
            vms: BTreeMap::new(),
            errors: Vec::new(),
            deleted_during: None,
            now: start(),
            settings,
            narrative: Vec::new(),
            stale: None,
            provider_ids: Vec::new(),
            made: 0,
        }
    }

    /// The controller works until it has nothing to do now, or dies after `survives` actions.
    pub fn run(&mut self, mut survives: usize) -> End {
        let mut answers = Vec::new();
        let mut token = TokenView::Unknown;
        let mut failure = None;
        for _ in 0..100 {
            let Some(view) = self.view(answers.clone(), token.clone(), failure.take()) else {
                return End::Gone;
            };
            let plan = decide(&view, &self.settings, self.now);
            self.tell(&plan);
            let asks = plan.status.is_none() && plan.wake.is_none();
            for action in &plan.actions {
                if survives == 0 {
                    return self.crash();
                }
                survives -= usize::from(!matches!(action, Action::RecordEvent { .. } | Action::Observe(_)));
                failure = self.perform(action, &view, &mut answers, &mut token);
                self.check();
                if failure.is_some() {
                    break;
                }
            }
            if failure.is_some() {
                continue;
            }
            if let Some(status) = plan.status {
                if survives == 0 {
                    return self.crash();
                }
                survives -= 1;
                if !self.write_status(&view, &plan.actions, status) {
                    return End::Sleeps(self.settings.retry.conflict);
                }
            }
            match plan.wake {
                Some(wake) if !wake.is_zero() => {
                    self.stale = None;
                    return End::Sleeps(wake);
                }
                _ if asks => {}
                _ => {
                    answers.clear();
                    token = TokenView::Unknown;
                }
            }
        }
        panic!("the controller does not come to rest:\n{}", self.narrative.join("\n"));
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

    fn crash(&mut self) -> End {
        self.narrative.push("  (the controller dies)".to_owned());
        End::Crashed
    }

    fn view(&self, answers: Vec<Answer>, bootstrap_token: TokenView, failure: Option<Failure>) -> Option<View> {
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
            bootstrap_token,
            pods: Some(self.pods.clone()),
            pods_listed: true,
            answers,
            failure,
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
    fn perform(
        &mut self,
        action: &Action,
        view: &View,
        answers: &mut Vec<Answer>,
        token: &mut TokenView,
    ) -> Option<Failure> {
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
            && let Some(patch) = action.node_patch(node, NAME)
        {
            *node = merged(node, &patch);
            self.collect_node();
            return None;
        }
        match action {
            Action::Call(call) => answers.push(self.call(call)),
            Action::EnsureBootstrapToken(wanted) => *token = self.ensure(wanted),
            Action::DeleteBootstrapToken(_) => self.token = None,
            Action::EvictPod { name, .. } | Action::DeletePod { name, .. } => {
                self.pods.retain(|pod| pod.name != *name);
            }
            Action::DeleteNode { .. } => {
                if let Some(node) = &mut self.node {
                    node.metadata.deletion_timestamp = Some(Time(self.now));
                }
                self.collect_node();
            }
            Action::DeleteMachine => self.delete(),
            Action::SetTerminatingCondition { .. } => {
                let status = self.node.as_mut().and_then(|node| node.status.as_mut());
                let conditions = status.and_then(|status| status.conditions.as_mut());
                conditions
                    .into_iter()
                    .for_each(|all| all.push(condition("Terminating", "True")));
            }
            _ => {}
        }
        None
    }

    fn collect_node(&mut self) {
        let metadata = self.node.as_ref().map(|node| &node.metadata);
        if metadata.is_some_and(|metadata| {
            metadata.deletion_timestamp.is_some() && metadata.finalizers.iter().flatten().next().is_none()
        }) {
            self.node = None;
        }
    }

    fn ensure(&mut self, _wanted: &BootstrapToken) -> TokenView {
        TokenView::Present(self.token.get_or_insert_with(|| "0123456789abcdef".to_owned()).clone())
    }

    fn call(&mut self, call: &CloudCall) -> Answer {
        if self.deleted_during == Some(call.kind) {
            self.delete();
        }
        let index = self.errors.iter().position(|(kind, _, _)| *kind == call.kind);
        let error = index.map(|index| self.errors.remove(index));
        let effective = error.as_ref().is_none_or(|(_, _, after)| *after);
        let failure = error.map(|(_, code, _)| DriverError::new(code, "injected"));
        match call.kind {
            CallKind::Status => Answer::Status(failure.map_or_else(|| self.found(), Err)),
            CallKind::Create => {
                let made = effective.then(|| self.create());
                Answer::Create(failure.map_or_else(|| made.ok_or(DriverError::new(Code::Internal, "")), Err))
            }
            CallKind::Initialize => {
                if effective {
                    self.vms.values_mut().for_each(|initialized| *initialized = true);
                }
                Answer::Initialize(failure.map_or_else(|| self.found(), Err))
            }
            CallKind::Update => Answer::Update {
                spec: call.class.provider_spec.to_string(),
                result: failure.map_or(Ok(()), Err),
            },
            CallKind::Delete | CallKind::DeleteStale => {
                if effective {
                    self.vms.clear();
                }
                Answer::Delete(failure.map_or(Ok(None), Err))
            }
        }
    }

    fn create(&mut self) -> VmIdentity {
        self.made += 1;
        let provider_id = format!("fakecloud:///z1/vm-{}", self.made);
        self.vms.insert(provider_id.clone(), false);
        VmIdentity {
            provider_id,
            node_name: NAME.to_owned(),
            ..VmIdentity::default()
        }
    }

    fn found(&self) -> Result<VmIdentity, DriverError> {
        let Some((provider_id, initialized)) = self.vms.iter().next() else {
            return Err(DriverError::new(Code::NotFound, "no VM"));
        };
        let vm = VmIdentity {
            provider_id: provider_id.clone(),
            node_name: NAME.to_owned(),
            ..VmIdentity::default()
        };
        if *initialized {
            return Ok(vm);
        }
        Err(DriverError {
            vm: Some(Box::new(vm)),
            ..DriverError::new(Code::Uninitialized, "not initialized")
        })
    }

    /// The kubelet of a VM that booted registers a healthy node with a pod on it.
    pub fn boot(&mut self) {
        if self.vms.values().any(|initialized| *initialized) && self.node.is_none() && self.token.is_some() {
            let mut node = node(&healthy());
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
        if self.vms.len() > 1 {
            return Some(format!("one machine has the VMs {:?}", self.vms.keys()));
        }
        match &self.machine {
            None if !self.vms.is_empty() => return Some("a VM outlived its machine".to_owned()),
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

fn merged<T: serde::Serialize + serde::de::DeserializeOwned>(object: &T, patch: &Value) -> T {
    let mut value = serde_json::to_value(object).unwrap();
    merge(&mut value, patch);
    serde_json::from_value(value).unwrap()
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (name, value) in fields {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}
