use std::time::Duration;

use k8s_openapi::api::core::v1::{NodeSpec, NodeStatus};
use kube::api::ObjectMeta;
use rstest::rstest;

use super::*;
use crate::node_lifecycle::zones::Permission;

const CREATED: i64 = 1_000;
const NOW: i64 = 5_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn settings() -> Settings {
    Settings {
        monitor_period: Duration::from_secs(5),
        grace: Duration::from_secs(50),
        startup_grace: Duration::from_secs(60),
        ..Settings::default()
    }
}

/// A node with these conditions; every heartbeat is at 4000, every transition at 3000.
fn node(conditions: &[(&str, &str)], taints: &[&str]) -> Node {
    let condition = |(kind, status): &(&str, &str)| NodeCondition {
        type_: (*kind).to_owned(),
        status: (*status).to_owned(),
        last_heartbeat_time: Some(Time(at(4_000))),
        last_transition_time: Some(Time(at(3_000))),
        ..Default::default()
    };
    let taint = |text: &&str| {
        let (key, effect) = text.split_once(':').unwrap();
        Taint {
            key: full_key(key),
            effect: effect.to_owned(),
            ..Default::default()
        }
    };
    Node {
        metadata: ObjectMeta {
            name: Some("a".to_owned()),
            creation_timestamp: Some(Time(at(CREATED))),
            ..Default::default()
        },
        spec: Some(NodeSpec {
            taints: Some(taints.iter().map(taint).collect()),
            ..Default::default()
        }),
        status: Some(NodeStatus {
            conditions: Some(conditions.iter().map(condition).collect()),
            ..Default::default()
        }),
    }
}

fn full_key(key: &str) -> String {
    if key.contains('/') {
        key.to_owned()
    } else {
        format!("node.kubernetes.io/{key}")
    }
}

/// A view of a node whose kubelet last showed a sign of life `silent_for` seconds ago.
fn view(node: &Node, silent_for: i64) -> NodeView<'_> {
    NodeView {
        node,
        posted: true,
        last_sign: at(NOW - silent_for),
        pods_marked_for: None,
        permission: Permission::Used,
    }
}

/// The taints that a plan sets, as `key:effect`, with a `!` for a `timeAdded`.
fn taints_of(plan: &Plan) -> Option<Vec<String>> {
    plan.decisions.iter().find_map(|action| match action {
        Decision::SetTaints(taints) => Some(
            taints
                .iter()
                .map(|taint| {
                    let time = if taint.time_added.is_some() { "!" } else { "" };
                    format!(
                        "{}:{}{time}",
                        taint.key.trim_start_matches("node.kubernetes.io/"),
                        taint.effect
                    )
                })
                .collect(),
        ),
        _ => None,
    })
}

#[test]
fn a_healthy_node_is_unchanged_until_its_grace_period_ends() {
    let node = node(&[("Ready", "True"), ("MemoryPressure", "False")], &[]);
    let plan = decide(&view(&node, 49), at(NOW), &settings());
    assert_eq!(
        plan,
        Plan {
            decisions: Vec::new(),
            deadline: Some(at(NOW + 1))
        }
    );
}

#[test]
fn silence_beyond_the_grace_period_turns_the_conditions_unknown() {
    let node = node(
        &[
            ("Ready", "True"),
            ("MemoryPressure", "False"),
            ("KernelDeadlock", "False"),
        ],
        &[],
    );
    let plan = decide(&view(&node, 50), at(NOW), &settings());
    let [Decision::SetConditions { conditions, silence }] = plan.decisions.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(*silence, Silence::StoppedPosting);
    assert_eq!(plan.deadline, None);
    let written: Vec<_> = conditions
        .iter()
        .map(|condition| {
            let heartbeat = condition.last_heartbeat_time.as_ref().unwrap().0.as_second();
            assert_eq!(condition.status, "Unknown");
            assert_eq!(condition.last_transition_time, Some(Time(at(NOW))));
            (
                condition.type_.as_str(),
                condition.reason.as_deref().unwrap(),
                heartbeat,
            )
        })
        .collect();
    assert_eq!(
        written,
        [
            ("Ready", "NodeStatusUnknown", 4_000),
            ("MemoryPressure", "NodeStatusUnknown", 4_000),
            ("DiskPressure", "NodeStatusNeverUpdated", CREATED),
            ("PIDPressure", "NodeStatusNeverUpdated", CREATED),
        ]
    );
    assert_eq!(
        conditions[0].message.as_deref(),
        Some("Kubelet stopped posting node status.")
    );
    assert_eq!(
        conditions[2].message.as_deref(),
        Some("Kubelet never posted node status.")
    );
}

#[rstest]
#[case::within_the_startup_grace(59, false)]
#[case::after_it(60, true)]
fn a_kubelet_that_never_posted_has_the_startup_grace_period(#[case] age: i64, #[case] unknown: bool) {
    let node = node(&[], &[]);
    let view = NodeView {
        posted: false,
        last_sign: at(CREATED),
        ..view(&node, 0)
    };
    let plan = decide(&view, at(CREATED + age), &settings());
    let written = plan.decisions.iter().any(|action| {
        matches!(action, Decision::SetConditions { silence: Silence::NeverPosted, conditions } if conditions.len() == 4)
    });
    assert_eq!(written, unknown, "{plan:?}");
    assert_eq!(plan.deadline, (!unknown).then_some(at(CREATED + 60)));
}

#[test]
fn unknown_conditions_are_not_written_again() {
    let unknown = [
        ("Ready", "Unknown"),
        ("MemoryPressure", "Unknown"),
        ("DiskPressure", "Unknown"),
    ];
    let node = node(&[unknown.as_slice(), &[("PIDPressure", "Unknown")]].concat(), &[]);
    let plan = decide(&view(&node, 5_000), at(NOW), &settings());
    assert!(
        !plan
            .decisions
            .iter()
            .any(|action| matches!(action, Decision::SetConditions { .. })),
        "{plan:?}"
    );
}

#[rstest]
#[case::ready(&[("Ready", "True")], &[], None)]
#[case::not_ready(&[("Ready", "False")], &[], Some("not-ready:NoSchedule! not-ready:NoExecute!"))]
#[case::unknown(&[("Ready", "Unknown")], &[], Some("unreachable:NoSchedule! unreachable:NoExecute!"))]
#[case::from_not_ready_to_unknown(
    &[("Ready", "Unknown")], &["not-ready:NoSchedule", "not-ready:NoExecute"],
    Some("unreachable:NoSchedule! unreachable:NoExecute!")
)]
#[case::from_unknown_to_not_ready(
    &[("Ready", "False")], &["unreachable:NoSchedule", "unreachable:NoExecute"],
    Some("not-ready:NoSchedule! not-ready:NoExecute!")
)]
#[case::recovery(&[("Ready", "True")], &["unreachable:NoSchedule", "unreachable:NoExecute"], Some(""))]
#[case::recovery_keeps_foreign_taints(
    &[("Ready", "True")], &["example.com/mine:NoExecute", "not-ready:NoSchedule"], Some("example.com/mine:NoExecute")
)]
#[case::already_there(&[("Ready", "Unknown")], &["unreachable:NoSchedule", "unreachable:NoExecute"], None)]
#[case::one_missing(
    &[("Ready", "Unknown")], &["unreachable:NoSchedule"], Some("unreachable:NoSchedule unreachable:NoExecute!")
)]
#[case::pressure(
    &[("Ready", "True"), ("MemoryPressure", "True"), ("DiskPressure", "False")], &[], Some("memory-pressure:NoSchedule!")
)]
#[case::pressure_ended(&[("Ready", "True"), ("DiskPressure", "False")], &["disk-pressure:NoSchedule"], Some(""))]
#[case::admissions_taint_goes_even_before_there_is_a_condition(&[], &["not-ready:NoSchedule"], Some(""))]
#[case::uncordoned(&[("Ready", "True")], &["unschedulable:NoSchedule"], Some(""))]
fn taints_follow_conditions(
    #[case] conditions: &[(&str, &str)],
    #[case] present: &[&str],
    #[case] expected: Option<&str>,
) {
    let node = node(conditions, present);
    let plan = decide(&view(&node, 0), at(NOW), &settings());
    assert_eq!(taints_of(&plan).map(|taints| taints.join(" ")).as_deref(), expected);
}

#[rstest]
#[case::undecided(&[("Ready", "False")], &[], Permission::Unsettled, Some("not-ready:NoSchedule!"))]
#[case::not_permitted_yet(&[("Ready", "Unknown")], &[], Permission::Withheld, Some("unreachable:NoSchedule!"))]
#[case::permitted(
    &[("Ready", "Unknown")], &["unreachable:NoSchedule"], Permission::Granted,
    Some("unreachable:NoSchedule unreachable:NoExecute!")
)]
#[case::no_longer(
    &[("Ready", "Unknown")], &["unreachable:NoSchedule", "unreachable:NoExecute"], Permission::Withheld,
    Some("unreachable:NoSchedule")
)]
#[case::kept_while_undecided(&[("Ready", "False")], &["not-ready:NoSchedule", "not-ready:NoExecute"], Permission::Unsettled, None)]
#[case::new_without_a_condition(&[], &["not-ready:NoExecute"], Permission::Withheld, Some(""))]
#[case::condition_lost(&[], &["not-ready:NoExecute"], Permission::Used, None)]
fn no_execute_taints_require_permission(
    #[case] conditions: &[(&str, &str)],
    #[case] present: &[&str],
    #[case] permission: Permission,
    #[case] expected: Option<&str>,
) {
    let node = node(conditions, present);
    let view = NodeView {
        permission,
        ..view(&node, 0)
    };
    let plan = decide(&view, at(NOW), &settings());
    assert_eq!(taints_of(&plan).map(|taints| taints.join(" ")).as_deref(), expected);
}

#[rstest]
#[case::good(&[("Ready", "True")], 0, Readiness::Good)]
#[case::bad(&[("Ready", "False")], 0, Readiness::Bad)]
#[case::unknown(&[("Ready", "Unknown")], 0, Readiness::Bad)]
#[case::silent(&[("Ready", "True")], 50, Readiness::Bad)]
#[case::unstated(&[], 0, Readiness::Unstated)]
fn readiness_counts_as_it_will_be_written(
    #[case] conditions: &[(&str, &str)],
    #[case] silent_for: i64,
    #[case] expected: Readiness,
) {
    let node = node(conditions, &[]);
    assert_eq!(readiness(&view(&node, silent_for), at(NOW), &settings()), expected);
}

#[test]
fn a_cordoned_node_is_tainted() {
    let mut node = node(&[("Ready", "True")], &[]);
    node.spec.as_mut().unwrap().unschedulable = Some(true);
    let plan = decide(&view(&node, 0), at(NOW), &settings());
    assert_eq!(taints_of(&plan).unwrap(), ["unschedulable:NoSchedule!"]);
}

#[test]
fn an_unchanged_taint_keeps_its_time_added() {
    let mut node = node(&[("Ready", "Unknown")], &["unreachable:NoExecute"]);
    let taints = node.spec.as_mut().unwrap().taints.as_mut().unwrap();
    taints[0].time_added = Some(Time(at(3_000)));
    let plan = decide(&view(&node, 0), at(NOW), &settings());
    let [Decision::SetTaints(taints), ..] = plan.decisions.as_slice() else {
        panic!("{plan:?}")
    };
    assert_eq!(taints[0].time_added, Some(Time(at(3_000))));
}

#[rstest]
#[case::unknown_and_not_yet_marked("Unknown", None, true)]
#[case::marked_for_an_earlier_silence("Unknown", Some(2_000), true)]
#[case::marked_for_this_silence("Unknown", Some(3_000), false)]
#[case::not_silent("False", None, false)]
#[case::healthy("True", None, false)]
fn pods_of_an_unknown_node_are_marked_not_ready_once(
    #[case] ready: &str,
    #[case] marked: Option<i64>,
    #[case] expected: bool,
) {
    let node = node(&[("Ready", ready)], &[]);
    let view = NodeView {
        pods_marked_for: marked.map(at),
        ..view(&node, 0)
    };
    let plan = decide(&view, at(NOW), &settings());
    assert_eq!(
        plan.decisions
            .contains(&Decision::MarkPodsNotReady { since: at(3_000) }),
        expected,
        "{plan:?}"
    );
}
