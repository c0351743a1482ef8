//! The objects that kube-apiserver creates at its start, beside namespaces, priority classes, roles and bindings: API
//! services, the configuration of priority and fairness, the range of service addresses, and the service `kubernetes`.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::api_services::{PROXY_USER, REQUEST_HEADERS};
use crate::discovery::priorities;
use crate::kinds;
use crate::resource::Resource;

/// The flow schemas and priority levels of kube-apiserver 1.36, one object a line.
const FLOW: &str = include_str!("flow-1.36.jsonl");
/// The address of the service `kubernetes`: the first one of the range.
const SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The range from which services get addresses.
pub(crate) const SERVICE_RANGE: &str = "10.96.0.0/12";

/// All objects, without uids and times other than those of conditions, which are `now`. `authority` is the certificate
/// of the authority of clients; empty if there is none.
///
/// # Errors
/// If the file with the flow schemas is not valid, which a test rules out.
pub(crate) fn all<'a>(
    resources: impl Iterator<Item = &'a Resource>,
    authority: &str,
    now: &str,
) -> Result<Vec<Value>, serde_json::Error> {
    let mut objects = api_services(resources, now);
    for line in FLOW.lines() {
        objects.push(flow(&serde_json::from_str(line)?, now));
    }
    objects.push(service_range(now));
    objects.push(kinds::allocated(SERVER_ADDRESS.into(), "default", "kubernetes"));
    objects.push(service());
    objects.extend(configuration(authority, now));
    Ok(objects)
}

fn api_services<'a>(resources: impl Iterator<Item = &'a Resource>, now: &str) -> Vec<Value> {
    // The group of API services has none itself.
    let mut versions: Vec<(&str, &str)> = resources
        .filter(|resource| resource.group != "apiregistration.k8s.io")
        .map(|resource| (resource.group.as_str(), resource.version.as_str()))
        .collect();
    versions.sort_unstable();
    versions.dedup();
    let service = |(group, version): (&str, &str)| {
        let mut service = kinds::local_api_service(group, version, priorities(group, version), "onstart");
        kinds::mark_available(&mut service, now);
        service
    };
    versions.into_iter().map(service).collect()
}

fn flow(seed: &Value, now: &str) -> Value {
    let mut object = json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": seed["kind"],
        "metadata": {
            "name": seed["name"], "generation": 1, "annotations": { "apf.kubernetes.io/autoupdate-spec": "true" },
        },
        "spec": seed["spec"], "status": {},
    });
    if seed["kind"] == "FlowSchema" {
        let level = &seed["spec"]["priorityLevelConfiguration"]["name"];
        let message =
            format!("This FlowSchema references the PriorityLevelConfiguration object named {level} and it exists");
        object["status"] = json!({ "conditions": [{
            "type": "Dangling", "status": "False", "reason": "Found", "lastTransitionTime": now, "message": message,
        }] });
    }
    object
}

fn service_range(now: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": { "name": "kubernetes" },
        "spec": { "cidrs": [SERVICE_RANGE] },
        "status": { "conditions": [{
            "type": "Ready", "status": "True", "reason": "", "lastTransitionTime": now,
            "message": "Kubernetes default Service CIDR is ready",
        }] },
    })
}

/// What components read about the server: how clients authenticate, and since when tokens in Secrets are tracked.
fn configuration(authority: &str, now: &str) -> Vec<Value> {
    let config_map = |name: &str, data: Value| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": "kube-system" },
            "data": data,
        })
    };
    let today = now.split('T').next().unwrap_or_default();
    let tracking = "kube-apiserver-legacy-service-account-token-tracking";
    let mut objects = vec![config_map(tracking, json!({ "since": today }))];
    if !authority.is_empty() {
        let mut data = json!({
            "client-ca-file": authority, "requestheader-client-ca-file": authority,
            "requestheader-allowed-names": json!([PROXY_USER]).to_string(),
        });
        for (key, value) in REQUEST_HEADERS {
            data[key] = value.into();
        }
        objects.push(config_map("extension-apiserver-authentication", data));
    }
    objects
}

fn service() -> Value {
    let address = SERVER_ADDRESS.to_string();
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": { "component": "apiserver", "provider": "kubernetes" },
        },
        "spec": {
            "clusterIP": address, "clusterIPs": [address], "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack", "sessionAffinity": "None", "type": "ClusterIP",
            "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443 }],
        },
        "status": { "loadBalancer": {} },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types;

    #[test]
    fn the_objects_are_valid_and_canonical() {
        let resources = kinds::builtin();
        let objects = all(resources.iter(), "certificate", "2026-01-01T00:00:00Z").unwrap();
        assert!(objects.len() > 40, "{}", objects.len());
        for object in objects {
            let text = |field: &str| object[field].as_str().unwrap();
            let find =
                |resource: &&Resource| resource.kind == text("kind") && resource.api_version() == text("apiVersion");
            let resource = resources.iter().find(find).unwrap();
            let name = types::name_of(text("apiVersion"), text("kind")).unwrap();
            let mut copy = object.clone();
            assert_eq!(types::check(name, &mut copy), Ok(Vec::new()));
            if let Some(prepare) = resource.prepare {
                prepare(&mut copy, Some(&object));
            }
            types::canonicalise(name, &mut copy);
            assert_eq!(copy, object);
            if let Some(validate) = resource.validate {
                assert_eq!(validate(&object, None), []);
            }
        }
    }
}
