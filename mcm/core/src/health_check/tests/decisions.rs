//! Passes over several machines.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;

use super::super::Connection;
use super::*;

#[test]
fn the_owner_of_an_unhealthy_machine_is_asked() {
    let view = view(
        check(json!({ "maxUnhealthy": "40%" })),
        vec![up("m-1"), down("m-2"), up("m-3")],
    );
    let plan = plan(&view);
    assert_eq!(asked(&plan), ["m-2"]);
    assert_eq!(events(&plan), ["MachineMarkedUnhealthy"]);
    let status = status(&view, &plan);
    assert_eq!(
        (
            status.expected_machines,
            status.current_healthy,
            status.remediations_allowed
        ),
        (3, 2, 0)
    );
    assert_eq!(status.targets, ["m-1", "m-2", "m-3"]);
    assert_eq!(status.observed_generation, 3);
    assert_eq!(condition(&status, "RemediationAllowed"), "True/RemediationAllowed");
    assert_eq!(condition(&status, "Evaluated"), "True/Evaluated");
    assert_eq!(status.unhealthy.len(), 1);
    assert_eq!(status.unhealthy[0].reason, "UnhealthyNode");
    assert_eq!(status.unhealthy[0].since, Some(Time(ago(400).parse().unwrap())));
    assert_eq!(
        status.unhealthy[0].message,
        "Health check failed: the condition Ready of the Node is Unknown for more than 5m0s; its owner replaces it"
    );
}

/// The order of a plan: warnings, the status, machines, and events about them.
#[test]
fn warnings_come_before_the_status_and_events_about_machines_last() {
    let named = json!({ "clusterName": "shoot" });
    let standalone = with(machine("m-2"), "/metadata/ownerReferences", json!([]));
    let plan = plan(&view(
        check(named),
        vec![target(standalone, &[("Ready", "Unknown", 400)])],
    ));
    let kinds: Vec<&str> = plan
        .actions
        .iter()
        .map(|action| match action {
            Action::RecordEvent { reason, .. } => reason,
            Action::WriteStatus(_) => "status",
            Action::WriteConditions { .. } => "machine",
            Action::CreateRequest { .. } | Action::DeleteRequest { .. } => "request",
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "ClusterNameIgnored",
            "NoOwner",
            "status",
            "machine",
            "MachineMarkedUnhealthy"
        ]
    );
}

#[test]
fn too_many_unhealthy_machines_are_marked_and_not_remediated() {
    let targets = vec![up("m-1"), up("m-2"), down("m-3"), down("m-4"), down("m-5")];
    let view = view(check(json!({ "maxUnhealthy": "40%" })), targets);
    let first = plan(&view);
    assert_eq!(asked(&first), Vec::<String>::new());
    let marked = first
        .actions
        .iter()
        .filter(|action| matches!(action, Action::WriteConditions { .. }));
    assert_eq!(marked.count(), 5, "the result of the check is written to every machine");
    assert!(events(&first).contains(&"RemediationRestricted"));
    let status = status(&view, &first);
    assert_eq!(condition(&status, "RemediationAllowed"), "False/TooManyUnhealthy");
    assert!(first.outcome.short_circuited);
    // The same state again: no event, no write.
    let again = View {
        check: MachineHealthCheck {
            status,
            ..view.check.clone()
        },
        ..view
    };
    let second = plan(&again);
    assert!(!events(&second).contains(&"RemediationRestricted"));
    assert!(
        !second
            .actions
            .iter()
            .any(|action| matches!(action, Action::WriteStatus(_)))
    );
}

/// Timeouts that run count as not healthy, and the timer stays while remediation is not allowed.
#[test]
fn pending_machines_count_as_not_healthy() {
    let targets = vec![up("m-1"), up("m-2"), pending("m-3"), pending("m-4"), down("m-5")];
    let view = view(check(json!({ "maxUnhealthy": "40%" })), targets);
    let plan = plan(&view);
    assert_eq!(asked(&plan), Vec::<String>::new());
    assert_eq!(plan.wake, Some(std::time::Duration::from_secs(201)));
    let status = status(&view, &plan);
    assert_eq!(status.unhealthy[0].machine, "m-5");
    let next = &status.unhealthy[1];
    assert_eq!((next.machine.as_str(), next.reason.as_str()), ("m-3", "Pending"));
    assert_eq!(next.next_check, Some(Time(later(201))));
}

#[test]
fn a_request_that_was_made_is_not_repeated() {
    let machine = with_owner(machine("m-1"));
    let plan = plan(&view(
        check(json!({})),
        vec![target(machine, &[("Ready", "Unknown", 400)])],
    ));
    assert_eq!(asked(&plan), Vec::<String>::new());
}

/// A machine that is being remediated may have a node that looks healthy.
#[test]
fn a_machine_in_remediation_does_not_count_as_healthy() {
    let machine = with_owner(machine("m-1"));
    let view = view(check(json!({})), vec![target(machine, &[("Ready", "True", 9)])]);
    let plan = plan(&view);
    assert_eq!(status(&view, &plan).current_healthy, 0);
}

#[rstest]
#[case::paused(json!({ "machine.sapcloud.io/paused": "true" }), 1)]
#[case::skipped(json!({ "cluster.x-k8s.io/skip-remediation": "" }), 1)]
#[case::not_skipped(json!({ "machine.sapcloud.io/skip-remediation": "false" }), 2)]
fn annotated_machines_are_no_targets(#[case] annotations: Value, #[case] expected: i32) {
    let annotated = target(annotated(machine("m-2"), annotations), &[("Ready", "Unknown", 400)]);
    let view = view(check(json!({})), vec![up("m-1"), annotated]);
    let plan = plan(&view);
    assert_eq!(status(&view, &plan).expected_machines, expected);
    assert_eq!(asked(&plan).len(), usize::from(expected == 2));
}

#[test]
fn a_paused_check_does_nothing() {
    let mut check = check(json!({}));
    check.metadata.annotations = Some(BTreeMap::from([(
        "machine.sapcloud.io/paused".to_owned(),
        String::new(),
    )]));
    let view = view(check, vec![down("m-1")]);
    let plan = plan(&view);
    assert_eq!(condition(&status(&view, &plan), "Paused"), "True/Paused");
    assert_eq!(plan.actions.len(), 1);
}

#[rstest]
#[case::range("/spec/unhealthyRange", json!("[3-2]"))]
#[case::percentage("/spec/maxUnhealthy", json!("101%"))]
#[case::selector("/spec/selector", json!({}))]
fn an_invalid_spec_remediates_nothing(#[case] pointer: &str, #[case] value: Value) {
    let mut object = serde_json::to_value(check(json!({}))).unwrap();
    let field = pointer.rsplit('/').next().unwrap();
    object["spec"][field] = value;
    let view = view(serde_json::from_value(object).unwrap(), vec![down("m-1")]);
    let plan = plan(&view);
    assert_eq!(asked(&plan), Vec::<String>::new());
    let status = status(&view, &plan);
    assert_eq!(condition(&status, "Evaluated"), "False/InvalidSpec");
    assert_eq!(condition(&status, "RemediationAllowed"), "False/InvalidSpec");
    assert_eq!(events(&plan), ["InvalidSpec"]);
}

#[test]
fn two_checks_of_one_machine_leave_it_alone() {
    let mut view = view(check(json!({})), vec![down("m-1"), down("m-2")]);
    view.overlaps = BTreeMap::from([("m-1".to_owned(), "other".to_owned())]);
    let plan = plan(&view);
    assert_eq!(asked(&plan), ["m-2"]);
    let status = status(&view, &plan);
    assert_eq!(condition(&status, "Evaluated"), "False/OverlappingMachineHealthCheck");
    assert_eq!(status.expected_machines, 1);
}

#[test]
fn nothing_is_evaluated_during_an_outage() {
    let mut view = view(check(json!({})), vec![down("m-1")]);
    view.connection = Connection::Lost { since: later(-40) };
    let plan = plan(&view);
    assert_eq!(asked(&plan), Vec::<String>::new());
    assert_eq!(condition(&status(&view, &plan), "Evaluated"), "False/TargetUnreachable");
}

#[test]
fn remediation_waits_after_a_storm() {
    let targets = vec![up("m-1"), up("m-2"), up("m-3"), down("m-4")];
    let spec = json!({ "maxUnhealthy": 1, "stormCooldown": "5m" });
    let mut storm = view(check(spec), vec![down("m-1"), down("m-2"), up("m-3"), down("m-4")]);
    let during = plan(&storm);
    storm.check.status = status(&storm, &during);
    storm.targets = targets;
    let after = plan(&storm);
    assert_eq!(asked(&after), Vec::<String>::new());
    let written = status(&storm, &after);
    assert_eq!(condition(&written, "RemediationAllowed"), "False/StormCooldown");
    assert_eq!(written.cooldown_until, Some(Time(later(300))));
    assert_eq!(after.wake, Some(std::time::Duration::from_secs(300)));
    storm.check.status = written;
    let policy = normalize(&storm.check.spec, "garden").unwrap();
    let over = decide(&storm, Ok(&policy), &Settings::default(), later(300));
    assert_eq!(asked(&over), ["m-4"]);
}

/// Fewer unhealthy machines than the range remediates are no storm.
#[test]
fn remediation_does_not_wait_after_too_few_unhealthy_machines() {
    let spec = json!({ "unhealthyRange": "[2-3]", "stormCooldown": "5m" });
    let mut view = view(check(spec), vec![up("m-1"), up("m-2"), down("m-3")]);
    let few = plan(&view);
    assert_eq!(asked(&few), Vec::<String>::new());
    assert!(!few.outcome.short_circuited);
    view.check.status = status(&view, &few);
    view.targets = vec![up("m-1"), down("m-2"), down("m-3")];
    assert_eq!(asked(&plan(&view)), ["m-2", "m-3"]);
}

/// The number of unhealthy machines falls from above the range to below it, and returns into it.
#[test]
fn the_cooldown_also_follows_when_too_few_are_unhealthy_after_a_storm() {
    let spec = json!({ "unhealthyRange": "[1-2]", "stormCooldown": "5m" });
    let mut view = view(check(spec), vec![down("m-1"), down("m-2"), down("m-3")]);
    for targets in [
        vec![up("m-1"), up("m-2"), up("m-3")],
        vec![up("m-1"), up("m-2"), down("m-3")],
    ] {
        let plan = plan(&view);
        assert_eq!(asked(&plan), Vec::<String>::new());
        view.check.status = status(&view, &plan);
        view.targets = targets;
    }
    let plan = plan(&view);
    assert_eq!(asked(&plan), Vec::<String>::new());
    assert_eq!(
        condition(&status(&view, &plan), "RemediationAllowed"),
        "False/StormCooldown"
    );
}

/// The former limit is not known any more when the check changes.
#[rstest]
#[case::after_a_storm(json!({ "maxUnhealthy": 1 }), json!({ "unhealthyRange": "[3-3]" }), true)]
#[case::after_too_few(json!({ "unhealthyRange": "[3-3]" }), json!({ "maxUnhealthy": 2 }), false)]
fn a_change_of_the_limit_keeps_whether_too_many_were_unhealthy(
    #[case] before: Value,
    #[case] after: Value,
    #[case] waits: bool,
) {
    let cooled = |mut spec: Value| {
        spec["stormCooldown"] = json!("5m");
        check(spec)
    };
    let mut view = view(cooled(before), vec![down("m-1"), down("m-2"), up("m-3")]);
    let first = plan(&view);
    let status_before = status(&view, &first);
    assert_eq!(
        condition(&status_before, "RemediationAllowed"),
        "False/TooManyUnhealthy"
    );
    view.check = cooled(after);
    view.check.status = status_before;
    let second = plan(&view);
    let status_after = status(&view, &second);
    assert_eq!(status_after.cooldown_until.is_some(), waits);
    assert_eq!(asked(&second).is_empty(), waits);
}

#[test]
fn at_most_the_given_number_is_remediated_newest_first() {
    let newest = with(machine("m-3"), "/metadata/creationTimestamp", json!(ago(4000)));
    let requested = annotated(
        machine("m-4"),
        json!({ "machine.sapcloud.io/remediate-machine": "true" }),
    );
    let targets = vec![
        down("m-1"),
        down("m-2"),
        target(newest, &[("Ready", "Unknown", 400)]),
        target(requested, &[("Ready", "True", 400)]),
    ];
    let plan = plan(&view(check(json!({ "maxInFlight": "50%" })), targets));
    assert_eq!(asked(&plan), ["m-3", "m-4"]);
}

/// A machine whose replacement is requested, with fields that keep it from being replaced.
fn waits_for_its_owner(name: &str, pointer: &str, value: Value) -> Target {
    target(
        with(with_owner(machine(name)), pointer, value),
        &[("Ready", "Unknown", 400)],
    )
}

#[rstest]
#[case::to_be_replaced("/metadata/labels/any", json!("label"), 0)]
#[case::without_an_owner("/metadata/ownerReferences", json!([]), 1)]
#[case::preserved("/status/currentStatus/preserveExpiryTime", json!("2026-03-02T12:00:00Z"), 1)]
#[case::left_to_a_rollout("/status/conditions/2/reason", json!("CannotBeRemediated"), 1)]
fn a_machine_that_is_not_remediated_now_takes_no_place(
    #[case] pointer: &str,
    #[case] value: Value,
    #[case] requests: usize,
) {
    let targets = vec![waits_for_its_owner("m-1", pointer, value), down("m-2"), down("m-3")];
    assert_eq!(
        asked(&plan(&view(check(json!({ "maxInFlight": 1 })), targets))).len(),
        requests
    );
}

/// The status says when the check acts also while it waits for all machines.
#[rstest]
#[case::after_a_storm(Some(later(120)), Connection::default(), 120)]
#[case::after_an_outage(None, Connection::Up { since: None, after_outage: Some(later(-30)) }, 30)]
fn a_machine_that_waits_for_permission_has_a_next_check(
    #[case] cooldown: Option<jiff::Timestamp>,
    #[case] connection: Connection,
    #[case] seconds: i64,
) {
    let mut check = check(json!({ "stormCooldown": "5m" }));
    check.status.cooldown_until = cooldown.map(Time);
    let mut view = view(check, vec![without_node(machine("m-1"))]);
    view.connection = connection;
    let plan = plan(&view);
    assert_eq!(asked(&plan), Vec::<String>::new());
    assert_eq!(status(&view, &plan).unhealthy[0].next_check, Some(Time(later(seconds))));
}

#[test]
fn without_a_target_cluster_only_rules_about_machines_count() {
    let rules = json!([{ "type": "Phase=Unknown", "status": "True", "timeout": "5m" }]);
    let unknown = with(machine("m-2"), "/status/currentStatus/phase", json!("Unknown"));
    let targets = [machine("m-1"), unknown].map(|machine| Target {
        machine: Arc::new(machine),
        node: NodeState::NotObserved,
    });
    let view = view(check(json!({ "unhealthyMachineConditions": rules })), targets.to_vec());
    let plan = plan(&view);
    assert_eq!(asked(&plan), ["m-2"]);
    let status = status(&view, &plan);
    assert_eq!(status.current_healthy, 1);
    let evaluated = status.conditions.iter().find(|one| one.type_ == "Evaluated").unwrap();
    assert!(
        evaluated.message.contains("--target-kubeconfig=none"),
        "{}",
        evaluated.message
    );
}

#[test]
fn a_node_that_cannot_be_read_makes_no_machine_unhealthy() {
    let unread = Target {
        machine: Arc::new(machine("m-1")),
        node: NodeState::Unreadable("forbidden".to_owned()),
    };
    let view = view(check(json!({})), vec![unread]);
    let plan = plan(&view);
    assert_eq!(asked(&plan), Vec::<String>::new());
    assert_eq!(
        status(&view, &plan).unhealthy[0].message,
        "its Node cannot be read: forbidden"
    );
    assert_eq!(plan.wake, Some(std::time::Duration::from_secs(15)));
}

#[test]
fn a_cluster_name_is_ignored_with_one_warning() {
    let mut first = view(check(json!({ "clusterName": "shoot" })), vec![up("m-1")]);
    let warned = plan(&first);
    assert_eq!(events(&warned), ["ClusterNameIgnored"]);
    first.check.status = status(&first, &warned);
    assert_eq!(events(&plan(&first)), [""; 0]);
    let without = view(check(json!({})), vec![up("m-1")]);
    assert_eq!(events(&plan(&without)), [""; 0]);
}

#[test]
fn a_cluster_name_of_an_invalid_check_is_warned_about_too() {
    let view = view(
        check(json!({ "clusterName": "shoot", "unhealthyRange": "[3-2]" })),
        Vec::new(),
    );
    assert_eq!(events(&plan(&view)), ["InvalidSpec", "ClusterNameIgnored"]);
}

#[rstest]
#[case::within_the_grace(30, "JustConnected", 0)]
#[case::after_the_grace(60, "RemediationAllowed", 1)]
fn nothing_is_requested_within_the_grace_after_an_outage(
    #[case] seconds: i64,
    #[case] reason: &str,
    #[case] requests: usize,
) {
    let mut view = view(check(json!({})), vec![without_node(machine("m-1"))]);
    view.connection = Connection::Up {
        since: None,
        after_outage: Some(ago(seconds).parse().unwrap()),
    };
    let plan = plan(&view);
    assert!(condition(&status(&view, &plan), "RemediationAllowed").ends_with(reason));
    assert_eq!(asked(&plan).len(), requests);
}
