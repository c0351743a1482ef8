//! The drain as a stage of the deletion, and the volume attachments after it.

use super::*;
use std::sync::Arc;

fn cordon_node() -> Action {
    Action::CordonNode {
        node: NAME.try_into().unwrap(),
    }
}

#[test]
fn pods_are_evicted_from_a_cordoned_node() {
    let mut view = in_stage(Stage::Drain);
    view.pods = Some(vec![
        pod("web-1"),
        Pod {
            daemon: true,
            ..pod("proxy")
        },
        Pod {
            mirror: true,
            ..pod("static")
        },
        Pod {
            finished: true,
            ..pod("job")
        },
        Pod {
            ends: Some(minute(2)),
            ..pod("web-0")
        },
    ]);
    let plan = decided(&view, minute(1));
    assert_eq!(
        actions(&plan),
        ["terminating condition ScaleDown", "cordon", "evict job", "evict web-1"]
    );
    assert_eq!(plan.reason, Reason::Draining { waiting: 3 });
    assert_eq!((plan.status, plan.wake), (None, Some(secs(20))));
}

#[test]
fn a_node_without_pods_is_drained() {
    let plan = decided(&in_stage(Stage::Drain), minute(1));
    assert_eq!(
        actions(&plan),
        ["terminating condition ScaleDown", "cordon"],
        "in the same pass"
    );
    assert_eq!(description(&plan), "Drain successful. Initiate VM deletion");
}

#[test]
fn a_drain_waits_for_the_list_of_pods() {
    let view = View {
        pods: None,
        ..in_stage(Stage::Drain)
    };
    let plan = decided(&view, minute(1));
    assert_eq!((plan.reason, plan.status), (Reason::PodsUnknown, None));
}

#[test]
fn a_deleted_node_does_not_block_the_drain() {
    let view = View {
        node: NodeView::Gone,
        ..in_stage(Stage::Drain)
    };
    let plan = decided(&view, minute(1));
    assert_eq!(
        (actions(&plan).len(), description(&plan).as_str()),
        (0, "Drain successful. Initiate VM deletion")
    );
}

#[test]
fn a_machine_without_node_needs_no_drain() {
    let mut view = in_stage(Stage::Drain);
    view.machine.metadata.labels = None;
    assert_eq!(
        description(&decided(&view, minute(1))),
        "Skipping drain as nodeName is not a valid one for machine. Initiate VM deletion"
    );
}

#[rstest]
#[case("true", true)]
#[case("True", true)]
#[case("1", true)]
#[case("t", true)]
#[case("false", false)]
#[case("yes", false)]
fn the_label_for_forced_deletion_skips_the_drain(#[case] value: &str, #[case] skipped: bool) {
    let mut view = in_stage(Stage::Drain);
    view.pods = Some(vec![pod("web-1")]);
    view.machine
        .metadata
        .labels
        .as_mut()
        .unwrap()
        .insert(keys::FORCE_DELETION_LABEL.to_owned(), value.to_owned());
    let plan = decided(&view, minute(1));
    assert_eq!(
        plan.status.as_ref().and_then(Stage::of),
        skipped.then_some(Stage::VolumeAttachments)
    );
    assert_eq!(actions(&plan).is_empty(), skipped);
}

#[rstest]
#[case::not_ready(&[("Ready", "Unknown")], 6, true)]
#[case::not_ready_too_briefly(&[("Ready", "Unknown")], 5, false)]
#[case::read_only(&[("Ready", "True"), ("ReadonlyFilesystem", "True")], 6, true)]
#[case::both(&[("Ready", "Unknown"), ("ReadonlyFilesystem", "True")], 6, true)]
#[case::read_only_too_briefly(&[("Ready", "True"), ("ReadonlyFilesystem", "True")], 5, false)]
#[case::writable(&[("Ready", "True"), ("ReadonlyFilesystem", "False")], 60, false)]
#[case::after_the_timeout(&[("Ready", "True")], 120, true)]
#[case::before_the_timeout(&[("Ready", "True")], 119, false)]
fn an_unhealthy_node_and_a_drain_timeout_force_the_drain(
    #[case] conditions: &[(&str, &str)],
    #[case] now: i64,
    #[case] forced: bool,
) {
    let conditions: Vec<_> = conditions
        .iter()
        .map(|(type_, status)| condition(type_, status))
        .collect();
    let mut view = with_conditions(in_stage(Stage::Drain), &conditions);
    view.pods = Some(vec![
        pod("web-1"),
        Pod {
            daemon: true,
            ..pod("proxy")
        },
    ]);
    let plan = decided(&view, minute(now));
    assert_eq!(plan.reason, Reason::Draining { waiting: 1 });
    assert_eq!(actions(&plan).contains(&"delete pod web-1".to_owned()), forced);
    if forced {
        assert_eq!(actions(&plan), ["cordon", "delete pod web-1"]);
        assert_eq!((&plan.status, plan.wake), (&None, Some(Duration::ZERO)));
        let plan = decided(&after(&view, &plan, EvictionOutcome::Accepted), minute(now));
        assert_eq!(actions(&plan), Vec::<String>::new(), "the pod is deleted once");
        assert_eq!(description(&plan), FORCED);
    }
}

#[test]
fn a_waiting_drain_wakes_up_when_its_node_is_unhealthy_for_five_minutes() {
    let mut view = with_conditions(in_stage(Stage::Drain), &[condition("Ready", "Unknown")]);
    // The pod was due to terminate two minutes ago; no event of it will arrive.
    let ends = Some(minute(2));
    view.pods = Some(vec![Pod { ends, ..pod("web-1") }]);
    assert_eq!(decided(&view, minute(4)).wake, Some(secs(61)));
}

const FORCED: &str = "Force Drain successful. Delete Volume Attachments";

/// A machine and the time of its drain timeout; its node is not cordoned and has one pod.
fn timed_out() -> (View, Timestamp) {
    let mut view = in_stage(Stage::Drain);
    view.pods = Some(vec![pod("web-1")]);
    (view, minute(120))
}

/// The view after the plan is performed and pod deletions have `outcome`; the cache still contains the deleted pods.
fn after(view: &View, plan: &Plan, outcome: EvictionOutcome) -> View {
    let mut view = view.clone();
    view.drain = plan.drain.clone().unwrap_or_default();
    for action in &plan.actions {
        match action {
            Action::DeletePod { uid, .. } => view.drain.attempted(uid, start(), outcome.clone()),
            Action::CordonNode { .. } => view = cordoned(view),
            _ => {}
        }
    }
    view
}

fn cordoned(mut view: View) -> View {
    if let NodeView::Present(node) = &mut view.node {
        let node = Arc::make_mut(node);
        node.spec.get_or_insert_default().unschedulable = Some(true);
    }
    view
}

#[rstest]
#[case::the_timeout_expired(120, "Ready", "True")]
#[case::the_node_is_unhealthy(6, "Ready", "Unknown")]
fn a_failed_cordon_does_not_block_a_forced_drain(#[case] now: i64, #[case] type_: &str, #[case] status: &str) {
    let mut view = with_conditions(in_stage(Stage::Drain), &[condition(type_, status)]);
    view.pods = Some(vec![pod("web-1")]);
    view.failure = failed(&cordon_node(), false, false);
    let plan = decided(&view, minute(now));
    assert_eq!(actions(&plan), ["delete pod web-1"], "the cordon is not retried");
    let (_, state, _, text) = written(&plan);
    assert_eq!(state, "Processing");
    assert_eq!(
        text,
        "Drain failed due to - it broke. However, since it's a force deletion shall continue deletion of VM. Delete Volume \
         Attachments"
    );
}

#[rstest]
#[case::refused(EvictionOutcome::Refused, "the API server is too busy")]
#[case::failed(EvictionOutcome::Failed("it broke".to_owned()), "it broke")]
fn a_failed_pod_deletion_does_not_block_a_forced_drain(#[case] outcome: EvictionOutcome, #[case] error: &str) {
    let (view, now) = timed_out();
    let plan = decided(&after(&view, &decided(&view, now), outcome), now);
    assert_eq!(actions(&plan), Vec::<String>::new());
    assert_eq!(
        description(&plan),
        format!(
            "Drain failed due to - error when evicting pod \"web-1\": {error} scheduled on node worker-x7k2p. However, since \
             it's a force deletion shall continue deletion of VM. Delete Volume Attachments"
        )
    );
    assert_eq!(written(&plan).1, "Processing");
    assert_eq!(
        plan.drain,
        Some(<_>::default()),
        "a later drain starts with an empty state"
    );
}

#[test]
fn a_forced_drain_does_not_delete_pods_created_after_its_start() {
    let (mut view, now) = timed_out();
    view.pods = Some(vec![pod("web-1"), pod("web-2")]);
    let plan = decided(&view, now);
    assert_eq!(actions(&plan), ["cordon", "delete pod web-1", "delete pod web-2"]);
    let mut interrupted = after(&view, &plan, EvictionOutcome::Accepted);
    interrupted.drain.attempts.remove("uid-web-2");
    interrupted.pods.as_mut().unwrap().push(pod("web-3"));
    let plan = decided(&interrupted, now);
    assert_eq!(actions(&plan), ["delete pod web-2"]);
    let plan = decided(&after(&interrupted, &plan, EvictionOutcome::Accepted), now);
    assert_eq!((actions(&plan).len(), description(&plan).as_str()), (0, FORCED));
}

#[test]
fn a_recovered_node_is_drained_normally_and_forced_again_after_another_failure() {
    let mut view = in_stage(Stage::Drain);
    view.pods = Some(vec![pod("web-1")]);
    let unhealthy = |view: &View| with_conditions(view.clone(), &[condition("Ready", "Unknown")]);
    let plan = decided(&unhealthy(&view), minute(6));
    view.drain = after(&view, &plan, EvictionOutcome::Accepted).drain;
    view.pods = Some(vec![pod("web-2")]);
    let plan = decided(&view, minute(6));
    assert!(actions(&plan).contains(&"evict web-2".to_owned()), "{plan:?}");
    view.drain = plan.drain.unwrap();
    assert_eq!(
        actions(&decided(&unhealthy(&view), minute(6))),
        ["cordon", "delete pod web-2"]
    );
}

#[test]
fn earlier_evictions_do_not_count_as_deletions_of_a_forced_drain() {
    let (mut view, now) = timed_out();
    view = cordoned(view);
    view.drain = decided(&view, minute(119)).drain.unwrap();
    view.drain
        .attempted("uid-web-1", minute(119), EvictionOutcome::Accepted);
    assert_eq!(actions(&decided(&view, now)), ["delete pod web-1"]);
}

#[rstest]
#[case::schedulable(false, &["cordon"])]
#[case::already_cordoned(true, &[])]
fn a_forced_drain_of_an_empty_node_cordons_it_once(#[case] already_cordoned: bool, #[case] expected: &[&str]) {
    let (view, now) = timed_out();
    let mut view = if already_cordoned { cordoned(view) } else { view };
    view.pods = Some(Vec::new());
    let plan = decided(&view, now);
    assert_eq!(
        (actions(&plan).as_slice(), description(&plan).as_str()),
        (&*owned(expected), FORCED)
    );
}

#[rstest]
#[case::never_observed(NodeView::Absent, &["cordon", "delete pod web-1"])]
#[case::deleted(NodeView::Gone, &["delete pod web-1"])]
fn a_forced_drain_deletes_the_pods_of_an_absent_node(#[case] node: NodeView, #[case] expected: &[&str]) {
    let (view, now) = timed_out();
    let view = View { node, ..view };
    assert_eq!(actions(&decided(&view, now)), owned(expected));
}

#[test]
fn a_forced_drain_lists_unknown_pods() {
    let (view, now) = timed_out();
    let unknown = View { pods: None, ..view };
    let plan = decided(&unknown, now);
    assert_eq!(actions(&plan), ["cordon", "list pods of worker-x7k2p"]);
    assert_eq!(
        (plan.status, plan.wake),
        (None, None),
        "the controller waits for the list"
    );
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn a_drain_wakes_up_at_its_timeout() {
    let mut view = in_stage(Stage::Drain);
    view.pods = Some(vec![pod("web-1")]);
    let almost = minute(120).checked_sub(secs(7)).unwrap();
    assert_eq!(decided(&view, almost).wake, Some(secs(7)));
}

/// Failed node updates of the acceptance list: with the force-deletion label, before the timeout, and after it.
#[rstest]
#[case::condition_with_the_force_label(
    0,
    1,
    true,
    "Processing",
    "Drain skipped, as the machine has the label force-deletion. Delete Volume Attachments"
)]
#[case::cordon_with_the_force_label(
    1,
    1,
    true,
    "Processing",
    "Drain skipped, as the machine has the label force-deletion. Delete Volume Attachments"
)]
#[case::condition_before_the_timeout(
    0,
    1,
    false,
    "Failed",
    "Drain failed due to failure in update of node conditions - it broke. Will retry in next sync. Initiate node drain"
)]
#[case::cordon_before_the_timeout(
    1,
    1,
    false,
    "Failed",
    "Drain failed due to - it broke. Will retry in next sync. Initiate node drain"
)]
#[case::condition_after_the_timeout(0, 120, false, "Processing", FORCED)]
#[case::cordon_after_the_timeout(
    1,
    120,
    false,
    "Processing",
    "Drain failed due to - it broke. However, since it's a force deletion shall continue deletion of VM. Delete Volume \
     Attachments"
)]
fn a_failed_node_write_is_reported_in_the_status(
    #[case] action: usize,
    #[case] now: i64,
    #[case] by_label: bool,
    #[case] state: &str,
    #[case] text: &str,
) {
    let mut view = in_stage(Stage::Drain);
    view.failure = failed(&decided(&view, minute(1)).actions[action], false, false);
    if by_label {
        let labels = view.machine.metadata.labels.get_or_insert_default();
        labels.insert(keys::FORCE_DELETION_LABEL.to_owned(), "True".to_owned());
    }
    let plan = decided(&view, minute(now));
    let wake = if state == "Failed" { secs(5) } else { Duration::ZERO };
    assert_eq!(
        (written(&plan).1.as_str(), description(&plan).as_str(), plan.wake),
        (state, text, Some(wake))
    );
}

#[test]
fn a_node_deleted_during_the_drain_is_not_a_failure() {
    let mut view = in_stage(Stage::Drain);
    view.failure = failed(&cordon_node(), false, true);
    assert_eq!(
        description(&decided(&view, minute(1))),
        "Drain successful. Initiate VM deletion"
    );
}

#[test]
fn volume_attachments_are_deleted_before_the_vm() {
    let absent = View {
        node: NodeView::Absent,
        ..in_stage(Stage::VolumeAttachments)
    };
    assert_eq!(
        description(&decided(&absent, minute(1))),
        "Skipping deleteNodeVolAttachments due to - node \"worker-x7k2p\" not found. Moving to VM Deletion. Initiate VM deletion"
    );
    let mut view = in_stage(Stage::VolumeAttachments);
    assert_eq!(
        description(&decided(&view, minute(1))),
        "Node Volumes for node: worker-x7k2p are already detached. Moving to VM Deletion. Initiate VM deletion"
    );
    let mut node = node(&healthy());
    node.status.as_mut().unwrap().volumes_attached = Some(vec![AttachedVolume::default()]);
    view = with_node(view, node);
    view.volume_attachments = vec!["b".to_owned(), "a".to_owned()];
    let plan = decided(&view, minute(1));
    assert_eq!(
        (actions(&plan), plan.status),
        (
            vec!["delete attachment a".to_owned(), "delete attachment b".to_owned()],
            None
        )
    );
    view.volume_attachments.clear();
    assert_eq!(
        description(&decided(&view, minute(1))),
        "No Live VolumeAttachments for node: worker-x7k2p. Moving to VM Deletion. Initiate VM deletion"
    );
}

/// A pod of a StatefulSet, which must not run twice.
fn unique() -> Pod {
    Pod {
        stateful: true,
        grace: secs(30),
        ..pod("web-0")
    }
}

/// The view in a stage of a deletion whose drain timed out, with that pod.
fn forced(stage: Stage, pod: Pod, taint: &str) -> View {
    let mut node = node(&healthy());
    node.status.as_mut().unwrap().volumes_attached = Some(vec![AttachedVolume::default()]);
    if !taint.is_empty() {
        let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
        taints.push(k8s_openapi::api::core::v1::Taint {
            key: taint.to_owned(),
            ..Default::default()
        });
    }
    View {
        pods: Some(vec![pod]),
        volume_attachments: vec!["b".to_owned(), "a".to_owned()],
        ..with_node(in_stage(stage), node)
    }
}

#[rstest]
#[case::of_a_stateful_set(unique(), "", Some(None))]
#[case::with_a_claim(Pod { claims: true, grace: secs(30), ..pod("db") }, "", Some(None))]
#[case::without_a_grace_period(Pod { grace: secs(0), ..unique() }, "", Some(Some(1)))]
#[case::terminating(Pod { ends: Some(minute(9)), ..unique() }, "", None)]
#[case::any_other(pod("web"), "", Some(Some(0)))]
#[case::finished(Pod { finished: true, ..unique() }, "", Some(Some(0)))]
#[case::on_a_stopped_vm(unique(), "node.cloudprovider.kubernetes.io/shutdown", Some(Some(0)))]
fn a_forced_drain_leaves_pods_that_must_not_run_twice_in_the_api(
    #[case] pod: Pod,
    #[case] taint: &str,
    #[case] expected: Option<Option<u32>>,
) {
    let plan = decided(&forced(Stage::Drain, pod, taint), minute(120));
    let grace = plan.actions.iter().find_map(|action| match action {
        Action::DeletePod { grace, .. } => Some(*grace),
        _ => None,
    });
    assert_eq!(grace, expected);
    if expected.is_none() {
        assert_eq!(description(&plan), FORCED, "the drain does not wait for it");
    }
}

#[rstest]
#[case::of_a_stateful_set(unique(), "", true)]
#[case::any_other(pod("web"), "", false)]
#[case::on_a_stopped_vm(unique(), "node.kubernetes.io/out-of-service", false)]
fn volumes_of_pods_that_may_run_are_detached_after_the_vm_is_deleted(
    #[case] pod: Pod,
    #[case] taint: &str,
    #[case] kept: bool,
) {
    let plan = decided(&forced(Stage::VolumeAttachments, pod, taint), minute(120));
    let deleted = ["delete attachment a", "delete attachment b"];
    assert_eq!(actions(&plan), if kept { owned(&[]) } else { owned(&deleted) });
    assert_eq!(plan.status.as_ref().and_then(Stage::of), kept.then_some(Stage::Vm));
}

#[test]
fn pods_that_must_not_run_twice_are_removed_when_the_vm_is_deleted() {
    let view = forced(
        Stage::Node,
        Pod {
            ends: Some(minute(9)),
            ..unique()
        },
        "",
    );
    let plan = decided(&view, minute(120));
    let expected = [
        "delete pod web-0",
        "delete attachment a",
        "delete attachment b",
        "delete node",
        "remove node finalizer",
    ];
    assert_eq!(actions(&plan), expected);
    assert!(matches!(
        plan.actions.first(),
        Some(Action::DeletePod { grace: Some(0), .. })
    ));
}

#[rstest]
#[case::of_a_node_that_joined_later(false, pod("web-1"), 1, Some(Stage::Drain))]
#[case::of_a_daemon_set(false, Pod { daemon: true, ..pod("proxy") }, 1, None)]
#[case::finished(false, Pod { finished: true, ..pod("web-1") }, 1, None)]
#[case::remaining_after_the_drain(true, pod("web-1"), 1, None)]
#[case::after_the_drain_timeout(false, pod("web-1"), 121, None)]
fn pods_are_drained_before_the_vm_is_deleted(
    #[case] cordoned: bool,
    #[case] pod: Pod,
    #[case] now: i64,
    #[case] stage: Option<Stage>,
) {
    let mut node = node(&healthy());
    node.spec.get_or_insert_default().unschedulable = Some(cordoned);
    let view = View {
        pods: Some(vec![pod]),
        ..with_node(in_stage(Stage::Vm), node)
    };
    let plan = decided(&view, minute(now));
    assert_eq!(plan.status.as_ref().and_then(Stage::of), stage);
    assert_eq!(plan.reason == Reason::DeleteVm, stage.is_none());
}

#[test]
fn an_answer_without_a_node_name_proceeds_to_the_drain() {
    let nameless = VmIdentity {
        node_name: None,
        ..vm()
    };
    let plan = decided(&answered(without_node(), Answer::Status(Ok(nameless))), minute(1));
    assert_eq!(
        (actions(&plan).len(), description(&plan).as_str()),
        (0, "Initiate node drain")
    );
}
