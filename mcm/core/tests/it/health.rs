//! Health: how the Node's conditions and timeouts change the machine's phase.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{GoDuration, MachineName, NodeName, Operation, Phase, PreservationEntry, State, keys};
use mcm_core::machine::{Action, Failure, NodeView, NodeWrite, Reason, Sibling, View};
use mcm_core::preservation::ListView;
use rstest::rstest;

use crate::fixtures::*;

fn sibling(phase: Option<Phase>) -> Sibling {
    Sibling {
        name: "worker-other".try_into().unwrap(),
        phase,
        preserved: false,
        patient: false,
        joined: None,
        requested: None,
    }
}

/// An Unknown machine on an unhealthy node.
fn unknown() -> View {
    let mut view = with_conditions(with_vm(Phase::Unknown), &unhealthy());
    set_operation(&mut view, Operation::HealthCheck, State::Processing, "unhealthy");
    view
}

#[test]
fn a_machine_whose_node_is_healthy_joins() {
    let mut view = with_conditions(with_vm(Phase::Pending), &healthy());
    view.machine.status.conditions.clear();
    let plan = decided(&view, minute(2));
    assert_eq!(actions(&plan), ["delete bootstrap-token-32m9ap", "patch joined=2m0s"]);
    let (phase, state, _, description) = written(&plan);
    assert_eq!((&*phase, &*state), ("Running", "Successful"));
    assert_eq!(
        description,
        "Machine worker-x7k2p successfully joined the cluster in 2m0s"
    );
    let status = plan.status.unwrap();
    assert_eq!(status.conditions, healthy());
    assert!(!status.current_status.timeout_active);
    assert_eq!(plan.reason, Reason::Joined(mins(2)));
}

#[test]
fn an_unknown_machine_whose_node_is_healthy_rejoins() {
    let mut view = unknown();
    view = with_node(view, node(&healthy()));
    let plan = decided(&view, minute(2));
    assert_eq!(
        actions(&plan),
        Vec::<String>::new(),
        "neither a token deletion nor a join duration"
    );
    assert_eq!(
        written(&plan),
        (
            "Running".into(),
            "Successful".into(),
            String::new(),
            "Machine worker-x7k2p successfully re-joined the cluster".into()
        )
    );
    assert_eq!(
        plan.status.unwrap().last_operation.unwrap().operation,
        Some(Operation::HealthCheck)
    );
}

#[rstest]
#[case::pending_waits(Phase::Pending, "")]
#[case::unknown_does_not_wait(Phase::Unknown, "Running")]
fn missing_critical_components_block_only_a_pending_machine(#[case] phase: Phase, #[case] expected: &str) {
    let mut node = node(&healthy());
    node.spec.as_mut().unwrap().taints = Some(vec![taint(keys::CRITICAL_COMPONENTS_TAINT)]);
    let mut view = with_node(with_vm(phase), node);
    view.machine.status.conditions = healthy();
    assert_eq!(written(&decided(&view, minute(2))).0, expected);
}

#[rstest]
#[case::failed(Phase::Failed)]
#[case::available(Phase::Available)]
#[case::updated_in_place(Phase::InPlaceUpdateSuccessful)]
fn a_machine_with_a_healthy_node_becomes_running_from_any_phase(#[case] phase: Phase) {
    let plan = decided(&with_conditions(with_vm(phase), &healthy()), minute(2));
    assert_eq!(written(&plan).0, "Running");
}

#[rstest]
#[case::no_conditions(vec![], "Unknown")]
#[case::not_ready(vec![condition("Ready", "False")], "Unknown")]
#[case::ready_unknown(vec![condition("Ready", "Unknown")], "Unknown")]
#[case::disk_pressure(vec![condition("Ready", "True"), condition("DiskPressure", "True")], "Unknown")]
#[case::disk_pressure_unknown(vec![condition("Ready", "True"), condition("DiskPressure", "Unknown")], "Unknown")]
#[case::a_condition_that_is_not_listed(vec![condition("Ready", "True"), condition("PIDPressure", "True")], "Running")]
#[case::no_ready_condition(vec![condition("DiskPressure", "False")], "Running")]
fn a_running_machine_is_unknown_when_its_node_is_unhealthy(
    #[case] conditions: Vec<NodeCondition>,
    #[case] expected: &str,
) {
    let mut view = with_conditions(with_vm(Phase::Running), &conditions);
    view.machine.status.conditions = healthy();
    let plan = decided(&view, minute(2));
    let (phase, state, _, description) = written(&plan);
    assert_eq!(phase, expected);
    if expected == "Unknown" {
        assert_eq!(state, "Processing");
        let prefix = "Machine worker-x7k2p is unhealthy - changing MachinePhase to Unknown. Node conditions: ";
        assert!(description.starts_with(prefix), "{description}");
    }
}

#[rstest]
#[case::ready_true("Ready", "True", true)]
#[case::ready_false("Ready", "False", false)]
#[case::ready_unknown("Ready", "Unknown", false)]
#[case::disk_pressure_true("DiskPressure", "True", false)]
#[case::disk_pressure_false("DiskPressure", "False", true)]
#[case::disk_pressure_unknown("DiskPressure", "Unknown", false)]
#[case::memory_pressure_true("MemoryPressure", "True", true)]
#[case::memory_pressure_false("MemoryPressure", "False", true)]
#[case::memory_pressure_unknown("MemoryPressure", "Unknown", true)]
#[case::network_unavailable_true("NetworkUnavailable", "True", false)]
#[case::network_unavailable_false("NetworkUnavailable", "False", true)]
#[case::network_unavailable_unknown("NetworkUnavailable", "Unknown", false)]
fn a_node_is_healthy_by_its_conditions(#[case] type_: &str, #[case] status: &str, #[case] healthy: bool) {
    let view = with_conditions(with_vm(Phase::Running), &[condition(type_, status)]);
    assert_eq!(decided(&view, minute(2)).status.is_none(), healthy);
}

#[rstest]
#[case::no_taints(None, "Running")]
#[case::empty(Some(vec![]), "Running")]
#[case::unrelated(Some(vec!["example.com/other"]), "Running")]
#[case::the_taint(Some(vec![keys::CRITICAL_COMPONENTS_TAINT]), "")]
fn the_taint_of_critical_components_alone_blocks_a_pending_machine(
    #[case] taints: Option<Vec<&str>>,
    #[case] expected: &str,
) {
    let mut node = node(&healthy());
    node.spec.as_mut().unwrap().taints = taints.map(|keys| keys.into_iter().map(taint).collect());
    let mut view = with_node(with_vm(Phase::Pending), node);
    view.machine.status.conditions = healthy();
    assert_eq!(written(&decided(&view, minute(2))).0, expected);
}

#[test]
fn node_conditions_of_the_machine_override_the_settings() {
    let mut view = with_conditions(
        with_vm(Phase::Running),
        &[condition("Ready", "True"), condition("Custom", "True")],
    );
    assert_eq!(decided(&view, minute(2)).status, None);
    view.machine.spec.configuration.node_conditions = Some("Custom".to_owned());
    assert_eq!(written(&decided(&view, minute(2))).0, "Unknown");
}

#[rstest]
#[case::its_node_is_not_ready(vec![condition("Ready", "Unknown")], "Unknown")]
#[case::its_node_is_healthy(healthy(), "Running")]
fn a_machine_updated_in_place_gets_its_phase_from_its_node(
    #[case] conditions: Vec<NodeCondition>,
    #[case] expected: &str,
) {
    let view = with_conditions(with_vm(Phase::InPlaceUpdateSuccessful), &conditions);
    assert_eq!(written(&decided(&view, minute(2))).0, expected);
}

#[rstest]
#[case::running(Phase::Running)]
#[case::updated_in_place(Phase::InPlaceUpdateSuccessful)]
fn a_machine_whose_node_is_missing_is_unknown(#[case] phase: Phase) {
    let mut view = View {
        node: NodeView::Absent,
        ..running()
    };
    view.machine.status.current_status.phase = Some(phase);
    let plan = decided(&view, minute(2));
    assert_eq!(
        written(&plan).3,
        "Node object went missing. Machine worker-x7k2p is unhealthy - changing MachinePhase to Unknown"
    );
    assert_eq!(written(&plan).0, "Unknown");
    assert_eq!(
        actions(&plan),
        Vec::<String>::new(),
        "an absent node does not delete the machine"
    );
}

#[test]
fn an_unknown_node_changes_nothing() {
    let view = View {
        node: NodeView::Unknown,
        ..running()
    };
    assert_eq!(decided(&view, minute(2)).reason, Reason::Nothing);
}

#[rstest]
#[case::heartbeat(|condition: &mut NodeCondition| condition.last_heartbeat_time = Some(Time(Timestamp::UNIX_EPOCH)), false)]
#[case::message(|condition: &mut NodeCondition| condition.message = Some("other".to_owned()), false)]
#[case::reason(|condition: &mut NodeCondition| condition.reason = Some("other".to_owned()), false)]
#[case::another_type(|condition: &mut NodeCondition| condition.type_ = "PIDPressure".to_owned(), true)]
fn conditions_are_copied_only_if_the_change_is_significant(
    #[case] change: fn(&mut NodeCondition),
    #[case] copied: bool,
) {
    let mut conditions = healthy();
    change(&mut conditions[1]);
    let mut view = with_conditions(with_vm(Phase::Running), &conditions);
    view.machine.status.conditions = healthy();
    let plan = decided(&view, minute(2));
    assert_eq!(plan.status.is_some(), copied);
}

#[test]
fn a_healthy_running_machine_needs_nothing() {
    let plan = decided(&running(), minute(2));
    assert_eq!(
        (plan.reason, plan.status, plan.actions.len(), plan.wake),
        (Reason::Nothing, None, 0, Some(mins(10)))
    );
}

#[test]
fn a_machine_that_does_not_join_in_time_fails() {
    let view = with_vm(Phase::Pending);
    assert_eq!(decided(&view, minute(19)).reason, Reason::WaitingToJoin(mins(1)));
    assert_eq!(decided(&view, minute(19)).wake, Some(mins(1)));
    let plan = decided(&view, minute(20));
    assert_eq!(
        written(&plan),
        (
            "Failed".into(),
            "Failed".into(),
            String::new(),
            "Machine worker-x7k2p failed to join the cluster in 20m0s.".into()
        )
    );
    assert_eq!(
        plan.status.unwrap().last_operation.unwrap().operation,
        Some(Operation::Create)
    );
}

#[test]
fn a_pending_machine_with_an_unhealthy_node_stays_pending_until_its_timeout() {
    let view = with_conditions(with_vm(Phase::Pending), &unhealthy());
    assert_eq!(decided(&view, minute(19)).status, None);
    assert_eq!(written(&decided(&view, minute(20))).0, "Failed");
}

#[rstest]
#[case::with_node(true)]
#[case::without_node(false)]
fn a_machine_that_is_unknown_for_too_long_fails(#[case] node: bool) {
    let mut view = unknown();
    if !node {
        view.node = NodeView::Absent;
    }
    assert_eq!(decided(&view, minute(9)).reason, Reason::WaitingToRecover(mins(1)));
    let plan = decided(&view, minute(10));
    assert_eq!(written(&plan).0, "Failed");
    assert_eq!(
        written(&plan).3,
        "Machine worker-x7k2p health checks failing since last 10m0s. Updating machine phase to Failed. \
         Node Conditions: [Ready=Unknown, DiskPressure=False]"
    );
}

#[test]
fn the_health_timeout_of_the_machine_overrides_the_settings_and_can_be_disabled() {
    let mut view = unknown();
    view.machine.spec.configuration.health_timeout = Some(GoDuration(mins(1)));
    assert_eq!(written(&decided(&view, minute(1))).0, "Failed");
    view.machine.spec.configuration.disable_health_timeout = Some(true);
    assert_eq!(decided(&view, minute(60)).reason, Reason::Nothing);
}

#[rstest]
#[case::alone(None, false, true)]
#[case::other_is_running(Some(Some(Phase::Running)), false, true)]
#[case::other_is_unknown(Some(Some(Phase::Unknown)), false, true)]
#[case::other_is_failed(Some(Some(Phase::Failed)), false, false)]
#[case::other_is_failed_and_preserved(Some(Some(Phase::Failed)), true, true)]
#[case::other_is_terminating(Some(Some(Phase::Terminating)), false, false)]
#[case::other_is_terminating_and_preserved(Some(Some(Phase::Terminating)), true, false)]
#[case::other_is_new(Some(None), false, false)]
#[case::other_is_pending(Some(Some(Phase::Pending)), false, false)]
#[case::other_crashes(Some(Some(Phase::CrashLoopBackOff)), false, false)]
fn one_machine_of_a_deployment_fails_at_a_time(
    #[case] other: Option<Option<Phase>>,
    #[case] preserved: bool,
    #[case] fails: bool,
) {
    let mut view = unknown();
    view.siblings = other
        .map(|phase| Sibling {
            preserved,
            ..sibling(phase)
        })
        .into_iter()
        .collect();
    let plan = decided(&view, minute(10));
    if fails {
        assert_eq!(written(&plan).0, "Failed");
    } else {
        assert_eq!(plan.reason, Reason::OthersBeingReplaced("worker-other".to_owned()));
        assert_eq!((plan.status, plan.wake), (None, Some(secs(5))));
    }
}

/// The sibling is in the owner's list of preserved machines, but the process crashed before it wrote the phase Failed.
#[rstest]
#[case::sibling_is_unknown(Phase::Unknown, false, false, false)]
#[case::sibling_recovered(Phase::Running, false, false, true)]
#[case::sibling_has_no_timeout(Phase::Unknown, true, false, true)]
#[case::the_machine_is_in_the_list_as_well(Phase::Unknown, false, true, true)]
fn a_sibling_in_the_owners_list_fails_first(
    #[case] phase: Phase,
    #[case] patient: bool,
    #[case] in_list: bool,
    #[case] fails: bool,
) {
    let mut view = unknown();
    view.siblings = vec![Sibling {
        patient,
        ..sibling(Some(phase))
    }];
    view.owners_list = ListView::Known {
        maximum: 2,
        rolling: false,
        deployed: true,
        entry: in_list.then(PreservationEntry::default),
        others: ["worker-other".to_owned()].into(),
    };
    let plan = decided(&view, minute(10));
    let waits = plan.reason == Reason::OthersBeingReplaced("worker-other".to_owned());
    assert_eq!(waits, !fails, "{:?}", plan.reason);
}

#[rstest]
#[case::right_after_the_join(10, 10, Some(mins(3)))]
#[case::before_the_grace_period_ends(14, 16, Some(mins(1)))]
#[case::after_the_grace_period(14, 17, None)]
#[case::joined_before_the_health_timeout(9, 10, None)]
fn a_machine_gets_time_to_recover_after_a_sibling_joined(
    #[case] joined: i64,
    #[case] now: i64,
    #[case] left: Option<Duration>,
) {
    let mut view = unknown();
    view.siblings = vec![Sibling {
        joined: Some(minute(joined)),
        ..sibling(Some(Phase::Running))
    }];
    let plan = decided(&view, minute(now));
    match left {
        Some(left) => assert_eq!(
            (plan.reason, plan.status, plan.wake),
            (Reason::MayComeBack(left), None, Some(left))
        ),
        None => assert_eq!(written(&plan).0, "Failed"),
    }
}

#[rstest]
#[case::joined(Phase::Running, Operation::Create, true)]
#[case::rejoined(Phase::Running, Operation::HealthCheck, false)]
#[case::pending(Phase::Pending, Operation::Create, false)]
fn a_sibling_has_joined_if_its_last_operation_is_its_creation(
    #[case] phase: Phase,
    #[case] operation: Operation,
    #[case] joined: bool,
) {
    let mut view = with_vm(phase);
    set_operation(&mut view, operation, State::Successful, "");
    view.machine.status.current_status.last_update_time = Some(Time(minute(3)));
    let sibling = Sibling::of("worker-other".try_into().unwrap(), &view.machine.status);
    assert_eq!(sibling.joined, joined.then(|| minute(3)));
}

#[test]
fn a_node_is_claimed_with_a_label_and_a_finalizer() {
    let mut node = node(&healthy());
    node.metadata.labels = None;
    node.metadata.finalizers = Some(vec!["other/finalizer".to_owned()]);
    node.metadata.uid = Some("u".to_owned());
    let plan = decided(&with_node(running(), node.clone()), minute(2));
    assert_eq!(actions(&plan), ["claim node"]);
    let patch = serde_json::json!({ "metadata": {
        "uid": "u",
        "labels": { "node.gardener.cloud/machine-name": NAME },
        "finalizers": ["node.machine.sapcloud.io/machine-controller"],
    }});
    assert_eq!(
        plan.actions[0].node_patch(&node, NAME),
        Some(NodeWrite::OfAnyVersion(patch))
    );
}

#[rstest]
#[case::running(Phase::Running)]
#[case::pending(Phase::Pending)]
fn the_deletion_of_a_node_deletes_its_machine(#[case] phase: Phase) {
    let mut node = node(&healthy());
    node.metadata.deletion_timestamp = Some(Time(start()));
    let plan = decided(&with_node(with_vm(phase), node), minute(2));
    assert_eq!(actions(&plan), ["delete machine"]);
    assert_eq!(plan.reason, Reason::NodeDeleted(NAME.to_owned()));
}

#[rstest]
#[case::running(Phase::Running, true, true)]
#[case::unknown(Phase::Unknown, true, true)]
#[case::not_joined_yet(Phase::Pending, false, false)]
#[case::pending_with_conditions(Phase::Pending, true, false)]
#[case::never_had_conditions(Phase::Running, false, false)]
fn a_watched_node_deletion_deletes_a_joined_machine(
    #[case] phase: Phase,
    #[case] conditions: bool,
    #[case] deleted: bool,
) {
    let mut view = with_vm(phase);
    view.machine.status.conditions = if conditions { healthy() } else { vec![] };
    view.node = NodeView::Gone;
    assert_eq!(actions(&decided(&view, minute(2))) == ["delete machine"], deleted);
}

#[test]
fn the_deletion_of_an_unmanaged_node_does_not_delete_the_machine() {
    let mut node = node(&healthy());
    node.metadata.deletion_timestamp = Some(Time(start()));
    node.metadata.annotations = Some([(keys::NOT_MANAGED_ANNOTATION.to_owned(), "1".to_owned())].into());
    assert_eq!(
        actions(&decided(&with_node(running(), node), minute(2))),
        Vec::<String>::new()
    );
}

#[test]
fn a_node_label_with_the_node_of_another_machine_is_corrected() {
    let mut view = running();
    view.node_of_other = MachineName::new("worker-other");
    view.labelled_node = NodeName::new("node-7");
    let plan = decided(&view, minute(1));
    assert_eq!(actions(&plan), ["patch node=node-7"]);
    assert_eq!((plan.status, plan.wake), (None, Some(Duration::ZERO)));
}

#[test]
fn a_node_of_another_machine_is_not_claimed_and_counts_as_missing() {
    let mut view = running();
    view.node_of_other = MachineName::new("worker-other");
    let plan = decided(&view, minute(1));
    assert_eq!(actions(&plan), Vec::<String>::new());
    assert_eq!(written(&plan).0, "Unknown", "the node counts as missing");
}

#[test]
fn the_health_of_a_node_is_evaluated_although_its_claim_failed() {
    let mut unclaimed = node(&unhealthy());
    unclaimed.metadata.labels = None;
    let mut view = with_node(running(), unclaimed);
    let claim = decided(&view, minute(1)).actions[0].clone();
    assert!(matches!(claim, Action::PatchNode { .. }));
    view.failure = Some(Failure {
        action: claim,
        conflict: false,
        not_found: false,
        message: "forbidden".to_owned(),
    });
    let plan = decided(&view, minute(1));
    assert_eq!(written(&plan).0, "Unknown");
    assert_eq!(plan.wake, Some(secs(5)), "the claim is retried soon");
}

#[test]
fn frequently_changing_conditions_are_copied_at_intervals_and_do_not_delay_timeouts() {
    let mut view = with_conditions(with_vm(Phase::Unknown), &unhealthy());
    view.machine.status.current_status.last_update_time = Some(Time(minute(0)));
    let mut changed = unhealthy();
    changed.push(condition("Custom", "True"));
    let mut view = with_node(view, node(&changed));
    assert!(decided(&view, minute(1)).status.is_some(), "the conditions are copied");

    view.conditions_copied = Some(minute(1));
    let plan = decided(&view, minute(1) + jiff::SignedDuration::from_secs(2));
    assert_eq!((plan.status, plan.wake), (None, Some(secs(3))), "the copy is delayed");

    view.conditions_copied = Some(minute(10) - jiff::SignedDuration::from_secs(1));
    assert_eq!(
        written(&decided(&view, minute(10))).0,
        "Failed",
        "the health timeout is not delayed"
    );
}
