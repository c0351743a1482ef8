//! Fields that a configuration no longer mentions.

use super::*;

#[test]
fn a_dropped_field_is_removed() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{MAPS}/a");
        site.apply(&path, "one", map(json!({ "k": "1", "l": "1" }))).await;
        site.apply(&path, "one", map(json!({ "k": "1" }))).await;
        site.apply(
            &path,
            "one",
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } }),
        )
        .await;
    });
}

#[test]
fn a_dropped_field_of_another_manager_stays() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{MAPS}/a");
        site.apply(&path, "one", map(json!({ "k": "1", "l": "1" }))).await;
        site.apply(&path, "two", map(json!({ "k": "1" }))).await;
        site.merge(&format!("{path}?fieldManager=patcher"), json!({ "data": { "l": "2" } }))
            .await;
        site.apply(&path, "one", map(json!({ "m": "1" }))).await;
    });
}

#[test]
fn a_dropped_default_comes_back() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{DEPLOYMENTS}/a");
        let containers = json!([{ "name": "c", "image": "i" }]);
        let mut object = with_containers(containers.clone());
        object["spec"]["replicas"] = 3.into();
        object["spec"]["strategy"] = json!({ "type": "Recreate" });
        site.apply(&path, "one", object).await;
        site.apply(&path, "one", with_containers(containers)).await;
    });
}

#[test]
fn a_dropped_list_item_is_removed() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{DEPLOYMENTS}/a");
        let one = json!({ "name": "c", "image": "i" });
        let two = json!({ "name": "d", "image": "i", "env": [{ "name": "A", "value": "1" }] });
        site.apply(&path, "one", with_containers(json!([one, two]))).await;
        let by_other = json!({ "template": { "spec": { "containers": [{ "name": "d", "env": [{ "name": "B", "value": "2" }] }] } } });
        site.apply(&path, "two", deployment(by_other)).await;
        site.apply(&path, "one", with_containers(json!([one]))).await;
        site.apply(&path, "two", deployment(json!({}))).await;
    });
}

#[test]
fn labels_annotations_and_finalizers_are_removed() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{MAPS}/a");
        let with = |metadata: Value| {
            let mut object = map(json!({}));
            for (name, value) in metadata.as_object().unwrap() {
                object["metadata"][name] = value.clone();
            }
            object
        };
        let all = json!({
            "labels": { "a": "1", "b": "1" }, "annotations": { "a": "1" },
            "finalizers": ["example.com/a", "example.com/b"],
            "ownerReferences": [{ "apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "11111111-1111-1111-1111-111111111111" }],
        });
        site.apply(&path, "one", with(all)).await;
        site.apply(
            &path,
            "two",
            with(json!({ "finalizers": ["example.com/c", "example.com/a"] })),
        )
        .await;
        site.apply(
            &path,
            "one",
            with(json!({ "labels": { "b": "1" }, "finalizers": ["example.com/b"] })),
        )
        .await;
        site.apply(&path, "two", with(json!({}))).await;
        site.apply(&path, "one", with(json!({}))).await;
    });
}

#[test]
fn null_is_a_value() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{MAPS}/a");
        site.apply(&path, "one", map(json!({ "k": "1" }))).await;
        let mut object = map(json!({ "k": "1" }));
        object["metadata"]["creationTimestamp"] = Value::Null;
        object["metadata"]["labels"] = Value::Null;
        object["immutable"] = Value::Null;
        site.apply(&path, "one", object).await;
        site.apply(&path, "one", map(Value::Null)).await;
    });
}
