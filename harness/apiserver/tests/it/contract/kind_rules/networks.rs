//! Defaults and checks of services, slices, ingresses and network policies.

use serde_json::{Value, json};

use super::super::site::with;
use super::{Site, contract, part};

const SERVICES: &str = "/api/v1/namespaces/{ns}/services";

fn service(change: Value) -> Value {
    let spec = with(&json!({ "ports": [{ "port": 80 }] }), change);
    json!({ "metadata": { "name": "a" }, "spec": spec })
}

#[test]
fn policies_of_services() {
    contract!(async |site: &Site| {
        let balancer = |change: Value| with(&json!({ "type": "LoadBalancer" }), change);
        for change in [
            json!({ "internalTrafficPolicy": "Local" }),
            json!({ "internalTrafficPolicy": "Other" }),
            json!({ "externalTrafficPolicy": "Local" }),
            balancer(json!({})),
            balancer(json!({ "externalTrafficPolicy": "Other" })),
            balancer(json!({ "loadBalancerClass": "x.io/a" })),
            balancer(json!({ "loadBalancerClass": "A b" })),
            balancer(json!({ "allocateLoadBalancerNodePorts": false })),
            balancer(json!({ "loadBalancerSourceRanges": ["10.0.0.0/8"] })),
            balancer(json!({ "loadBalancerSourceRanges": ["10.0.0.0"] })),
            json!({ "loadBalancerSourceRanges": ["10.0.0.0/8"] }),
            json!({ "sessionAffinity": "ClientIP" }),
            json!({ "sessionAffinity": "Other" }),
            json!({ "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 5 } } }),
            json!({ "sessionAffinity": "ClientIP", "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 86_401 } } }),
            json!({ "trafficDistribution": "PreferClose" }),
            json!({ "trafficDistribution": "Other" }),
            json!({ "publishNotReadyAddresses": true }),
        ] {
            part(
                site,
                &change.to_string(),
                SERVICES,
                service(change.clone()),
                "/spec/sessionAffinity",
            )
            .await;
        }
    });
}

#[test]
fn ports_of_services() {
    contract!(async |site: &Site| {
        for ports in [
            json!([]),
            json!([{ "port": 0 }]),
            json!([{ "port": 65_536 }]),
            json!([{ "port": 80, "protocol": "ICMP" }]),
            json!([{ "port": 80, "protocol": "SCTP" }]),
            json!([{ "port": 80, "name": "A" }]),
            json!([{ "port": 80, "name": "a-very-long-name-of-a-port-x" }]),
            json!([{ "port": 80 }, { "port": 81 }]),
            json!([{ "port": 80, "name": "a" }, { "port": 81, "name": "a" }]),
            json!([{ "port": 80, "nodePort": 30_000 }]),
            json!([{ "port": 80, "appProtocol": "kubernetes.io/h2c" }]),
            json!([{ "port": 80, "appProtocol": "a b" }]),
            json!([{ "port": 80, "targetPort": "a--b" }]),
        ] {
            part(
                site,
                &ports.to_string(),
                SERVICES,
                service(json!({ "ports": ports })),
                "/spec/ports",
            )
            .await;
        }
        part(
            site,
            "headless without ports",
            SERVICES,
            service(json!({ "clusterIP": "None", "ports": [] })),
            "/spec/clusterIPs",
        )
        .await;
        part(
            site,
            "headless",
            SERVICES,
            service(json!({ "clusterIP": "None", "type": "NodePort" })),
            "/spec",
        )
        .await;
        part(
            site,
            "external addresses",
            SERVICES,
            service(json!({ "externalIPs": ["10.0.0.1", "127.0.0.1", "x"] })),
            "/spec",
        )
        .await;
        part(
            site,
            "a selector",
            SERVICES,
            service(json!({ "selector": { "a": "b c" } })),
            "/spec",
        )
        .await;
    });
}

#[test]
fn endpoints_of_slices() {
    contract!(async |site: &Site| {
        let path = "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices";
        let slice = |kind: &str, endpoint: Value, ports: Value| json!({ "metadata": { "name": "a" }, "addressType": kind, "endpoints": [endpoint], "ports": ports });
        for (what, object) in [
            (
                "conditions",
                slice(
                    "IPv4",
                    json!({ "addresses": ["10.0.0.1"], "conditions": { "ready": true } }),
                    json!([]),
                ),
            ),
            ("no addresses", slice("IPv4", json!({ "addresses": [] }), json!([]))),
            (
                "another family",
                slice("IPv4", json!({ "addresses": ["fd00::1"] }), json!([])),
            ),
            (
                "a name",
                slice("FQDN", json!({ "addresses": ["a.example.com"] }), json!([])),
            ),
            (
                "a wrong name",
                slice("FQDN", json!({ "addresses": ["A b"] }), json!([])),
            ),
            (
                "loopback",
                slice("IPv4", json!({ "addresses": ["127.0.0.1"] }), json!([])),
            ),
            (
                "a host name",
                slice("IPv4", json!({ "addresses": ["10.0.0.1"], "hostname": "A" }), json!([])),
            ),
            (
                "a zone",
                slice(
                    "IPv4",
                    json!({ "addresses": ["10.0.0.1"], "zone": "z", "hints": { "forZones": [{ "name": "z" }] } }),
                    json!([]),
                ),
            ),
            (
                "topology",
                slice(
                    "IPv4",
                    json!({ "addresses": ["10.0.0.1"], "deprecatedTopology": { "kubernetes.io/hostname": "n" } }),
                    json!([]),
                ),
            ),
            (
                "ports",
                slice(
                    "IPv4",
                    json!({ "addresses": ["10.0.0.1"] }),
                    json!([{ "port": 80 }, { "name": "b", "port": 81, "protocol": "UDP" }]),
                ),
            ),
            (
                "a repeated port",
                slice(
                    "IPv4",
                    json!({ "addresses": ["10.0.0.1"] }),
                    json!([{ "name": "a" }, { "name": "a" }]),
                ),
            ),
            (
                "a wrong port",
                slice(
                    "IPv4",
                    json!({ "addresses": ["10.0.0.1"] }),
                    json!([{ "name": "A", "port": 0, "protocol": "X" }]),
                ),
            ),
            (
                "another type",
                slice("Other", json!({ "addresses": ["10.0.0.1"] }), json!([])),
            ),
        ] {
            part(site, what, path, object, "/addressType").await;
        }
    });
}

#[test]
fn paths_of_ingresses() {
    contract!(async |site: &Site| {
        let path = "/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses";
        let backend = json!({ "service": { "name": "s", "port": { "number": 80 } } });
        let rule = |change: Value| {
            let item = with(
                &json!({ "path": "/", "pathType": "Prefix", "backend": backend }),
                change,
            );
            json!({ "rules": [{ "host": "a.example.com", "http": { "paths": [item] } }] })
        };
        for (what, spec) in [
            ("a path", rule(json!({}))),
            ("an exact path", rule(json!({ "path": "/a//b", "pathType": "Exact" }))),
            ("a path with dots", rule(json!({ "path": "/a/../b" }))),
            (
                "a path of the implementation",
                rule(json!({ "path": "a", "pathType": "ImplementationSpecific" })),
            ),
            ("an empty path", rule(json!({ "path": "" }))),
            ("an escaped path", rule(json!({ "path": "/a%2fb" }))),
            ("no service", rule(json!({ "backend": {} }))),
            ("no port", rule(json!({ "backend": { "service": { "name": "s" } } }))),
            (
                "both ports",
                rule(json!({ "backend": { "service": { "name": "s", "port": { "number": 80, "name": "web" } } } })),
            ),
            (
                "a resource",
                rule(json!({ "backend": { "resource": { "apiGroup": "x.io", "kind": "B", "name": "b" } } })),
            ),
            (
                "a service and a resource",
                rule(
                    json!({ "backend": { "service": { "name": "s", "port": { "number": 80 } }, "resource": { "kind": "B", "name": "b" } } }),
                ),
            ),
            ("a wildcard", json!({ "rules": [{ "host": "*.example.com" }] })),
            ("a wildcard inside", json!({ "rules": [{ "host": "a.*.com" }] })),
            ("an address", json!({ "rules": [{ "host": "10.0.0.1" }] })),
            (
                "a certificate",
                json!({ "defaultBackend": backend, "tls": [{ "hosts": ["A"], "secretName": "B" }] }),
            ),
            ("no rules", json!({})),
            ("a class", json!({ "defaultBackend": backend, "ingressClassName": "A" })),
        ] {
            part(
                site,
                what,
                path,
                json!({ "metadata": { "name": "a" }, "spec": spec }),
                "/spec/rules",
            )
            .await;
        }
        let annotated = json!({ "metadata": { "name": "a", "annotations": { "kubernetes.io/ingress.class": "x" } }, "spec": { "ingressClassName": "y", "defaultBackend": backend } });
        part(site, "an annotation", path, annotated, "/spec").await;
    });
}

#[test]
fn peers_of_network_policies() {
    contract!(async |site: &Site| {
        let path = "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies";
        let from = |peer: Value| json!({ "podSelector": {}, "ingress": [{ "from": [peer] }] });
        let ports = |ports: Value| json!({ "podSelector": {}, "ingress": [{ "ports": ports }] });
        for (what, spec) in [
            ("nothing", json!({ "podSelector": {} })),
            ("egress", json!({ "podSelector": {}, "egress": [{}] })),
            ("both", json!({ "podSelector": {}, "ingress": [{}], "egress": [] })),
            (
                "a type",
                json!({ "podSelector": {}, "policyTypes": ["Egress"], "ingress": [{}] }),
            ),
            ("an empty peer", from(json!({}))),
            (
                "two selectors",
                from(json!({ "podSelector": {}, "namespaceSelector": {} })),
            ),
            (
                "a block",
                from(json!({ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"] } })),
            ),
            (
                "a block and a selector",
                from(json!({ "podSelector": {}, "ipBlock": { "cidr": "10.0.0.0/8" } })),
            ),
            ("no block", from(json!({ "ipBlock": { "cidr": "" } }))),
            (
                "an exception outside",
                from(json!({ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"] } })),
            ),
            (
                "the same exception",
                from(json!({ "ipBlock": { "cidr": "10.0.0.0/8", "except": ["10.0.0.0/8"] } })),
            ),
            (
                "a port",
                ports(json!([{ "port": 80 }, { "port": "web", "protocol": "UDP" }])),
            ),
            ("a range", ports(json!([{ "port": 80, "endPort": 90 }]))),
            ("a range of a name", ports(json!([{ "port": "web", "endPort": 90 }]))),
            ("a range backwards", ports(json!([{ "port": 80, "endPort": 70 }]))),
            ("a range without a start", ports(json!([{ "endPort": 70 }]))),
            ("another protocol", ports(json!([{ "port": 0, "protocol": "X" }]))),
        ] {
            part(
                site,
                what,
                path,
                json!({ "metadata": { "name": "a" }, "spec": spec }),
                "/spec/policyTypes",
            )
            .await;
        }
    });
}
