//! Passes over several machines.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::health_check::MachineHealthCheckStatus;
use mcm_api::{Machine, MachineHealthCheck};
use rstest::rstest;
use serde_json::{Value, json};

use super::super::{
    Action, Connection, Plan, Request, RequestKind, RequestView, Settings, Target, TemplateView, View, decide,
    normalize,
};
use super::{ago, annotated, check, later, machine, now, target, with, without_node};

fn up(name: &str) -> Target {
    target(machine(name), &[("Ready", "True", 9000)])
}

fn down(name: &str) -> Target {
    target(machine(name), &[("Ready", "Unknown", 400)])
}

fn pending(name: &str) -> Target {
    target(machine(name), &[("Ready", "Unknown", 100)])
}

fn with_owner(machine: Machine) -> Machine {
    let conditions = json!([
        { "type": "Ready", "status": "Unknown" },
        { "type": "HealthCheckSucceeded", "status": "False" },
        { "type": "OwnerRemediated", "status": "False" },
    ]);
    with(machine, "/status/conditions", conditions)
}

fn view(check: MachineHealthCheck, targets: Vec<Target>) -> View {
    View {
        check,
        targets,
        ..View::default()
    }
}

fn plan(view: &View) -> Plan {
    let policy = normalize(&view.check.spec, "garden");
    decide(
        view,
        policy.as_ref().map_err(Vec::as_slice),
        &Settings::default(),
        now(),
    )
}

fn status(view: &View, plan: &Plan) -> MachineHealthCheckStatus {
    let written = plan.actions.iter().find_map(|action| match action {
        Action::WriteStatus(status) => Some((**status).clone()),
        _ => None,
    });
    written.unwrap_or_else(|| view.check.status.clone())
}

fn condition(status: &MachineHealthCheckStatus, type_: &str) -> String {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_);
    found.map_or_else(String::new, |found| format!("{}/{}", found.status, found.reason))
}

/// The machines whose owner is asked.
fn asked(plan: &Plan) -> Vec<String> {
    let asks = |action: &Action| match action {
        Action::WriteConditions {
            machine,
            conditions,
            remediated,
        } => {
            let asked = conditions
                .iter()
                .any(|one| one.type_ == "OwnerRemediated" && one.status == "False");
            (asked && remediated.is_some()).then(|| machine.clone())
        }
        _ => None,
    };
    plan.actions.iter().filter_map(asks).collect()
}

fn events(plan: &Plan) -> Vec<&'static str> {
    let event = |action: &Action| match action {
        Action::RecordEvent { reason, .. } => Some(*reason),
        _ => None,
    };
    plan.actions.iter().filter_map(event).collect()
}

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
    view.check.status = status(&view, &few);
    view.targets = vec![up("m-1"), down("m-2"), down("m-3")];
    assert_eq!(asked(&plan(&view)), ["m-2", "m-3"]);
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

fn external(targets: Vec<Target>, requests: Vec<Request>) -> View {
    let template = json!({ "apiVersion": "example.com/v1", "kind": "RepairTemplate", "name": "reboot" });
    let mut view = view(check(json!({ "remediationTemplate": template })), targets);
    let object = json!({ "spec": { "template": {
        "metadata": { "labels": { "a": "b" } },
        "spec": { "strategy": "Reboot" },
    } } });
    view.requests = RequestView::Known(requests);
    let template = view.check.spec.remediation_template.clone().unwrap();
    view.templates.insert(template, TemplateView::Present(Arc::new(object)));
    view
}

fn request(machine: &str, deleting: bool) -> Request {
    Request {
        kind: RequestKind {
            api_version: "example.com/v1".to_owned(),
            kind: "Repair".to_owned(),
        },
        name: machine.to_owned(),
        uid: format!("request-{machine}"),
        created: Some(later(-60)),
        deleting,
        check: Some("workers".to_owned()),
        template: "reboot".to_owned(),
    }
}

#[test]
fn a_request_is_recorded_and_then_created() {
    let view = external(vec![down("m-1"), up("m-2")], Vec::new());
    let plan = plan(&view);
    let status = status(&view, &plan);
    assert_eq!(status.remediations.len(), 1);
    assert_eq!(
        (
            status.remediations[0].machine.as_str(),
            status.remediations[0].kind.as_str()
        ),
        ("m-1", "Repair")
    );
    let created = plan.actions.iter().find_map(|action| match action {
        Action::CreateRequest { object, .. } => Some((**object).clone()),
        _ => None,
    });
    let created = created.unwrap();
    assert_eq!(created["kind"], "Repair");
    assert_eq!(created["metadata"]["name"], "m-1");
    assert_eq!(created["metadata"]["labels"], json!({ "a": "b" }));
    assert_eq!(created["metadata"]["ownerReferences"][0]["uid"], "uid-m-1");
    assert_eq!(created["spec"], json!({ "strategy": "Reboot" }));
    assert_eq!(asked(&plan), Vec::<String>::new());
    assert!(matches!(plan.actions.first(), Some(Action::WriteStatus(_))));
}

/// A request that exists does not end the loop over the machines.
#[test]
fn a_second_machine_gets_its_request_too() {
    let plan = plan(&external(vec![down("m-1"), down("m-2")], vec![request("m-1", false)]));
    let created = plan
        .actions
        .iter()
        .filter(|action| matches!(action, Action::CreateRequest { .. }));
    assert_eq!(created.count(), 1);
}

#[test]
fn the_request_of_a_healthy_machine_is_deleted_and_forgotten_when_it_is_gone() {
    let mut view = external(vec![up("m-1")], vec![request("m-1", false)]);
    let first = plan(&view);
    assert!(
        first
            .actions
            .iter()
            .any(|action| matches!(action, Action::DeleteRequest { name, .. } if name == "m-1"))
    );
    assert_eq!(
        status(&view, &first).current_healthy,
        0,
        "it counts as being remediated"
    );
    // Its controller holds it with a finalizer.
    view.requests = RequestView::Known(vec![request("m-1", true)]);
    let second = plan(&view);
    assert!(
        !second
            .actions
            .iter()
            .any(|action| matches!(action, Action::DeleteRequest { .. }))
    );
    assert!(second.wake.is_some(), "the check looks again");
    view.check.status = status(&view, &second);
    view.check.status.remediations = serde_json::from_value(json!([{
        "machine": "m-1", "uid": "uid-m-1", "apiVersion": "example.com/v1", "kind": "Repair", "template": "reboot",
    }]))
    .unwrap();
    view.requests = RequestView::Known(Vec::new());
    let third = plan(&view);
    assert_eq!(status(&view, &third).current_healthy, 1);
    assert_eq!(status(&view, &third).remediations, Vec::new());
}

/// The record is the only trace of a request that cannot be read, and whose template the policy may not have any more.
#[rstest]
#[case::of_a_healthy_machine(vec![up("m-1")])]
#[case::of_an_unhealthy_machine(vec![down("m-1")])]
#[case::of_a_machine_whose_timeout_runs(vec![pending("m-1")])]
#[case::of_a_machine_that_is_gone(Vec::new())]
fn the_record_of_a_request_stays_while_requests_cannot_be_read(#[case] targets: Vec<Target>) {
    let mut view = external(targets, Vec::new());
    view.check.status.remediations = serde_json::from_value(json!([{
        "machine": "m-1", "uid": "uid-m-1", "apiVersion": "example.com/v1", "kind": "Repair", "template": "reboot",
    }]))
    .unwrap();
    view.requests = RequestView::Unreadable("the API server is busy".to_owned());
    let plan = plan(&view);
    let status = status(&view, &plan);
    assert_eq!(status.remediations, view.check.status.remediations);
    assert_eq!(status.current_healthy, 0, "it counts as being remediated");
    assert!(!deletes(&plan));
}

#[test]
fn the_request_of_a_machine_that_is_gone_is_deleted() {
    let plan = plan(&external(Vec::new(), vec![request("m-1", false)]));
    assert!(
        plan.actions
            .iter()
            .any(|action| matches!(action, Action::DeleteRequest { name, .. } if name == "m-1"))
    );
}

#[test]
fn a_missing_template_is_reported() {
    let mut view = external(vec![down("m-1")], Vec::new());
    view.templates.clear();
    let plan = plan(&view);
    let reason = plan.actions.iter().find_map(|action| match action {
        Action::WriteConditions { conditions, .. } => {
            let found = conditions.iter().find(|one| one.type_ == "ExternallyRemediated");
            found.and_then(|one| one.reason.clone())
        }
        _ => None,
    });
    assert_eq!(reason.as_deref(), Some("RemediationTemplateNotFound"));
    assert!(
        !plan
            .actions
            .iter()
            .any(|action| matches!(action, Action::CreateRequest { .. }))
    );
}

/// Unknown turned into False during a reboot: the new condition's timeout runs, and the request stays.
#[test]
fn a_request_stays_while_a_timeout_runs() {
    let plan = plan(&external(
        vec![target(machine("m-1"), &[("Ready", "False", 5)])],
        vec![request("m-1", false)],
    ));
    assert!(
        !plan
            .actions
            .iter()
            .any(|action| matches!(action, Action::DeleteRequest { .. }))
    );
}

/// A machine of a check with the templates `reboot` and `rebuild`, each with five minutes: the record, which names this template
/// since so many seconds, and its requests.
fn escalating(machine: Target, template: (&str, i64), requests: Vec<Request>) -> View {
    let step = |name: &str, order: i32| {
        let template = json!({ "apiVersion": "example.com/v1", "kind": "RepairTemplate", "name": name });
        json!({ "remediationTemplate": template, "order": order, "timeout": "5m" })
    };
    let steps = [step("reboot", 1), step("rebuild", 2)];
    let mut view = view(check(json!({ "escalatingRemediations": steps })), vec![machine]);
    let (name, since) = template;
    let order = if name == "reboot" { 1 } else { 2 };
    view.check.status.remediations = serde_json::from_value(json!([{
        "machine": "m-1", "uid": "uid-m-1", "apiVersion": "example.com/v1", "kind": "Repair", "template": name,
        "order": order, "since": ago(since),
    }]))
    .unwrap();
    view.requests = RequestView::Known(requests);
    let object = Arc::new(json!({ "spec": { "template": { "spec": {} } } }));
    for step in &view.check.spec.escalating_remediations {
        let present = TemplateView::Present(Arc::clone(&object));
        view.templates.insert(step.remediation_template.clone(), present);
    }
    view
}

/// The request of the machine from a template, created so many seconds ago.
fn from_template(template: &str, created: i64) -> Request {
    Request {
        created: Some(later(-created)),
        template: template.to_owned(),
        ..request("m-1", false)
    }
}

/// The templates of the requests that a plan creates.
fn created(plan: &Plan) -> Vec<Value> {
    let created = plan.actions.iter().filter_map(|action| match action {
        Action::CreateRequest { object, .. } => Some(object),
        _ => None,
    });
    let template = |object: &Value| object["metadata"]["annotations"]["machine.sapcloud.io/cloned-from-name"].clone();
    created.map(|object| template(object)).collect()
}

fn deletes(plan: &Plan) -> bool {
    let mut actions = plan.actions.iter();
    actions.any(|action| matches!(action, Action::DeleteRequest { .. }))
}

#[test]
fn the_next_template_is_recorded_before_the_request_of_the_last_one_is_deleted() {
    let mut view = escalating(down("m-1"), ("reboot", 301), vec![from_template("reboot", 301)]);
    let first = plan(&view);
    view.check.status = status(&view, &first);
    assert_eq!(view.check.status.remediations[0].template, "rebuild");
    let kinds: Vec<_> = first.actions.iter().map(std::mem::discriminant).collect();
    assert!(
        matches!(first.actions.first(), Some(Action::WriteStatus(_))),
        "{kinds:?}"
    );
    assert!(deletes(&first));
    // The old request is still there: nothing is created beside it.
    assert_eq!(created(&plan(&view)), [""; 0]);
    view.requests = RequestView::Known(Vec::new());
    assert_eq!(created(&plan(&view)), ["rebuild"]);
}

/// A request may be created long after the record of its template: because the machine was preserved, or because the previous
/// request had a finalizer. It still gets its whole timeout.
#[rstest]
#[case::created_at_once(301, 301, true)]
#[case::within_the_timeout(299, 299, false)]
#[case::created_after_a_preservation(4000, 60, false)]
#[case::expired_after_a_preservation(4000, 301, true)]
fn the_timeout_of_a_template_runs_from_its_request(
    #[case] recorded: i64,
    #[case] requested: i64,
    #[case] escalates: bool,
) {
    let requests = vec![from_template("reboot", requested)];
    let plan = plan(&escalating(down("m-1"), ("reboot", recorded), requests));
    assert_eq!(deletes(&plan), escalates);
}

#[test]
fn a_template_whose_turn_came_during_a_preservation_is_used_after_it() {
    let expiry = "/status/currentStatus/preserveExpiryTime";
    let preserved = with(machine("m-1"), expiry, json!("2099-01-01T00:00:00Z"));
    let preserved = target(preserved, &[("Ready", "Unknown", 400)]);
    let during = escalating(preserved, ("rebuild", 4000), Vec::new());
    let waiting = plan(&during);
    assert_eq!(created(&waiting), [""; 0]);
    assert_eq!(status(&during, &waiting).remediations[0].template, "rebuild");
    let after = escalating(down("m-1"), ("rebuild", 4000), Vec::new());
    assert_eq!(created(&plan(&after)), ["rebuild"]);
}

/// A process that ends between the record of the next template and the deletion leaves a request of the same kind.
#[test]
fn a_request_of_an_earlier_template_is_deleted_after_a_crash() {
    let left = escalating(down("m-1"), ("rebuild", 10), vec![from_template("reboot", 311)]);
    let after = plan(&left);
    assert!(deletes(&after));
    assert_eq!(created(&after), [""; 0]);
    assert_eq!(status(&left, &after).remediations[0].template, "rebuild");
}

/// Another template of the same rank: the request of the old one continues, and the next request is recorded as its own.
#[test]
fn a_template_that_the_policy_replaces_keeps_its_request() {
    let reference = "/spec/escalatingRemediations/0/remediationTemplate/name";
    let mut view = escalating(down("m-1"), ("reboot", 60), vec![from_template("reboot", 60)]);
    let mut object = serde_json::to_value(&view.check).unwrap();
    *object.pointer_mut(reference).unwrap() = json!("restart");
    view.check = serde_json::from_value(object).unwrap();
    let template = view.check.spec.escalating_remediations[0].remediation_template.clone();
    let object = Arc::new(json!({ "spec": { "template": { "spec": {} } } }));
    view.templates.insert(template, TemplateView::Present(object));
    assert!(!deletes(&plan(&view)));
    view.requests = RequestView::Known(Vec::new());
    let next = plan(&view);
    assert_eq!(created(&next), ["restart"]);
    assert_eq!(status(&view, &next).remediations[0].template, "restart");
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

#[test]
fn nothing_is_requested_of_another_controller_for_a_preserved_machine() {
    let preserved = with(
        machine("m-1"),
        "/status/currentStatus/preserveExpiryTime",
        json!("2099-01-01T00:00:00Z"),
    );
    let view = external(vec![target(preserved, &[("Ready", "Unknown", 400)])], Vec::new());
    let plan = plan(&view);
    assert!(
        !plan
            .actions
            .iter()
            .any(|action| matches!(action, Action::CreateRequest { .. }))
    );
    let status = status(&view, &plan);
    assert_eq!(status.remediations, []);
    let entry = &status.unhealthy[0];
    assert!(
        entry
            .message
            .ends_with("the machine is preserved until 2099-01-01T00:00:00Z"),
        "{}",
        entry.message
    );
}

/// A machine that is preserved while another controller repairs it: a request may delete it.
#[test]
fn the_request_of_a_machine_that_becomes_preserved_ends_and_its_record_stays() {
    let preserved = with(
        machine("m-1"),
        "/status/currentStatus/preserveExpiryTime",
        json!("2099-01-01T00:00:00Z"),
    );
    let view = external(
        vec![target(preserved, &[("Ready", "Unknown", 400)])],
        vec![request("m-1", false)],
    );
    let plan = plan(&view);
    assert!(deletes(&plan));
    let status = status(&view, &plan);
    assert_eq!(status.remediations[0].machine, "m-1");
    assert!(status.unhealthy[0].message.contains("the machine is preserved until"));
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
