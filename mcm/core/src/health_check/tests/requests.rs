//! Passes with requests to other controllers.

use k8s_openapi::api::core::v1::NodeCondition;
use rstest::rstest;

use super::super::{Request, RequestKind, RequestView, TemplateView};
use super::*;

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
        is_orphaned: false,
        template: "reboot".to_owned(),
    }
}

/// The request that another check created.
fn request_of_another(machine: &str, is_orphaned: bool) -> Request {
    Request {
        check: Some("gone".to_owned()),
        is_orphaned,
        ..request(machine, false)
    }
}

#[rstest]
#[case::of_an_existing_check(false, false)]
#[case::of_a_check_that_is_gone(true, true)]
fn a_request_of_a_check_that_is_gone_is_continued(#[case] is_orphaned: bool, #[case] continued: bool) {
    let requests = vec![
        request_of_another("m-1", is_orphaned),
        request_of_another("m-2", is_orphaned),
    ];
    let view = external(vec![down("m-1"), up("m-2")], requests);
    let plan = plan(&view);
    let recorded = status(&view, &plan).remediations;
    assert_eq!(recorded.iter().any(|entry| entry.machine == "m-1"), continued);
    let deleted = plan.actions.iter().filter_map(|action| match action {
        Action::DeleteRequest { name, .. } => Some(name.as_str()),
        _ => None,
    });
    let expected: &[&str] = if continued { &["m-2"] } else { &[] };
    assert_eq!(deleted.collect::<Vec<_>>(), expected, "m-2 is healthy again");
}

/// A check that does not select the machine leaves the request alone.
#[test]
fn a_request_of_a_check_that_is_gone_is_not_taken_from_the_machines_of_others() {
    let view = external(vec![up("m-1")], vec![request_of_another("elsewhere", true)]);
    let deletes = |action: &Action| matches!(action, Action::DeleteRequest { .. });
    assert!(!plan(&view).actions.iter().any(deletes));
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

/// The machine with the condition about its request.
fn requested(target: Target) -> Target {
    let mut machine = (*target.machine).clone();
    machine.status.conditions.push(NodeCondition {
        type_: "ExternallyRemediated".to_owned(),
        status: "False".to_owned(),
        ..NodeCondition::default()
    });
    Target {
        machine: Arc::new(machine),
        ..target
    }
}

/// Whether the machine has the condition about its request after the pass.
fn says_requested(plan: &Plan) -> bool {
    let written = plan.actions.iter().find_map(|action| match action {
        Action::WriteConditions { conditions, .. } => Some(conditions),
        _ => None,
    });
    written.is_none_or(|conditions| conditions.iter().any(|one| one.type_ == "ExternallyRemediated"))
}

/// As for a machine that is not selected any more.
#[rstest]
#[case::skipped("machine.sapcloud.io/skip-remediation")]
#[case::paused("machine.sapcloud.io/paused")]
fn the_request_about_an_excluded_machine_ends(#[case] annotation: &str) {
    let excluded = || {
        let machine = annotated(machine("m-1"), json!({ annotation: "" }));
        requested(target(machine, &[("Ready", "Unknown", 400)]))
    };
    let plan_with = |requests| {
        let view = external(vec![excluded()], requests);
        plan(&view)
    };
    let ends = plan_with(vec![request("m-1", false)]);
    let deletes = |action: &Action| matches!(action, Action::DeleteRequest { name, .. } if name == "m-1");
    assert!(ends.actions.iter().any(deletes), "{:?}", ends.actions);
    assert!(says_requested(&ends));
    let over = plan_with(Vec::new());
    assert!(!says_requested(&over), "{:?}", over.actions);
}

/// The check had a template before.
#[test]
fn the_owner_takes_over_from_another_controller() {
    let view = view(check(json!({})), vec![requested(down("m-1"))]);
    let plan = plan(&view);
    assert_eq!(asked(&plan), ["m-1"]);
    assert!(!says_requested(&plan));
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
