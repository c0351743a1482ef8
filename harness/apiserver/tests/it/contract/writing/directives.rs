//! The directives of strategic merge patches.

use serde_json::{Value, json};

use super::super::site::Site;
use super::{DEPLOYMENTS, contract, patched, workload};

const STRATEGIC: &str = "strategic-merge-patch";
const POD: &str = "/spec/template/spec";

/// A deployment with two containers, environment, volumes and a node selector.
fn rich() -> Value {
    let env = |name: &str| json!({ "name": name, "value": "1" });
    workload(
        "a",
        json!({
            "containers": [
                { "name": "a", "image": "i:1", "env": [env("X"), env("Y"), env("Z")], "ports": [{ "containerPort": 80 }], "args": ["1", "2"] },
                { "name": "b", "image": "i:1" },
            ],
            "volumes": [{ "name": "v", "emptyDir": {} }, { "name": "w", "configMap": { "name": "m" } }],
            "nodeSelector": { "a": "1", "b": "2" },
            "tolerations": [{ "key": "k", "operator": "Exists" }],
        }),
    )
}

/// Creates the deployment and patches its pod template; records a part of the result.
async fn template(site: &Site, patches: &[(Value, &str)]) {
    site.step("POST", DEPLOYMENTS, rich()).await;
    for (patch, part) in patches {
        let patch = json!({ "spec": { "template": { "spec": patch } } });
        let path = format!("{DEPLOYMENTS}/a?dryRun=All");
        patched(site, &path, STRATEGIC, patch, &format!("{POD}{part}")).await;
    }
}

#[test]
fn a_map_is_replaced_or_removed() {
    contract!(async |site: &Site| {
        let patches = [
            (json!({ "nodeSelector": { "c": "3" } }), "/nodeSelector"),
            (
                json!({ "nodeSelector": { "$patch": "replace", "c": "3" } }),
                "/nodeSelector",
            ),
            (json!({ "nodeSelector": { "$patch": "delete" } }), "/nodeSelector"),
            (json!({ "nodeSelector": { "a": null } }), "/nodeSelector"),
            (json!({ "nodeSelector": null }), "/nodeSelector"),
        ];
        template(site, &patches).await;
    });
}

#[test]
fn items_of_a_list_are_replaced_or_removed() {
    contract!(async |site: &Site| {
        let container = json!({ "name": "c", "image": "i:2" });
        let images = "/containers";
        let patches = [
            (
                json!({ "containers": [{ "$patch": "replace" }, container] }),
                "/containers/0/name",
            ),
            (
                json!({ "containers": [{ "name": "b", "$patch": "delete" }] }),
                "/containers/1",
            ),
            (
                json!({ "containers": [{ "name": "absent", "$patch": "delete" }] }),
                "/containers/1/name",
            ),
            (
                json!({ "containers": [{ "name": "b", "$patch": "replace", "image": "i:2" }] }),
                "/containers/0/name",
            ),
            (
                json!({ "containers": [{ "name": "a", "$patch": "delete" }, { "name": "b", "$patch": "delete" }] }),
                images,
            ),
            (json!({ "volumes": [{ "$patch": "delete", "name": "v" }] }), "/volumes"),
        ];
        template(site, &patches).await;
    });
}

#[test]
fn lists_without_a_key_are_replaced() {
    contract!(async |site: &Site| {
        let patches = [
            (
                json!({ "tolerations": [{ "key": "l", "operator": "Exists" }] }),
                "/tolerations",
            ),
            (
                json!({ "containers": [{ "name": "a", "args": ["3"] }] }),
                "/containers/0/args",
            ),
            (
                json!({ "containers": [{ "name": "a", "args": [] }] }),
                "/containers/0/args",
            ),
            (json!({ "tolerations": null }), "/tolerations"),
        ];
        template(site, &patches).await;
    });
}

#[test]
fn primitive_lists_are_sets() {
    contract!(async |site: &Site| {
        let map = json!({ "metadata": { "name": "a", "finalizers": ["x.io/a", "x.io/b", "x.io/c"] } });
        site.step("POST", super::MAPS, map).await;
        let path = format!("{}/a", super::MAPS);
        for patch in [
            json!({ "$deleteFromPrimitiveList/finalizers": ["x.io/b", "x.io/absent"] }),
            json!({ "finalizers": ["x.io/a", "x.io/d"] }),
            json!({ "$setElementOrder/finalizers": ["x.io/d", "x.io/e", "x.io/a"], "finalizers": ["x.io/e"] }),
            // Upstream deletes and adds in any order: a value of both lists is there afterwards, or not.
            json!({ "$deleteFromPrimitiveList/finalizers": ["x.io/a"], "finalizers": ["x.io/f"] }),
            json!({ "finalizers": ["$patch"] }),
            json!({ "finalizers": null }),
        ] {
            patched(
                site,
                &path,
                STRATEGIC,
                json!({ "metadata": patch }),
                "/metadata/finalizers",
            )
            .await;
        }
    });
}
