//! The node of a preserved machine does not answer, and its VM may run: pods that must not run twice stay in the API.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Taint;
use mcm_core::machine::{Action, NodeView, Plan, Pod};
use rstest::rstest;

use super::lab::{Lab, failing};
use crate::fixtures::*;

const GRACE: Duration = Duration::from_secs(30);

fn stateful() -> Pod {
    Pod {
        stateful: true,
        grace: GRACE,
        ..pod("web-0")
    }
}

fn with_volume() -> Pod {
    Pod {
        claims: true,
        grace: GRACE,
        ..pod("db")
    }
}

/// A machine that failed because its node does not answer, with these pods.
fn silent(pods: Vec<Pod>, taint: &str) -> Lab {
    let mut lab = failing();
    lab.view.pods = Some(pods);
    if !taint.is_empty()
        && let NodeView::Present(node) = &mut lab.view.node
    {
        let node = Arc::make_mut(node);
        let taints = node.spec.get_or_insert_default().taints.get_or_insert_default();
        taints.push(Taint {
            key: taint.to_owned(),
            effect: "NoExecute".to_owned(),
            ..Taint::default()
        });
    }
    lab
}

/// Performs plans until one removes a pod or the machine is preserved; returns that plan.
fn removing(lab: &mut Lab) -> Plan {
    for _ in 0..20 {
        let plan = lab.decide();
        let removes = |action: &Action| matches!(action, Action::EvictPod { .. } | Action::DeletePod { .. });
        let preserved = |action: &Action| matches!(action, Action::RecordEvent { reason, .. } if reason == "Preserved");
        if plan.actions.iter().any(|action| removes(action) || preserved(action)) {
            return plan;
        }
        lab.carry_out(plan);
    }
    panic!("no pod is removed");
}

fn pods_of(plan: &Plan) -> Vec<String> {
    let shown = |action: &Action| match action {
        Action::EvictPod { name, .. } => Some(format!("evict {name}")),
        Action::DeletePod { name, grace, .. } => Some(format!("delete {name} {grace:?}")),
        _ => None,
    };
    plan.actions.iter().filter_map(shown).collect()
}

fn event_of(plan: &Plan) -> &str {
    let message = |action: &'_ Action| matches!(action, Action::RecordEvent { reason, .. } if reason == "Preserved");
    match plan.actions.iter().find(|action| message(action)) {
        Some(Action::RecordEvent { message, .. }) => {
            message.split(" Machine preserved until").next().unwrap_or_default()
        }
        _ => "",
    }
}

#[rstest]
#[case::no_pods(vec![], "", &[], "Preserved node drained successfully.")]
#[case::stateless(vec![pod("a")], "", &["delete a Some(0)"], "Preserved node does not answer: 1 pod left the API; the node did not confirm.")]
#[case::of_a_stateful_set(vec![stateful()], "", &["evict web-0"], "Preserved node does not answer: 0 pods left the API; the node did not confirm; 1 pod kept: web-0.")]
#[case::with_a_volume(vec![pod("a"), with_volume()], "", &["delete a Some(0)", "evict db"], "Preserved node does not answer: 1 pod left the API; the node did not confirm; 1 pod kept: db.")]
#[case::without_a_grace_period(vec![Pod { grace: Duration::ZERO, ..stateful() }], "", &[], "Preserved node does not answer: 0 pods left the API; the node did not confirm; 1 pod kept: web-0.")]
#[case::terminating_already(vec![Pod { ends: Some(minute(9)), ..stateful() }], "", &[], "Preserved node does not answer: 0 pods left the API; the node did not confirm; 1 pod kept: web-0.")]
#[case::ended(vec![Pod { finished: true, ..stateful() }], "", &["delete web-0 Some(0)"], "Preserved node does not answer: 1 pod left the API; the node did not confirm.")]
#[case::the_vm_is_stopped(vec![pod("a"), stateful()], "node.cloudprovider.kubernetes.io/shutdown", &["delete a Some(0)", "delete web-0 Some(0)"], "Preserved node is stopped: 2 pods left the API.")]
#[case::a_user_says_so(vec![with_volume()], "node.kubernetes.io/out-of-service", &["delete db Some(0)"], "Preserved node is stopped: 1 pod left the API.")]
#[case::another_taint(vec![with_volume()], "node.kubernetes.io/unreachable", &["evict db"], "Preserved node does not answer: 0 pods left the API; the node did not confirm; 1 pod kept: db.")]
fn pods_that_must_not_run_twice_stay_until_the_vm_is_stopped(
    #[case] pods: Vec<Pod>,
    #[case] taint: &str,
    #[case] removals: &[&str],
    #[case] message: &str,
) {
    let mut lab = silent(pods, taint);
    lab.request("Machine", "when-failed");
    let plan = removing(&mut lab);
    assert_eq!(pods_of(&plan), removals);
    assert_eq!(event_of(&plan), message);
}

#[test]
fn a_long_list_of_kept_pods_is_shortened() {
    let pods = (0..5).map(|number| Pod {
        name: format!("web-{number}"),
        ..stateful()
    });
    let mut lab = silent(pods.collect(), "");
    lab.request("Machine", "when-failed");
    let plan = removing(&mut lab);
    assert!(
        event_of(&plan).ends_with("5 pods kept: web-0, web-1, web-2 and 2 more."),
        "{}",
        event_of(&plan)
    );
}

#[test]
fn the_label_that_forces_a_drain_deletes_all_pods() {
    let mut lab = silent(vec![stateful()], "");
    let labels = lab.view.machine.metadata.labels.get_or_insert_default();
    labels.insert(mcm_api::keys::FORCE_DRAIN_LABEL.to_owned(), "True".to_owned());
    lab.request("Machine", "when-failed");
    assert_eq!(pods_of(&removing(&mut lab)), ["delete web-0 Some(0)"]);
}
