//! Defaults and status of a definition. Upstream controllers write the status some time after the definition; here
//! the write includes both, so that a definition is served immediately.

use serde_json::{Map, Value, json};

use super::approval::{Approval, approval};
use super::conversion;
use super::names::{Conflict, TakenNames};
use super::{is_true, items, text, texts};

/// The condition of a definition whose resources are served.
const ESTABLISHED: &str = "Established";

/// Sets defaults and updates the status: accepted names, stored versions, conditions. `now` is the time in Kubernetes
/// format; unchanged conditions keep their transition time.
///
/// A definition whose names belong to another one of its group, in `taken`, is established when they are free.
pub fn establish(crd: &mut Value, now: &str, taken: &TakenNames) {
    default_names(crd);
    conversion::default(crd);
    let (accepted, conflict) = taken.accept(crd);
    set(crd, "status", "acceptedNames", accepted);
    let mut stored = texts(crd, "/status/storedVersions");
    let storage = items(crd, "/spec/versions")
        .iter()
        .find(|version| is_true(version, "/storage"));
    let storage = storage
        .map(|version| text(version, "/name").to_owned())
        .unwrap_or_default();
    if !storage.is_empty() && !stored.contains(&storage) {
        stored.push(storage);
    }
    set(crd, "status", "storedVersions", stored.into());
    const APPROVAL: &str = "KubernetesAPIApprovalPolicyConformant";
    match approval(crd) {
        Approval::Approved(address) => {
            let message = format!("approved in {address}");
            put_condition(crd, now, (APPROVAL, "True"), "ApprovedAnnotation", &message);
        }
        Approval::Bypassed(reason) => {
            let message = format!("not approved: {reason:?}");
            put_condition(crd, now, (APPROVAL, "False"), "UnapprovedAnnotation", &message);
        }
        Approval::NotNeeded | Approval::Missing | Approval::Invalid(_) => {}
    }
    const NAMES: &str = "NamesAccepted";
    match &conflict {
        None => put_condition(crd, now, (NAMES, "True"), "NoConflicts", "no conflicts found"),
        Some(Conflict { reason, message }) => put_condition(crd, now, (NAMES, "False"), reason, message),
    }
    if is_established(crd) {
        return;
    }
    let (status, reason, message) = match conflict {
        None if !conversion::has_valid_bundle(crd) => {
            ("False", "InvalidCABundle", "The conversion webhook CABundle is invalid")
        }
        None => ("True", "InitialNamesAccepted", "the initial names have been accepted"),
        Some(_) => ("False", "NotAccepted", "not all names are accepted"),
    };
    put_condition(crd, now, (ESTABLISHED, status), reason, message);
}

/// Whether the resources of a definition are served.
pub fn is_established(crd: &Value) -> bool {
    has_condition(crd, ESTABLISHED, "True")
}

/// Whether names of a definition are not accepted.
pub fn waits_for_names(crd: &Value) -> bool {
    has_condition(crd, "NamesAccepted", "False")
}

fn has_condition(crd: &Value, type_: &str, status: &str) -> bool {
    let mut conditions = items(crd, "/status/conditions").iter();
    conditions.any(|condition| text(condition, "/type") == type_ && text(condition, "/status") == status)
}

fn default_names(crd: &mut Value) {
    let kind = text(crd, "/spec/names/kind").to_owned();
    let Some(names) = crd.pointer_mut("/spec/names").and_then(Value::as_object_mut) else {
        return;
    };
    for (field, default) in [("singular", kind.to_lowercase()), ("listKind", format!("{kind}List"))] {
        let unset = names.get(field).and_then(Value::as_str).is_none_or(str::is_empty);
        if unset && !kind.is_empty() {
            names.insert(field.to_owned(), default.into());
        }
    }
}

fn put_condition(crd: &mut Value, now: &str, (type_, status): (&str, &str), reason: &str, message: &str) {
    let mut conditions = items(crd, "/status/conditions").to_vec();
    let mut new = json!({
        "type": type_, "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
    });
    let known = conditions
        .iter_mut()
        .find(|condition| text(condition, "/type") == type_);
    match known {
        None => conditions.push(new),
        Some(known) => {
            if text(known, "/status") == status {
                new["lastTransitionTime"] = known["lastTransitionTime"].take();
            }
            *known = new;
        }
    }
    set(crd, "status", "conditions", conditions.into());
}

fn set(crd: &mut Value, parent: &str, field: &str, value: Value) {
    let Some(members) = crd.as_object_mut() else { return };
    let parent = members.entry(parent).or_insert(Value::Null);
    if parent.is_null() {
        *parent = Value::Object(Map::new());
    }
    if let Some(parent) = parent.as_object_mut() {
        parent.insert(field.to_owned(), value);
    }
}
