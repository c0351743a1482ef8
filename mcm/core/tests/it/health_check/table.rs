//! Every cell of check, connection, node, machine, requests and limits, against the oracle.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::health_check::{MachineHealthCheckStatus, RequestedRemediation};
use mcm_api::{Machine, MachineHealthCheck, keys};
use mcm_core::health_check::{
    Action, Connection, NodeState, Plan, Request, RequestKind, RequestView, Settings, Target, TemplateView, View,
    decide, normalize,
};
use serde_json::{Value, json};

use super::oracle::{Cell, Outcome, outcome, quotations};

const PAGE: &str = include_str!("../../../../../docs/using/machine-health-check.md");

const CHECKS: [&str; 3] = ["active", "paused", "overlaps"];
const CONNECTIONS: [&str; 3] = ["up", "lost", "back"];
const ANNOTATIONS: [&str; 3] = ["-", "skip", "remediate"];
const LIVES: [&str; 4] = ["alive", "deleting", "preserved", "standalone"];
const NODES: [&str; 6] = ["starting", "late", "deleted", "ready", "failing", "failed"];
const MARKS: [&str; 3] = ["-", "marked", "requested"];
const BY: [&str; 3] = ["owner", "template", "no-template"];
const REQUESTS: [&str; 4] = ["-", "exists", "ends", "foreign"];
const LIMITS: [&str; 4] = ["open", "closed", "cooldown", "taken"];

/// The machine of the cell.
const MACHINE: &str = "m-1";

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn later(seconds: i64) -> Timestamp {
    now().checked_add(SignedDuration::from_secs(seconds)).unwrap()
}

/// Selects an element by a mixed-radix digit of the number.
fn pick(number: &mut usize, all: &[&'static str]) -> &'static str {
    let one = all[*number % all.len()];
    *number /= all.len();
    one
}

/// Every cell; a check that does nothing meets one limit only.
fn cells() -> impl Iterator<Item = Cell<'static>> {
    let of_machine = ANNOTATIONS.len() * LIVES.len() * NODES.len() * MARKS.len();
    let count = CHECKS.len() * CONNECTIONS.len() * of_machine * BY.len() * REQUESTS.len() * LIMITS.len();
    let cells = (0..count).map(|mut number| Cell {
        check: pick(&mut number, &CHECKS),
        connection: pick(&mut number, &CONNECTIONS),
        annotation: pick(&mut number, &ANNOTATIONS),
        life: pick(&mut number, &LIVES),
        node: pick(&mut number, &NODES),
        mark: pick(&mut number, &MARKS),
        by: pick(&mut number, &BY),
        request: pick(&mut number, &REQUESTS),
        limit: pick(&mut number, &LIMITS),
    });
    cells.filter(|cell| cell.check == "active" && cell.connection != "lost" || cell.limit == "open")
}

fn condition(type_: &str, status: &str, since: i64) -> Value {
    json!({ "type": type_, "status": status, "lastTransitionTime": later(-since).to_string() })
}

fn machine(name: &str, cell: &Cell<'_>) -> Machine {
    let has_joined = !matches!(cell.node, "starting" | "late");
    let age = if cell.node == "starting" { 60 } else { 86_400 };
    let mut conditions: Vec<Value> = has_joined
        .then(|| condition("Ready", "True", 80_000))
        .into_iter()
        .collect();
    if cell.mark != "-" {
        conditions.push(condition(keys::HEALTH_CHECK_SUCCEEDED, "False", 60));
    }
    if cell.mark == "requested" {
        conditions.push(condition(keys::OWNER_REMEDIATED, "False", 60));
    }
    let mut object = json!({
        "metadata": {
            "name": name, "namespace": "garden", "uid": format!("uid-{name}"),
            "creationTimestamp": later(-age).to_string(), "labels": { "node": name, "name": "pool" },
        },
        "spec": { "class": { "kind": "MachineClass", "name": "small" } },
        "status": { "currentStatus": { "phase": "Running" }, "conditions": conditions },
    });
    if cell.life != "standalone" {
        let set = json!({ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineSet", "name": "s", "uid": "s", "controller": true });
        object["metadata"]["ownerReferences"] = json!([set]);
    }
    match cell.life {
        "deleting" => object["metadata"]["deletionTimestamp"] = json!(later(-5).to_string()),
        "preserved" => object["status"]["currentStatus"]["preserveExpiryTime"] = json!(later(9000).to_string()),
        _ => {}
    }
    let annotation = match cell.annotation {
        "skip" => Some(keys::SKIP_REMEDIATION_ANNOTATION),
        "remediate" => Some(keys::REMEDIATE_MACHINE_ANNOTATION),
        _ => None,
    };
    if let Some(annotation) = annotation {
        object["metadata"]["annotations"] = json!({ annotation: "true" });
    }
    serde_json::from_value(object).unwrap()
}

fn target(name: &str, cell: &Cell<'_>) -> Target {
    let conditions = match cell.node {
        "ready" => vec![condition("Ready", "True", 9000)],
        "failing" => vec![condition("Ready", "Unknown", 100)],
        "failed" => vec![condition("Ready", "Unknown", 400)],
        _ => Vec::new(),
    };
    let node = json!({ "metadata": { "name": name }, "status": { "conditions": conditions } });
    Target {
        machine: Arc::new(machine(name, cell)),
        node: match cell.node {
            "starting" | "late" | "deleted" => NodeState::Absent,
            _ => NodeState::Present(Arc::new(serde_json::from_value(node).unwrap())),
        },
    }
}

/// A second machine: it makes the limit what the cell says.
fn neighbour(cell: &Cell<'_>) -> Target {
    let (node, mark) = match cell.limit {
        "closed" => ("failed", "-"),
        "taken" => ("failed", "requested"),
        _ => ("ready", "-"),
    };
    let cell = Cell {
        annotation: "-",
        life: "alive",
        node,
        mark,
        ..*cell
    };
    target("m-2", &cell)
}

fn check(cell: &Cell<'_>) -> MachineHealthCheck {
    let template = json!({ "apiVersion": "example.com/v1", "kind": "RepairTemplate", "name": "repair" });
    let mut spec = json!({
        "selector": { "matchLabels": { "name": "pool" } },
        "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "5m" }],
        "stormCooldown": "5m",
    });
    match cell.limit {
        "closed" => spec["maxUnhealthy"] = json!(0),
        "taken" => spec["maxInFlight"] = json!(1),
        _ => {}
    }
    if cell.by != "owner" {
        spec["remediationTemplate"] = template;
    }
    let annotations = if cell.check == "paused" {
        json!({ keys::PAUSED_ANNOTATION: "" })
    } else {
        json!({})
    };
    let object = json!({
        "metadata": { "name": "workers", "namespace": "garden", "uid": "c", "annotations": annotations },
        "spec": spec,
    });
    let mut check: MachineHealthCheck = serde_json::from_value(object).unwrap();
    if matches!(cell.request, "exists" | "ends") {
        check.status.remediations = vec![RequestedRemediation {
            machine: MACHINE.to_owned(),
            uid: format!("uid-{MACHINE}"),
            api_version: "example.com/v1".to_owned(),
            kind: "Repair".to_owned(),
            template: "repair".to_owned(),
            since: Some(Time(later(-30))),
            ..RequestedRemediation::default()
        }];
    }
    check.status.cooldown_until = (cell.limit == "cooldown").then(|| Time(later(100)));
    check
}

fn view(cell: &Cell<'_>) -> View {
    let check = check(cell);
    let request = Request {
        kind: RequestKind {
            api_version: "example.com/v1".to_owned(),
            kind: "Repair".to_owned(),
        },
        name: MACHINE.to_owned(),
        uid: "request".to_owned(),
        created: Some(later(-30)),
        deleting: cell.request == "ends",
        check: (cell.request != "foreign").then(|| "workers".to_owned()),
        template: "repair".to_owned(),
        ..Request::default()
    };
    let template = match cell.by {
        "template" => TemplateView::Present(Arc::new(json!({ "spec": { "template": { "spec": {} } } }))),
        _ => TemplateView::Missing,
    };
    let reference = check.spec.remediation_template.clone();
    let overlaps = (cell.check == "overlaps").then(|| (MACHINE.to_owned(), "other".to_owned()));
    View {
        targets: vec![target(MACHINE, cell), neighbour(cell)],
        overlaps: overlaps.into_iter().collect(),
        connection: match cell.connection {
            "lost" => Connection::Lost { since: later(-40) },
            "back" => Connection::Up {
                since: None,
                after_outage: Some(later(-30)),
            },
            _ => Connection::default(),
        },
        requests: RequestView::Known((cell.request != "-").then_some(request).into_iter().collect()),
        templates: reference
            .into_iter()
            .map(|reference| (reference, template.clone()))
            .collect(),
        check,
        failed_requests: BTreeMap::new(),
    }
}

/// What the plan does about the machine of the cell.
fn decided(cell: &Cell<'_>) -> Outcome<'static> {
    let view = view(cell);
    let policy = normalize(&view.check.spec, "garden");
    let plan = decide(
        &view,
        policy.as_ref().map_err(Vec::as_slice),
        &Settings::default(),
        now(),
    );
    let written = plan.actions.iter().find_map(|action| match action {
        Action::WriteConditions {
            machine, conditions, ..
        } if machine == MACHINE => Some(conditions.clone()),
        _ => None,
    });
    let before = view.targets[0].machine.status.conditions.clone();
    let asked = |conditions: &[_]| has(conditions, keys::OWNER_REMEDIATED) == "False";
    let after = written.unwrap_or_else(|| before.clone());
    Outcome {
        mark: has(&after, keys::HEALTH_CHECK_SUCCEEDED),
        action: match requested(&plan) {
            "-" if asked(&after) && !asked(&before) => "ask",
            action => action,
        },
        listed: listed(&status(&view, &plan)),
    }
}

fn has(conditions: &[k8s_openapi::api::core::v1::NodeCondition], type_: &str) -> &'static str {
    let found = conditions.iter().find(|condition| condition.type_ == type_);
    match found.map(|condition| condition.status.as_str()) {
        Some("True") => "True",
        Some("False") => "False",
        _ => "-",
    }
}

fn requested(plan: &Plan) -> &'static str {
    let of_machine = plan.actions.iter().find_map(|action| match action {
        Action::CreateRequest { machine, .. } if machine == MACHINE => Some("create"),
        Action::DeleteRequest { name, .. } if name == MACHINE => Some("delete"),
        _ => None,
    });
    of_machine.unwrap_or("-")
}

fn status(view: &View, plan: &Plan) -> MachineHealthCheckStatus {
    let written = plan.actions.iter().find_map(|action| match action {
        Action::WriteStatus(status) => Some((**status).clone()),
        _ => None,
    });
    written.unwrap_or_else(|| view.check.status.clone())
}

fn listed(status: &MachineHealthCheckStatus) -> &'static str {
    const REASONS: [&str; 7] = [
        "HasRemediateAnnotation",
        "NodeDeleted",
        "NodeStartupTimeout",
        "NotEvaluated",
        "Pending",
        "Recovered",
        "UnhealthyNode",
    ];
    let entry = status.unhealthy.iter().find(|entry| entry.machine == MACHINE);
    entry.map_or("-", |entry| {
        let reason = REASONS.into_iter().find(|reason| *reason == entry.reason);
        reason.unwrap_or("another reason")
    })
}

#[test]
fn every_quotation_is_on_the_page() {
    // Lines of the page are wrapped.
    let page = PAGE.replace('\n', " ");
    let missing: Vec<_> = quotations().filter(|quotation| !page.contains(quotation)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_cell_matches_the_oracle() {
    let all: Vec<_> = cells().map(|cell| (outcome(&cell), decided(&cell), cell)).collect();
    assert!(all.len() > 30_000, "{} cells", all.len());
    let wrong: Vec<_> = all
        .iter()
        .filter(|(expected, decided, _)| expected != decided)
        .collect();
    let listed: Vec<_> = wrong
        .iter()
        .take(20)
        .map(|(expected, decided, cell)| format!("{cell:?}: {decided:?}, not {expected:?}"))
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {} wrong:\n{}",
        wrong.len(),
        all.len(),
        listed.join("\n")
    );
}
