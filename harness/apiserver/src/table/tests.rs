//! Checks tables from kubectl's view.

use rstest::rstest;
use serde_json::json;

use super::*;
use crate::kinds;

const NOW: i64 = 1_000_000;

fn resource(plural: &str) -> Resource {
    kinds::builtin().into_iter().find(|row| row.plural == plural).unwrap()
}

fn created() -> Value {
    json!({ "name": "a", "namespace": "n", "creationTimestamp": "1970-01-12T13:41:40Z" })
}

#[test]
fn a_table_has_columns_and_rows() {
    let node = json!({
        "metadata": created(),
        "spec": { "unschedulable": true },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": "10.0.0.1" }],
            "conditions": [{ "type": "Ready", "status": "True" }],
            "nodeInfo": { "kubeletVersion": "v1.36.0", "osImage": "fake" },
        },
    });
    let metadata = json!({ "resourceVersion": "7" });
    insta::assert_yaml_snapshot!(render(
        &resource("nodes"),
        &[node],
        metadata,
        Include::Metadata,
        NOW,
        true
    ));
}

#[test]
fn later_events_of_a_watch_have_no_columns() {
    let table = render(&resource("nodes"), &[json!({})], json!({}), Include::None, NOW, false);
    assert_eq!(table["columnDefinitions"], json!([]));
    assert_eq!(table["rows"][0].get("object"), None);
}

#[test]
fn every_row_has_a_cell_for_each_column() {
    // IPAddresses have a cell more, as upstream.
    for resource in kinds::builtin()
        .into_iter()
        .filter(|resource| resource.kind != "IPAddress")
    {
        let table = render(
            &resource,
            &[json!({ "metadata": created() })],
            json!({}),
            Include::Object,
            NOW,
            true,
        );
        let (columns, cells) = (&table["columnDefinitions"], &table["rows"][0]["cells"]);
        assert_eq!(
            columns.as_array().unwrap().len(),
            cells.as_array().unwrap().len(),
            "{}",
            resource.plural
        );
    }
}

#[rstest]
#[case("namespaces", json!({ "status": { "phase": "Active" } }), json!(["a", "Active", "5m"]))]
#[case("secrets", json!({ "type": "Opaque", "data": { "k": "" } }), json!(["a", "Opaque", 1, "5m"]))]
#[case("leases", json!({ "spec": { "holderIdentity": "h" } }), json!(["a", "h", "5m"]))]
#[case(
    "events",
    json!({
        "involvedObject": { "kind": "Node", "name": "n" }, "type": "Normal", "reason": "R", "message": "m\n",
        "lastTimestamp": "1970-01-12T13:46:30Z", "firstTimestamp": "1970-01-12T13:46:00Z", "count": 2,
        "source": { "component": "c", "host": "h" },
    }),
    json!(["10s", "Normal", "R", "node/n", "", "c, h", "m", "40s", 2, "a"])
)]
#[case(
    "poddisruptionbudgets",
    json!({ "spec": { "maxUnavailable": "50%" }, "status": { "disruptionsAllowed": 1 } }),
    json!(["a", "N/A", "50%", 1, "5m"])
)]
#[case(
    "persistentvolumeclaims",
    json!({
        "spec": { "volumeName": "v", "storageClassName": "s" },
        "status": { "phase": "Bound", "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"] },
    }),
    json!(["a", "Bound", "v", "1Gi", "RWO", "s", "<unset>", "5m", "<unset>"])
)]
#[case(
    "volumeattachments",
    json!({ "spec": { "attacher": "d", "nodeName": "n", "source": { "persistentVolumeName": "v" } } }),
    json!(["a", "d", "v", "n", false, "5m"])
)]
#[case(
    "deployments",
    json!({
        "spec": {
            "replicas": 3, "selector": { "matchLabels": { "app": "a" } },
            "template": { "spec": { "containers": [{ "name": "c", "image": "i" }] } },
        },
        "status": { "readyReplicas": 2, "updatedReplicas": 3 },
    }),
    json!(["a", "2/3", 3, 0, "5m", "c", "i", "app=a"])
)]
#[case(
    "services",
    json!({ "spec": { "type": "NodePort", "clusterIP": "10.96.0.1",
        "ports": [{ "port": 80, "nodePort": 30080, "protocol": "TCP" }] } }),
    json!(["a", "NodePort", "10.96.0.1", "<none>", "80:30080/TCP", "5m", "<none>"])
)]
#[case("customresourcedefinitions", json!({}), json!(["a", "1970-01-12T13:41:40Z"]))]
fn cells_are_those_of_kubernetes(#[case] plural: &str, #[case] mut object: Value, #[case] expected: Value) {
    object["metadata"] = created();
    let table = render(&resource(plural), &[object], json!({}), Include::None, NOW, false);
    assert_eq!(table["rows"][0]["cells"], expected);
}
