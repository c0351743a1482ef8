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
