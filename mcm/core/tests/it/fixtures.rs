//! Builders of views, and plans rendered as short texts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec, NodeStatus, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use mcm_api::machine::{ClassSpec, LastOperation};
use mcm_api::{
    Code, DriverError, Machine, MachineClass, NodeName, Operation, Phase, ProviderId, State, VmIdentity, keys,
};
use mcm_core::machine::{
    Action, Answer, NodePatch, NodeView, Plan, Pod, Secret, SecretData, Settings, TokenView, View, decide,
};

pub const NAME: &str = "worker-x7k2p";
pub const PROVIDER_ID: &str = "fakecloud:///z1/worker-x7k2p";

/// Creation time of every machine in these tests.
pub fn start() -> Timestamp {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

/// The class in a view.
pub fn class_mut(view: &mut View) -> &mut MachineClass {
    Arc::make_mut(view.class.as_mut().unwrap())
}

/// `minutes` after [`start`].
pub fn minute(minutes: i64) -> Timestamp {
    start().checked_add(SignedDuration::from_mins(minutes)).unwrap()
}

pub fn mins(minutes: u64) -> Duration {
    Duration::from_mins(minutes)
}

pub fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn class() -> MachineClass {
    MachineClass {
        metadata: ObjectMeta {
            name: Some("small".to_owned()),
            namespace: Some("garden".to_owned()),
            finalizers: Some(vec![keys::MACHINE_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        ..MachineClass::default()
    }
}

pub fn machine() -> Machine {
    let mut machine = Machine {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            namespace: Some("garden".to_owned()),
            uid: Some("8c2f6f5e-1c7d-4a3c-9d0e-5f1b2a3c4d5e".to_owned()),
            creation_timestamp: Some(Time(start())),
            resource_version: Some("1".to_owned()),
            finalizers: Some(vec![keys::MACHINE_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        ..Machine::default()
    };
    machine.spec.class = ClassSpec {
        kind: "MachineClass".into(),
        name: "small".into(),
        ..ClassSpec::default()
    };
    machine
}

pub fn secret() -> Secret {
    let user_data = format!(
        "join {} {}",
        keys::BOOTSTRAP_TOKEN_PLACEHOLDER,
        keys::MACHINE_NAME_PLACEHOLDER
    );
    let entries = [(keys::USER_DATA_KEY, user_data), ("apiToken", "planted".to_owned())];
    let data: BTreeMap<String, ByteString> = entries
        .into_iter()
        .map(|(key, value)| (key.to_owned(), ByteString(value.into_bytes())))
        .collect();
    Secret {
        data: SecretData(data),
        missing: Vec::new(),
    }
}

/// A new machine with everything that its creation requires, including a bootstrap token.
pub fn new_machine() -> View {
    View {
        machine: machine(),
        class: Some(Arc::new(class())),
        secret: secret(),
        target: true,
        bootstrap_token: TokenView::Present("0123456789abcdef".to_owned()),
        pods_listed: true,
        ..View::default()
    }
}

/// A machine with a recorded VM that has been in `phase` since [`start`].
pub fn with_vm(phase: Phase) -> View {
    let mut view = new_machine();
    view.machine.metadata.labels = Some(BTreeMap::from([(keys::NODE_LABEL.to_owned(), NAME.to_owned())]));
    view.machine.metadata.annotations = Some(BTreeMap::from([(
        keys::PRIORITY_ANNOTATION.to_owned(),
        keys::DEFAULT_PRIORITY.to_owned(),
    )]));
    view.machine.spec.provider_id = PROVIDER_ID.to_owned();
    view.machine.status.current_status.last_update_time = Some(Time(start()));
    let state = if phase == Phase::Running {
        State::Successful
    } else {
        State::Processing
    };
    set_operation(
        &mut view,
        Operation::Create,
        state,
        "Creating machine on cloud provider",
    );
    view.machine.status.current_status.phase = Some(phase);
    view.node = NodeView::Absent;
    view
}

/// A Running machine on a healthy node.
pub fn running() -> View {
    let mut view = with_conditions(with_vm(Phase::Running), &healthy());
    let annotations = view.machine.metadata.annotations.get_or_insert_default();
    annotations.insert(keys::JOIN_DURATION_ANNOTATION.to_owned(), "2m0s".to_owned());
    view
}

pub fn set_operation(view: &mut View, operation: Operation, state: State, description: &str) {
    view.machine.status.last_operation = Some(LastOperation {
        description: description.to_owned(),
        error_code: String::new(),
        last_update_time: Some(Time(start())),
        state: Some(state),
        operation: Some(operation),
    });
}

/// A machine deleted at [`start`]; `description` ends with the phrase of its deletion stage.
pub fn deleting(description: &str) -> View {
    let mut view = running();
    view.machine.metadata.deletion_timestamp = Some(Time(start()));
    view.machine.status.current_status.phase = Some(Phase::Terminating);
    set_operation(&mut view, Operation::Delete, State::Processing, description);
    view.pods = Some(Vec::new());
    view
}

/// `view` with a claimed node whose conditions are already copied to the machine.
pub fn with_conditions(mut view: View, conditions: &[NodeCondition]) -> View {
    view.machine.status.conditions = conditions.to_vec();
    with_node(view, node(conditions))
}

pub fn with_node(mut view: View, node: Node) -> View {
    view.node = NodeView::Present(Arc::new(node));
    view
}

pub fn node(conditions: &[NodeCondition]) -> Node {
    Node {
        metadata: ObjectMeta {
            name: Some(NAME.to_owned()),
            labels: Some(BTreeMap::from([(keys::MACHINE_NAME_LABEL.to_owned(), NAME.to_owned())])),
            finalizers: Some(vec![keys::NODE_FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec::default()),
        status: Some(NodeStatus {
            conditions: Some(conditions.to_vec()),
            ..NodeStatus::default()
        }),
    }
}

pub fn taint(key: &str) -> Taint {
    Taint {
        key: key.to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    }
}

pub fn condition(type_: &str, status: &str) -> NodeCondition {
    NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        last_transition_time: Some(Time(start())),
        ..NodeCondition::default()
    }
}

pub fn healthy() -> Vec<NodeCondition> {
    vec![condition("Ready", "True"), condition("DiskPressure", "False")]
}

pub fn unhealthy() -> Vec<NodeCondition> {
    vec![condition("Ready", "Unknown"), condition("DiskPressure", "False")]
}

pub fn pod(name: &str) -> Pod {
    Pod {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        ..Pod::default()
    }
}

pub fn vm() -> VmIdentity {
    VmIdentity {
        provider_id: ProviderId::new(PROVIDER_ID),
        node_name: NodeName::new(NAME),
        ..VmIdentity::default()
    }
}

pub fn error(code: Code) -> DriverError {
    DriverError::new(code, "it broke")
}

pub fn answered(mut view: View, answer: Answer) -> View {
    view.answers.push(answer);
    view
}

/// The decision with the default settings.
pub fn decided(view: &View, now: Timestamp) -> Plan {
    decide(view, &Settings::default(), now)
}

/// The phase, state, error code and description that a plan writes; all empty if it writes no status.
pub fn written(plan: &Plan) -> (String, String, String, String) {
    let Some(status) = &plan.status else {
        return <_>::default();
    };
    let operation = status.last_operation.clone().unwrap_or_default();
    let phase = status.current_status.phase.as_ref().map(Phase::to_string);
    let state = operation.state.as_ref().map(State::to_string);
    (
        phase.unwrap_or_default(),
        state.unwrap_or_default(),
        operation.error_code,
        operation.description,
    )
}

/// Actions of a plan as short texts, without events and metrics.
pub fn actions(plan: &Plan) -> Vec<String> {
    let render = |action: &Action| match action {
        Action::AddFinalizer => "add finalizer".to_owned(),
        Action::RemoveFinalizer => "remove finalizer".to_owned(),
        Action::PatchMachine(patch) => format!(
            "patch{}{}{}{}{}{}",
            match (patch.forgets_node, patch.forgets_provider_id) {
                (true, true) => " forget",
                (true, false) => " forget node",
                _ => "",
            },
            patch
                .node
                .as_ref()
                .map(|value| format!(" node={value}"))
                .unwrap_or_default(),
            patch
                .priority
                .as_ref()
                .map(|value| format!(" priority={value}"))
                .unwrap_or_default(),
            patch
                .provider_id
                .as_ref()
                .map(|value| format!(" provider={value}"))
                .unwrap_or_default(),
            patch
                .provider_spec
                .as_ref()
                .map(|value| format!(" spec={value}"))
                .unwrap_or_default(),
            patch
                .join_duration
                .as_ref()
                .map(|value| format!(" joined={value}"))
                .unwrap_or_default()
                + &texts(&patch.annotations),
        ),
        Action::MigrateClass { kind, name } => format!("migrate {kind} {name}"),
        Action::DeleteMachine => "delete machine".to_owned(),
        Action::Call(call) => format!("call {:?}", call.kind),
        Action::ListPods { node } => format!("list pods of {node}"),
        Action::AskVolumeIds(volumes) => {
            let names: Vec<_> = volumes.keys().cloned().collect();
            format!("get volume ids of {}", names.join(" "))
        }
        Action::EnsureBootstrapToken(token) => format!("ensure token {}", token.owner.id),
        Action::DeleteBootstrapToken(owner) => format!("delete {}", owner.secret_name()),
        Action::PatchNode { patch, .. } => node_text(patch),
        Action::SetNodeCapacity { capacity, .. } => {
            let amounts = capacity
                .iter()
                .map(|(key, value)| format!(" {key}={}", value.as_ref().map_or("", |amount| amount.0.as_str())));
            format!("capacity{}", amounts.collect::<String>())
        }
        Action::SetNodeCondition { type_, reason, .. } => format!("condition {type_} {reason}"),
        Action::SetPreservedCondition { status, reason, .. } => format!("preserved condition {status} {reason}"),
        Action::Claim { by, again } => format!("claim {by}{}", if *again { " again" } else { "" }),
        Action::LeaveOwnersList => "leave the list".to_owned(),
        Action::SetTerminatingCondition { reason, .. } => format!("terminating condition {reason}"),
        Action::CordonNode { .. } => "cordon".to_owned(),
        Action::EvictPod { name, .. } => format!("evict {name}"),
        Action::DeletePod { name, .. } => format!("delete pod {name}"),
        Action::DeleteVolumeAttachment(name) => format!("delete attachment {name}"),
        Action::RemoveNodeFinalizer { .. } => "remove node finalizer".to_owned(),
        Action::DeleteNode { .. } => "delete node".to_owned(),
        Action::RecordEvent { .. } | Action::Observe(_) => String::new(),
    };
    plan.actions
        .iter()
        .map(render)
        .filter(|text| !text.is_empty())
        .collect()
}

fn texts(values: &BTreeMap<String, Option<String>>) -> String {
    let each = values
        .iter()
        .filter(|(key, _)| !key.contains("last-applied-"))
        .map(|(key, value)| format!(" {key}={}", value.as_deref().unwrap_or_default()));
    each.collect()
}

fn node_text(patch: &NodePatch) -> String {
    let taints = patch.taints.as_ref().map(|taints| {
        let each = taints.iter().map(|taint| {
            format!(
                "{}={}:{}",
                taint.key,
                taint.value.as_deref().unwrap_or_default(),
                taint.effect
            )
        });
        format!(" taints [{}]", each.collect::<Vec<_>>().join(", "))
    });
    format!(
        "{}{}{}{}",
        match patch {
            NodePatch { claim: true, .. } => "claim node",
            NodePatch {
                unschedulable: Some(true),
                ..
            } => "cordon",
            _ => "patch node",
        },
        texts(&patch.labels),
        texts(&patch.annotations),
        taints.unwrap_or_default()
    )
}
