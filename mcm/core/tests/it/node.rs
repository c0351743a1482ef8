//! The Node of a machine: synchronization with the node template, and requests by annotations of the Node.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use mcm_api::machine::NodeTemplateSpec;
use mcm_api::{NodeTemplate, Operation, Phase, State, keys};
use mcm_core::machine::{Action, NodeView, Plan, Reason, View};
use rstest::rstest;

use crate::fixtures::*;

type Texts = Option<BTreeMap<String, String>>;

fn texts(text: &str) -> Texts {
    let pairs = text.split_whitespace().filter_map(|pair| pair.split_once('='));
    let all: BTreeMap<String, String> = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    (!all.is_empty()).then_some(all)
}

fn parse_taints(text: &str) -> Vec<Taint> {
    let pairs = text.split_whitespace().filter_map(|part| part.split_once('='));
    let each = pairs.map(|(key, rest)| {
        let (value, effect) = rest.split_once(':').unwrap();
        Taint {
            key: key.to_owned(),
            value: Some(value.to_owned()),
            effect: effect.to_owned(),
            ..Taint::default()
        }
    });
    each.collect()
}

fn template(labels: &str, annotations: &str, taints: &str) -> NodeTemplateSpec {
    let mut template = NodeTemplateSpec::default();
    template.metadata.labels = texts(labels);
    template.metadata.annotations = texts(annotations);
    template.spec.taints = Some(parse_taints(taints)).filter(|taints| !taints.is_empty());
    template
}

/// A Running machine with the template `wanted`, on a node to which `last` was applied.
fn synchronised(wanted: NodeTemplateSpec, last: Option<&NodeTemplateSpec>, node: Node) -> View {
    let mut view = running();
    view.machine.spec.node_template = Some(wanted);
    let mut node = node;
    if let Some(last) = last {
        let text = serde_json::to_string(last).unwrap();
        let annotations = node.metadata.annotations.get_or_insert_default();
        annotations.insert(keys::LAST_APPLIED_TEMPLATE_ANNOTATION.to_owned(), text);
    }
    with_node(view, node)
}

fn last_applied(plan: &Plan) -> Option<NodeTemplateSpec> {
    let patch = plan.actions.iter().find_map(|action| match action {
        Action::PatchNode { patch, .. } => Some(patch),
        _ => None,
    })?;
    let text = patch.annotations.get(keys::LAST_APPLIED_TEMPLATE_ANNOTATION)?;
    serde_json::from_str(text.as_deref()?).ok()
}

/// The wanted, last applied and current values, and the expected patch. Labels and annotations follow the same rule.
#[rstest]
#[case::not_updated("a=1", "a=1", "a=1", "")]
#[case::value_updated("a=2", "a=1", "a=1", "patch node a=2")]
#[case::key_added("a=1 b=1", "a=1", "a=1", "patch node b=1")]
#[case::key_deleted_on_the_machine("a=1", "a=1 b=1", "a=1 b=1", "patch node b=")]
#[case::value_edited_on_the_node("a=1", "a=1", "a=3", "patch node a=1")]
#[case::key_added_on_the_node("a=1", "a=1", "a=1 own=x", "")]
#[case::key_deleted_from_the_node("a=1", "a=1", "", "patch node a=1")]
#[case::key_deleted_everywhere("a=1", "a=1 b=1", "a=1", "patch node")]
fn labels_and_annotations_follow_the_template(
    #[case] wanted: &str,
    #[case] last: &str,
    #[case] current: &str,
    #[case] expected: &str,
) {
    for annotations in [false, true] {
        let side = |text: &str| {
            if annotations {
                template("", text, "")
            } else {
                template(text, "", "")
            }
        };
        let mut node = node(&healthy());
        if annotations {
            node.metadata.annotations = texts(current);
        } else {
            node.metadata
                .labels
                .get_or_insert_default()
                .extend(texts(current).unwrap_or_default());
        }
        let plan = decided(&synchronised(side(wanted), Some(&side(last)), node), minute(2));
        assert_eq!(actions(&plan).join(","), expected);
        let expected = (wanted != last).then(|| side(wanted));
        assert_eq!(last_applied(&plan), expected);
    }
}

#[rstest]
#[case::not_updated("a=1:NoSchedule", "a=1:NoSchedule", "a=1:NoSchedule", "")]
#[case::value_updated(
    "a=2:NoSchedule",
    "a=1:NoSchedule",
    "a=1:NoSchedule",
    "patch node taints [a=2:NoSchedule]"
)]
#[case::added(
    "a=1:NoSchedule b=1:NoExecute",
    "a=1:NoSchedule",
    "a=1:NoSchedule",
    "patch node taints [a=1:NoSchedule, b=1:NoExecute]"
)]
#[case::deleted_on_the_machine(
    "",
    "a=1:NoSchedule",
    "a=1:NoSchedule own=x:NoSchedule",
    "patch node taints [own=x:NoSchedule]"
)]
#[case::value_edited_on_the_node(
    "a=1:NoSchedule",
    "a=1:NoSchedule",
    "a=3:NoSchedule",
    "patch node taints [a=1:NoSchedule]"
)]
#[case::added_on_the_node("a=1:NoSchedule", "a=1:NoSchedule", "a=1:NoSchedule own=x:NoSchedule", "")]
#[case::deleted_from_the_node("a=1:NoSchedule", "a=1:NoSchedule", "", "patch node taints [a=1:NoSchedule]")]
#[case::second_effect_for_the_key(
    "a=1:NoSchedule a=1:NoExecute",
    "a=1:NoSchedule",
    "a=1:NoSchedule",
    "patch node taints [a=1:NoSchedule, a=1:NoExecute]"
)]
#[case::several_with_one_key(
    "a=1:NoSchedule a=1:NoExecute",
    "a=1:NoSchedule a=1:NoExecute",
    "a=1:NoSchedule a=1:NoExecute",
    ""
)]
fn taints_follow_the_template(#[case] wanted: &str, #[case] last: &str, #[case] current: &str, #[case] expected: &str) {
    let mut node = node(&healthy());
    node.spec.as_mut().unwrap().taints = Some(parse_taints(current)).filter(|taints| !taints.is_empty());
    let view = synchronised(template("", "", wanted), Some(&template("", "", last)), node);
    assert_eq!(actions(&decided(&view, minute(2))).join(","), expected);
}

#[test]
fn a_joining_node_is_claimed_and_gets_its_template_in_one_patch() {
    let mut fresh = node(&unhealthy());
    fresh.metadata.labels = None;
    let mut view = with_node(with_vm(Phase::Pending), fresh);
    view.machine.spec.node_template = Some(template("pool=a", "note=b", "own=x:NoSchedule"));
    let plan = decided(&view, minute(2));
    assert_eq!(actions(&plan), ["claim node pool=a note=b taints [own=x:NoSchedule]"]);
    assert_eq!(last_applied(&plan), view.machine.spec.node_template);
}

#[test]
fn invalid_parts_of_a_template_are_reported_and_the_rest_is_applied_once() {
    let mut wanted = template("pool=a", "", "ok=x:NoSchedule");
    wanted
        .metadata
        .labels
        .get_or_insert_default()
        .insert("team".to_owned(), "a b".to_owned());
    let plan = decided(&synchronised(wanted.clone(), None, node(&healthy())), minute(2));
    let applied = template("pool=a", "", "ok=x:NoSchedule");
    assert_eq!(last_applied(&plan), Some(applied.clone()));
    let message = plan.actions.iter().find_map(|action| match action {
        Action::RecordEvent { reason, message, .. } if reason == "InvalidNodeTemplate" => Some(message),
        _ => None,
    });
    assert!(
        message
            .is_some_and(|message| message.contains("spec.nodeTemplate.metadata.labels[\"team\"]: the value \"a b\"")),
        "{plan:#?}"
    );
    let mut node = node(&healthy());
    node.metadata
        .labels
        .get_or_insert_default()
        .insert("pool".to_owned(), "a".to_owned());
    node.spec.get_or_insert_default().taints = applied.spec.taints.clone();
    let plan = decided(&synchronised(wanted, Some(&applied), node), minute(2));
    assert_eq!(actions(&plan), Vec::<String>::new(), "nothing is repeated");
}

#[test]
fn a_machine_without_a_template_does_not_patch_its_node() {
    let plan = decided(&running(), minute(2));
    assert_eq!((actions(&plan).len(), plan.reason), (0, Reason::Nothing));
}

#[test]
fn the_template_of_an_absent_node_is_not_applied() {
    let mut view = running();
    view.machine.spec.node_template = Some(template("pool=a", "", ""));
    view.node = NodeView::Absent;
    assert!(actions(&decided(&view, minute(2))).is_empty());
}

/// The wanted, last applied and current capacity; then the first and the second write.
#[rstest]
#[case::unchanged("x=1", "x=1", "cpu=2 x=1000m", ["", ""])]
#[case::value_changed("x=2", "x=1", "cpu=2 x=1", ["capacity x=2", "patch node"])]
#[case::added("x=1 y=3", "x=1", "cpu=2 x=1", ["capacity y=3", "patch node"])]
#[case::deleted("", "x=1", "cpu=2 x=1", ["capacity x=", "patch node"])]
#[case::removed_from_the_node("x=1", "x=1", "cpu=2", ["capacity x=1", ""])]
fn the_virtual_capacity_follows_the_class(
    #[case] wanted: &str,
    #[case] last: &str,
    #[case] current: &str,
    #[case] expected: [&str; 2],
) {
    let amounts = |text: &str| -> BTreeMap<String, Quantity> {
        let all = texts(text).unwrap_or_default();
        all.into_iter().map(|(key, value)| (key, Quantity(value))).collect()
    };
    let mut node = node(&healthy());
    node.status.as_mut().unwrap().capacity = Some(amounts(current));
    let text = serde_json::to_string(&amounts(last)).unwrap();
    node.metadata.annotations = Some([(keys::LAST_APPLIED_CAPACITY_ANNOTATION.to_owned(), text)].into());
    let mut view = with_node(running(), node);
    class_mut(&mut view).node_template = Some(NodeTemplate {
        virtual_capacity: Some(amounts(wanted)),
        ..NodeTemplate::default()
    });
    let first = decided(&view, minute(2));
    if let (Some(Action::SetNodeCapacity { capacity, .. }), NodeView::Present(node)) =
        (first.actions.first(), &mut view.node)
    {
        assert_eq!(first.wake, Some(Duration::ZERO));
        let node = Arc::make_mut(node);
        let current = node.status.as_mut().unwrap().capacity.as_mut().unwrap();
        for (key, value) in capacity {
            match value {
                Some(value) => drop(current.insert(key.clone(), value.clone())),
                None => drop(current.remove(key)),
            }
        }
    }
    let second = decided(&view, minute(2));
    assert_eq!([&first, &second].map(|plan| actions(plan).join(",")), expected);
}

#[rstest]
#[case::running(Phase::Running, "patch node taints []")]
#[case::pending(Phase::Pending, "")]
fn the_not_ready_taint_is_removed_when_the_machine_is_running(#[case] phase: Phase, #[case] expected: &str) {
    let mut node = node(
        if phase == Phase::Running {
            healthy()
        } else {
            unhealthy()
        }
        .as_slice(),
    );
    node.spec.as_mut().unwrap().taints = Some(vec![taint(keys::INSTANCE_NOT_READY_TAINT)]);
    let mut view = with_node(with_vm(phase), node);
    view.machine.spec.node_template = None;
    let plan = decided(&view, minute(2));
    let texts = actions(&plan);
    assert_eq!(
        texts
            .iter()
            .find(|text| text.contains("node"))
            .cloned()
            .unwrap_or_default(),
        expected
    );
}

#[test]
fn the_not_ready_taint_is_not_added_again_from_the_template() {
    let mut view = running();
    let mut wanted = NodeTemplateSpec::default();
    wanted.spec.taints = Some(vec![taint(keys::INSTANCE_NOT_READY_TAINT)]);
    view.machine.spec.node_template = Some(wanted.clone());
    let mut node = node(&healthy());
    let text = serde_json::to_string(&wanted).unwrap();
    node.metadata.annotations = Some([(keys::LAST_APPLIED_TEMPLATE_ANNOTATION.to_owned(), text)].into());
    assert!(actions(&decided(&with_node(view, node), minute(2))).is_empty());
}

#[rstest]
#[case::true_value("true", true)]
#[case::false_value("false", false)]
#[case::capitalized("True", false)]
#[case::empty("", false)]
fn a_node_annotation_triggers_the_deletion_of_the_machine(#[case] value: &str, #[case] deleted: bool) {
    let mut node = node(&healthy());
    node.metadata.annotations = Some([(keys::TRIGGER_DELETION_ANNOTATION.to_owned(), value.to_owned())].into());
    let plan = decided(&with_node(running(), node), minute(2));
    assert_eq!(actions(&plan) == ["delete machine"], deleted);
    if deleted {
        assert_eq!(plan.reason, Reason::DeletionTriggered(NAME.to_owned()));
    }
}

#[test]
fn a_node_of_another_vm_is_not_claimed() {
    let mut other = node(&healthy());
    other.spec.as_mut().unwrap().provider_id = Some("fakecloud:///z1/other".to_owned());
    let view = with_node(with_vm(Phase::Pending), other.clone());
    let plan = decided(&view, minute(2));
    assert_eq!(
        (actions(&plan).len(), plan.status),
        (0, None),
        "the machine does not join, and the node is not claimed"
    );
    other.spec.as_mut().unwrap().provider_id = Some(PROVIDER_ID.to_owned());
    assert_eq!(
        written(&decided(&with_node(with_vm(Phase::Pending), other), minute(2))).0,
        "Running"
    );
}

#[test]
fn the_finalizer_of_a_former_vms_deleted_node_is_removed() {
    let mut other = node(&healthy());
    other.spec.as_mut().unwrap().provider_id = Some("fakecloud:///z1/other".to_owned());
    other.metadata.labels = texts(&format!("{}={NAME}", keys::MACHINE_NAME_LABEL));
    other.metadata.finalizers = Some(vec![keys::NODE_FINALIZER.to_owned()]);
    let not_deleted = decided(&with_node(with_vm(Phase::Pending), other.clone()), minute(2));
    assert_eq!(actions(&not_deleted).len(), 0, "the node is not being deleted");
    other.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(minute(1)));
    let name = other.metadata.name.clone().unwrap();
    let plan = decided(&with_node(with_vm(Phase::Pending), other.clone()), minute(2));
    assert_eq!(plan.reason, Reason::NodeOfFormerVm(name.clone()));
    assert_eq!(
        plan.actions,
        [Action::RemoveNodeFinalizer {
            node: name.try_into().unwrap()
        }]
    );
    other.metadata.labels = texts(&format!("{}=another", keys::MACHINE_NAME_LABEL));
    let of_another = decided(&with_node(with_vm(Phase::Pending), other), minute(2));
    assert_eq!(actions(&of_another).len(), 0, "the node belongs to another machine");
}

#[rstest]
#[case::crash_loop(Phase::CrashLoopBackOff)]
#[case::failed(Phase::Failed)]
fn a_machine_with_an_uninitialized_vm_is_not_running_on_a_healthy_node(#[case] phase: Phase) {
    let mut view = with_conditions(with_vm(phase), &healthy());
    set_operation(
        &mut view,
        Operation::Create,
        State::Failed,
        "Provider error: machine codes error: code = [Unavailable] message = [later]. Initialize VM Instance",
    );
    view.machine.status.last_operation.as_mut().unwrap().error_code = "Unavailable".to_owned();
    assert_eq!(
        written(&decided(&view, minute(1))).0,
        "",
        "the VM is initialized first, or the machine is replaced"
    );
}

#[test]
fn conditions_of_a_joining_node_are_copied_after_a_delay() {
    let mut fresh = node(&unhealthy());
    fresh.metadata.creation_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(minute(2)));
    let view = with_node(with_vm(Phase::Pending), fresh);
    let plan = decided(&view, minute(3));
    assert_eq!((plan.status, plan.wake), (None, Some(mins(2))));
    assert_eq!(decided(&view, minute(5)).status.unwrap().conditions, unhealthy());
}
