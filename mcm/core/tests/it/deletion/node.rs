//! The Node object and the finalizer: the end of a deletion.

use mcm_api::MachineName;

use super::*;

#[test]
fn the_node_object_is_deleted_after_the_vm() {
    let plan = decided(&in_stage(Stage::Node), minute(1));
    assert_eq!(actions(&plan), ["delete node", "remove node finalizer"]);
    assert_eq!(
        description(&plan),
        "Deletion of Node Object \"worker-x7k2p\" is successful. Initiate machine object finalizer removal"
    );
}

#[test]
fn a_terminating_node_object_only_loses_the_finalizer() {
    let mut node = node(&healthy());
    node.metadata.deletion_timestamp = Some(Time(start()));
    let plan = decided(&with_node(in_stage(Stage::Node), node), minute(1));
    assert_eq!(actions(&plan), ["remove node finalizer"]);
}

#[rstest]
#[case::absent(NodeView::Absent)]
#[case::deleted(NodeView::Gone)]
fn an_absent_node_object_needs_no_deletion(#[case] node: NodeView) {
    let plan = decided(
        &View {
            node,
            ..in_stage(Stage::Node)
        },
        minute(1),
    );
    assert_eq!(
        description(&plan),
        "No node object found for \"worker-x7k2p\", continuing deletion flow. Initiate machine object finalizer removal"
    );
}

#[test]
fn the_deletion_continues_without_a_node_label() {
    let mut view = in_stage(Stage::Node);
    view.machine.metadata.labels = None;
    assert_eq!(
        description(&decided(&view, minute(1))),
        "Label \"node\" not present on machine \"worker-x7k2p\", continuing deletion flow. Initiate machine object \
         finalizer removal"
    );
}

#[rstest]
#[case::delete(
    0,
    false,
    "Deletion of Node Object \"worker-x7k2p\" failed due to error: it broke. Initiate node object deletion"
)]
#[case::finalizer(
    1,
    false,
    "Removal of finalizers from Node Object \"worker-x7k2p\" failed due to error: it broke, Retrying. Initiate node object deletion"
)]
#[case::not_found(
    0,
    true,
    "No node object found for \"worker-x7k2p\", continuing deletion flow. Initiate machine object finalizer removal"
)]
fn a_failed_node_deletion_is_reported_in_the_status(
    #[case] action: usize,
    #[case] not_found: bool,
    #[case] text: &str,
) {
    let mut view = in_stage(Stage::Node);
    view.failure = failed(&decided(&view, minute(1)).actions[action], false, not_found);
    assert_eq!(description(&decided(&view, minute(1))), text);
}

#[test]
fn the_finalizer_is_removed_last() {
    let plan = decided(&in_stage(Stage::Finalizer), minute(1));
    assert_eq!((plan.reason, plan.status), (Reason::Released, None));
    let machine = in_stage(Stage::Finalizer).machine;
    assert_eq!(
        plan.actions[0].machine_patch(&machine).unwrap(),
        serde_json::json!({ "metadata": { "resourceVersion": "1", "finalizers": [] } })
    );
}

#[rstest]
#[case::no_node_registered(false)]
#[case::its_node_never_became_healthy(true)]
fn the_bootstrap_token_of_a_machine_that_never_ran_is_deleted(#[case] registered: bool) {
    let mut view = in_stage(Stage::Finalizer);
    view.machine.metadata.annotations = None;
    if !registered {
        view.machine.status.conditions.clear();
    }
    assert_eq!(
        actions(&decided(&view, minute(1))),
        ["delete bootstrap-token-32m9ap", "remove finalizer"]
    );
}

#[rstest]
#[case::status(Stage::FindVm, false, NO_DRAIN)]
#[case::status_with_a_label(Stage::FindVm, true, NO_DRAIN)]
#[case::drain_with_a_label(Stage::Drain, true, NO_DRAIN)]
#[case::volume_attachments_with_a_label(Stage::VolumeAttachments, true, NO_DRAIN)]
#[case::node(
    Stage::Node,
    false,
    "Label \"node\" not present on machine \"worker-x7k2p\", continuing deletion flow. Initiate machine object finalizer \
     removal"
)]
#[case::node_with_a_label(
    Stage::Node,
    true,
    "No node object found for \"worker-x7k2p\", continuing deletion flow. Initiate machine object finalizer removal"
)]
fn without_a_target_cluster_no_node_blocks_a_deletion(
    #[case] stage: Stage,
    #[case] labelled: bool,
    #[case] text: &str,
) {
    let mut view = View {
        target: false,
        node: NodeView::Unknown,
        pods: None,
        ..in_stage(stage)
    };
    if !labelled {
        view.machine.metadata.labels = None;
    }
    let plan = decided(&view, minute(1));
    assert_eq!((actions(&plan).len(), description(&plan).as_str()), (0, text));
    assert_eq!(
        (written(&plan).1.as_str(), plan.wake),
        ("Processing", Some(Duration::ZERO))
    );
}

const NO_DRAIN: &str =
    "Running without target cluster, skipping node drain and volume attachment deletion. Initiate VM deletion";

#[test]
fn a_deletion_does_not_touch_the_node_of_another_machine() {
    for stage in [Stage::Drain, Stage::VolumeAttachments, Stage::Node] {
        let mut view = in_stage(stage);
        view.pods = Some(vec![pod("web-1")]);
        view.volume_attachments = vec!["csi-1".to_owned()];
        view.node_of_other = MachineName::new("worker-other");
        let plan = decided(&view, minute(1));
        assert_eq!(actions(&plan), Vec::<String>::new(), "{stage:?}");
        assert!(plan.status.is_some(), "{stage:?}: the deletion continues");
    }
}
