//! Services and their endpoints.

use std::net::Ipv4Addr;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::builder::ResourceBuilder;
use super::fields::{default, immutable, items, items_mut, one_of, text};
use super::syntax;
use crate::resource::{Generation, Resource};
use crate::status::FieldError;
use crate::table::printers;

/// Cluster IPs belong to 10.96.0.0/12.
const SERVICE_RANGE: u32 = 0x0a60_0000;
const SERVICE_RANGE_SIZE: u32 = 1 << 20;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new("v1", "Service", "services", "io.k8s.api.core.v1.Service")
            .short(&["svc"])
            .categories(&["all"])
            .status()
            .returns_deleted()
            .selectable("spec.clusterIP", "/spec/clusterIP", "")
            .selectable("spec.type", "/spec/type", "")
            .printer(printers::services())
            .prepare(prepare_service)
            .validate(validate_service)
            .build(),
        ResourceBuilder::new("v1", "Endpoints", "endpoints", "io.k8s.api.core.v1.Endpoints")
            .short(&["ep"])
            .printer(printers::endpoints())
            .prepare(prepare_endpoints)
            .build(),
        ResourceBuilder::new(
            "discovery.k8s.io/v1",
            "EndpointSlice",
            "endpointslices",
            "io.k8s.api.discovery.v1.EndpointSlice",
        )
        .generation(Generation::Content)
        .printer(printers::endpoint_slices())
        .prepare(prepare_slice)
        .validate(validate_slice)
        .build(),
    ]
}

fn prepare_service(new: &mut Value, old: Option<&Value>) {
    default(new, "/spec", "type", "ClusterIP");
    default(new, "/spec", "sessionAffinity", "None");
    for port in items_mut(new, "/spec/ports") {
        default(port, "", "protocol", "TCP");
        if let Some(number) = port.get("port").cloned() {
            default(port, "", "targetPort", number);
        }
    }
    default(new, "/status", "loadBalancer", json!({}));
    if text(new, "/spec/type") == "ExternalName" {
        return;
    }
    default(new, "/spec", "internalTrafficPolicy", "Cluster");
    default(new, "/spec", "ipFamilies", json!(["IPv4"]));
    default(new, "/spec", "ipFamilyPolicy", "SingleStack");
    let before = old
        .map(|old| text(old, "/spec/clusterIP"))
        .filter(|address| !address.is_empty());
    let address = before.map_or_else(|| address_of(new), str::to_owned);
    default(new, "/spec", "clusterIP", address);
    let address = text(new, "/spec/clusterIP").to_owned();
    default(new, "/spec", "clusterIPs", json!([address]));
    if matches!(text(new, "/spec/type"), "NodePort" | "LoadBalancer") {
        default(new, "/spec", "externalTrafficPolicy", "Cluster");
    }
}

/// A cluster IP derived from namespace and name, so that equal runs produce equal addresses.
fn address_of(service: &Value) -> String {
    let name = format!(
        "{}/{}",
        text(service, "/metadata/namespace"),
        text(service, "/metadata/name")
    );
    let hash = Sha256::digest(name);
    let number = hash
        .iter()
        .take(4)
        .fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    Ipv4Addr::from((SERVICE_RANGE + 1).saturating_add(number % (SERVICE_RANGE_SIZE - 2))).to_string()
}

fn validate_service(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(&mut errors, new, "/spec/type", "spec.type", &types);
    one_of(
        &mut errors,
        new,
        "/spec/sessionAffinity",
        "spec.sessionAffinity",
        &["ClientIP", "None"],
    );
    let ports = items(new, "/spec/ports");
    let headless = text(new, "/spec/clusterIP") == "None";
    if ports.is_empty() && !headless && text(new, "/spec/type") != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        let name = text(port, "/name");
        if !name.is_empty() {
            syntax::dns_label(&mut errors, &format!("{path}.name"), name);
        } else if ports.len() > 1 {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        if !name.is_empty() && ports.iter().take(index).any(|earlier| text(earlier, "/name") == name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        }
        let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
        if !(1..=65535).contains(&number) {
            let why = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(format!("{path}.port"), number, why));
        }
    }
    if let Some(old) = old.filter(|old| !text(old, "/spec/clusterIP").is_empty())
        && text(new, "/spec/type") != "ExternalName"
    {
        immutable(&mut errors, new, old, "/spec/clusterIP");
    }
    errors
}

fn prepare_endpoints(new: &mut Value, _old: Option<&Value>) {
    for subset in items_mut(new, "/subsets") {
        for port in items_mut(subset, "/ports") {
            default(port, "", "protocol", "TCP");
        }
    }
}

fn prepare_slice(new: &mut Value, _old: Option<&Value>) {
    for port in items_mut(new, "/ports") {
        default(port, "", "protocol", "TCP");
        if port.get("name").is_none()
            && let Some(port) = port.as_object_mut()
        {
            port.insert("name".to_owned(), "".into());
        }
    }
}

fn validate_slice(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kinds = ["FQDN", "IPv4", "IPv6"];
    if text(new, "/addressType").is_empty() {
        errors.push(FieldError::required("addressType", ""));
    }
    one_of(&mut errors, new, "/addressType", "addressType", &kinds);
    if let Some(old) = old {
        immutable(&mut errors, new, old, "/addressType");
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service() -> Value {
        json!({ "metadata": { "namespace": "a", "name": "s" }, "spec": { "ports": [{ "port": 80 }] } })
    }

    #[test]
    fn a_service_gets_the_same_address_every_time() {
        let (mut one, mut other) = (service(), service());
        prepare_service(&mut one, None);
        prepare_service(&mut other, None);
        assert_eq!(one, other);
        assert_eq!(validate_service(&one, None), []);
        let address: Ipv4Addr = text(&one, "/spec/clusterIP").parse().unwrap();
        assert_eq!(address.octets()[0], 10);
        assert_eq!(
            one["spec"]["ports"][0],
            json!({ "port": 80, "protocol": "TCP", "targetPort": 80 })
        );
    }

    #[test]
    fn an_update_keeps_the_address() {
        let mut old = service();
        old["spec"]["clusterIP"] = "10.96.0.1".into();
        let mut new = service();
        prepare_service(&mut new, Some(&old));
        assert_eq!(new["spec"]["clusterIP"], "10.96.0.1");
        new["spec"]["clusterIP"] = "10.96.0.2".into();
        assert_eq!(validate_service(&new, Some(&old))[0].field, "spec.clusterIP");
    }
}
