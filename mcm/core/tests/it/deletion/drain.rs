//! The drain as a stage of the deletion, and the volume attachments after it.

use super::*;

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
fn pods_that_are_not_known_are_waited_for() {
    let view = View {
        pods: None,
        ..in_stage(Stage::Drain)
    };
    let plan = decided(&view, minute(1));
    assert_eq!((plan.reason, plan.status), (Reason::PodsUnknown, None));
}

#[test]
fn a_node_that_is_gone_holds_no_drain_up() {
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
#[case::not_ready_for_short(&[("Ready", "Unknown")], 5, false)]
#[case::read_only(&[("Ready", "True"), ("ReadonlyFilesystem", "True")], 6, true)]
#[case::writable(&[("Ready", "True"), ("ReadonlyFilesystem", "False")], 60, false)]
#[case::too_late(&[("Ready", "True")], 120, true)]
#[case::in_time(&[("Ready", "True")], 119, false)]
fn a_dead_node_and_a_late_drain_force_the_pods(
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
    if forced {
        assert_eq!(actions(&plan), ["delete pod web-1"]);
        assert_eq!(description(&plan), "Force Drain successful. Delete Volume Attachments");
    } else {
        assert_eq!(plan.reason, Reason::Draining { waiting: 1 });
    }
}

#[test]
fn a_drain_is_looked_at_when_its_time_is_up() {
    let mut view = in_stage(Stage::Drain);
    view.pods = Some(vec![pod("web-1")]);
    let almost = minute(120).checked_sub(secs(7)).unwrap();
    assert_eq!(decided(&view, almost).wake, Some(secs(7)));
}

#[rstest]
#[case::condition(
    0,
    "Drain failed due to failure in update of node conditions - it broke. Will retry in next sync. Initiate node drain"
)]
#[case::cordon(1, "Drain failed due to - it broke. Will retry in next sync. Initiate node drain")]
fn a_node_that_cannot_be_written_is_told_in_the_status(#[case] action: usize, #[case] text: &str) {
    let mut view = in_stage(Stage::Drain);
    view.failure = failed(&decided(&view, minute(1)).actions[action], false, false);
    let plan = decided(&view, minute(1));
    assert_eq!(
        (written(&plan).1.as_str(), description(&plan).as_str(), plan.wake),
        ("Failed", text, Some(secs(5)))
    );
}

#[test]
fn a_node_that_went_under_the_drain_is_no_failure() {
    let mut view = in_stage(Stage::Drain);
    view.failure = failed(&Action::CordonNode { node: NAME.to_owned() }, false, true);
    assert_eq!(
        description(&decided(&view, minute(1))),
        "Drain successful. Initiate VM deletion"
    );
}

#[test]
fn volume_attachments_go_before_the_vm() {
    let gone = View {
        node: NodeView::Absent,
        ..in_stage(Stage::VolumeAttachments)
    };
    assert_eq!(
        description(&decided(&gone, minute(1))),
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

#[rstest]
#[case::of_a_node_that_came_later(false, pod("web-1"), 1, Some(Stage::Drain))]
#[case::of_a_daemon_set(false, Pod { daemon: true, ..pod("proxy") }, 1, None)]
#[case::that_ended(false, Pod { finished: true, ..pod("web-1") }, 1, None)]
#[case::that_the_drain_left(true, pod("web-1"), 1, None)]
#[case::when_the_time_of_the_drain_is_up(false, pod("web-1"), 121, None)]
fn pods_are_drained_before_the_vm_goes(
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
fn an_answer_without_a_node_name_still_leads_to_the_drain() {
    let nameless = VmIdentity {
        node_name: String::new(),
        ..vm()
    };
    let plan = decided(&answered(without_node(), Answer::Status(Ok(nameless))), minute(1));
    assert_eq!(
        (actions(&plan).len(), description(&plan).as_str()),
        (0, "Initiate node drain")
    );
}
