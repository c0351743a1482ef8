//! Services: allocation of addresses and node ports, changes of the type, checks.

use serde_json::{Value, json};

use super::contract;
use super::site::Site;

const SERVICES: &str = "/api/v1/namespaces/{ns}/services";

fn service(name: &str, spec: Value) -> Value {
    let mut whole = json!({ "ports": [{ "port": 80 }] });
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    json!({ "metadata": { "name": name }, "spec": whole })
}

/// Records the spec of a service, without the allocated address and ports.
async fn record(site: &Site, path: &str) {
    let answer = site.quietly("GET", path, &[], Value::Null).await;
    let mut spec = answer.body["spec"].clone();
    let is_ours = |value: &Value| value.as_str().is_some_and(|text| text.starts_with("10."));
    for field in ["clusterIP", "clusterIPs"] {
        let has_own = is_ours(&spec[field]) || spec[field].get(0).is_some_and(is_ours);
        if has_own {
            spec[field] = "allocated".into();
        }
    }
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        if port["nodePort"]
            .as_i64()
            .is_some_and(|number| (30_000..32_768).contains(&number))
        {
            port["nodePort"] = "allocated".into();
        }
    }
    if spec["healthCheckNodePort"].is_number() {
        spec["healthCheckNodePort"] = "allocated".into();
    }
    site.note(&format!("{path}: {spec:#}"));
}

#[test]
fn defaults_of_each_type() {
    contract!(async |site: &Site| {
        for (name, spec) in [
            ("plain", json!({})),
            ("headless", json!({ "clusterIP": "None" })),
            ("selecting", json!({ "clusterIP": "None", "selector": { "a": "b" } })),
            (
                "external",
                json!({ "type": "ExternalName", "externalName": "example.com", "ports": null }),
            ),
            ("node-port", json!({ "type": "NodePort" })),
            ("balancer", json!({ "type": "LoadBalancer" })),
            (
                "local",
                json!({ "type": "LoadBalancer", "externalTrafficPolicy": "Local" }),
            ),
            ("sticky", json!({ "sessionAffinity": "ClientIP" })),
            (
                "unallocated",
                json!({ "type": "LoadBalancer", "allocateLoadBalancerNodePorts": false }),
            ),
            (
                "two-protocols",
                json!({ "type": "NodePort", "ports": [
                    { "name": "a", "port": 53, "protocol": "TCP" }, { "name": "b", "port": 53, "protocol": "UDP" },
                ] }),
            ),
        ] {
            let answer = site.quietly("POST", SERVICES, &[], service(name, spec)).await;
            site.note(&format!("{name}: {}", answer.code));
            record(site, &format!("{SERVICES}/{name}")).await;
        }
    });
}

#[test]
fn an_address_is_given_out_once() {
    contract!(async |site: &Site| {
        let first = site.quietly("POST", SERVICES, &[], service("first", json!({}))).await;
        let address = first.body["spec"]["clusterIP"].as_str().unwrap().to_owned();
        let path = format!("/apis/networking.k8s.io/v1/ipaddresses/{address}");
        let known = site.quietly("GET", &path, &[], Value::Null).await;
        site.note(&format!("{} {:#}", known.code, known.body["spec"]));
        site.note(&format!("{:#}", known.body["metadata"]["labels"]));
        let second = site
            .quietly(
                "POST",
                SERVICES,
                &[],
                service("second", json!({ "clusterIP": address })),
            )
            .await;
        site.note(
            &second.body["message"]
                .as_str()
                .unwrap_or("fine")
                .replace(&address, "ADDRESS"),
        );
        site.quietly("DELETE", &format!("{SERVICES}/first"), &[], Value::Null)
            .await;
        let gone = site.quietly("GET", &path, &[], Value::Null).await;
        site.note(&format!("the address after the deletion: {}", gone.code));
        let third = site
            .quietly("POST", SERVICES, &[], service("third", json!({ "clusterIP": address })))
            .await;
        site.note(&format!("{}", third.code));
    });
}

#[test]
fn an_address_belongs_to_the_range() {
    contract!(async |site: &Site| {
        site.post(SERVICES, service("a", json!({ "clusterIP": "192.168.0.1" })))
            .await;
        site.post(SERVICES, service("a", json!({ "clusterIP": "here" }))).await;
        site.post(SERVICES, service("a", json!({ "clusterIPs": ["192.168.0.1"] })))
            .await;
        let both = json!({ "clusterIP": "192.168.0.1", "clusterIPs": ["192.168.0.2"] });
        site.post(SERVICES, service("a", both)).await;
    });
}

#[test]
fn a_node_port_is_given_out_once() {
    contract!(async |site: &Site| {
        let first = site
            .quietly("POST", SERVICES, &[], service("first", json!({ "type": "NodePort" })))
            .await;
        let port = first.body["spec"]["ports"][0]["nodePort"].clone();
        let same = json!({ "type": "NodePort", "ports": [{ "port": 80, "nodePort": port }] });
        let second = site.quietly("POST", SERVICES, &[], service("second", same)).await;
        site.note(
            &second.body["message"]
                .as_str()
                .unwrap_or("fine")
                .replace(&port.to_string(), "PORT"),
        );
        for port in [80, 29_999, 32_768, 70_000] {
            let outside = json!({ "type": "NodePort", "ports": [{ "port": 80, "nodePort": port }] });
            site.post(SERVICES, service("outside", outside)).await;
        }
    });
}

#[test]
fn a_change_of_the_type() {
    contract!(async |site: &Site| {
        site.quietly("POST", SERVICES, &[], service("a", json!({}))).await;
        let path = format!("{SERVICES}/a");
        for kind in ["NodePort", "LoadBalancer", "ClusterIP"] {
            let answer = site
                .quietly(
                    "PATCH",
                    &path,
                    &[("content-type", "application/merge-patch+json")],
                    json!({ "spec": { "type": kind } }),
                )
                .await;
            site.note(&format!("{kind}: {}", answer.code));
            record(site, &path).await;
        }
        let external = json!({ "spec": { "type": "ExternalName", "externalName": "example.com" } });
        let headers = [("content-type", "application/merge-patch+json")];
        let answer = site.quietly("PATCH", &path, &headers, external).await;
        site.note(&format!("ExternalName: {}", answer.code));
        record(site, &path).await;
    });
}

#[test]
fn an_update_without_allocated_values_keeps_them() {
    contract!(async |site: &Site| {
        let created = site
            .quietly("POST", SERVICES, &[], service("a", json!({ "type": "NodePort" })))
            .await;
        let again = service("a", json!({ "type": "NodePort" }));
        let path = format!("{SERVICES}/a");
        let updated = site.quietly("PUT", &path, &[], again).await;
        site.note(&format!(
            "{} {}",
            updated.code,
            updated.body["spec"] == created.body["spec"]
        ));
    });
}

#[test]
fn ports_are_unique() {
    contract!(async |site: &Site| {
        for ports in [
            json!([{ "port": 80 }, { "port": 81 }]),
            json!([{ "name": "a", "port": 80 }, { "name": "a", "port": 81 }]),
            json!([{ "port": 0 }]),
            json!([{ "port": 80, "targetPort": 70_000 }]),
            json!([{ "port": 80, "targetPort": "much_too_long_name" }]),
            json!([{ "port": 80, "protocol": "ICMP" }]),
            json!([]),
        ] {
            site.post(SERVICES, service("a", json!({ "ports": ports }))).await;
        }
        let same = json!([{ "name": "a", "port": 80 }, { "name": "b", "port": 80 }]);
        let refused = site
            .quietly("POST", SERVICES, &[], service("a", json!({ "ports": same })))
            .await;
        let cause = &refused.body["details"]["causes"][0];
        site.note(&format!("{} {} {}", refused.code, cause["reason"], cause["field"]));
    });
}

#[test]
fn fields_belong_to_a_type() {
    contract!(async |site: &Site| {
        for spec in [
            json!({ "type": "Odd" }),
            json!({ "type": "ExternalName" }),
            json!({ "type": "ExternalName", "externalName": "a_b" }),
            json!({ "type": "NodePort", "clusterIP": "None" }),
            json!({ "type": "LoadBalancer", "clusterIP": "None" }),
            json!({ "ports": [{ "port": 80, "nodePort": 30_000 }] }),
            json!({ "loadBalancerClass": "example.com/a" }),
            json!({ "allocateLoadBalancerNodePorts": true }),
            json!({ "loadBalancerSourceRanges": ["10.0.0.0/8"] }),
            json!({ "externalTrafficPolicy": "Local" }),
            json!({ "type": "NodePort", "externalTrafficPolicy": "Odd" }),
            json!({ "internalTrafficPolicy": "Odd" }),
            json!({ "sessionAffinity": "Odd" }),
            json!({ "externalIPs": ["127.0.0.1"] }),
            json!({ "ipFamilyPolicy": "Odd" }),
            json!({ "ipFamilies": ["IPv5"] }),
            json!({ "selector": { "a b": "c" } }),
        ] {
            site.post(SERVICES, service("a", spec)).await;
        }
    });
}

#[test]
fn the_address_of_a_service_is_immutable() {
    contract!(async |site: &Site| {
        site.quietly(
            "POST",
            SERVICES,
            &[],
            service("headless", json!({ "clusterIP": "None", "selector": { "a": "b" } })),
        )
        .await;
        let path = format!("{SERVICES}/headless");
        let change = json!({ "spec": { "clusterIP": "192.168.0.1", "clusterIPs": ["192.168.0.1"] } });
        site.merge(&path, change).await;
        let class = json!({ "type": "LoadBalancer", "loadBalancerClass": "example.com/a" });
        site.quietly("POST", SERVICES, &[], service("balancer", class)).await;
        let change = json!({ "spec": { "loadBalancerClass": "example.com/b" } });
        let headers = [("content-type", "application/merge-patch+json")];
        let refused = site
            .quietly("PATCH", &format!("{SERVICES}/balancer"), &headers, change)
            .await;
        site.note(&format!("{} {}", refused.code, refused.body["message"]));
    });
}

#[test]
fn the_range_of_services() {
    contract!(async |site: &Site| {
        const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
        let own = site
            .quietly("GET", &format!("{RANGES}/kubernetes"), &[], Value::Null)
            .await;
        site.note(&format!("{:#}", own.body["status"]["conditions"][0]["type"]));
        for cidrs in [
            json!([]),
            json!(["10.200.0.0"]),
            json!(["10.200.0.1/24"]),
            json!(["10.200.0.0/24", "10.201.0.0/24"]),
            json!(["10.200.0.0/24", "fd00::/112", "10.202.0.0/24"]),
        ] {
            site.post(
                RANGES,
                json!({ "metadata": { "name": "{ns}" }, "spec": { "cidrs": cidrs } }),
            )
            .await;
        }
        let range = json!({ "metadata": { "name": "{ns}" }, "spec": { "cidrs": ["10.200.0.0/24"] } });
        site.post(RANGES, range).await;
        let path = format!("{RANGES}/{{ns}}");
        super::tables::table(site, &path).await;
        site.merge(&path, json!({ "spec": { "cidrs": ["10.201.0.0/24"] } }))
            .await;
        site.step("DELETE", &path, Value::Null).await;
    });
}

#[test]
fn an_address_of_a_client() {
    contract!(async |site: &Site| {
        const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
        let address =
            |name: &str, parent: Value| json!({ "metadata": { "name": name }, "spec": { "parentRef": parent } });
        site.post(
            ADDRESSES,
            address("here", json!({ "resource": "services", "name": "a" })),
        )
        .await;
        site.post(ADDRESSES, address("192.168.7.1", Value::Null)).await;
        site.post(ADDRESSES, address("192.168.7.1", json!({ "group": "example.com" })))
            .await;
        let parent = json!({ "group": "example.com", "resource": "gateways", "namespace": "{ns}", "name": "a" });
        site.post(ADDRESSES, address("192.168.7.1", parent)).await;
        let path = format!("{ADDRESSES}/192.168.7.1");
        super::tables::table(site, &path).await;
        let headers = [("content-type", "application/merge-patch+json")];
        let change = json!({ "spec": { "parentRef": { "name": "b" } } });
        let refused = site.quietly("PATCH", &path, &headers, change).await;
        site.note(&format!(
            "{} {}",
            refused.code, refused.body["details"]["causes"][0]["field"]
        ));
        site.step("DELETE", &path, Value::Null).await;
    });
}
