//! What a runtime class adds to a new pod: its overhead, node selector and tolerations. Acts as upstream's admission
//! plugin RuntimeClass.

use serde_json::{Map, Value};

use crate::kinds::fields::{items, members, object, text};

const MISMATCH: &str = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead";
const WITHOUT_CLASS: &str = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";

/// Applies the class of a new pod; `None` if the pod names none.
///
/// # Errors
/// Why the pod does not fit to the class, in upstream's words.
pub(crate) fn apply_runtime(class: Option<&Value>, pod: &mut Value) -> Result<(), RuntimeMismatch> {
    let overhead = class.and_then(|class| class.pointer("/overhead/podFixed"));
    let own = pod.pointer("/spec/overhead").filter(|own| !own.is_null());
    match (overhead, own) {
        (None, Some(_)) => return Err(RuntimeMismatch(WITHOUT_CLASS.to_owned())),
        (Some(wanted), Some(own)) if !is_empty(own) && !same_amounts(wanted, own) => {
            return Err(RuntimeMismatch(MISMATCH.to_owned()));
        }
        _ => {}
    }
    if let (Some(overhead), Some(spec)) = (overhead, object(pod, "/spec")) {
        spec.insert("overhead".to_owned(), overhead.clone());
    }
    match class.and_then(|class| class.get("scheduling")) {
        Some(scheduling) if scheduling.is_object() => schedule(scheduling, pod),
        _ => Ok(()),
    }
}

/// A pod does not fit to its runtime class.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct RuntimeMismatch(String);

fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}

fn same_amounts(one: &Value, other: &Value) -> bool {
    let amounts = |value: &Value| -> Vec<(String, Option<i128>)> {
        let parsed = |amount: &Value| amount.as_str()?.parse::<quantity::Quantity>().ok();
        let all = members(value, "");
        all.map(|(name, amount)| (name.to_owned(), parsed(amount).map(|amount| amount.milli())))
            .collect()
    };
    amounts(one) == amounts(other)
}

fn schedule(scheduling: &Value, pod: &mut Value) -> Result<(), RuntimeMismatch> {
    for (key, wanted) in members(scheduling, "/nodeSelector") {
        let own = members(pod, "/spec/nodeSelector").find(|(name, _)| *name == key);
        if let Some((_, own)) = own.filter(|(_, own)| *own != wanted) {
            let (wanted, own) = (text(wanted, ""), text(own, ""));
            return Err(RuntimeMismatch(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {wanted}; pod.spec.nodeSelector[{key}] = {own}"
            )));
        }
        if let Some(selector) = object(pod, "/spec/nodeSelector") {
            selector.insert(key.to_owned(), wanted.clone());
        }
    }
    let tolerations = merged(items(pod, "/spec/tolerations"), items(scheduling, "/tolerations"));
    if let Some(spec) = object(pod, "/spec").filter(|_| !tolerations.is_empty()) {
        spec.insert("tolerations".to_owned(), tolerations.into());
    }
    Ok(())
}

/// Both lists without the tolerations that another one covers.
fn merged(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let mut kept: Vec<Value> = Vec::new();
    for (index, toleration) in all.iter().enumerate() {
        let mut later = all.iter().skip(index).skip(1);
        let covered = kept.iter().any(|other| covers(other, toleration))
            || later.any(|other| other != toleration && covers(other, toleration));
        if !covered {
            kept.push((*toleration).clone());
        }
    }
    kept
}

/// Whether `wide` tolerates everything that `narrow` tolerates.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let exists = text(wide, "/operator") == "Exists";
    let same_key = text(wide, "/key") == text(narrow, "/key") || (text(wide, "/key").is_empty() && exists);
    let effect = text(wide, "/effect");
    let same_effect = effect.is_empty() || effect == text(narrow, "/effect");
    let seconds = |toleration: &Value| toleration.get("tolerationSeconds").and_then(Value::as_i64);
    let lasts = match (effect, seconds(wide)) {
        ("NoExecute", Some(most)) => seconds(narrow).is_some_and(|needed| needed <= most),
        _ => true,
    };
    let same_value = match text(wide, "/operator") {
        "Exists" => true,
        "Equal" | "" => text(narrow, "/operator") == "Equal" && text(wide, "/value") == text(narrow, "/value"),
        _ => false,
    };
    same_key && same_effect && lasts && same_value
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn applied(class: Value, spec: Value) -> Result<Value, RuntimeMismatch> {
        let mut pod = json!({ "spec": spec });
        apply_runtime(Some(&class), &mut pod)?;
        Ok(pod["spec"].take())
    }

    #[test]
    fn a_pod_gets_overhead_selector_and_tolerations() {
        let class = json!({
            "overhead": { "podFixed": { "cpu": "100m" } },
            "scheduling": { "nodeSelector": { "a": "1" }, "tolerations": [{ "key": "k", "operator": "Exists" }] },
        });
        let spec = applied(class, json!({ "nodeSelector": { "b": "2" } })).unwrap();
        assert_eq!(
            spec,
            json!({
                "overhead": { "cpu": "100m" }, "nodeSelector": { "a": "1", "b": "2" },
                "tolerations": [{ "key": "k", "operator": "Exists" }],
            })
        );
    }

    #[test]
    fn a_pod_must_have_the_overhead_of_its_class() {
        let class = json!({ "overhead": { "podFixed": { "cpu": "100m" } } });
        assert!(applied(class.clone(), json!({ "overhead": { "cpu": "0.1" } })).is_ok());
        assert_eq!(
            applied(class, json!({ "overhead": { "cpu": "1" } })),
            Err(RuntimeMismatch(MISMATCH.to_owned()))
        );
        assert_eq!(
            applied(json!({}), json!({ "overhead": { "cpu": "1" } })),
            Err(RuntimeMismatch(WITHOUT_CLASS.to_owned()))
        );
    }

    #[test]
    fn a_pod_cannot_select_other_nodes_than_its_class() {
        let class = json!({ "scheduling": { "nodeSelector": { "a": "1" } } });
        let refused = applied(class, json!({ "nodeSelector": { "a": "2" } })).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "conflict: runtimeClass.scheduling.nodeSelector[a] = 1; pod.spec.nodeSelector[a] = 2"
        );
    }

    #[rstest]
    #[case(json!({ "operator": "Exists" }), json!({ "key": "a", "operator": "Equal", "value": "b" }), true)]
    #[case(json!({ "key": "a", "operator": "Exists" }), json!({ "key": "b", "operator": "Exists" }), false)]
    #[case(json!({ "key": "a", "operator": "Exists", "effect": "NoSchedule" }), json!({ "key": "a", "operator": "Exists" }), false)]
    #[case(
        json!({ "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5 }),
        json!({ "key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 9 }),
        false
    )]
    #[case(json!({ "key": "a", "operator": "Equal", "value": "b" }), json!({ "key": "a", "operator": "Exists" }), false)]
    fn a_toleration_covers_narrower_ones(#[case] wide: Value, #[case] narrow: Value, #[case] expected: bool) {
        assert_eq!(covers(&wide, &narrow), expected);
    }
}
