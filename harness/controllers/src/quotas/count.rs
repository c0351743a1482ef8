//! What the objects of a namespace consume of a quota.

use std::collections::BTreeMap;

use ::quantity::Quantity;
use consumption::{Amounts, Counted, OWN_NAMES, Usage, amounts};
use k8s_openapi::api::core::v1::{ResourceQuota, ResourceQuotaStatus};
use k8s_openapi::apimachinery::pkg::api::resource;
use serde::Serialize;
use serde_json::Value;

use crate::{Cache, Cached, Caches};

/// The new status of a quota; `None` if its status is right.
pub(super) fn status(quota: &ResourceQuota, caches: &Caches) -> Option<ResourceQuotaStatus> {
    let value = json(quota);
    let used = used(&value, quota.metadata.namespace.as_deref().unwrap_or_default(), caches);
    let is_right = same(&amounts(&value, "/spec/hard"), &amounts(&value, "/status/hard"))
        && same(&by_reference(&used), &amounts(&value, "/status/used"));
    if is_right && quota.status.is_some() {
        return None;
    }
    let used = used
        .into_iter()
        .map(|(name, amount)| (name, resource::Quantity(amount.to_string())));
    Some(ResourceQuotaStatus {
        hard: quota.spec.as_ref().and_then(|spec| spec.hard.clone()),
        used: Some(used.collect()),
    })
}

/// What is used of each limit that the quota sets and that anything can consume.
fn used(quota: &Value, namespace: &str, caches: &Caches) -> Usage {
    let hard = amounts(quota, "/spec/hard");
    let mut used = Usage::new();
    let mut add = |resource: &str, objects: &dyn Fn() -> Vec<Value>| {
        let resource = Counted::core(resource);
        let limited: Vec<&str> = hard.keys().copied().filter(|name| resource.is_limited(name)).collect();
        if limited.is_empty() {
            return;
        }
        used.extend(limited.iter().map(|name| ((*name).to_owned(), Quantity::whole(0))));
        for object in objects().iter().filter(|object| resource.is_in_scopes(quota, object)) {
            for (name, amount) in resource.usage(object) {
                used.entry(name).and_modify(|sum| *sum = sum.plus(&amount));
            }
        }
    };
    add("pods", &|| all(&caches.pods, namespace));
    add("services", &|| all(&caches.services, namespace));
    add("persistentvolumeclaims", &|| all(&caches.claims, namespace));
    for (name, _) in hard {
        let own = OWN_NAMES.contains(&name).then_some(name);
        let Some(resource) = own.or_else(|| name.strip_prefix("count/")) else {
            continue;
        };
        if !used.contains_key(name)
            && let Some(count) = caches.count_in(resource, namespace)
        {
            // Other objects than pods are in no scope.
            let is_counted = Counted::core(resource).is_in_scopes(quota, &Value::Null);
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            used.insert(name.to_owned(), Quantity::whole(if is_counted { count } else { 0 }));
        }
    }
    used
}

fn all<K: Cached + Serialize>(cache: &Cache<K>, namespace: &str) -> Vec<Value> {
    cache
        .in_namespace(namespace)
        .map(|(_, object)| json(&**object))
        .collect()
}

/// Objects of the API are always JSON.
fn json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

fn by_reference(usage: &Usage) -> Amounts<'_> {
    usage.iter().map(|(name, amount)| (name.as_str(), *amount)).collect()
}

fn same(one: &BTreeMap<&str, Quantity>, other: &BTreeMap<&str, Quantity>) -> bool {
    one.len() == other.len()
        && one
            .iter()
            .zip(other)
            .all(|((name, amount), (other_name, other))| name == other_name && amount.compare(other).is_eq())
}
