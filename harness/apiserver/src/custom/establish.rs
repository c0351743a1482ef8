//! Defaults and status of a definition. Upstream controllers write the status some time after the definition; here
//! the write includes both, so that a definition is served immediately.

use serde_json::{Map, Value, json};

use super::approval::{Approval, approval};
use super::{is_true, items, text, texts};

/// Sets defaults and updates the status: accepted names, stored versions, conditions. `now` is the time in Kubernetes
/// format; unchanged conditions keep their transition time.
pub fn establish(crd: &mut Value, now: &str) {
    default_names(crd);
    if text(crd, "/spec/conversion/strategy").is_empty() {
        set(crd, "spec", "conversion", json!({ "strategy": "None" }));
    }
    let mut accepted = crd.pointer("/spec/names").cloned().unwrap_or_else(|| json!({}));
    if items(&accepted, "/categories").is_empty()
        && let Some(names) = accepted.as_object_mut()
    {
        names.remove("categories");
    }
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
    let accepted = ("NamesAccepted", "True");
    put_condition(crd, now, accepted, "NoConflicts", "no conflicts found");
    let message = "the initial names have been accepted";
    put_condition(crd, now, ("Established", "True"), "InitialNamesAccepted", message);
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
    let is_current = |condition: &Value| text(condition, "/type") == type_ && text(condition, "/status") == status;
    if conditions.iter().any(is_current) {
        return;
    }
    conditions.retain(|condition| text(condition, "/type") != type_);
    conditions.push(json!({
        "type": type_, "status": status, "lastTransitionTime": now, "reason": reason, "message": message,
    }));
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
