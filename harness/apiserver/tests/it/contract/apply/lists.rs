//! Lists whose items have managers.

use super::*;

#[test]
fn ports_are_identified_by_number_and_protocol() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{SERVICES}/a");
        let service = |ports: Value| {
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a" },
                "spec": { "clusterIP": "None", "selector": { "a": "b" }, "ports": ports } })
        };
        site.apply(
            &path,
            "one",
            service(json!([{ "name": "a", "port": 80 }, { "name": "b", "port": 80, "protocol": "UDP" }])),
        )
        .await;
        site.apply(
            &path,
            "two",
            service(json!([{ "name": "b", "port": 80, "protocol": "UDP" }, { "name": "c", "port": 443 }])),
        )
        .await;
        site.apply(
            &path,
            "one",
            service(json!([{ "name": "a", "port": 80, "targetPort": "http" }])),
        )
        .await;
    });
}

#[test]
fn items_take_the_order_of_the_configuration() {
    contract!(async |site: &Site| {
        let path = format!("{DEPLOYMENTS}/a");
        let named = |names: &[&str]| {
            let containers: Vec<Value> = names.iter().map(|name| json!({ "name": name, "image": "i" })).collect();
            with_containers(containers.into())
        };
        let mut orders = Vec::new();
        for (manager, names) in [
            ("one", vec!["a", "b", "c", "d"]),
            ("one", vec!["d", "b", "a", "c"]),
            ("two", vec!["x", "a", "y", "d"]),
            ("one", vec!["c", "e", "b", "d", "a"]),
            ("two", vec!["y", "c", "z"]),
        ] {
            let path = format!("{path}?fieldManager={manager}&force=true");
            let headers = [("content-type", "application/apply-patch+yaml")];
            let done = site.quietly("PATCH", &path, &headers, named(&names)).await;
            let containers = done
                .body
                .pointer("/spec/template/spec/containers")
                .and_then(Value::as_array)
                .cloned();
            let names: Vec<Value> = containers
                .unwrap_or_default()
                .iter()
                .map(|container| container["name"].clone())
                .collect();
            orders.push(Value::from(names).to_string());
        }
        site.note(&orders.join("\n"));
    });
}

#[test]
fn an_atomic_list_has_one_manager() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{DEPLOYMENTS}/a");
        let with = |args: Value| with_containers(json!([{ "name": "c", "image": "i", "args": args }]));
        site.apply(&path, "one", with(json!(["a", "b"]))).await;
        site.apply(&path, "two", with(json!(["a", "c"]))).await;
        site.force(&path, "two", with(json!(["a", "c"]))).await;
        site.apply(&path, "one", with_containers(json!([{ "name": "c", "image": "i" }])))
            .await;
    });
}

#[test]
fn an_atomic_object_has_one_manager() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = "/api/v1/namespaces/{ns}/services/a";
        let service = |selector: Value| {
            json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "a" },
                "spec": { "clusterIP": "None", "selector": selector } })
        };
        site.apply(path, "one", service(json!({ "a": "1" }))).await;
        site.apply(path, "two", service(json!({ "b": "1" }))).await;
        site.force(path, "two", service(json!({ "b": "1" }))).await;
    });
}

#[test]
fn items_without_a_key_have_its_default() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{DEPLOYMENTS}/a");
        site.apply(&path, "one", with_containers(json!([{ "image": "i" }])))
            .await;
        site.apply(
            &path,
            "one",
            with_containers(json!([{ "name": "c", "image": "i", "ports": [{ "protocol": "UDP" }] }])),
        )
        .await;
        site.apply(
            &path,
            "one",
            with_containers(json!([{ "name": "c", "image": "i", "env": [{ "value": "x" }] }])),
        )
        .await;
    });
}

#[test]
fn tolerations_taints_and_conditions_merge_as_their_kinds_say() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = "/api/v1/nodes/{ns}";
        let node = |rest: Value| {
            let mut node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "{ns}" } });
            for (name, value) in rest.as_object().unwrap() {
                node[name] = value.clone();
            }
            node
        };
        site.apply(
            path,
            "one",
            node(json!({ "spec": { "taints": [{ "key": "a", "effect": "NoSchedule" }] } })),
        )
        .await;
        site.apply(
            path,
            "two",
            node(json!({ "spec": { "taints": [{ "key": "b", "effect": "NoSchedule" }] } })),
        )
        .await;
        let status = "/api/v1/nodes/{ns}/status";
        let conditions = |type_: &str| {
            node(
                json!({ "status": { "conditions": [{ "type": type_, "status": "True" }], "capacity": { type_: "1" } } }),
            )
        };
        site.apply(status, "one", conditions("A")).await;
        site.apply(status, "two", conditions("B")).await;
        site.apply(
            status,
            "one",
            node(json!({ "status": { "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }] } })),
        )
        .await;
    });
}
