//! I23 to I25: the budget of remediations, what was observed since the last outage, and prompt marks and requests.

use scenario::kinds;

use super::*;

const POOL: &str = "md";

/// The check `workers` of the pool. `spec` adds fields.
fn check(spec: Value) -> Value {
    named_check("workers", spec)
}

fn named_check(name: &str, spec: Value) -> Value {
    let object = json!({
        "metadata": { "name": name, "uid": name },
        "spec": { "selector": { "matchLabels": { "name": POOL } } },
        "status": {
            "expectedMachines": 5,
            "conditions": [condition("Evaluated", "True", "Evaluated"), condition("RemediationAllowed", "True", "RemediationAllowed")],
        },
    });
    with(object, json!({ "spec": spec }))
}

/// A condition since the epoch.
fn condition(type_: &str, status: &str, reason: &str) -> Value {
    json!({ "type": type_, "status": status, "reason": reason, "lastTransitionTime": "1970-01-01T00:00:00Z" })
}

/// One of the pool's machines, with these conditions.
fn target(number: usize, conditions: &[Value]) -> Value {
    json!({
        "metadata": {
            "name": format!("m-{number}"),
            "uid": format!("u-{number}"),
            "labels": { "name": POOL, "node": format!("n-{number}") },
            "creationTimestamp": "1970-01-01T00:00:00Z",
            "finalizers": ["machine.sapcloud.io/machine-controller-manager"],
            "ownerReferences": [{ "kind": "MachineSet", "name": "ms", "controller": true }],
        },
        "spec": { "providerID": format!("fakecloud:///z/{number}") },
        "status": { "currentStatus": { "phase": "Running" }, "conditions": conditions },
    })
}

fn marked() -> Value {
    condition(mcm_api::keys::HEALTH_CHECK_SUCCEEDED, "False", "UnhealthyNode")
}

fn asked() -> Value {
    condition(mcm_api::keys::OWNER_REMEDIATED, "False", "WaitingForRemediation")
}

/// The machine, whose replacement by its owner is requested.
fn requested(number: usize) -> Value {
    target(number, &[marked(), asked()])
}

/// A request to another controller for the machine.
fn request(number: usize) -> Seen {
    let annotations = json!({ mcm_api::keys::HEALTH_CHECK_ANNOTATION: "workers" });
    let object = json!({ "metadata": { "name": format!("m-{number}"), "annotations": annotations } });
    Seen::Applied(kinds::find("ConfigMap").unwrap(), Box::new(object))
}

/// A pool of five machines with this check, which the controller has observed.
fn pool_of_five(check: Value) -> Story {
    let story = Story::new().apply("MachineHealthCheck", check);
    (1..=5)
        .fold(story, |story, number| story.apply("Machine", target(number, &[])))
        .after(minutes(2))
}

#[rstest]
#[case::no_limit(json!({}), 5, None)]
#[case::at_the_number(json!({ "maxUnhealthy": 2 }), 2, None)]
#[case::above_the_number(json!({ "maxUnhealthy": 2 }), 3, Some("I23"))]
#[case::none_at_all(json!({ "maxUnhealthy": 0 }), 1, Some("I23"))]
#[case::at_the_percentage(json!({ "maxUnhealthy": "50%" }), 2, None)]
#[case::above_the_percentage_rounded_down(json!({ "maxUnhealthy": "50%" }), 3, Some("I23"))]
#[case::in_the_other_spelling(
    json!({ "remediation": { "triggerIf": { "unhealthyLessThanOrEqualTo": "40%" } } }),
    3,
    Some("I23")
)]
#[case::at_the_end_of_the_range(json!({ "unhealthyRange": "[1-3]" }), 3, None)]
#[case::above_the_range(json!({ "unhealthyRange": "[1-3]" }), 4, Some("I23"))]
#[case::a_range_wins_over_a_number(json!({ "unhealthyRange": "[1-3]", "maxUnhealthy": 1 }), 3, None)]
#[case::above_the_range_in_the_other_spelling(
    json!({ "remediation": { "triggerIf": { "unhealthyInRange": "[1-3]" } } }),
    4,
    Some("I23")
)]
#[case::as_many_as_in_flight_rounded_up(json!({ "maxInFlight": "50%" }), 3, None)]
#[case::more_than_in_flight(json!({ "maxInFlight": "50%" }), 4, Some("I23"))]
#[case::the_lower_limit_counts(json!({ "maxInFlight": 1, "maxUnhealthy": 4 }), 2, Some("I23"))]
fn requests_stay_within_the_limits(#[case] spec: Value, #[case] requests: usize, #[case] violated: Option<&str>) {
    let story = (1..=requests).fold(pool_of_five(check(spec)), |story, number| {
        story.apply("Machine", requested(number))
    });
    story.violates(violated);
}

/// The check, which reports that another controller remediates these machines.
fn remediating(machines: &[usize]) -> Value {
    let remediations: Vec<Value> = machines
        .iter()
        .map(|number| json!({ "machine": format!("m-{number}") }))
        .collect();
    with(
        check(json!({ "maxInFlight": 1 })),
        json!({ "status": { "remediations": remediations } }),
    )
}

#[rstest]
#[case::of_a_machine_in_remediation(&[1, 2], None)]
#[case::of_a_machine_whose_remediation_ended(&[2], Some("I23"))]
fn the_next_request_of_an_escalation_takes_no_further_place(
    #[case] reported: &[usize],
    #[case] violated: Option<&str>,
) {
    let request = |number| match request(number) {
        Seen::Applied(_, object) => *object,
        other => panic!("{other:?}"),
    };
    pool_of_five(check(json!({ "maxInFlight": 2 })))
        .apply("ConfigMap", request(1))
        .apply("ConfigMap", request(2))
        // The limit becomes smaller.
        .apply("MachineHealthCheck", remediating(&[1, 2]))
        .after(minutes(2))
        .delete("ConfigMap", request(1))
        .apply("MachineHealthCheck", remediating(reported))
        .apply("ConfigMap", request(1))
        .violates(violated);
}

#[rstest]
#[case::in_flight(json!({ "maxInFlight": 1 }), json!({}), Some("I23"))]
#[case::without_an_owner(json!({ "maxInFlight": 1 }), json!({ "metadata": { "ownerReferences": null } }), None)]
#[case::preserved(
    json!({ "maxInFlight": 1 }),
    json!({ "status": { "currentStatus": { "preserveExpiryTime": "2030-01-01T00:00:00Z" } } }),
    None
)]
#[case::preserved_and_unhealthy(
    json!({ "maxUnhealthy": 1 }),
    json!({ "status": { "currentStatus": { "preserveExpiryTime": "2030-01-01T00:00:00Z" } } }),
    Some("I23")
)]
fn a_machine_that_is_not_remediated_now_takes_no_place(
    #[case] spec: Value,
    #[case] change: Value,
    #[case] violated: Option<&str>,
) {
    let story = pool_of_five(check(spec)).apply("Machine", with(requested(1), change));
    assert_eq!(story.found, None);
    story.apply("Machine", requested(2)).violates(violated);
}

#[rstest]
#[case::together_above_the_limit(2, Some("I23"))]
#[case::together_at_the_limit(1, None)]
fn requests_to_other_controllers_count(#[case] others: usize, #[case] violated: Option<&str>) {
    let story = pool_of_five(check(json!({ "maxUnhealthy": 2 })));
    let story = (2..2 + others).fold(story, |story, number| story.observe(request(number)));
    assert_eq!(story.found, None);
    story.apply("Machine", requested(1)).violates(violated);
}

#[test]
fn a_request_to_another_controller_is_within_the_limits_too() {
    let story = pool_of_five(check(json!({ "maxUnhealthy": 1 }))).apply("Machine", requested(1));
    assert_eq!(story.found, None);
    story.observe(request(2)).violates(Some("I23"));
}

fn annotations(annotations: Value) -> Value {
    json!({ "metadata": { "annotations": annotations } })
}

#[rstest]
#[case::neither(json!({}), None)]
#[case::deleted(deleted_at(1), Some("I23"))]
#[case::skipped(annotations(json!({ "machine.sapcloud.io/skip-remediation": "true" })), Some("I23"))]
#[case::paused(annotations(json!({ "cluster.x-k8s.io/paused": "" })), Some("I23"))]
#[case::not_skipped(annotations(json!({ "machine.sapcloud.io/skip-remediation": "false" })), None)]
fn machines_that_are_deleted_or_excluded_are_left_alone(#[case] change: Value, #[case] violated: Option<&str>) {
    pool_of_five(check(json!({})))
        .apply("Machine", with(target(1, &[]), change.clone()))
        .apply("Machine", with(requested(1), change))
        .violates(violated);
}

#[rstest]
#[case::active(json!({}), Some("I23"))]
#[case::paused(annotations(json!({ "machine.sapcloud.io/paused": "true" })), None)]
#[case::being_deleted(deleted_at(1), None)]
#[case::of_other_machines(json!({ "spec": { "selector": { "matchLabels": { "name": "other" } } } }), None)]
fn machines_of_two_checks_are_left_alone(#[case] other: Value, #[case] violated: Option<&str>) {
    pool_of_five(check(json!({})))
        .apply("MachineHealthCheck", with(named_check("others", json!({})), other))
        .after(minutes(2))
        .apply("Machine", requested(1))
        .violates(violated);
}

#[rstest]
#[case::during_the_cooldown(json!({ "stormCooldown": "5m" }), minutes(2), Some("I23"))]
#[case::after_the_cooldown(json!({ "stormCooldown": "5m" }), minutes(3), None)]
#[case::without_a_cooldown(json!({}), minutes(1), None)]
fn nothing_is_requested_during_a_cooldown(#[case] spec: Value, #[case] time: Duration, #[case] violated: Option<&str>) {
    let too_many =
        json!({ "status": { "conditions": [condition("RemediationAllowed", "False", "TooManyUnhealthy")] } });
    pool_of_five(with(check(spec.clone()), too_many))
        .after(time)
        .apply("MachineHealthCheck", check(spec))
        .apply("Machine", requested(1))
        .violates(violated);
}

#[test]
fn too_few_unhealthy_machines_are_no_storm() {
    let spec = json!({ "stormCooldown": "5m", "unhealthyRange": "[2-3]" });
    let conditions = [condition("RemediationAllowed", "False", "TooManyUnhealthy")];
    let too_few = json!({ "status": { "conditions": conditions, "currentHealthy": 4 } });
    pool_of_five(with(check(spec.clone()), too_few))
        .after(minutes(1))
        .apply("MachineHealthCheck", check(spec))
        .apply("Machine", requested(1))
        .violates(None);
}

#[test]
fn a_condition_of_an_earlier_limit_is_no_storm() {
    let mut too_few = condition("RemediationAllowed", "False", "TooManyUnhealthy");
    too_few["observedGeneration"] = 1.into();
    let spec = json!({ "stormCooldown": "5m", "unhealthyRange": "[2-3]" });
    let change = json!({ "metadata": { "generation": 1 }, "status": { "conditions": [too_few], "currentHealthy": 4 } });
    let mut patched = with(check(spec.clone()), change.clone());
    patched["metadata"]["generation"] = 2.into();
    patched["spec"]["unhealthyRange"] = Value::Null;
    let current = with(
        check(json!({ "stormCooldown": "5m" })),
        json!({ "metadata": { "generation": 2 } }),
    );
    pool_of_five(with(check(spec), change))
        .apply("MachineHealthCheck", patched)
        .apply("MachineHealthCheck", current)
        .after(minutes(2))
        .apply("Machine", requested(1))
        .violates(None);
}

/// mcm is cut off from an API server for that time.
fn cut_off(mut story: Story, time: Duration) -> Story {
    story.invariants.rules.away.insert("cut".to_owned(), story.now);
    let mut story = story.observe(Seen::Note("cut".to_owned())).after(time);
    story.invariants.rules.away.clear();
    story.observe(Seen::Note("connected".to_owned()))
}

#[rstest]
#[case::within_the_grace(minutes(10), Duration::from_secs(30), json!({}), Some("I24"))]
#[case::after_the_grace(minutes(10), minutes(1), json!({}), None)]
#[case::after_a_short_outage(Duration::from_secs(20), Duration::from_secs(10), json!({}), None)]
#[case::requested_by_a_user(
    minutes(10),
    Duration::from_secs(30),
    annotations(json!({ "machine.sapcloud.io/remediate-machine": "" })),
    None
)]
#[case::not_requested_by_a_user(
    minutes(10),
    Duration::from_secs(30),
    annotations(json!({ "machine.sapcloud.io/remediate-machine": "false" })),
    Some("I24")
)]
fn nothing_is_requested_within_the_grace_after_an_outage(
    #[case] outage: Duration,
    #[case] later: Duration,
    #[case] change: Value,
    #[case] violated: Option<&str>,
) {
    cut_off(pool_of_five(check(json!({}))), outage)
        .after(later)
        .apply("Machine", with(requested(1), change))
        .violates(violated);
}

#[test]
fn a_request_during_an_outage_is_not_within_a_grace() {
    let mut story = pool_of_five(check(json!({})));
    story.invariants.rules.away.insert("cut".to_owned(), story.now);
    story.after(minutes(5)).apply("Machine", requested(1)).violates(None);
}

/// A check that finds a machine unhealthy whose node has been Unknown for five minutes.
fn patient(spec: Value) -> Value {
    check(with(patient_rules(), spec))
}

fn patient_rules() -> Value {
    json!({ "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "5m" }] })
}

/// The first machine's node, with that status of Ready since the epoch.
fn node_that_is(ready: &str) -> Value {
    json!({ "metadata": { "name": "n-1" }, "status": { "conditions": [condition("Ready", ready, "Kubelet")] } })
}

/// The check, a node that is not Ready and its machine.
fn unhealthy(check: Value, machine: Value) -> Story {
    Story::new()
        .apply("MachineHealthCheck", check)
        .apply("Node", node_that_is("Unknown"))
        .apply("Machine", machine)
}

fn of_check(reason: &str) -> Value {
    json!({ "status": { "conditions": [condition("Evaluated", "True", "Evaluated"), condition("RemediationAllowed", "False", reason)] } })
}

#[rstest]
#[case::long_after_the_timeout(patient(json!({})), target(1, &[]), minutes(8), Some("I25"))]
#[case::shortly_after_the_timeout(patient(json!({})), target(1, &[]), minutes(7), None)]
#[case::marked_and_requested(patient(json!({})), requested(1), minutes(8), None)]
#[case::in_the_other_spelling(
    check(json!({ "checks": { "unhealthyNodeConditions": [{ "type": "Ready", "status": "Unknown", "timeoutSeconds": 300 }] } })),
    target(1, &[]),
    minutes(8),
    Some("I25")
)]
#[case::of_another_status(
    check(json!({ "unhealthyConditions": [{ "type": "Ready", "status": "False", "timeout": "5m" }] })),
    target(1, &[]),
    minutes(8),
    None
)]
#[case::while_remediation_is_not_allowed(with(patient(json!({})), of_check("TooManyUnhealthy")), target(1, &[]), minutes(8), Some("I25"))]
#[case::paused_check(with(patient(json!({})), annotations(json!({ "machine.sapcloud.io/paused": "" }))), target(1, &[]), minutes(8), None)]
#[case::excluded(patient(json!({})), with(target(1, &[]), annotations(json!({ "machine.sapcloud.io/paused": "" }))), minutes(8), None)]
#[case::failed(patient(json!({})), with(target(1, &[]), json!({ "status": { "currentStatus": { "phase": "Failed" } } })), minutes(8), None)]
#[case::not_evaluated(
    with(patient(json!({})), json!({ "status": { "conditions": [condition("Evaluated", "False", "TargetUnreachable")] } })),
    target(1, &[]),
    minutes(8),
    None
)]
#[case::of_another_pool(patient(json!({})), with(target(1, &[]), pool("other")), minutes(8), None)]
fn an_unhealthy_machine_is_marked_promptly(
    #[case] check: Value,
    #[case] machine: Value,
    #[case] time: Duration,
    #[case] violated: Option<&str>,
) {
    unhealthy(check, machine).after(time).violates(violated);
}

/// A Machine without a Node, and the rules other than those about Nodes.
#[rstest]
#[case::late(json!({ "nodeStartupTimeout": "5m" }), target(1, &[]), Some("I25"))]
#[case::late_in_the_other_spelling(
    json!({ "nodeStartupTimeout": "10m", "checks": { "nodeStartupTimeoutSeconds": 300 } }),
    target(1, &[]),
    Some("I25")
)]
#[case::never_late(json!({ "nodeStartupTimeout": "0s" }), target(1, &[]), None)]
#[case::deleted(json!({ "nodeStartupTimeout": "0s" }), target(1, &[condition("Ready", "True", "Kubelet")]), Some("I25"))]
#[case::with_a_condition_of_another_controller(
    json!({ "nodeStartupTimeout": "0s" }),
    target(1, &[condition("example.com/Disk", "True", "Full")]),
    None
)]
#[case::requested_by_a_user(
    json!({ "nodeStartupTimeout": "0s" }),
    with(target(1, &[]), annotations(json!({ "machine.sapcloud.io/remediate-machine": "true" }))),
    Some("I25")
)]
#[case::in_a_phase(
    json!({ "unhealthyMachineConditions": [{ "type": "Phase=Unknown", "status": "True", "timeout": "5m" }] }),
    with(target(1, &[]), json!({ "status": { "currentStatus": { "phase": "Unknown", "lastUpdateTime": "1970-01-01T00:00:00Z" } } })),
    Some("I25")
)]
#[case::in_another_phase(
    json!({ "unhealthyMachineConditions": [{ "type": "Phase=Unknown", "status": "True", "timeout": "5m" }] }),
    target(1, &[]),
    None
)]
#[case::with_a_condition(
    json!({ "unhealthyMachineConditions": [{ "type": "example.com/Disk", "status": "True", "timeout": "5m" }] }),
    target(1, &[condition("example.com/Disk", "True", "Full")]),
    Some("I25")
)]
fn a_machine_that_is_unhealthy_without_its_node_is_marked_promptly(
    #[case] spec: Value,
    #[case] machine: Value,
    #[case] violated: Option<&str>,
) {
    Story::new()
        .apply("MachineHealthCheck", check(spec))
        .apply("Machine", machine)
        .after(minutes(8))
        .violates(violated);
}

#[rstest]
#[case::allowed(patient(json!({})), target(1, &[marked()]), Some("I25"))]
#[case::requested(patient(json!({})), requested(1), None)]
#[case::with_another_controller(
    patient(json!({})),
    target(1, &[marked(), condition(mcm_api::keys::EXTERNALLY_REMEDIATED, "False", "WaitingForRemediation")]),
    None
)]
#[case::too_many(with(patient(json!({})), of_check("TooManyUnhealthy")), target(1, &[marked()]), None)]
#[case::with_a_place(patient(json!({ "maxInFlight": 1 })), target(1, &[marked()]), Some("I25"))]
#[case::preserved(
    patient(json!({ "remediationTemplate": {} })),
    with(target(1, &[marked()]), json!({ "status": { "currentStatus": { "preserveExpiryTime": "1970-01-04T00:00:00Z" } } })),
    None
)]
#[case::without_an_owner(
    patient(json!({})),
    with(target(1, &[marked()]), json!({ "metadata": { "ownerReferences": null } })),
    None
)]
fn a_marked_machine_is_requested_promptly(
    #[case] check: Value,
    #[case] machine: Value,
    #[case] violated: Option<&str>,
) {
    unhealthy(check, machine)
        .after(minutes(5))
        .apply("Node", node_that_is("Unknown"))
        .after(Duration::from_secs(1))
        .apply("Node", node_that_is("Unknown"))
        .after(minutes(8))
        .violates(violated);
}

/// One machine waits while another one is in remediation.
#[rstest]
#[case::of_one_place(json!({ "maxInFlight": 1 }), None)]
#[case::of_two_places(json!({ "maxInFlight": 2 }), Some("I25"))]
#[case::of_a_share_rounded_up(json!({ "maxInFlight": "51%" }), Some("I25"))]
#[case::of_one_place_by_share(json!({ "maxInFlight": "50%" }), None)]
fn a_marked_machine_is_requested_promptly_if_there_is_a_place(#[case] spec: Value, #[case] violated: Option<&str>) {
    unhealthy(patient(spec), target(1, &[marked()]))
        .apply("Machine", requested(2))
        .after(minutes(5))
        .apply("Node", node_that_is("Unknown"))
        .after(Duration::from_secs(1))
        .apply("Node", node_that_is("Unknown"))
        .after(minutes(8))
        .violates(violated);
}

#[test]
fn a_machine_that_recovers_in_time_needs_no_mark() {
    unhealthy(patient(json!({})), target(1, &[]))
        .after(minutes(4))
        .apply("Node", node_that_is("True"))
        .after(minutes(20))
        .violates(None);
}

#[test]
fn no_mark_is_due_while_a_disturbance_is_active() {
    let story = unhealthy(patient(json!({})), target(1, &[]))
        .disturbed()
        .after(minutes(20));
    assert_eq!(story.found, None);
    let story = story.undisturbed().after(minutes(2));
    assert_eq!(story.found, None);
    story.after(minutes(1)).violates(Some("I25"));
}

#[test]
fn a_machine_of_two_checks_needs_no_mark() {
    unhealthy(patient(json!({})), target(1, &[]))
        .apply("MachineHealthCheck", named_check("others", patient_rules()))
        .after(minutes(20))
        .violates(None);
}

/// A check that selects another pool.
fn of_another_pool() -> Value {
    with(
        named_check("workers", patient_rules()),
        json!({ "spec": { "selector": { "matchLabels": { "name": "other" } } } }),
    )
}

#[rstest]
#[case::the_check_selects_it(patient(json!({})), requested(1), None)]
#[case::the_check_is_paused(
    with(patient(json!({})), annotations(json!({ mcm_api::keys::PAUSED_ANNOTATION: "" }))),
    requested(1),
    None
)]
#[case::no_check_selects_it(of_another_pool(), requested(1), Some("I25"))]
#[case::it_is_marked_only(of_another_pool(), target(1, &[marked()]), None)]
#[case::it_failed(
    of_another_pool(),
    with(requested(1), json!({ "status": { "currentStatus": { "phase": "Failed" } } })),
    None
)]
fn a_request_needs_a_check(#[case] check: Value, #[case] machine: Value, #[case] violated: Option<&str>) {
    Story::new()
        .apply("MachineHealthCheck", check)
        .apply("Machine", machine)
        .after(minutes(8))
        .violates(violated);
}

#[test]
fn the_request_of_two_checks_ends() {
    Story::new()
        .apply("MachineHealthCheck", patient(json!({})))
        .apply("MachineHealthCheck", named_check("others", patient_rules()))
        .apply("Machine", requested(1))
        .after(minutes(8))
        .violates(Some("I25"));
}

#[test]
fn after_an_outage_a_timeout_begins_anew() {
    let story = cut_off(unhealthy(patient(json!({})), target(1, &[])), minutes(4)).after(minutes(8));
    assert_eq!(story.found, None);
    story.after(minutes(2)).violates(Some("I25"));
}

#[test]
fn after_a_check_could_not_evaluate_a_timeout_begins_anew() {
    let unreachable = json!({ "status": { "conditions": [condition("Evaluated", "False", "TargetUnreachable")] } });
    let story = unhealthy(with(patient(json!({})), unreachable), target(1, &[]))
        .after(minutes(4))
        .apply("MachineHealthCheck", patient(json!({})))
        .after(minutes(8));
    assert_eq!(story.found, None);
    story.after(minutes(2)).violates(Some("I25"));
}

/// A user lowers the limit, or adds a second check, and the controller requests a machine.
#[rstest]
#[case::at_once(Duration::from_secs(10), None)]
#[case::later(minutes(2), Some("I23"))]
fn what_a_user_changed_a_moment_ago_may_not_be_known(#[case] time: Duration, #[case] violated: Option<&str>) {
    let lowered = pool_of_five(check(json!({})))
        .after(minutes(5))
        .apply("MachineHealthCheck", check(json!({ "maxUnhealthy": 0 })));
    lowered.after(time).apply("Machine", requested(1)).violates(violated);
    let doubled = pool_of_five(check(json!({})))
        .after(minutes(5))
        .apply("MachineHealthCheck", named_check("others", json!({})));
    doubled.after(time).apply("Machine", requested(1)).violates(violated);
    let excluded = with(target(1, &[]), annotations(json!({ "machine.sapcloud.io/paused": "" })));
    let excluded = pool_of_five(check(json!({})))
        .after(minutes(5))
        .apply("Machine", excluded);
    excluded.after(time).observe(request(1)).violates(violated);
}

#[test]
fn a_longer_cooldown_does_not_apply_to_a_storm_that_is_over() {
    let too_many =
        json!({ "status": { "conditions": [condition("RemediationAllowed", "False", "TooManyUnhealthy")] } });
    pool_of_five(with(check(json!({})), too_many))
        .after(minutes(2))
        .apply("MachineHealthCheck", check(json!({})))
        .apply("MachineHealthCheck", check(json!({ "stormCooldown": "10m" })))
        .after(minutes(3))
        .apply("Machine", requested(1))
        .violates(None);
}
