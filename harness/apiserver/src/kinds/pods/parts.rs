//! The subresources of pods that change one part of the spec: `/resize` and `/ephemeralcontainers`.

use serde_json::Value;

use super::{quality, spec};
use crate::kinds::fields::{items, items_mut, object, same, text};
use crate::status::FieldError;

const LISTS: [&str; 2] = ["containers", "initContainers"];

/// Restores everything except what `/resize` changes: the resources and the resize policies of containers. Changes of
/// the list of containers stay, for [`validate_resize`].
pub(crate) fn keep_only_resize(new: &mut Value, old: &Value) {
    let wanted = new.clone();
    let names = |pod: &Value, list: &str| -> Vec<String> {
        let containers = items(pod, &format!("/spec/{list}")).iter();
        containers
            .map(|container| text(container, "/name").to_owned())
            .collect()
    };
    if LISTS
        .iter()
        .any(|list| names(new, list).len() != names(old, list).len())
    {
        return;
    }
    *new = old.clone();
    for list in LISTS {
        let changes = items(&wanted, &format!("/spec/{list}"));
        if names(&wanted, list) != names(old, list) {
            if let Some(spec) = object(new, "/spec") {
                spec.insert(list.to_owned(), changes.to_vec().into());
            }
            continue;
        }
        for (container, change) in items_mut(new, &format!("/spec/{list}")).iter_mut().zip(changes) {
            for field in ["resources", "resizePolicy"] {
                if let (Some(container), Some(value)) = (container.as_object_mut(), change.get(field)) {
                    container.insert(field.to_owned(), value.clone());
                }
            }
        }
    }
    if let (Some(spec), Some(resources)) = (object(new, "/spec"), wanted.pointer("/spec/resources")) {
        spec.insert("resources".to_owned(), resources.clone());
    }
}

/// Checks an update of `/resize`.
pub(crate) fn validate_resize(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(old) = old else { return errors };
    spec::validate(&mut errors, new.get("spec").unwrap_or(&Value::Null), "spec");
    if quality::of(new) != quality::of(old) {
        let class = text(old, "/status/qosClass");
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid("spec", class, why));
    }
    for list in LISTS {
        let (now, before) = (
            items(new, &format!("/spec/{list}")),
            items(old, &format!("/spec/{list}")),
        );
        if now.len() != before.len() {
            let why = format!("{list} may not be added or removed on resize");
            errors.push(FieldError::forbidden(format!("spec.{list}"), why));
            continue;
        }
        for (index, (now, before)) in now.iter().zip(before).enumerate() {
            validate_container(&mut errors, now, before, &format!("spec.{list}[{index}]"));
        }
    }
    errors
}

fn validate_container(errors: &mut Vec<FieldError>, now: &Value, before: &Value, path: &str) {
    if text(now, "/name") != text(before, "/name") {
        let why = "containers may not be renamed or reordered on resize";
        errors.push(FieldError::forbidden(format!("{path}.name"), why));
        return;
    }
    for list in ["requests", "limits"] {
        let of = |container: &Value, name: &str| container.pointer(&format!("/resources/{list}/{name}")).cloned();
        for name in ["cpu", "memory"] {
            if of(before, name).is_some() && of(now, name).is_none() {
                let why = format!("resource {list} cannot be removed");
                errors.push(FieldError::forbidden(format!("{path}.resources.{list}"), why));
            }
        }
    }
    let fixed = |container: &Value| {
        let mut container = container.clone();
        for list in ["requests", "limits"] {
            if let Some(amounts) = container
                .pointer_mut(&format!("/resources/{list}"))
                .and_then(Value::as_object_mut)
            {
                amounts.retain(|name, _| name != "cpu" && name != "memory");
            }
        }
        container
    };
    if !same(Some(&fixed(now)), Some(&fixed(before))) {
        errors.push(FieldError::forbidden(
            "spec",
            "only cpu and memory resources are mutable",
        ));
    }
}

/// Checks an update of `/ephemeralcontainers`: containers are added, and do not change afterwards.
pub(crate) fn validate_ephemeral(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    const PATH: &str = "spec.ephemeralContainers";
    let mut errors = Vec::new();
    let containers = items(new, "/spec/ephemeralContainers");
    let others = LISTS.iter().flat_map(|list| items(new, &format!("/spec/{list}")));
    let mut names: Vec<&str> = others.map(|container| text(container, "/name")).collect();
    for (index, container) in containers.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        let (name, image) = (text(container, "/name"), text(container, "/image"));
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else if names.contains(&name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        }
        names.push(name);
        if image.is_empty() {
            errors.push(FieldError::required(format!("{path}.image"), ""));
        }
        for field in ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"] {
            if !same(container.get(field), None) {
                let why = "cannot be set for an Ephemeral Container";
                errors.push(FieldError::forbidden(format!("{path}.{field}"), why));
            }
        }
        let target = text(container, "/targetContainerName");
        if !target.is_empty() && !names.contains(&target) {
            errors.push(FieldError {
                kind: crate::status::FieldErrorType::NotFound,
                field: format!("{path}.targetContainerName"),
                value: Some(target.into()),
                detail: String::new(),
            });
        }
    }
    let before = old
        .map(|old| items(old, "/spec/ephemeralContainers"))
        .unwrap_or_default();
    for before in before {
        let name = text(before, "/name");
        let why = match containers.iter().find(|container| text(container, "/name") == name) {
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
            Some(now) if !same(Some(now), Some(before)) => {
                format!("existing ephemeral containers {name:?} may not be changed\n")
            }
            Some(_) => continue,
        };
        errors.push(FieldError::forbidden(PATH, why));
    }
    errors
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn pod(container: Value) -> Value {
        let mut whole = json!({ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1" } } });
        whole
            .as_object_mut()
            .unwrap()
            .extend(container.as_object().unwrap().clone());
        json!({ "metadata": { "name": "a" }, "spec": { "containers": [whole] }, "status": { "phase": "Pending" } })
    }

    #[rstest]
    #[case(json!({ "resources": { "requests": { "cpu": "2" } } }), &[])]
    #[case(json!({ "resources": {} }), &["spec", "spec.containers[0].resources.requests"])]
    #[case(json!({ "resources": { "requests": { "cpu": "1", "ephemeral-storage": "1" } } }), &["spec"])]
    #[case(json!({ "image": "other" }), &[])]
    fn a_resize_changes_cpu_and_memory_only(#[case] change: Value, #[case] expected: &[&str]) {
        let old = pod(json!({}));
        let mut new = pod(change);
        keep_only_resize(&mut new, &old);
        assert_eq!(new["spec"]["containers"][0]["image"], "i");
        let errors = validate_resize(&new, Some(&old));
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }

    #[test]
    fn ephemeral_containers_are_only_added() {
        let with = |containers: Value| json!({ "spec": { "containers": [], "ephemeralContainers": containers } });
        let old = with(json!([{ "name": "d", "image": "i" }]));
        let more = with(json!([{ "name": "d", "image": "i" }, { "name": "e", "image": "i" }]));
        assert_eq!(validate_ephemeral(&more, Some(&old)), []);
        assert_eq!(validate_ephemeral(&with(json!([])), Some(&old)).len(), 1);
        assert_eq!(
            validate_ephemeral(&with(json!([{ "name": "d", "image": "j" }])), Some(&old)).len(),
            1
        );
    }
}
