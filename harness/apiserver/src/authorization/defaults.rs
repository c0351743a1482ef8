//! The initial roles and bindings of a Kubernetes cluster, as a table.
//!
//! `defaults-1.36.txt` lists what kube-apiserver 1.36 creates. A line that starts with a kind is an object:
//! `ClusterRole NAME`, `RoleBinding NAMESPACE/NAME ROLE-KIND ROLE`. The indented lines below it: `allow VERBS GROUPS
//! RESOURCES [NAMES]` and `urls VERBS PATHS` are rules (`core` is the core group); `part-of ROLE` and `gathers ROLE`
//! are the two ends of an aggregation; `to KIND [NAMESPACE/]NAME` is a subject.

use std::sync::OnceLock;

use serde_json::{Value, json};

use super::GROUP;
use super::aggregate::{self, Source};
use crate::status::ApiError;

const TABLE: &str = include_str!("defaults-1.36.txt");
const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// The objects in the order of the table, without uid and time. Aggregated roles are complete.
///
/// # Errors
/// If the table is invalid, which a test excludes.
pub(crate) fn seeds() -> Result<Vec<Value>, ApiError> {
    static SEEDS: OnceLock<Vec<Value>> = OnceLock::new();
    if let Some(known) = SEEDS.get() {
        return Ok(known.clone());
    }
    let objects = read()?;
    Ok(SEEDS.get_or_init(|| objects).clone())
}

/// Reads the table.
fn read() -> Result<Vec<Value>, ApiError> {
    let mut objects: Vec<Value> = Vec::new();
    for line in TABLE.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let read = match line.strip_prefix("  ") {
            None => head(&words).map(|object| objects.push(object)),
            Some(_) => objects.last_mut().and_then(|object| detail(object, &words)),
        };
        read.ok_or_else(|| ApiError::internal(format!("the table of default roles: cannot read {line:?}")))?;
    }
    aggregate(&mut objects)?;
    Ok(objects)
}

fn head(words: &[&str]) -> Option<Value> {
    let (kind, place, role) = match words {
        [kind @ ("ClusterRole" | "Role"), place] => (kind, place, None),
        [kind @ ("ClusterRoleBinding" | "RoleBinding"), place, role_kind, role] => {
            (kind, place, Some((role_kind, role)))
        }
        _ => return None,
    };
    let mut object = json!({
        "kind": kind,
        "metadata": {
            "labels": { "kubernetes.io/bootstrapping": "rbac-defaults" },
            "annotations": { "rbac.authorization.kubernetes.io/autoupdate": "true" },
        },
    });
    match place.split_once('/') {
        Some((namespace, name)) => {
            object["metadata"]["namespace"] = namespace.into();
            object["metadata"]["name"] = name.into();
        }
        None => object["metadata"]["name"] = (*place).into(),
    }
    match role {
        Some((kind, name)) => object["roleRef"] = json!({ "apiGroup": GROUP, "kind": kind, "name": name }),
        None => object["rules"] = json!([]),
    }
    Some(object)
}

fn detail(object: &mut Value, words: &[&str]) -> Option<()> {
    let list = |text: &str| Value::from(text.split(',').collect::<Vec<_>>());
    match words {
        ["allow", verbs, groups, resources, names @ ..] => {
            let groups: Vec<&str> = groups
                .split(',')
                .map(|group| if group == "core" { "" } else { group })
                .collect();
            let mut rule = json!({ "verbs": list(verbs), "apiGroups": groups, "resources": list(resources) });
            if let Some(names) = names.first() {
                rule["resourceNames"] = list(names);
            }
            object["rules"].as_array_mut()?.push(rule);
        }
        ["urls", verbs, paths] => {
            let rule = json!({ "verbs": list(verbs), "nonResourceURLs": list(paths) });
            object["rules"].as_array_mut()?.push(rule);
        }
        ["part-of", role] => object["metadata"]["labels"][format!("{AGGREGATE_TO}{role}")] = "true".into(),
        ["gathers", role] => {
            let label = format!("{AGGREGATE_TO}{role}");
            object["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { label: "true" } }] });
        }
        ["to", kind, name] => {
            let subject = match (*kind, name.split_once('/')) {
                ("ServiceAccount", Some((namespace, name))) => {
                    json!({ "kind": kind, "name": name, "namespace": namespace })
                }
                _ => json!({ "kind": kind, "apiGroup": GROUP, "name": name }),
            };
            object
                .as_object_mut()?
                .entry("subjects")
                .or_insert_with(|| json!([]))
                .as_array_mut()?
                .push(subject);
        }
        _ => return None,
    }
    Some(())
}

/// Sets the rules of aggregated roles. Roles can aggregate other aggregated roles, so this repeats until nothing
/// changes.
fn aggregate(objects: &mut [Value]) -> Result<(), ApiError> {
    for _ in 0..objects.len() {
        let mut changed = false;
        for place in 0..objects.len() {
            let Some(role) = objects.get(place) else { continue };
            let Some(selectors) = aggregate::selectors(role)? else {
                continue;
            };
            let labels: Vec<_> = objects.iter().map(labels).collect();
            let roles = objects
                .iter()
                .zip(&labels)
                .filter(|(object, _)| object["kind"] == "ClusterRole");
            let sources: Vec<Source<'_>> = roles
                .map(|(object, labels)| Source {
                    name: object["metadata"]["name"].as_str().unwrap_or_default(),
                    labels,
                    rules: object["rules"].as_array().map(Vec::as_slice).unwrap_or_default(),
                })
                .collect();
            let name = role["metadata"]["name"].as_str().unwrap_or_default();
            let rules = Value::from(aggregate::aggregate(name, &selectors, &sources));
            if let Some(role) = objects.get_mut(place)
                && role["rules"] != rules
            {
                role["rules"] = rules;
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    Ok(())
}

fn labels(object: &Value) -> std::collections::BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let pairs = labels.into_iter().flatten();
    pairs
        .filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())))
        .collect()
}
