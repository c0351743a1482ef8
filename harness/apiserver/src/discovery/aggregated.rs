//! The aggregated document (`apidiscovery.k8s.io`), which contains all groups.

use std::sync::Arc;

use serde_json::{Value, json};

use super::order::{groups, in_version, versions};
use super::{Remote, Served, insert_texts, sorted_subresources, verbs};
use crate::resource::{Resource, Subresource};

/// The document of `/api` (`core`) or of `/apis`; `api_version` is `v2` or `v2beta1`.
pub fn aggregated(resources: &[Arc<Resource>], remotes: &[Remote], core: bool, api_version: &str) -> Value {
    let names = if core { vec![""] } else { groups(resources, remotes) };
    let items = names.into_iter().map(|group| group_item(resources, remotes, group));
    let items: Vec<Value> = items.collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{api_version}"),
        "metadata": {},
        "items": items,
    })
}

fn group_item(resources: &[Arc<Resource>], remotes: &[Remote], group: &str) -> Value {
    let versions: Vec<Value> = versions(resources, remotes, group)
        .into_iter()
        .map(|version| {
            let is_it = |remote: &&Remote| remote.group == group && remote.version == version;
            let (freshness, entries) = match remotes.iter().find(is_it).map(|remote| &remote.items) {
                Some(Some(items)) => ("Current", items.clone()),
                Some(None) => return json!({ "version": version, "freshness": "Stale" }),
                None => {
                    let own = in_version(resources, group, version);
                    ("Current", own.into_iter().map(resource_item).collect())
                }
            };
            json!({ "version": version, "freshness": freshness, "resources": entries })
        })
        .collect();
    let metadata = if group.is_empty() {
        json!({})
    } else {
        json!({ "name": group })
    };
    json!({ "metadata": metadata, "versions": versions })
}

fn resource_item(resource: &Resource) -> Value {
    let mut item = json!({
        "resource": resource.plural,
        "responseKind": response_kind(resource, &resource.group, &resource.version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": verbs(resource),
    });
    insert_texts(&mut item, "shortNames", &resource.short_names);
    insert_texts(&mut item, "categories", &resource.categories);
    let subresources: Vec<Value> = sorted_subresources(resource)
        .into_iter()
        .map(|subresource| subresource_item(resource, subresource))
        .collect();
    if !subresources.is_empty() {
        item["subresources"] = subresources.into();
    }
    item
}

fn subresource_item(resource: &Resource, subresource: &Subresource) -> Value {
    let served = Served::of(resource, subresource);
    json!({
        "subresource": subresource.name(),
        "responseKind": response_kind(resource, served.group, served.version, served.kind),
        "verbs": served.verbs,
    })
}

/// For a built-in resource, a kind in the resource's own group and version omits both.
fn response_kind(resource: &Resource, group: &str, version: &str, kind: &str) -> Value {
    let is_own = !resource.is_custom() && group == resource.group && version == resource.version;
    let (group, version) = if is_own { ("", "") } else { (group, version) };
    json!({ "group": group, "version": version, "kind": kind })
}
