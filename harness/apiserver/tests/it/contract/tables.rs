//! Responses as tables and as metadata only.

use serde_json::{Value, json};

use super::contract;

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The names, types and priorities of the columns, and the cells. Omits the descriptions.
pub(super) async fn table(site: &super::Site, path: &str) {
    let answer = site.quietly("GET", path, &[("accept", TABLE)], Value::Null).await;
    site.note(&format!("TABLE {path}: {} {}", answer.code, answer.body["kind"]));
    let columns: Vec<String> = answer.body["columnDefinitions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| {
            format!(
                "{} {} {:?} {}",
                column["name"],
                column["type"],
                column["format"].as_str(),
                column["priority"]
            )
        })
        .collect();
    site.note(&columns.join(" | "));
    for row in answer.body["rows"].as_array().into_iter().flatten() {
        site.note(&row["cells"].to_string());
    }
}

#[test]
fn config_maps_as_a_table() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        let path = "/api/v1/namespaces/{ns}/configmaps?labelSelector=value";
        site.get_as(path, TABLE).await;
        site.get_as(&format!("{path}&includeObject=None"), TABLE).await;
        site.get_as("/api/v1/namespaces/{ns}/configmaps/a", TABLE).await;
        site.get_as("/api/v1/namespaces/{ns}/configmaps/missing", TABLE).await;
    });
}

#[test]
fn the_tables_of_common_kinds() {
    contract!(async |site: &super::Site| {
        for path in [
            "/api/v1/namespaces/{ns}/pods",
            "/api/v1/nodes?labelSelector=none",
            "/api/v1/namespaces?labelSelector=none",
            "/api/v1/namespaces/{ns}/secrets",
            "/api/v1/namespaces/{ns}/services",
            "/api/v1/namespaces/{ns}/serviceaccounts?labelSelector=none",
            "/api/v1/namespaces/{ns}/events?labelSelector=none",
            "/api/v1/persistentvolumes?labelSelector=none",
            "/api/v1/namespaces/{ns}/persistentvolumeclaims",
            "/apis/apps/v1/namespaces/{ns}/deployments",
            "/apis/apps/v1/namespaces/{ns}/replicasets",
            "/apis/apps/v1/namespaces/{ns}/statefulsets",
            "/apis/apps/v1/namespaces/{ns}/daemonsets",
            "/apis/batch/v1/namespaces/{ns}/jobs",
            "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets",
            "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
            "/apis/storage.k8s.io/v1/storageclasses",
            "/apis/storage.k8s.io/v1/csinodes?labelSelector=none",
            "/apis/storage.k8s.io/v1/csidrivers?labelSelector=none",
            "/apis/storage.k8s.io/v1/volumeattachments?labelSelector=none",
            "/apis/scheduling.k8s.io/v1/priorityclasses?labelSelector=none",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?labelSelector=none",
        ] {
            table(site, path).await;
        }
    });
}

#[test]
fn the_cells_of_a_pod_and_a_node() {
    contract!(async |site: &super::Site| {
        let pods = "/api/v1/namespaces/{ns}/pods";
        let pod = json!({
            "metadata": { "name": "p" },
            "spec": { "nodeName": "n", "containers": [{ "name": "a", "image": "i" }, { "name": "b", "image": "i" }] },
        });
        site.step("POST", pods, pod).await;
        let status = json!({
            "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{ "ip": "10.0.0.1" }],
            "containerStatuses": [
                { "name": "a", "image": "i", "imageID": "", "ready": true, "restartCount": 2, "state": { "running": {} } },
                { "name": "b", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                  "state": { "waiting": { "reason": "CrashLoopBackOff" } } },
            ],
        });
        let answer = site
            .quietly(
                "PATCH",
                &format!("{pods}/p/status"),
                &[("content-type", "application/merge-patch+json")],
                json!({ "status": status }),
            )
            .await;
        assert_eq!(answer.code, 200, "{}", answer.body);
        table(site, pods).await;
        site.step("DELETE", &format!("{pods}/p"), Value::Null).await;
        table(site, pods).await;
        let node = json!({
            "metadata": { "name": "{ns}", "labels": { "c": "{ns}", "node-role.kubernetes.io/worker": "" } },
            "spec": { "unschedulable": true },
            "status": {
                "conditions": [{ "type": "Ready", "status": "True" }],
                "addresses": [{ "type": "InternalIP", "address": "10.0.0.9" }],
                "nodeInfo": { "kubeletVersion": "v1.36.0", "osImage": "linux", "kernelVersion": "6", "containerRuntimeVersion": "x://1",
                    "machineID": "", "systemUUID": "", "bootID": "", "kubeProxyVersion": "", "operatingSystem": "", "architecture": "" },
            },
        });
        site.step("POST", "/api/v1/nodes", node).await;
        table(site, "/api/v1/nodes?labelSelector=c%3D{ns}").await;
        site.step("DELETE", "/api/v1/nodes/{ns}", Value::Null).await;
    });
}

#[test]
fn metadata_only() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        site.get_as("/api/v1/namespaces/{ns}/configmaps/a", METADATA).await;
        site.get_as("/api/v1/namespaces/{ns}/configmaps?labelSelector=value", METADATA_LIST)
            .await;
        let path = "/api/v1/namespaces/{ns}/configmaps?labelSelector=value";
        let answer = site
            .quietly(
                "GET",
                path,
                &[("accept", "application/json;as=Other;g=meta.k8s.io;v=v1")],
                Value::Null,
            )
            .await;
        site.note(&format!("{} {}", answer.code, answer.body["reason"]));
    });
}

#[test]
fn a_watch_of_tables_names_its_columns_once() {
    contract!(async |site: &super::Site| {
        site.config_map("a", "1").await;
        site.config_map("b", "1").await;
        let path = "/api/v1/namespaces/{ns}/configmaps?labelSelector=value&watch=true&timeoutSeconds=1";
        let answer = site.quietly("GET", path, &[("accept", TABLE)], Value::Null).await;
        for line in answer.body.as_str().unwrap_or_default().lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let columns = event["object"]["columnDefinitions"].as_array().map_or(0, Vec::len);
            site.note(&format!(
                "{} {} columns {columns} cells {}",
                event["type"], event["object"]["kind"], event["object"]["rows"][0]["cells"]
            ));
        }
    });
}
