//! Requests to other controllers: one object with the name of the machine, created from a template and deleted when the
//! machine is healthy again. Its creation and deletion are the only signals.
//!
//! The status of the check records a request before it is created and until it is gone, so that a check that does not know
//! its past, or whose templates have changed, still finds all its requests. A request that is being deleted may have a
//! finalizer of its controller: until it is gone, the machine counts as being remediated and gets no other request.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::NodeCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::health_check::{RequestedRemediation, TemplateReference};
use mcm_api::{Machine, MachineHealthCheck, keys};
use serde_json::{Map, Value, json};

use super::outcome::{Action, Remediated, Remediator};
use super::policy::{Escalation, Policy, Remediation};
use super::view::{Request, RequestKind, TemplateView, View};

/// The requests about one machine, and what the status records about it.
#[derive(Clone, Debug, Default)]
pub(super) struct MachineRequests<'a> {
    /// The request that is recorded; `None`: none is.
    pub entry: Option<RequestedRemediation>,
    /// The requests that the check created, and those that it continues.
    pub own: Vec<&'a Request>,
    /// The requests of a check that does not exist any more. The check continues them if it selects the machine.
    pub orphaned: Vec<&'a Request>,
    /// Whether another controller or a user created a request for the machine.
    pub foreign: bool,
}

impl MachineRequests<'_> {
    /// Whether the machine is being remediated.
    pub fn is_any(&self) -> bool {
        self.entry.is_some() || !self.own.is_empty() || self.foreign
    }
}

/// What remains to do for one machine.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// The record after this pass.
    pub entry: Option<RequestedRemediation>,
    /// Actions after the write of the record.
    pub actions: Vec<Action>,
    /// The reason and message of the condition `ExternallyRemediated`; `None`: it does not change.
    pub condition: Option<(&'static str, String)>,
    /// When the next template is due.
    pub next: Option<Timestamp>,
    /// Whether another controller, or the API server, has something to do before the next step, so that the check looks again
    /// soon.
    pub waits: bool,
    /// Whether the first request begins with this pass.
    pub begins: bool,
    /// What happens, for the status.
    pub text: String,
}

/// The requests about each machine, by its name.
pub(super) fn machine_requests<'a>(view: &'a View, policy: &Policy) -> BTreeMap<String, MachineRequests<'a>> {
    let check = view.check.metadata.name.as_deref().unwrap_or_default();
    let mut found: BTreeMap<String, MachineRequests> = BTreeMap::new();
    for entry in &view.check.status.remediations {
        found.entry(entry.machine.clone()).or_default().entry = Some(entry.clone());
    }
    let current = kinds_of(policy);
    for request in view.requests.known() {
        if defect!(RequestsFoundByCurrentTemplate) && !current.contains(&request.kind) {
            continue;
        }
        let machine_requests = found.entry(request.name.clone()).or_default();
        if request.check.as_deref() == Some(check) {
            machine_requests.own.push(request);
        } else if request.is_orphaned {
            machine_requests.orphaned.push(request);
        } else {
            machine_requests.foreign = true;
        }
    }
    found
}

/// The kinds of the requests of a policy.
pub(super) fn kinds_of(policy: &Policy) -> Vec<RequestKind> {
    match &policy.remediation {
        Remediation::Owner => Vec::new(),
        Remediation::External(steps) => steps.iter().map(|step| RequestKind::of(&step.template)).collect(),
    }
}

/// Ends the remediation of a machine that is healthy, gone, or not to be remediated by requests any more.
pub(super) fn end(machine_requests: &MachineRequests) -> Step {
    let mut step = Step {
        // The record stays until a later pass finds no request.
        entry: machine_requests
            .entry
            .clone()
            .filter(|_| !machine_requests.own.is_empty()),
        waits: !machine_requests.own.is_empty(),
        ..Step::default()
    };
    if defect!(FinalizerHidesEnd) {
        step.waits = false;
    }
    step.actions = deletions(&machine_requests.own, Remediated::Ended(Remediator::External));
    step
}

fn deletions(requests: &[&Request], remediated: Remediated) -> Vec<Action> {
    let requests = requests.iter().filter(|request| !request.deleting);
    requests
        .map(|request| Action::DeleteRequest {
            kind: request.kind.clone(),
            name: request.name.clone(),
            uid: request.uid.clone(),
            remediated,
        })
        .collect()
}

/// Continues the remediation of an unhealthy machine, or begins it if `may_begin`.
pub(super) fn go_on(
    view: &View,
    machine: &Machine,
    machine_requests: &MachineRequests,
    steps: &[Escalation],
    may_begin: bool,
    now: Timestamp,
) -> Step {
    let entry = machine_requests
        .entry
        .clone()
        .or_else(|| rebuilt(machine, machine_requests, steps));
    let entry = entry.filter(|entry| Some(&entry.uid) == machine.metadata.uid.as_ref());
    if machine_requests.foreign && !defect!(ChecksRemediateTogether) {
        return Step {
            entry,
            waits: true,
            text: FOREIGN.to_owned(),
            ..Step::default()
        };
    }
    if machine.status.is_kept() {
        // Requests that exist end, too: some delete the machine. The record lets them continue after the preservation.
        return Step {
            entry,
            actions: deletions(&machine_requests.own, Remediated::Ended(Remediator::External)),
            waits: !machine_requests.own.is_empty(),
            text: kept(machine),
            ..Step::default()
        };
    }
    let recorded = entry.as_ref().and_then(|entry| position(entry, steps));
    let Some(current) = steps.get(recorded.unwrap_or_default()) else {
        return Step::default();
    };
    let of_current = |request: &Request| is_of(request, entry.as_ref(), current);
    let live = machine_requests.own.iter().find(|one| of_current(one)).copied();
    let others: Vec<&Request> = machine_requests
        .own
        .iter()
        .filter(|one| !of_current(one))
        .copied()
        .collect();
    if !others.is_empty() || live.is_some_and(|request| request.deleting) {
        return Step {
            entry,
            actions: deletions(&others, Remediated::Escalated),
            waits: !defect!(FinalizerHidesEnd),
            text: "the previous request ends".to_owned(),
            ..Step::default()
        };
    }
    if let Some(request) = live {
        return under_way(request, entry, current, steps, recorded.unwrap_or_default(), now);
    }
    if !may_begin {
        return Step {
            entry,
            ..Step::default()
        };
    }
    create(view, machine, entry, current, now)
}

/// Whether a request is that of the current template. One of an earlier template may have the same kind: a process that ends
/// after the record of the next template leaves it behind.
fn is_of(request: &Request, entry: Option<&RequestedRemediation>, current: &Escalation) -> bool {
    let is_recorded = entry.is_none_or(|entry| request.template.is_empty() || request.template == entry.template);
    is_recorded && request.kind == RequestKind::of(&current.template)
}

/// Why nothing is requested for a preserved machine: a repair would change what is to be analysed.
fn kept(machine: &Machine) -> String {
    match &machine.status.current_status.preserve_expiry_time {
        Some(expiry) => format!("the machine is preserved until {}", expiry.0),
        None => "the machine is preserved".to_owned(),
    }
}

/// A request of the current template exists.
fn under_way(
    request: &Request,
    entry: Option<RequestedRemediation>,
    current: &Escalation,
    steps: &[Escalation],
    index: usize,
    now: Timestamp,
) -> Step {
    // A template is recorded when the previous one has not helped. Its request may be created much later: after the end of a
    // preservation, or when the previous request is gone. The timeout runs from then on.
    let recorded_at = entry.as_ref().and_then(|entry| entry.since.as_ref()).map(|time| time.0);
    let end = current
        .timeout
        .zip(recorded_at.max(request.created))
        .and_then(|(timeout, begun)| begun.checked_add(timeout).ok());
    let next = steps.get(index + 1).filter(|_| end.is_some_and(|end| end < now));
    let Some(next) = next else {
        return Step {
            entry,
            condition: Some((WAITING, format!("{} {} exists", request.kind.kind, request.name))),
            next: end.and_then(|end| end.checked_add(std::time::Duration::from_secs(1)).ok()),
            waits: true,
            text: format!("{} {} exists", request.kind.kind, request.name),
            ..Step::default()
        };
    };
    // The record of the next template is written before the request of this one is deleted.
    let entry = entry.map(|entry| recorded(entry.machine, entry.uid, next, now));
    Step {
        actions: deletions(&[request], Remediated::Escalated),
        waits: true,
        text: format!("{} did not help; {} is next", current.template.name, next.template.name),
        entry,
        ..Step::default()
    }
}

/// Begins the request of the current template.
fn create(
    view: &View,
    machine: &Machine,
    entry: Option<RequestedRemediation>,
    current: &Escalation,
    now: Timestamp,
) -> Step {
    let name = machine.metadata.name.clone().unwrap_or_default();
    let template = &current.template;
    let missing = |why: String| Step {
        entry: entry.clone(),
        condition: Some((TEMPLATE_NOT_FOUND, why.clone())),
        waits: true,
        text: why,
        ..Step::default()
    };
    let object = match view.templates.get(template) {
        None | Some(TemplateView::Missing) => {
            return missing(format!(
                "{} {} does not exist in the namespace of the check: create it, or correct its name",
                template.kind, template.name
            ));
        }
        Some(TemplateView::Unreadable(why)) => {
            return missing(format!("{} {} cannot be read: {why}", template.kind, template.name));
        }
        Some(TemplateView::Present(object)) => object,
    };
    let Some(spec) = object.pointer("/spec/template/spec") else {
        return missing(format!("{} {} has no spec.template.spec", template.kind, template.name));
    };
    if let Some(error) = view.failed_requests.get(&name) {
        return Step {
            entry,
            condition: Some((CREATION_FAILED, error.clone())),
            waits: true,
            text: format!("the request cannot be created: {error}"),
            ..Step::default()
        };
    }
    let kind = RequestKind::of(template);
    let created = Action::CreateRequest {
        machine: name.clone(),
        kind: kind.clone(),
        object: Box::new(request(&view.check, machine, template, object, spec)),
    };
    let uid = machine.metadata.uid.clone().unwrap_or_default();
    let begins = entry.is_none();
    // The policy may name another template of the same rank since.
    let entry = entry.filter(|entry| is_entry_of(entry, current));
    Step {
        entry: entry.or_else(|| Some(recorded(name.clone(), uid, current, now))),
        actions: vec![created],
        condition: Some((WAITING, format!("{} {name} exists", kind.kind))),
        next: None,
        waits: true,
        begins,
        text: format!("{} {name} is created", kind.kind),
    }
}

/// What the status says about a request of another controller, or of a user.
pub(super) const FOREIGN: &str = "a request for the machine exists that the check did not create";
/// The controller of the request has not finished.
pub(super) const WAITING: &str = "WaitingForRemediation";
const TEMPLATE_NOT_FOUND: &str = "RemediationTemplateNotFound";
const CREATION_FAILED: &str = "RemediationRequestCreationFailed";

fn recorded(machine: String, uid: String, step: &Escalation, now: Timestamp) -> RequestedRemediation {
    let kind = RequestKind::of(&step.template);
    RequestedRemediation {
        machine,
        uid,
        api_version: kind.api_version,
        kind: kind.kind,
        template: step.template.name.clone(),
        order: step.order,
        since: Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
    }
}

/// Whether the record names the template of the step.
fn is_entry_of(entry: &RequestedRemediation, step: &Escalation) -> bool {
    let kind = RequestKind::of(&step.template);
    (&entry.template, entry.order) == (&step.template.name, step.order)
        && (&entry.api_version, &entry.kind) == (&kind.api_version, &kind.kind)
}

/// The record of a request that exists without one.
fn rebuilt(
    machine: &Machine,
    machine_requests: &MachineRequests,
    steps: &[Escalation],
) -> Option<RequestedRemediation> {
    let request = machine_requests.own.first()?;
    let of_request =
        |step: &&Escalation| step.template.name == request.template && RequestKind::of(&step.template) == request.kind;
    let order = steps.iter().find(of_request).map_or(0, |step| step.order);
    Some(RequestedRemediation {
        machine: machine.metadata.name.clone()?,
        uid: machine.metadata.uid.clone()?,
        api_version: request.kind.api_version.clone(),
        kind: request.kind.kind.clone(),
        template: request.template.clone(),
        order,
        since: request.created.map(Time),
    })
}

/// The index of the template that is recorded; `None`: the policy does not have it any more.
fn position(entry: &RequestedRemediation, steps: &[Escalation]) -> Option<usize> {
    steps.iter().position(|step| step.order == entry.order)
}

/// The request: the template's labels, annotations and spec, owned by the machine.
fn request(
    check: &MachineHealthCheck,
    machine: &Machine,
    template: &TemplateReference,
    object: &Value,
    spec: &Value,
) -> Value {
    let given = |field: &str| {
        let map = object.pointer(&format!("/spec/template/metadata/{field}"));
        map.and_then(Value::as_object).cloned().unwrap_or_default()
    };
    let mut annotations = given("annotations");
    let mut annotate = |key: &str, value: &str| annotations.insert(key.to_owned(), json!(value));
    annotate(keys::CLONED_FROM_NAME_ANNOTATION, &template.name);
    annotate(
        keys::CLONED_FROM_KIND_ANNOTATION,
        &format!("{}, Kind={}", template.api_version, template.kind),
    );
    annotate(
        keys::HEALTH_CHECK_ANNOTATION,
        check.metadata.name.as_deref().unwrap_or_default(),
    );
    let mut metadata = Map::new();
    metadata.insert("name".to_owned(), json!(machine.metadata.name));
    metadata.insert("namespace".to_owned(), json!(machine.metadata.namespace));
    let labels = given("labels");
    if !labels.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(labels));
    }
    metadata.insert("annotations".to_owned(), Value::Object(annotations));
    metadata.insert(
        "ownerReferences".to_owned(),
        json!([{
            "apiVersion": "machine.sapcloud.io/v1alpha1",
            "kind": "Machine",
            "name": machine.metadata.name,
            "uid": machine.metadata.uid,
        }]),
    );
    let kind = RequestKind::of(template);
    json!({ "apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec })
}

/// Whether the machine has a condition about requests.
pub(super) fn has_condition(conditions: &[NodeCondition]) -> bool {
    conditions
        .iter()
        .any(|condition| condition.type_ == keys::EXTERNALLY_REMEDIATED)
}
