//! Configurations that are not applied.

use super::*;

async fn brief(site: &Site, path: &str, manager: &str, body: Value) {
    let path = format!("{path}?fieldManager={manager}");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let answer = site.quietly("PATCH", &path, &headers, body).await;
    let (reason, message) = (&answer.body["reason"], &answer.body["message"]);
    site.note(&format!("{path} -> {} {reason} {message}", answer.code));
}

#[test]
fn the_options_are_checked() {
    contract!(async |site: &Site| {
        let path = format!("{MAPS}/a");
        let headers = [("content-type", "application/apply-patch+yaml")];
        site.send("PATCH", &path, &headers, map(json!({}))).await;
        let long = "m".repeat(129);
        site.send(
            "PATCH",
            &format!("{path}?fieldManager={long}"),
            &headers,
            map(json!({})),
        )
        .await;
        site.send("PATCH", &format!("{path}?fieldManager=a%07b"), &headers, map(json!({})))
            .await;
        site.send(
            "PATCH",
            &format!("{path}?fieldManager=a&fieldValidation=Some&dryRun=Any"),
            &headers,
            map(json!({})),
        )
        .await;
        site.merge(&format!("{path}?force=true"), json!({})).await;
        site.merge(&format!("{path}?fieldManager={long}"), json!({})).await;
        site.post(&format!("{MAPS}?fieldManager={long}"), map(json!({}))).await;
        site.put(&format!("{path}?fieldManager=%07&dryRun=x"), map(json!({})))
            .await;
    });
}

#[test]
fn the_kind_and_the_name_must_be_those_of_the_path() {
    contract!(async |site: &Site| {
        let path = format!("{MAPS}/a");
        let with = |field: &str, value: Value| {
            let mut object = map(json!({ "k": "1" }));
            object[field] = value;
            object
        };
        for body in [
            json!({}),
            json!([]),
            "".into(),
            "a: b: c".into(),
            "- a".into(),
            with("kind", Value::Null),
            with("kind", "Secret".into()),
            with("apiVersion", "v2".into()),
            with("apiVersion", "apps/v1".into()),
            with("metadata", json!({})),
            with("metadata", json!({ "name": "b" })),
            with("metadata", json!({ "name": "a", "namespace": "other" })),
            with("metadata", json!({ "name": "a", "managedFields": [] })),
            with(
                "metadata",
                json!({ "name": "a", "managedFields": [{ "manager": "x" }] }),
            ),
            with("metadata", json!({ "name": "a", "managedFields": null })),
        ] {
            brief(site, &path, "one", body).await;
        }
    });
}

#[test]
fn the_fields_must_have_the_types_of_the_kind() {
    contract!(async |site: &Site| {
        let path = format!("{DEPLOYMENTS}/a");
        for spec in [
            json!({ "replica": 1 }),
            json!({ "replicas": "three" }),
            json!({ "replicas": 1.5 }),
            json!({ "paused": 5 }),
            json!({ "paused": "yes" }),
            json!({ "selector": "a=b" }),
            json!({ "selector": { "matchLabels": ["a"] } }),
            json!({ "selector": { "matchLabels": { "a": 5 } } }),
            json!({ "strategy": { "type": 7, "rollingUpdate": { "maxSurge": 1, "maxUnavailable": true } } }),
            json!({ "template": { "spec": { "containers": {} } } }),
            json!({ "template": { "spec": { "containers": ["c"] } } }),
            json!({ "template": { "spec": { "containers": [{ "name": "c", "imagee": "i" }] } } }),
            json!({ "template": { "spec": { "containers": [{ "name": "c" }, { "name": "c" }] } } }),
            json!({ "template": { "spec": { "containers": [{ "name": "c", "args": "x" }] } } }),
            json!({ "template": { "spec": { "containers": [{ "name": "c", "args": [1, true] }] } } }),
            json!({ "template": { "spec": { "containers": [null] } } }),
            json!({ "template": { "metadata": { "finalizers": ["a", "a"] } } }),
            json!({ "template": { "metadata": { "finalizers": [["a"]] } } }),
            json!({ "template": { "metadata": { "finalizers": [{}] } } }),
            json!({ "template": { "metadata": { "finalizers": [null] } } }),
            json!("x"),
        ] {
            brief(site, &path, "one", deployment(spec)).await;
        }
        // Upstream lists several violations of a map in any order.
        for value in [json!(5), json!(true), json!({}), json!([])] {
            brief(site, &format!("{MAPS}/a"), "one", map(json!({ "k": value }))).await;
        }
        brief(site, &format!("{MAPS}/a"), "one", map(json!("text"))).await;
    });
}

#[test]
fn an_invalid_result_is_refused() {
    contract!(async |site: &Site| {
        let path = format!("{DEPLOYMENTS}/a");
        brief(site, &path, "one", deployment(json!({ "replicas": 1 }))).await;
        site.apply(&path, "one", with_containers(json!([{ "name": "c", "image": "i" }])))
            .await;
        brief(site, &path, "one", deployment(json!({ "replicas": -1 }))).await;
        brief(
            site,
            &path,
            "two",
            deployment(json!({ "selector": { "matchLabels": { "b": "c" } } })),
        )
        .await;
        brief(
            site,
            &format!("{path}/status"),
            "two",
            deployment(json!({ "status": { "replicas": -3 } })),
        )
        .await;
        brief(
            site,
            &format!("{DEPLOYMENTS}/missing/status"),
            "two",
            deployment(json!({})),
        )
        .await;
        brief(site, "/api/v1/namespaces/missing/configmaps/a", "two", map(json!({}))).await;
    });
}

#[test]
fn a_configuration_is_yaml() {
    contract!(async |site: &Site| {
        site.keep_managers();
        let path = format!("{MAPS}/a");
        let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: \"1\"\n  # a comment\n  l: |\n    text\n";
        site.apply(&path, "one", text.into()).await;
        let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: \"1\"\n  k: \"2\"\n";
        for validation in ["Ignore", "Warn", "Strict"] {
            site.apply(&format!("{path}?fieldValidation={validation}"), "one", twice.into())
                .await;
        }
    });
}

#[test]
fn other_media_types_are_not_accepted() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        for media_type in [
            "application/json",
            "application/apply-patch+json",
            "application/yaml",
            "text/plain",
        ] {
            site.send(
                "PATCH",
                &format!("{MAPS}/a"),
                &[("content-type", media_type)],
                json!({}),
            )
            .await;
        }
    });
}

#[test]
fn a_missing_object_needs_the_permission_to_create_it() {
    contract!(async |site: &Site| {
        let rules = [json!({ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch", "get"] })];
        site.grant(
            "{ns}",
            "patcher",
            &json!({ "kind": "User", "name": "anna-{ns}" }),
            &rules,
        )
        .await;
        let headers = [
            ("impersonate-user", "anna-{ns}"),
            ("content-type", "application/apply-patch+yaml"),
        ];
        let path = format!("{MAPS}/a?fieldManager=one");
        site.send("PATCH", &path, &headers, map(json!({ "k": "1" }))).await;
        site.config_map("a", "1").await;
        site.send("PATCH", &path, &headers, map(json!({ "k": "1" }))).await;
    });
}
