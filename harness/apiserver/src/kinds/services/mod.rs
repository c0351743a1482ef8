//! Services. The registry allocates their addresses and node ports.

mod allocation;
mod balancer;
mod validate;

use serde_json::{Value, json};

pub(crate) use self::allocation::{Address, PORTS, addresses, missing_ports, ports, set_address, wanted_address};
use super::builder::ResourceBuilder;
use super::fields::{default, items, items_mut, object, same, text};
use crate::resource::{Resource, Subresource};
use crate::table::printers;

/// How long a client stays with the same endpoint, in seconds.
const AFFINITY_SECONDS: i64 = 10_800;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new("v1", "Service", "services", "io.k8s.api.core.v1.Service")
            .short(&["svc"])
            .categories(&["all"])
            .status()
            .subresource(Subresource::Connect {
                name: "proxy",
                kind: "ServiceProxyOptions",
            })
            .returns_deleted()
            .selectable("spec.clusterIP", "/spec/clusterIP", "")
            .selectable("spec.type", "/spec/type", "")
            .printer(printers::services())
            .prepare(prepare)
            .validate(validate::validate)
            .build(),
    ]
}

fn needs_address(service: &Value) -> bool {
    text(service, "/spec/type") != "ExternalName"
}

fn is_headless(service: &Value) -> bool {
    text(service, "/spec/clusterIP") == "None" || text(service, "/spec/clusterIPs/0") == "None"
}

fn needs_ports(service: &Value) -> bool {
    matches!(text(service, "/spec/type"), "NodePort" | "LoadBalancer")
}

/// Whether clients outside the cluster can reach the service.
fn is_external(service: &Value) -> bool {
    needs_ports(service) || !items(service, "/spec/externalIPs").is_empty()
}

fn prepare(new: &mut Value, old: Option<&Value>) {
    default(new, "/spec", "type", "ClusterIP");
    prepare_affinity(new);
    for port in items_mut(new, "/spec/ports") {
        default(port, "", "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            if let Some(port) = port.as_object_mut()
                && port
                    .get("targetPort")
                    .is_some_and(|target| *target == 0 || *target == "")
            {
                port.remove("targetPort");
            }
            default(port, "", "targetPort", number);
        }
    }
    default(new, "/status", "loadBalancer", json!({}));
    if is_external(new) {
        default(new, "/spec", "externalTrafficPolicy", "Cluster");
    }
    if text(new, "/spec/type") == "LoadBalancer" {
        default(new, "/spec", "allocateLoadBalancerNodePorts", true);
    }
    if let Some(old) = old {
        keep_allocated(new, old);
        drop_fields_of_type(new, old);
    }
    if !needs_address(new) {
        let address = text(new, "/spec/clusterIP").to_owned();
        if !address.is_empty() {
            default(new, "/spec", "clusterIPs", json!([address]));
        }
        return;
    }
    default(new, "/spec", "internalTrafficPolicy", "Cluster");
    if is_headless(new) && items(new, "/spec/selector").is_empty() && same(new.pointer("/spec/selector"), None) {
        default(new, "/spec", "ipFamilies", json!(["IPv4", "IPv6"]));
        default(new, "/spec", "ipFamilyPolicy", "RequireDualStack");
    }
    default(new, "/spec", "ipFamilies", json!(["IPv4"]));
    default(new, "/spec", "ipFamilyPolicy", "SingleStack");
    let address = text(new, "/spec/clusterIP").to_owned();
    if !address.is_empty() {
        default(new, "/spec", "clusterIPs", json!([address]));
    }
}

fn prepare_affinity(new: &mut Value) {
    default(new, "/spec", "sessionAffinity", "None");
    let affinity = text(new, "/spec/sessionAffinity").to_owned();
    let has_timeout = new
        .pointer("/spec/sessionAffinityConfig/clientIP/timeoutSeconds")
        .is_some_and(Value::is_number);
    let Some(spec) = object(new, "/spec") else { return };
    if affinity == "None" {
        spec.remove("sessionAffinityConfig");
    } else if affinity == "ClientIP" && !has_timeout {
        let config = json!({ "clientIP": { "timeoutSeconds": AFFINITY_SECONDS } });
        spec.insert("sessionAffinityConfig".to_owned(), config);
    }
}

/// An update without addresses and node ports keeps those of the service.
fn keep_allocated(new: &mut Value, old: &Value) {
    if needs_address(old) && needs_address(new) {
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            if let Some(value) = old.pointer(&format!("/spec/{field}")) {
                default(new, "/spec", field, value.clone());
            }
        }
    }
    if needs_ports(old) && needs_ports(new) {
        let used = |service: &Value| -> Vec<i64> {
            let ports = items(service, "/spec/ports").iter();
            ports
                .filter_map(|port| port.get("nodePort").and_then(Value::as_i64))
                .collect()
        };
        let (before, now) = (used(old), used(new));
        for port in items_mut(new, "/spec/ports") {
            let name = text(port, "/name").to_owned();
            let same_name = |other: &&Value| text(other, "/name") == name;
            let Some(number) = items(old, "/spec/ports")
                .iter()
                .find(same_name)
                .and_then(|other| other.get("nodePort"))
                .and_then(Value::as_i64)
            else {
                continue;
            };
            if !(before.contains(&number) && now.contains(&number)) {
                default(port, "", "nodePort", number);
            }
        }
    }
    if needs_health_check(old)
        && needs_health_check(new)
        && let Some(port) = old.pointer("/spec/healthCheckNodePort")
    {
        default(new, "/spec", "healthCheckNodePort", port.clone());
    }
}

/// Whether a load balancer asks the nodes for local endpoints.
fn needs_health_check(service: &Value) -> bool {
    text(service, "/spec/type") == "LoadBalancer" && text(service, "/spec/externalTrafficPolicy") == "Local"
}

/// A change of the type removes fields that only the former type has, unless the update changes them too.
fn drop_fields_of_type(new: &mut Value, old: &Value) {
    let lost = |has: fn(&Value) -> bool| has(old) && !has(new);
    let balances = |service: &Value| text(service, "/spec/type") == "LoadBalancer";
    let mut fields = Vec::new();
    if lost(needs_address) {
        fields.extend([
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "internalTrafficPolicy",
        ]);
    }
    if lost(needs_health_check) {
        fields.push("healthCheckNodePort");
    }
    if lost(balances) {
        fields.extend(["allocateLoadBalancerNodePorts", "loadBalancerClass"]);
    }
    if lost(is_external) {
        fields.push("externalTrafficPolicy");
    }
    let drops_ports = lost(needs_ports) && {
        let numbers = |service: &Value| -> Vec<Option<i64>> {
            let ports = items(service, "/spec/ports").iter();
            ports.map(|port| port.get("nodePort").and_then(Value::as_i64)).collect()
        };
        numbers(new) == numbers(old)
    };
    if !balances(new)
        && let Some(status) = object(new, "/status")
    {
        status.insert("loadBalancer".to_owned(), json!({}));
    }
    if let Some(spec) = object(new, "/spec") {
        for field in fields {
            if same(spec.get(field), old.pointer(&format!("/spec/{field}"))) {
                spec.remove(field);
            }
        }
    }
    if drops_ports {
        for port in items_mut(new, "/spec/ports") {
            if let Some(port) = port.as_object_mut() {
                port.remove("nodePort");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Value {
        let mut service =
            json!({ "metadata": { "namespace": "a", "name": "s" }, "spec": { "ports": [{ "port": 80 }] } });
        service["spec"]
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        service
    }

    #[test]
    fn an_update_keeps_address_and_node_ports() {
        let mut old = service(json!({
            "type": "NodePort", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"],
            "ports": [{ "port": 80, "nodePort": 30080 }],
        }));
        prepare(&mut old, None);
        let mut new = service(json!({ "type": "NodePort" }));
        prepare(&mut new, Some(&old));
        assert_eq!(new["spec"], old["spec"]);
        new["spec"]["clusterIP"] = "10.96.0.2".into();
        let errors = validate::validate(&new, Some(&old));
        assert_eq!(errors[0].field, "spec.clusterIPs");
    }

    #[test]
    fn a_change_of_the_type_drops_the_fields_of_the_former_type() {
        let mut old = service(json!({ "type": "NodePort", "ports": [{ "port": 80, "nodePort": 30080 }] }));
        prepare(&mut old, None);
        let mut new = old.clone();
        new["spec"]["type"] = "ClusterIP".into();
        prepare(&mut new, Some(&old));
        assert_eq!(new["spec"]["ports"][0].get("nodePort"), None);
        assert_eq!(new["spec"].get("externalTrafficPolicy"), None);
        assert_eq!(validate::validate(&new, Some(&old)), []);
    }
}
