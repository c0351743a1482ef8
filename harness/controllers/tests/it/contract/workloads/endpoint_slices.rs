//! EndpointSlices.

use std::time::Duration;

use serde_json::{Value, json};

use super::{contract, end, is_deleting, name, node, path_of, remove, run, with};
use crate::contract::Site;

const SLICES: &str =
    "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices?labelSelector=kubernetes.io/service-name%3Dweb";

fn service(change: Value) -> Value {
    let base = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": 8080 }] },
    });
    with(base, json!({ "spec": change }))
}

/// Creates a node, because endpoints need one.
async fn create_node(site: &Site) -> String {
    node(site, "n", json!({})).await
}

/// Creates a pod of the app with an address, ready or not.
async fn pod(site: &Site, suffix: u8, is_ready: bool, change: Value) -> Value {
    let base = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": format!("web-{suffix}"), "labels": { "app": "web" } },
        "spec": super::template("web")["spec"],
    });
    let base = with(base, json!({ "spec": { "nodeName": "{ns}-n" } }));
    let created = site.create(with(base, json!({ "spec": change }))).await;
    run(site, &created, is_ready).await;
    let ip = format!("10.1.0.{suffix}");
    site.set_status(&path_of(&created), json!({ "podIP": ip, "podIPs": [{ "ip": ip }] }))
        .await
}

fn endpoints(slices: &[Value]) -> Vec<&Value> {
    let all = slices.iter().filter_map(|slice| slice["endpoints"].as_array());
    all.flatten().collect()
}

/// Waits for one slice with this number of endpoints.
async fn slice(site: &Site, count: usize) -> Value {
    let mut slices = site
        .until_all(SLICES, &format!("one slice of {count}"), |slices| {
            slices.len() == 1 && endpoints(slices).len() == count
        })
        .await;
    slices.remove(0)
}

#[test]
fn a_service_without_pods_has_an_empty_slice() {
    contract!(async |site: &Site| {
        let mut object = service(json!({}));
        object["metadata"]["labels"] = json!({ "team": "a" });
        let service = site.create(object).await;
        let slice = slice(site, 0).await;
        assert_eq!(slice["addressType"], "IPv4");
        assert_eq!(slice["metadata"]["generateName"], "web-");
        let labels = json!({
            "team": "a", "kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        });
        assert_eq!(slice["metadata"]["labels"], labels);
        let owner = json!([{
            "apiVersion": "v1", "kind": "Service", "name": "web", "uid": service["metadata"]["uid"],
            "controller": true, "blockOwnerDeletion": true,
        }]);
        assert_eq!(slice["metadata"]["ownerReferences"], owner);
    });
}

#[test]
fn a_ready_pod_is_a_ready_endpoint() {
    contract!(async |site: &Site| {
        create_node(site).await;
        site.create(service(json!({}))).await;
        let pod = pod(site, 1, true, json!({})).await;
        let slice = slice(site, 1).await;
        let expected = json!([{
            "addresses": ["10.1.0.1"],
            "conditions": { "ready": true, "serving": true, "terminating": false },
            "nodeName": format!("{}-n", site.namespace()),
            "targetRef": {
                "kind": "Pod", "name": "web-1", "namespace": site.namespace(), "uid": pod["metadata"]["uid"],
            },
        }]);
        assert_eq!(slice["endpoints"], expected);
        assert_eq!(slice["ports"], json!([{ "name": "", "port": 8080, "protocol": "TCP" }]));
    });
}

#[test]
fn an_unscheduled_pod_is_no_endpoint() {
    contract!(async |site: &Site| {
        site.create(service(json!({}))).await;
        pod(site, 1, true, json!({ "nodeName": null })).await;
        slice(site, 0).await;
        site.never_all(SLICES, Duration::from_secs(1), "an endpoint", |slices| {
            !endpoints(slices).is_empty()
        })
        .await;
    });
}

#[test]
fn readiness_follows_the_pod() {
    contract!(async |site: &Site| {
        create_node(site).await;
        site.create(service(json!({}))).await;
        let pod = pod(site, 1, false, json!({})).await;
        let first = slice(site, 1).await;
        assert_eq!(first["endpoints"][0]["conditions"]["ready"], false);
        assert_eq!(first["endpoints"][0]["conditions"]["serving"], false);
        run(site, &pod, true).await;
        site.until_all(SLICES, "ready", |slices| {
            slices.len() == 1 && slices[0]["endpoints"][0]["conditions"]["ready"] == true
        })
        .await;
    });
}

#[test]
fn a_terminating_pod_serves_and_is_not_ready() {
    contract!(async |site: &Site| {
        let zone = json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "zone-a" } } });
        let node = node(site, "n", zone).await;
        site.create(service(json!({}))).await;
        let pod = pod(site, 1, true, json!({})).await;
        let first = slice(site, 1).await;
        assert_eq!(first["endpoints"][0]["nodeName"], node);
        assert_eq!(first["endpoints"][0]["zone"], "zone-a");
        site.delete(&path_of(&pod), json!({})).await;
        site.until_it(&path_of(&pod), "going", is_deleting).await;
        let expected = json!({ "ready": false, "serving": true, "terminating": true });
        site.until_all(SLICES, "terminating", |slices| {
            slices.len() == 1 && slices[0]["endpoints"][0]["conditions"] == expected
        })
        .await;
        remove(site, &pod).await;
        slice(site, 0).await;
    });
}

#[test]
fn a_finished_pod_is_no_endpoint() {
    contract!(async |site: &Site| {
        create_node(site).await;
        site.create(service(json!({}))).await;
        let pod = pod(site, 1, true, json!({})).await;
        slice(site, 1).await;
        end(site, &pod, "Failed").await;
        slice(site, 0).await;
    });
}

#[test]
fn addresses_may_be_published_before_they_are_ready() {
    contract!(async |site: &Site| {
        site.create(service(json!({ "publishNotReadyAddresses": true }))).await;
        pod(site, 1, false, json!({ "nodeName": null })).await;
        let slice = slice(site, 1).await;
        let expected = json!({ "ready": true, "serving": false, "terminating": false });
        assert_eq!(slice["endpoints"][0]["conditions"], expected);
    });
}

#[test]
fn a_headless_service_has_slices_with_host_names() {
    contract!(async |site: &Site| {
        create_node(site).await;
        site.create(service(json!({ "clusterIP": "None" }))).await;
        pod(site, 1, true, json!({ "hostname": "one", "subdomain": "web" })).await;
        let slice = slice(site, 1).await;
        assert_eq!(slice["metadata"]["labels"]["service.kubernetes.io/headless"], "");
        assert_eq!(slice["endpoints"][0]["hostname"], "one");
    });
}

#[test]
fn a_service_without_a_selector_has_no_slices() {
    contract!(async |site: &Site| {
        site.create(service(json!({ "selector": null }))).await;
        site.never_all(SLICES, Duration::from_secs(1), "a slice", |slices| !slices.is_empty())
            .await;
    });
}

#[test]
fn pods_with_different_named_ports_are_in_separate_slices() {
    contract!(async |site: &Site| {
        create_node(site).await;
        let named = json!({ "ports": [{ "name": "http", "port": 80, "targetPort": "web" }] });
        site.create(service(named)).await;
        for (suffix, port) in [(1, 8080), (2, 9090)] {
            let ports = json!([{ "name": "web", "containerPort": port }]);
            let containers = json!([{ "name": "main", "image": "image:1", "ports": ports }]);
            pod(site, suffix, true, json!({ "containers": containers })).await;
        }
        let slices = site
            .until_all(SLICES, "two slices of one", |slices| {
                slices.len() == 2
                    && slices
                        .iter()
                        .all(|slice| endpoints(std::slice::from_ref(slice)).len() == 1)
            })
            .await;
        for slice in &slices {
            let target = slice["endpoints"][0]["targetRef"]["name"].as_str().unwrap();
            let port = if target == "web-1" { 8080 } else { 9090 };
            assert_eq!(
                slice["ports"],
                json!([{ "name": "http", "port": port, "protocol": "TCP" }])
            );
        }
    });
}

#[test]
fn a_slice_holds_at_most_a_hundred_endpoints() {
    contract!(async |site: &Site| {
        create_node(site).await;
        site.create(service(json!({}))).await;
        for suffix in 1..=101 {
            pod(site, suffix, true, json!({})).await;
        }
        let slices = site
            .until_all(SLICES, "101 endpoints", |slices| {
                endpoints(slices).len() == 101
                    && slices
                        .iter()
                        .all(|slice| endpoints(std::slice::from_ref(slice)).len() <= 100)
            })
            .await;
        assert_eq!(slices.len(), 2);
        assert_ne!(name(&slices[0]), name(&slices[1]));
    });
}
