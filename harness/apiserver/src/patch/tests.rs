//! Strategic merge patches: examples as clients send them, and properties.

use std::collections::BTreeMap;

use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Map, Value, json};

use super::strategic;

const POD: &str = "io.k8s.api.core.v1.Pod";
const NODE: &str = "io.k8s.api.core.v1.Node";
const DEPLOYMENT: &str = "io.k8s.api.apps.v1.Deployment";

fn apply(type_name: &str, mut doc: Value, patch: &Value) -> Value {
    strategic(&mut doc, patch, type_name).unwrap();
    doc
}

#[rstest]
#[case::kubectl_cordon(NODE,
    json!({"spec": {"providerID": "x"}}), json!({"spec": {"unschedulable": true}}),
    json!({"spec": {"providerID": "x", "unschedulable": true}}))]
#[case::kubectl_uncordon(NODE,
    json!({"spec": {"unschedulable": true}}), json!({"spec": {"unschedulable": null}}),
    json!({"spec": {}}))]
#[case::taints_are_replaced(NODE,
    json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}),
    json!({"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}))]
#[case::conditions_merge_by_type(NODE,
    json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}, {"type": "DiskPressure", "status": "False"}]}}),
    json!({"status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}}),
    json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "r"}, {"type": "DiskPressure", "status": "True"}]}}))]
#[case::kubectl_rollout_restart(DEPLOYMENT,
    json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}),
    json!({"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}}),
    json!({"spec": {"template": {"metadata": {"labels": {"a": "b"}, "annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}}))]
#[case::set_image(DEPLOYMENT,
    json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "1"}]}}}}),
    json!({"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "2"}]}}}}),
    json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "2"}]}}}}))]
#[case::an_item_is_deleted(POD,
    json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
    json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
    json!({"spec": {"containers": [{"name": "b"}]}}))]
#[case::a_list_is_replaced(POD,
    json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}}),
    json!({"spec": {"containers": [{"name": "c"}, {"$patch": "replace"}]}}),
    json!({"spec": {"containers": [{"name": "c"}]}}))]
#[case::an_object_is_replaced(POD,
    json!({"metadata": {"labels": {"a": "b"}}}), json!({"metadata": {"labels": {"$patch": "replace", "c": "d"}}}),
    json!({"metadata": {"labels": {"c": "d"}}}))]
#[case::an_object_is_emptied(POD,
    json!({"metadata": {"labels": {"a": "b"}}}), json!({"metadata": {"labels": {"$patch": "delete"}}}),
    json!({"metadata": {"labels": {}}}))]
#[case::finalizers_are_added(POD,
    json!({"metadata": {"finalizers": ["a"]}}), json!({"metadata": {"finalizers": ["b", "a"]}}),
    json!({"metadata": {"finalizers": ["b", "a"]}}))]
#[case::finalizers_are_removed(POD,
    json!({"metadata": {"finalizers": ["a", "b"]}}), json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}),
    json!({"metadata": {"finalizers": ["b"]}}))]
#[case::finalizers_of_others_stay(POD,
    json!({"metadata": {"finalizers": ["x", "a"]}}),
    json!({"metadata": {"$setElementOrder/finalizers": ["b", "a"], "finalizers": ["b"]}}),
    json!({"metadata": {"finalizers": ["b", "x", "a"]}}))]
#[case::an_order_is_set(POD,
    json!({"spec": {"containers": [{"name": "a"}, {"name": "b", "image": "1"}, {"name": "sidecar"}]}}),
    json!({"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b", "image": "2"}]}}),
    json!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "a"}, {"name": "sidecar"}]}}))]
#[case::a_union_changes_its_member(POD,
    json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
    json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}}),
    json!({"spec": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]}}))]
#[case::owners_merge_by_uid(POD,
    json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}]}}),
    json!({"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}]}}),
    json!({"metadata": {"ownerReferences": [{"uid": "2", "name": "b"}, {"uid": "1", "name": "a"}]}}))]
#[case::ports_merge_by_container_port(POD,
    json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "x"}]}]}}),
    json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "y"}]}]}}),
    json!({"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 80, "name": "y"}]}]}}))]
#[case::directives_of_new_parts_are_dropped(POD,
    json!({}),
    json!({"metadata": {"finalizers": ["a"], "$setElementOrder/finalizers": ["a"], "labels": {"x": null, "y": "z"}}}),
    json!({"metadata": {"finalizers": ["a"], "labels": {"y": "z"}}}))]
#[case::command_is_replaced(POD,
    json!({"spec": {"containers": [{"name": "a", "command": ["x", "y"]}]}}),
    json!({"spec": {"containers": [{"name": "a", "command": ["z"]}]}}),
    json!({"spec": {"containers": [{"name": "a", "command": ["z"]}]}}))]
fn patches_that_apply(#[case] type_name: &str, #[case] doc: Value, #[case] patch: Value, #[case] merged: Value) {
    assert_eq!(apply(type_name, doc, &patch), merged);
}

#[rstest]
#[case(json!([]), 400, "must be an object")]
#[case(json!({"spec": {"$patch": "frobnicate"}}), 422, "unknown patch type found: \"frobnicate\"")]
#[case(json!({"spec": {"containers": [{"image": "x"}]}}), 500, "does not contain declared merge key: name")]
#[case(json!({"spec": {"containers": [{"$patch": "delete"}]}}), 500, "does not contain declared merge key: name")]
#[case(json!({"spec": {"containers": ["x"]}}), 400, "cannot merge \"x\"")]
#[case(json!({"spec": {"$retainKeys": "x"}}), 400, "retainKeys")]
#[case(json!({"spec": {"$retainKeys": ["a"], "nodeName": "n"}}), 400, "nodeName")]
#[case(json!({"spec": {"$setElementOrder/containers": "x"}}), 400, "setElementOrder")]
#[case(json!({"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}}), 400, "setElementOrder")]
#[case(json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "x"}}), 400, "primitive list")]
fn patches_that_do_not_apply(#[case] patch: Value, #[case] code: u16, #[case] message: &str) {
    let doc = json!({"metadata": {"finalizers": ["a"]}, "spec": {"containers": [{"name": "a"}]}});
    let mut patched = doc.clone();
    let error = strategic(&mut patched, &patch, POD).unwrap_err();
    assert_eq!(error.code, code);
    assert!(error.message.contains(message), "{}", error.message);
    assert_eq!(patched, doc);
}

#[rstest]
#[case::merges(json!({"name": "a", "env": [{"name": "x", "value": "y"}]}))]
#[case::orders(json!({"name": "a", "$setElementOrder/env": [{"name": "x"}]}))]
fn merges_into_long_lists_are_limited(#[case] item: Value) {
    let text = "v".repeat(1000);
    let env: Vec<Value> = (0..1000)
        .map(|index| json!({"name": index.to_string(), "value": text}))
        .collect();
    let mut doc = json!({"spec": {"containers": [{"name": "a", "env": env}]}});
    let mut merge = |times| {
        let patch = json!({"spec": {"containers": vec![item.clone(); times]}});
        strategic(&mut doc, &patch, POD).map_err(|error| error.code)
    };
    assert_eq!((merge(2), merge(100)), (Ok(()), Err(413)));
}

/// A pod's containers with their images, and its labels.
type Model = (Vec<(String, u8)>, BTreeMap<String, String>);

fn model() -> impl Strategy<Value = Model> {
    let names = Just(["a", "b", "c", "d", "e"].map(str::to_owned).to_vec()).prop_shuffle();
    let containers = (names, prop::collection::vec(0..3_u8, 1..5))
        .prop_map(|(names, images)| names.into_iter().zip(images).collect());
    (containers, prop::collection::btree_map("[a-d]", "[x-z]", 0..4))
}

fn pod((containers, labels): &Model) -> Value {
    let containers: Vec<Value> = containers
        .iter()
        .map(|(name, image)| json!({"name": name, "image": image.to_string()}))
        .collect();
    json!({"metadata": {"labels": labels}, "spec": {"containers": containers}})
}

/// The patch that a client computes to change `old` to `new`.
fn diff((old, old_labels): &Model, (new, new_labels): &Model) -> Value {
    let mut items = Vec::new();
    for (name, image) in new {
        if !old.contains(&(name.clone(), *image)) {
            items.push(json!({"name": name, "image": image.to_string()}));
        }
    }
    for (name, _) in old {
        if new.iter().all(|(other, _)| other != name) {
            items.push(json!({"name": name, "$patch": "delete"}));
        }
    }
    let order: Vec<Value> = new.iter().map(|(name, _)| json!({"name": name})).collect();
    let removed = old_labels
        .keys()
        .filter(|key| !new_labels.contains_key(*key))
        .map(|key| (key.clone(), Value::Null));
    let labels: Map<String, Value> = removed
        .chain(
            new_labels
                .iter()
                .map(|(key, value)| (key.clone(), value.clone().into())),
        )
        .collect();
    json!({"metadata": {"labels": labels}, "spec": {"$setElementOrder/containers": order, "containers": items}})
}

proptest! {
    #[test]
    fn a_difference_changes_the_old_object_to_the_new(old in model(), new in model()) {
        prop_assert_eq!(apply(POD, pod(&old), &diff(&old, &new)), pod(&new));
    }

    #[test]
    fn patching_is_idempotent(old in model(), other in model(), new in model()) {
        let patch = diff(&other, &new);
        let once = apply(POD, pod(&old), &patch);
        prop_assert_eq!(apply(POD, once.clone(), &patch), once);
    }

    #[test]
    fn items_that_the_patch_does_not_name_are_kept(old in model(), other in model(), new in model()) {
        let patched = apply(POD, pod(&old), &diff(&other, &new));
        let containers = patched["spec"]["containers"].as_array().unwrap();
        for (name, image) in &old.0 {
            let named = other.0.iter().chain(&new.0).any(|(known, _)| known == name);
            if !named {
                let kept = containers.contains(&json!({"name": name, "image": image.to_string()}));
                prop_assert!(kept, "{} is gone", name);
            }
        }
    }
}

/// In quadratic time this would take minutes.
#[test]
fn long_lists_are_merged() {
    let variable = |index: usize, value: &str| json!({ "name": format!("v{index}"), "value": value });
    let variables = |range: std::ops::Range<usize>, value: &str| -> Vec<Value> {
        range.map(|index| variable(index, value)).collect()
    };
    let pod = |variables: Vec<Value>| json!({ "spec": { "containers": [{ "name": "a", "env": variables }] } });
    let finalizers =
        |range: std::ops::Range<usize>| -> Vec<String> { range.map(|index| format!("f{index}")).collect() };
    let mut doc = pod(variables(0..40_000, "old"));
    doc["metadata"] = json!({ "finalizers": finalizers(0..40_000) });
    let mut patch = pod(variables(20_000..60_000, "new"));
    let deleted = (0..10_000).map(|index| json!({ "name": format!("v{index}"), "$patch": "delete" }));
    let list = patch["spec"]["containers"][0]["env"].as_array_mut().unwrap();
    list.extend(deleted);
    patch["metadata"] = json!({
        "finalizers": finalizers(20_000..60_000), "$deleteFromPrimitiveList/finalizers": finalizers(0..10_000),
    });
    strategic(&mut doc, &patch, "io.k8s.api.core.v1.Pod").unwrap();
    let merged = doc["spec"]["containers"][0]["env"].as_array().unwrap();
    assert_eq!(merged.len(), 50_000);
    assert_eq!(merged.iter().filter(|item| item["value"] == "new").count(), 40_000);
    assert_eq!(doc["metadata"]["finalizers"].as_array().unwrap().len(), 50_000);
}
