//! Create, read, replace: fields that the server sets, keeps and rejects.

use serde_json::{Value, json};

use super::contract;

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

#[test]
fn an_object_is_created_read_replaced_and_deleted() {
    contract!(async |site: &super::Site| {
        let created = site
            .post(MAPS, json!({ "metadata": { "name": "a" }, "data": { "k": "1" } }))
            .await;
        let path = format!("{MAPS}/a");
        site.get(&path).await;
        let mut changed = created.body;
        changed["data"]["k"] = "2".into();
        site.put(&path, changed).await;
        site.delete(&path, Value::Null).await;
        site.get(&path).await;
    });
}

#[test]
fn an_existing_object_cannot_be_created() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        site.post(MAPS, json!({ "metadata": { "name": "a" } })).await;
    });
}

#[test]
fn the_server_sets_its_own_metadata() {
    contract!(async |site: &super::Site| {
        let metadata = json!({
            "name": "a", "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7,
            "deletionTimestamp": "2001-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5, "selfLink": "/x",
        });
        let created = site.post(MAPS, json!({ "metadata": metadata })).await;
        site.note(&format!("uid kept: {}", created.body["metadata"]["uid"] == "mine"));
    });
}

#[test]
fn a_new_object_must_not_have_a_revision() {
    contract!(async |site: &super::Site| {
        site.post(MAPS, json!({ "metadata": { "name": "a", "resourceVersion": "5" } }))
            .await;
    });
}

#[test]
fn a_name_is_required_and_checked() {
    contract!(async |site: &super::Site| {
        site.post(MAPS, json!({ "metadata": {} })).await;
        for name in ["A", "a_b", "-a", "a/b", "..", "a..b"] {
            site.post(MAPS, json!({ "metadata": { "name": name } })).await;
        }
        site.post(MAPS, json!({ "metadata": { "name": "a".repeat(254) } }))
            .await;
    });
}

#[test]
fn names_of_namespaces_are_labels() {
    contract!(async |site: &super::Site| {
        for name in ["a.b", "A"] {
            site.post("/api/v1/namespaces", json!({ "metadata": { "name": name } }))
                .await;
        }
        site.post("/api/v1/namespaces", json!({ "metadata": { "name": "a".repeat(64) } }))
            .await;
    });
}

#[test]
fn a_name_is_generated_from_its_prefix() {
    contract!(async |site: &super::Site| {
        let created = site
            .quietly("POST", MAPS, &[], json!({ "metadata": { "generateName": "pre-" } }))
            .await;
        let name = created.body["metadata"]["name"].as_str().unwrap().to_owned();
        site.note(&format!("{} prefix {} length {}", created.code, &name[..4], name.len()));
        site.note(&created.body["metadata"]["generateName"].to_string());
        let long = "p".repeat(80);
        let created = site
            .quietly("POST", MAPS, &[], json!({ "metadata": { "generateName": long } }))
            .await;
        site.note(&format!(
            "{} length {}",
            created.code,
            created.body["metadata"]["name"].as_str().unwrap().len()
        ));
    });
}

#[test]
fn the_body_must_match_the_path() {
    contract!(async |site: &super::Site| {
        site.post(MAPS, json!({ "metadata": { "name": "a", "namespace": "other" } }))
            .await;
        site.post(
            MAPS,
            json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" } }),
        )
        .await;
        site.post(
            MAPS,
            json!({ "apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": { "name": "a" } }),
        )
        .await;
        site.config_map("a", "1").await;
        site.put(&format!("{MAPS}/a"), json!({ "metadata": { "name": "b" } }))
            .await;
        site.put(
            &format!("{MAPS}/a"),
            json!({ "metadata": { "name": "a", "namespace": "other" } }),
        )
        .await;
        site.put(&format!("{MAPS}/missing"), json!({ "metadata": { "name": "missing" } }))
            .await;
    });
}

#[test]
fn a_write_with_a_stale_revision_conflicts() {
    contract!(async |site: &super::Site| {
        let old = site.config_map("a", "1").await.body;
        site.merge(&format!("{MAPS}/a"), json!({ "data": { "k": "2" } })).await;
        site.put(&format!("{MAPS}/a"), old).await;
    });
}

#[test]
fn a_write_with_another_uid_conflicts() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        let body = json!({ "metadata": { "name": "a", "uid": "00000000-0000-4000-8000-000000000000" } });
        site.put(&format!("{MAPS}/a"), body).await;
    });
}

#[test]
fn a_write_without_a_revision_is_unconditional() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        site.put(
            &format!("{MAPS}/a"),
            json!({ "metadata": { "name": "a" }, "data": { "k": "2" } }),
        )
        .await;
    });
}

#[test]
fn a_write_without_changes_creates_no_revision() {
    contract!(async |site: &super::Site| {
        let created = site.config_map("a", "1").await.body;
        site.put(&format!("{MAPS}/a"), created.clone()).await;
        site.merge(&format!("{MAPS}/a"), json!({ "data": { "key": "1" } }))
            .await;
        site.get(&format!("{MAPS}/a")).await;
    });
}

#[test]
fn server_managed_metadata_is_immutable() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        let path = format!("{MAPS}/a");
        site.merge(
            &path,
            json!({ "metadata": { "creationTimestamp": "2001-01-01T00:00:00Z" } }),
        )
        .await;
        site.merge(
            &path,
            json!({ "metadata": { "deletionTimestamp": "2001-01-01T00:00:00Z" } }),
        )
        .await;
        site.merge(&path, json!({ "metadata": { "generation": 9 } })).await;
        site.merge(&path, json!({ "metadata": { "name": "b" } })).await;
        site.merge(&path, json!({ "metadata": { "namespace": "b" } })).await;
        site.merge(&path, json!({ "metadata": { "uid": "x" } })).await;
        site.merge(&path, json!({ "metadata": { "deletionGracePeriodSeconds": 5 } }))
            .await;
        site.put(
            &path,
            json!({ "metadata": { "name": "a", "deletionTimestamp": "2001-01-01T00:00:00Z" } }),
        )
        .await;
    });
}

#[test]
fn labels_annotations_finalizers_and_owners_are_checked() {
    contract!(async |site: &super::Site| {
        for metadata in [
            json!({ "labels": { "-a": "b" } }),
            json!({ "labels": { "a": "b c" } }),
            json!({ "labels": { "a/b/c": "" } }),
            json!({ "annotations": { "a b": "" } }),
            json!({ "finalizers": ["x y"] }),
            json!({ "finalizers": ["plain"] }),
            json!({ "ownerReferences": [{ "apiVersion": "v1", "kind": "", "name": "", "uid": "" }] }),
            json!({ "ownerReferences": [
                { "apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": true },
                { "apiVersion": "v1", "kind": "B", "name": "b", "uid": "2", "controller": true },
            ] }),
        ] {
            let mut metadata = metadata;
            metadata["name"] = "a".into();
            site.post(MAPS, json!({ "metadata": metadata })).await;
        }
    });
}

#[test]
fn a_dry_run_stores_nothing() {
    contract!(async |site: &super::Site| {
        site.post(&format!("{MAPS}?dryRun=All"), json!({ "metadata": { "name": "a" } }))
            .await;
        site.get(&format!("{MAPS}/a")).await;
        site.config_map("a", "1").await;
        site.merge(&format!("{MAPS}/a?dryRun=All"), json!({ "data": { "k": "2" } }))
            .await;
        site.delete(&format!("{MAPS}/a?dryRun=All"), Value::Null).await;
        site.get(&format!("{MAPS}/a")).await;
        site.post(&format!("{MAPS}?dryRun=Some"), json!({ "metadata": { "name": "b" } }))
            .await;
    });
}

#[test]
fn unknown_and_duplicate_fields_are_errors_warnings_or_dropped() {
    contract!(async |site: &super::Site| {
        let body = r#"{"metadata":{"name":"a","foo":1},"data":{"k":"1","k":"2"},"extra":{"x":1}}"#;
        for mode in ["Strict", "Warn", "Ignore", "Other"] {
            site.send(
                "POST",
                &format!("{MAPS}?dryRun=All&fieldValidation={mode}"),
                &[],
                body.into(),
            )
            .await;
        }
        site.send("POST", &format!("{MAPS}?dryRun=All"), &[], body.into()).await;
    });
}

#[test]
fn data_of_config_maps_and_secrets_is_checked() {
    contract!(async |site: &super::Site| {
        site.post(MAPS, json!({ "metadata": { "name": "a" }, "data": { "a b": "1" } }))
            .await;
        site.post(
            MAPS,
            json!({ "metadata": { "name": "a" }, "data": { "a": "1" }, "binaryData": { "a": "MQ==" } }),
        )
        .await;
        let secrets = "/api/v1/namespaces/{ns}/secrets";
        site.post(
            secrets,
            json!({ "metadata": { "name": "a" }, "stringData": { "k": "v" } }),
        )
        .await;
        site.post(
            secrets,
            json!({ "metadata": { "name": "b" }, "data": { "k": "not base64!" } }),
        )
        .await;
        site.merge(&format!("{secrets}/a"), json!({ "type": "other" })).await;
        site.merge(&format!("{secrets}/a"), json!({ "immutable": true })).await;
        site.merge(&format!("{secrets}/a"), json!({ "stringData": { "k": "w" } }))
            .await;
        site.post(
            secrets,
            json!({ "metadata": { "name": "c" }, "type": "kubernetes.io/tls" }),
        )
        .await;
    });
}
