//! Updates of pods and of their status.

use serde_json::{Value, json};

use super::{PODS, Site, changed, contract, pod};

#[test]
fn tolerations_and_deadlines() {
    contract!(async |site: &Site| {
        site.step(
            "POST",
            PODS,
            pod(
                "a",
                json!({ "activeDeadlineSeconds": 50, "tolerations": [{ "key": "a", "operator": "Exists" }] }),
                json!({}),
            ),
        )
        .await;
        let path = format!("{PODS}/a");
        let stored = site.quietly("GET", &path, &[], Value::Null).await.body;
        let tolerations = stored["spec"]["tolerations"].as_array().unwrap().clone();
        let mut more = tolerations.clone();
        more.push(json!({ "key": "b", "operator": "Exists" }));
        let mut longer = tolerations.clone();
        longer[1]["tolerationSeconds"] = 600.into();
        for (what, spec) in [
            ("one more toleration", json!({ "tolerations": more })),
            ("one less", json!({ "tolerations": tolerations[1..] })),
            ("longer", json!({ "tolerations": longer })),
            ("a shorter deadline", json!({ "activeDeadlineSeconds": 40 })),
            ("a longer deadline", json!({ "activeDeadlineSeconds": 60 })),
            ("no deadline", json!({ "activeDeadlineSeconds": null })),
            ("a grace period", json!({ "terminationGracePeriodSeconds": 5 })),
        ] {
            changed(site, what, &path, json!({ "spec": spec }), "/metadata/generation").await;
        }
    });
}

#[test]
fn images_and_other_fields_of_containers() {
    contract!(async |site: &Site| {
        let object = pod(
            "a",
            json!({ "initContainers": [{ "name": "i", "image": "i:1" }] }),
            json!({ "resources": { "limits": { "cpu": "1" } } }),
        );
        site.step("POST", PODS, object).await;
        let path = format!("{PODS}/a");
        let strategic = [("content-type", "application/strategic-merge-patch+json")];
        for (what, spec) in [
            ("an image", json!({ "containers": [{ "name": "c", "image": "i:2" }] })),
            (
                "an image of the init container",
                json!({ "initContainers": [{ "name": "i", "image": "i:2" }] }),
            ),
            (
                "environment",
                json!({ "containers": [{ "name": "c", "env": [{ "name": "A", "value": "1" }] }] }),
            ),
            (
                "resources",
                json!({ "containers": [{ "name": "c", "resources": { "limits": { "cpu": "2" } } }] }),
            ),
            (
                "another container",
                json!({ "containers": [{ "name": "d", "image": "i:1" }] }),
            ),
            ("a volume", json!({ "volumes": [{ "name": "v", "emptyDir": {} }] })),
        ] {
            let answer = site
                .quietly(
                    "PATCH",
                    &format!("{path}?dryRun=All"),
                    &strategic,
                    json!({ "spec": spec }),
                )
                .await;
            let cause = &answer.body["details"]["causes"][0];
            let message = cause["message"]
                .as_str()
                .unwrap_or_default()
                .lines()
                .next()
                .unwrap_or_default();
            site.note(&format!(
                "{what}: {} {} {} {message}",
                answer.code, cause["field"], answer.body["metadata"]["generation"]
            ));
        }
    });
}
