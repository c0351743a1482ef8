//! What an object consumes of the resource quotas of its namespace. Acts as upstream's admission plugin ResourceQuota,
//! whose quotas count from their status: a controller, or a client, sets it.

use std::collections::BTreeSet;

use consumption::{Counted, Usage, amounts, missing_values};
use quantity::Quantity;
use serde_json::{Map, Value};

use super::fields::{object, text};
use crate::resource::Resource;

/// The quotas that a write changes, with their new status.
///
/// # Errors
/// The first quota that refuses the object, in upstream's words.
pub(crate) fn consume(
    resource: &Resource,
    quotas: &[Value],
    new: &Value,
    old: Option<&Value>,
) -> Result<Vec<Value>, Refusal> {
    let resource = Counted {
        group: &resource.group,
        plural: &resource.plural,
    };
    let mut changed = Vec::new();
    for quota in quotas {
        if !matches(resource, quota, new) {
            continue;
        }
        let hard = amounts(quota, "/status/hard");
        let used = amounts(quota, "/status/used");
        let limited: BTreeSet<&str> = hard.keys().copied().filter(|name| resource.is_limited(name)).collect();
        let name = text(quota, "/metadata/name");
        let is_pod = resource.is_core("pods");
        if let Some(missing) = is_pod.then(|| missing_values(&limited, new)).flatten() {
            return Err(Refusal(format!("failed quota: {name}: {missing}")));
        }
        let unknown: Vec<&str> = limited
            .iter()
            .copied()
            .filter(|name| !used.contains_key(name))
            .collect();
        if !unknown.is_empty() {
            let all: Vec<&str> = limited.into_iter().collect();
            return Err(Refusal(format!(
                "status unknown for quota: {name}, resources: {}",
                all.join(",")
            )));
        }
        let before = old.filter(|old| matches(resource, quota, old));
        let more = increase(resource.usage(new), before.map(|old| resource.usage(old)));
        let requested: Usage = more
            .into_iter()
            .filter(|(name, _)| hard.contains_key(name.as_str()))
            .collect();
        if !requested.is_empty() {
            changed.push(charged(quota, &requested)?);
        }
    }
    Ok(changed)
}

/// Why a quota does not admit an object.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Refusal(String);

/// Whether a quota limits something about an object of its scopes.
fn matches(resource: Counted<'_>, quota: &Value, object: &Value) -> bool {
    let hard = amounts(quota, "/status/hard");
    hard.keys().any(|name| resource.is_limited(name)) && resource.is_in_scopes(quota, object)
}

/// What an update consumes in addition; never less than nothing.
fn increase(new: Usage, old: Option<Usage>) -> Usage {
    let old = old.unwrap_or_default();
    let more = new.into_iter().map(|(name, amount)| {
        let before = old.get(&name);
        let rest = before.map_or(amount, |before| amount.minus(before));
        (name, rest)
    });
    more.filter(|(_, amount)| amount.milli() > 0).collect()
}

/// The quota with a new status, if the request fits into it.
fn charged(quota: &Value, requested: &Usage) -> Result<Value, Refusal> {
    let hard = amounts(quota, "/status/hard");
    let used = amounts(quota, "/status/used");
    let mut exceeded = Usage::new();
    let mut sums = Map::new();
    for (name, more) in requested {
        let sum = used.get(name.as_str()).map_or(*more, |before| before.plus(more));
        if hard.get(name.as_str()).is_some_and(|most| sum.compare(most).is_gt()) {
            exceeded.insert(name.clone(), *more);
        }
        sums.insert(name.clone(), sum.to_string().into());
    }
    if !exceeded.is_empty() {
        let list = |amounts: &dyn Fn(&str) -> Option<Quantity>| {
            let named = exceeded
                .keys()
                .filter_map(|name| Some(format!("{name}={}", amounts(name)?)));
            named.collect::<Vec<String>>().join(",")
        };
        return Err(Refusal(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            text(quota, "/metadata/name"),
            list(&|name| requested.get(name).copied()),
            list(&|name| used.get(name).copied()),
            list(&|name| hard.get(name).copied()),
        )));
    }
    let mut quota = quota.clone();
    if let Some(used) = object(&mut quota, "/status/used") {
        used.extend(sums);
    }
    Ok(quota)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::builtin;

    fn resource(plural: &str) -> Resource {
        let all = builtin().into_iter();
        all.into_iter().find(|resource| resource.plural == plural).unwrap()
    }

    fn quota(hard: Value, used: Value) -> Value {
        json!({ "metadata": { "name": "q" }, "status": { "hard": hard, "used": used } })
    }

    fn consumed(plural: &str, quota: Value, object: Value) -> Result<Vec<Value>, String> {
        let changed = consume(&resource(plural), &[quota], &object, None);
        let used = |quotas: Vec<Value>| {
            quotas
                .into_iter()
                .map(|mut quota| quota["status"]["used"].take())
                .collect()
        };
        changed.map(used).map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn objects_are_counted_until_the_quota_is_used() {
        let one = quota(json!({ "configmaps": "1" }), json!({ "configmaps": "0" }));
        assert_eq!(
            consumed("configmaps", one, json!({})),
            Ok(vec![json!({ "configmaps": "1" })])
        );
        let full = quota(json!({ "configmaps": "1" }), json!({ "configmaps": "1" }));
        assert_eq!(
            consumed("configmaps", full.clone(), json!({})),
            Err("exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1".to_owned())
        );
        assert_eq!(consumed("secrets", full, json!({})), Ok(vec![]));
    }

    #[test]
    fn a_quota_without_usage_admits_nothing() {
        let unknown = quota(json!({ "count/secrets": "1" }), json!({}));
        assert_eq!(
            consumed("secrets", unknown, json!({})),
            Err("status unknown for quota: q, resources: count/secrets".to_owned())
        );
    }

    #[test]
    fn a_growing_claim_consumes_the_difference() {
        let quota = quota(
            json!({ "requests.storage": "5Gi" }),
            json!({ "requests.storage": "1Gi" }),
        );
        let claim = |size: &str| json!({ "spec": { "resources": { "requests": { "storage": size } } } });
        let changed = consume(
            &resource("persistentvolumeclaims"),
            &[quota],
            &claim("3Gi"),
            Some(&claim("1Gi")),
        );
        assert_eq!(
            changed.unwrap()[0]["status"]["used"],
            json!({ "requests.storage": "3Gi" })
        );
    }
}
