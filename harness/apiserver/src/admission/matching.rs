//! Which requests concern a policy or webhook.

use std::collections::BTreeMap;

use serde_json::Value;

use super::request::{Kind, Request};
use crate::policies::{Constraints, Rule, Target};
use crate::registry::Registry;
use crate::reviewer::{Operation, Subject};
use crate::status::ApiError;
use crate::store::Key;

/// The kind and resource as which the request matches: that of the request, or an equivalent one. `None` if it does not
/// match.
///
/// # Errors
/// If the namespace of the request does not exist.
pub(crate) fn matched(
    constraints: &Constraints,
    registry: &Registry,
    request: &Request,
    subject: &Subject<'_>,
) -> Result<Option<(Kind, Target)>, ApiError> {
    let selector = &constraints.objects;
    let labels_match = |object: Option<&Value>| object.is_some_and(|object| selector.matches(&labels(object)));
    if !selector.is_empty() && !labels_match(subject.new) && !labels_match(subject.old) {
        return Ok(None);
    }
    let has = |rules: &[Rule]| match_of(rules, constraints.exact, registry, (request, subject));
    if has(&constraints.excluded).is_some() {
        return Ok(None);
    }
    // Without rules, as bindings can be, everything matches.
    let found = if constraints.rules.is_empty() {
        Some((request.kind.clone(), request.target.clone()))
    } else {
        has(&constraints.rules)
    };
    if found.is_some() && !constraints.namespaces.is_empty() {
        match namespace_labels(registry, request, subject)? {
            Some(labels) if !constraints.namespaces.matches(&labels) => return Ok(None),
            _ => {}
        }
    }
    Ok(found)
}

/// The kind and resource for which there is a rule. `exact`: only those of the request.
fn match_of(
    rules: &[Rule],
    exact: bool,
    registry: &Registry,
    (request, subject): (&Request, &Subject<'_>),
) -> Option<(Kind, Target)> {
    let matches = |target: &Target| {
        let is_namespaced = request.is_namespaced;
        let matches = |rule: &Rule| rule.matches(target, is_namespaced, subject.operation, subject.name);
        rules.iter().any(matches)
    };
    if matches(&request.target) {
        return Some((request.kind.clone(), request.target.clone()));
    }
    if exact {
        return None;
    }
    equivalents(registry, request)
        .into_iter()
        .find(|(_, target)| matches(target))
}

/// The other groups and versions in which the server serves the same objects.
fn equivalents(registry: &Registry, request: &Request) -> Vec<(Kind, Target)> {
    let catalog = registry.catalog();
    let target = &request.target;
    let Some(own) = catalog.find(&target.group, &target.version, &target.resource) else {
        return Vec::new();
    };
    let same = |resource: &crate::resource::Resource| {
        let other = catalog.find(&resource.group, &resource.version, &resource.plural);
        other.is_some_and(|other| other.table == own.table)
            && (resource.group != target.group || resource.version != target.version)
    };
    let resources = catalog.resources().iter().filter(|resource| same(resource));
    let seen = resources.map(|resource| {
        let is_own_kind = request.kind.kind == own.resource.kind;
        let kind = Kind {
            group: resource.group.clone(),
            version: resource.version.clone(),
            kind: resource.kind.clone(),
        };
        let target = Target {
            group: resource.group.clone(),
            version: resource.version.clone(),
            ..target.clone()
        };
        (if is_own_kind { kind } else { request.kind.clone() }, target)
    });
    seen.collect()
}

/// The labels of the namespace that the request is in; `None` for other objects of the cluster.
fn namespace_labels(
    registry: &Registry,
    request: &Request,
    subject: &Subject<'_>,
) -> Result<Option<BTreeMap<String, String>>, ApiError> {
    if request.is_about_namespace() {
        let object = match subject.operation {
            Operation::Create | Operation::Update => subject.new,
            Operation::Delete => subject.old,
        };
        return Ok(object.map(labels));
    }
    if subject.namespace.is_empty() {
        return Ok(None);
    }
    namespace(registry, subject.namespace).map(|namespace| Some(labels(&namespace)))
}

/// A namespace.
///
/// # Errors
/// 404.
pub(crate) fn namespace(registry: &Registry, name: &str) -> Result<Value, ApiError> {
    let catalog = registry.catalog();
    let Some(entry) = catalog.find("", "v1", "namespaces") else {
        return Err(ApiError::internal("the server has no namespaces"));
    };
    let object = registry.get(entry, &Key::new("", name))?;
    object.value().map_err(ApiError::internal)
}

/// The labels of an object.
fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    labels
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect()
}
