//! Transitions that need no status write between them are one plan.

use mcm_core::machine::{Settings, decide_ahead};

use super::*;

fn decided_ahead(view: &View) -> Plan {
    decide_ahead(view, &Settings::default(), minute(1))
}

/// A running machine at the start of its deletion, whose Node has no pods.
fn at_the_start() -> View {
    let mut view = with_conditions(with_vm(Phase::Running), &healthy());
    view.machine.metadata.deletion_timestamp = Some(Time(minute(1)));
    view.pods = Some(Vec::new());
    view
}

#[test]
fn an_empty_node_is_cordoned_and_its_vm_is_next_with_one_status_write() {
    let plan = decided_ahead(&at_the_start());
    assert_eq!(actions(&plan), ["terminating condition ScaleDown", "cordon"]);
    assert_eq!(written(&plan).0, "Terminating");
    assert_eq!(description(&plan), "Drain successful. Initiate VM deletion");
    assert_eq!(
        (plan.reason, plan.wake),
        (Reason::DeletionStarted, Some(Duration::ZERO))
    );
}

/// Whether the node is empty is only known from a list after the cordon.
#[test]
fn a_node_whose_pods_are_not_listed_is_drained_in_a_pass_of_its_own() {
    let view = View {
        pods_listed: false,
        ..at_the_start()
    };
    let plan = decided_ahead(&view);
    assert_eq!(actions(&plan), ["terminating condition ScaleDown"]);
    assert_eq!(description(&plan), "Initiate node drain");
}

#[test]
fn the_status_names_the_drain_while_pods_are_evicted() {
    let mut view = at_the_start();
    view.pods = Some(vec![pod("web-1")]);
    let plan = decided_ahead(&view);
    assert_eq!(actions(&plan), ["terminating condition ScaleDown"]);
    assert_eq!(description(&plan), "Initiate node drain");
}

#[test]
fn the_cloud_is_only_called_after_the_status_write() {
    let mut view = at_the_start();
    view.machine.metadata.labels = None;
    view.node = NodeView::Unknown;
    let plan = decided_ahead(&view);
    assert_eq!(actions(&plan), Vec::<String>::new());
    assert_eq!(description(&plan), Stage::FindVm.phrase());

    let plan = decided_ahead(&in_stage(Stage::Vm));
    assert_eq!((actions(&plan), plan.status), (vec!["call Delete".to_owned()], None));
}

#[test]
fn the_answer_of_the_cloud_is_written_before_the_node_is_deleted() {
    let view = answered(in_stage(Stage::Vm), Answer::Delete(Ok(None)));
    let plan = decided_ahead(&view);
    assert!(
        !actions(&plan).contains(&"delete node".to_owned()),
        "{:?}",
        actions(&plan)
    );
    assert_eq!(
        description(&plan),
        "VM deletion was successful. Initiate node object deletion"
    );
}

#[rstest]
#[case::present(None, vec!["delete node", "remove node finalizer", "remove finalizer"])]
#[case::absent(Some(NodeView::Absent), vec!["remove finalizer"])]
fn the_finalizer_is_removed_with_the_node(#[case] node: Option<NodeView>, #[case] expected: Vec<&str>) {
    let mut view = in_stage(Stage::Node);
    view.node = node.unwrap_or(view.node);
    let plan = decided_ahead(&view);
    let mut actions = actions(&plan);
    actions.retain(|action| !action.starts_with("delete bootstrap"));
    assert_eq!(
        (actions, plan.status),
        (expected.into_iter().map(str::to_owned).collect(), None)
    );
}

/// The node's deletion succeeds and the machine's finalizer cannot be removed: this is not a failure of the node.
#[test]
fn a_failed_removal_of_the_finalizer_is_retried_with_backoff() {
    let mut view = in_stage(Stage::Node);
    view.failure = failed(&Action::RemoveFinalizer, false, false);
    let plan = decided_ahead(&view);
    assert_eq!((plan.actions.len(), plan.status, plan.after_failure), (0, None, true));
}

/// After a failure, every stage is decided on its own, so that its status describes the failure.
#[test]
fn a_failure_is_described_by_the_status_of_its_stage() {
    let mut view = at_the_start();
    let cordon = decided_ahead(&view)
        .actions
        .into_iter()
        .find(|action| matches!(action, Action::CordonNode { .. }));
    view.failure = failed(&cordon.unwrap(), false, false);
    let plan = decided_ahead(&view);
    assert_eq!(description(&plan), Stage::FindVm.phrase());
}
