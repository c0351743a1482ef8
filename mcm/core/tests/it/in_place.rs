//! In-place update: from the labels of the Node to its condition, the drain, and the machine's phase.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, NodeCondition};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::class::NodeTemplate;
use mcm_api::{Operation, Phase, Preservation, PreservationStage, PreservedBy, keys};
use mcm_core::machine::{EvictionOutcome, Failure, NodeView, View, is_drained_in_place};
use rstest::rstest;

use crate::fixtures::*;

/// Records whether the Node was cordoned before its drain.
const RECORD: &str = "patch node node.machine.sapcloud.io/cordoned-before-update";
/// Records the same, and cordons the Node.
const CORDON: &str = "cordon node.machine.sapcloud.io/cordoned-before-update";

fn update_condition(reason: &str) -> NodeCondition {
    NodeCondition {
        reason: Some(reason.to_owned()),
        ..condition(keys::IN_PLACE_UPDATE_CONDITION, "True")
    }
}

/// A node with these labels (`candidate`, `selected`, `successful`, `failed`) and this reason of the update condition.
fn labelled(labels: &str, reason: Option<&str>) -> Node {
    let mut conditions = healthy();
    conditions.extend(reason.map(update_condition));
    let mut node = node(&conditions);
    let all = node.metadata.labels.get_or_insert_default();
    for label in labels.split_whitespace() {
        let (key, value) = match label {
            "candidate" => (keys::CANDIDATE_FOR_UPDATE_LABEL, "true"),
            "selected" => (keys::SELECTED_FOR_UPDATE_LABEL, "true"),
            result => (keys::UPDATE_RESULT_LABEL, result),
        };
        all.insert(key.to_owned(), value.to_owned());
    }
    node
}

fn machine_on(phase: Phase, node: Node) -> View {
    let mut view = with_vm(phase);
    view.machine.status.conditions = node.status.as_ref().unwrap().conditions.clone().unwrap();
    view.pods = Some(Vec::new());
    with_node(view, node)
}

#[rstest]
#[case::no_label("", None, "")]
#[case::candidate("candidate", None, "CandidateForUpdate")]
#[case::candidate_again("candidate", Some("UpdateSuccessful"), "CandidateForUpdate")]
#[case::candidate_waits("candidate", Some("CandidateForUpdate"), "")]
#[case::selected("candidate selected", Some("CandidateForUpdate"), "SelectedForUpdate")]
#[case::successful("candidate selected successful", Some("ReadyForUpdate"), "UpdateSuccessful")]
#[case::successful_already_set("candidate successful", Some("UpdateSuccessful"), "")]
#[case::failed("candidate selected failed", Some("ReadyForUpdate"), "UpdateFailed")]
#[case::failed_already_set("candidate selected failed", Some("UpdateFailed"), "")]
fn node_labels_determine_the_update_condition(
    #[case] labels: &str,
    #[case] reason: Option<&str>,
    #[case] expected: &str,
) {
    let plan = decided(&machine_on(Phase::Running, labelled(labels, reason)), minute(1));
    let expected: Vec<String> = Some(expected)
        .filter(|reason| !reason.is_empty())
        .map(|reason| format!("condition InPlaceUpdate {reason}"))
        .into_iter()
        .collect();
    assert_eq!(actions(&plan), expected);
}

/// Acceptance list "In-place label change detector" of the specification. There is no detector: the controller decides
/// on every change of a Node that the watch reports; `src/view/triggers.rs` covers the changes that this process makes
/// itself. Unlike upstream, the controller also handles a new Node that already has a label.
#[rstest]
#[case::both_nodes_nil(None, None, None, false)]
#[case::old_nil_without_labels(None, Some(""), None, false)]
#[case::old_nil_with_a_label(None, Some("candidate"), None, true)]
#[case::new_nil(Some("candidate"), None, Some("CandidateForUpdate"), false)]
#[case::no_labels(Some(""), Some(""), None, false)]
#[case::candidate_added(Some(""), Some("candidate"), None, true)]
#[case::selected_added(Some("candidate"), Some("candidate selected"), Some("CandidateForUpdate"), true)]
#[case::result_added(
    Some("candidate selected"),
    Some("candidate selected successful"),
    Some("ReadyForUpdate"),
    true
)]
#[case::result_value_changed(
    Some("candidate selected failed"),
    Some("candidate selected successful"),
    Some("UpdateFailed"),
    true
)]
#[case::result_same(
    Some("candidate selected successful"),
    Some("candidate selected successful"),
    Some("UpdateSuccessful"),
    false
)]
fn a_label_change_updates_the_condition(
    #[case] old: Option<&str>,
    #[case] new: Option<&str>,
    #[case] reason: Option<&str>,
    #[case] updated: bool,
) {
    let updates = |labels: Option<&str>| {
        let mut view = machine_on(Phase::Running, labelled(labels.unwrap_or_default(), reason));
        if labels.is_none() {
            view.node = NodeView::Absent;
        }
        let texts = actions(&decided(&view, minute(1)));
        texts.iter().any(|action| action.starts_with("condition InPlaceUpdate"))
    };
    assert!(!updates(old), "the old labels already have their condition");
    assert_eq!(updates(new), updated);
}

#[test]
fn a_selected_node_is_drained_before_its_machine_is_updated() {
    let node = labelled("candidate selected", Some("SelectedForUpdate"));
    assert!(is_drained_in_place(&node));
    let mut view = machine_on(Phase::Running, node);
    view.pods = Some(vec![pod("web-1")]);
    assert_eq!(
        actions(&decided(&view, minute(1))),
        [format!("{CORDON}=false"), "evict web-1".to_owned()]
    );

    view.pods = Some(Vec::new());
    let plan = decided(&view, minute(1));
    assert_eq!(written(&plan).0, "InPlaceUpdating");
    assert_eq!(
        written(&plan).3,
        "Machine worker-x7k2p is undergoing an in-place update"
    );
    view.machine.status = plan.status.unwrap();
    if let NodeView::Present(node) = &mut view.node {
        let node = Arc::make_mut(node);
        node.spec.as_mut().unwrap().unschedulable = Some(true);
        let before = (keys::CORDONED_BEFORE_UPDATE_ANNOTATION.to_owned(), "false".to_owned());
        node.metadata.annotations = Some([before].into());
    }
    assert_eq!(
        actions(&decided(&view, minute(1))),
        ["condition InPlaceUpdate DrainSuccessful"]
    );
}

#[rstest]
#[case::schedulable(false, None, Some("=false"))]
#[case::cordoned_by_a_user(true, None, Some("=true"))]
#[case::cordoned_by_the_drain(true, Some("false"), None)]
#[case::cordoned_by_a_user_and_recorded(true, Some("true"), None)]
#[case::uncordoned_by_a_user(false, Some("true"), Some("=false"))]
fn the_previous_cordon_state_is_recorded_with_the_cordon(
    #[case] cordoned: bool,
    #[case] recorded: Option<&str>,
    #[case] written: Option<&str>,
) {
    let mut node = labelled("candidate selected", Some("SelectedForUpdate"));
    node.spec.as_mut().unwrap().unschedulable = Some(cordoned);
    let recorded = recorded.map(|value| (keys::CORDONED_BEFORE_UPDATE_ANNOTATION.to_owned(), value.to_owned()));
    node.metadata.annotations = Some(recorded.into_iter().collect());
    let plan = decided(&machine_on(Phase::Running, node.clone()), minute(1));
    let expected = written.map(|value| format!("{}{value}", if cordoned { RECORD } else { CORDON }));
    assert_eq!(actions(&plan), expected.into_iter().collect::<Vec<_>>());
    let patch = plan
        .actions
        .iter()
        .find_map(|action| action.node_patch(&node, "worker-x7k2p"));
    let cordons = patch.is_some_and(|patch| patch.value().pointer("/spec/unschedulable").is_some());
    assert_eq!(cordons, !cordoned, "one patch records and cordons");
}

/// Both writes change the Node's version, and the cordon requires the version that the decision observed.
#[test]
fn a_node_is_cordoned_after_its_capacity_is_written() {
    let node = labelled("candidate selected", Some("SelectedForUpdate"));
    let mut view = machine_on(Phase::Running, node);
    let amount = [("example.com/x".to_owned(), Quantity("1".to_owned()))].into();
    class_mut(&mut view).node_template = Some(NodeTemplate {
        virtual_capacity: Some(amount),
        ..NodeTemplate::default()
    });
    let plan = decided(&view, minute(1));
    assert_eq!(actions(&plan), ["capacity example.com/x=1"]);
    assert_eq!((plan.status, plan.wake), (None, Some(Duration::ZERO)));
}

#[test]
fn a_drained_node_is_ready_for_its_update() {
    let node = labelled("candidate selected", Some("DrainSuccessful"));
    let plan = decided(&machine_on(Phase::InPlaceUpdating, node), minute(1));
    assert_eq!(actions(&plan), ["condition InPlaceUpdate ReadyForUpdate"]);
}

#[test]
fn a_node_ready_for_its_update_is_not_changed() {
    let node = labelled("candidate selected", Some("ReadyForUpdate"));
    let plan = decided(&machine_on(Phase::InPlaceUpdating, node), minute(1));
    assert_eq!(
        (actions(&plan).len(), plan.status, plan.wake),
        (0, None, Some(mins(19)))
    );
}

#[rstest]
#[case::label(Some("True"), 1, true)]
#[case::label_with_another_value(Some("true"), 1, false)]
#[case::too_late(None, 121, true)]
#[case::in_time(None, 119, false)]
fn a_drain_before_an_update_is_forced_by_label_or_timeout(
    #[case] label: Option<&str>,
    #[case] now: i64,
    #[case] forced: bool,
) {
    let mut view = machine_on(
        Phase::Running,
        labelled("candidate selected", Some("SelectedForUpdate")),
    );
    view.pods = Some(vec![pod("web-1")]);
    if let Some(label) = label {
        let labels = view.machine.metadata.labels.get_or_insert_default();
        labels.insert(keys::FORCE_DRAIN_LABEL.to_owned(), label.to_owned());
    }
    let texts = actions(&decided(&view, minute(now)));
    let expected = if forced { "delete pod web-1" } else { "evict web-1" };
    assert_eq!(texts.get(1).map(String::as_str), Some(expected), "{texts:?}");
}

#[rstest]
#[case::not_ready("Ready", "Unknown")]
#[case::read_only("ReadonlyFilesystem", "True")]
fn a_node_that_cannot_terminate_pods_is_force_drained(#[case] type_: &str, #[case] status: &str) {
    let mut node = labelled("candidate selected", Some("SelectedForUpdate"));
    let conditions = node.status.as_mut().unwrap().conditions.as_mut().unwrap();
    conditions.retain(|condition| condition.type_ != type_);
    conditions.push(condition(type_, status));
    let mut view = machine_on(Phase::InPlaceUpdating, node);
    view.pods = Some(vec![pod("web-1")]);
    assert_eq!(
        actions(&decided(&view, minute(6))),
        [
            &format!("{CORDON}=false"),
            "delete pod web-1",
            "condition InPlaceUpdate DrainSuccessful"
        ]
    );
}

/// Acceptance list "in-place drain". Upstream returns NotFound and retries soon; here a missing Node decides: whether
/// it was missing before the drain or is deleted during it, no pod is evicted and no condition is written.
#[rstest]
#[case::running(Phase::Running, false, "Unknown")]
#[case::running_and_deleted_during_the_drain(Phase::Running, true, "Unknown")]
#[case::updating(Phase::InPlaceUpdating, false, "")]
#[case::updating_and_deleted_during_the_drain(Phase::InPlaceUpdating, true, "")]
fn a_missing_node_is_not_drained_before_an_update(
    #[case] phase: Phase,
    #[case] during_the_drain: bool,
    #[case] expected: &str,
) {
    let mut view = machine_on(phase, labelled("candidate selected", Some("SelectedForUpdate")));
    view.pods = Some(vec![pod("web-1")]);
    if during_the_drain {
        let action = decided(&view, minute(1)).actions[0].clone();
        assert_eq!(action.node().map(|node| node.as_str()), Some(NAME));
        view.failure = Some(Failure {
            action,
            conflict: false,
            not_found: true,
            message: "nodes \"worker-x7k2p\" not found".to_owned(),
        });
    } else {
        view.node = NodeView::Absent;
    }
    let plan = decided(&view, minute(1));
    assert_eq!(actions(&plan), Vec::<String>::new());
    assert_eq!(written(&plan).0, expected);
    assert!(plan.wake.is_some(), "the timeouts still apply");
}

#[test]
fn a_failed_drain_is_reported_and_continues() {
    let mut view = machine_on(
        Phase::Running,
        labelled("candidate selected", Some("SelectedForUpdate")),
    );
    view.pods = Some(vec![pod("web-1")]);
    view.drain
        .attempted("uid-web-1", minute(1), EvictionOutcome::Failed("it broke".to_owned()));
    let plan = decided(&view, minute(1));
    let (_, state, _, text) = written(&plan);
    assert_eq!(state, "Processing");
    assert_eq!(
        text,
        "Drain failed due to - error when evicting pod \"web-1\": it broke scheduled on node worker-x7k2p. Will retry in \
         next sync. Initiate node drain"
    );
    assert_eq!(
        plan.status.unwrap().last_operation.unwrap().operation,
        Some(Operation::DrainNode)
    );
}

#[rstest]
#[case::successful(Phase::InPlaceUpdating, "successful", "InPlaceUpdateSuccessful")]
#[case::successful_after_all(Phase::InPlaceUpdateFailed, "successful", "InPlaceUpdateSuccessful")]
#[case::failed(Phase::InPlaceUpdating, "failed", "InPlaceUpdateFailed")]
#[case::failed_already_set(Phase::InPlaceUpdateFailed, "failed", "")]
#[case::no_update_in_progress(Phase::Running, "successful", "")]
fn the_update_result_on_the_node_sets_the_machine_phase(
    #[case] phase: Phase,
    #[case] result: &str,
    #[case] expected: &str,
) {
    let node = labelled(result, Some("ReadyForUpdate"));
    let mut view = machine_on(phase, node);
    view.machine.status.current_status.preserve_expiry_time = Some(Time(minute(90)));
    view.machine.status.preservation = Some(Preservation {
        by: PreservedBy::Auto,
        stage: PreservationStage::Preserved,
        ..Preservation::default()
    });
    let plan = decided(&view, minute(1));
    assert_eq!(written(&plan).0, expected);
    if let Some(status) = plan.status {
        assert!(
            status.current_status.preserve_expiry_time.is_some(),
            "an update does not end a preservation"
        );
    }
}

#[test]
fn the_failure_reason_of_an_update_is_copied_from_the_node() {
    let mut node = labelled("failed", Some("ReadyForUpdate"));
    let reason = (keys::UPDATE_FAILED_REASON_ANNOTATION.to_owned(), "disk full".to_owned());
    node.metadata.annotations = Some(BTreeMap::from([reason]));
    let plan = decided(&machine_on(Phase::InPlaceUpdating, node), minute(1));
    assert_eq!(
        written(&plan).3,
        "Machine worker-x7k2p failed to update dependencies: disk full"
    );
}

#[rstest]
#[case::updating_for_too_long(Phase::InPlaceUpdating, 20, false, "InPlaceUpdateFailed")]
#[case::updating(Phase::InPlaceUpdating, 19, false, "")]
#[case::failed_for_too_long(Phase::InPlaceUpdateFailed, 15, false, "Failed")]
#[case::failed_and_nothing_is_replaced(Phase::InPlaceUpdateFailed, 15, true, "")]
fn an_in_place_update_has_timeouts(
    #[case] phase: Phase,
    #[case] now: i64,
    #[case] disabled: bool,
    #[case] expected: &str,
) {
    let mut view = machine_on(phase, labelled("candidate selected", Some("ReadyForUpdate")));
    view.machine.spec.configuration.disable_health_timeout = Some(disabled);
    assert_eq!(written(&decided(&view, minute(now))).0, expected);
}
