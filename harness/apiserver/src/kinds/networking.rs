//! The endpoints of services.

use std::net::{IpAddr, Ipv4Addr};

use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{default, immutable, items, items_mut, one_of, text};
use super::syntax;
use crate::resource::{Generation, Resource};
use crate::status::FieldError;
use crate::table::printers;

pub(super) fn resources() -> Vec<Resource> {
    vec![
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
    let kind = text(new, "/addressType");
    if kind.is_empty() {
        errors.push(FieldError::required("addressType", ""));
    }
    one_of(&mut errors, new, "/addressType", "addressType", &kinds);
    for (index, endpoint) in items(new, "/endpoints").iter().enumerate() {
        validate_endpoint(&mut errors, endpoint, &format!("endpoints[{index}]"), kind);
    }
    let ports = items(new, "/ports");
    for (index, port) in ports.iter().enumerate() {
        let (path, name) = (format!("ports[{index}]"), text(port, "/name"));
        if !name.is_empty() {
            syntax::dns_label(&mut errors, &format!("{path}.name"), name);
        }
        if ports.iter().take(index).any(|earlier| text(earlier, "/name") == name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), name));
        }
        let protocol = format!("{path}.protocol");
        one_of(&mut errors, port, "/protocol", &protocol, &["SCTP", "TCP", "UDP"]);
    }
    if let Some(old) = old {
        immutable(&mut errors, new, old, "/addressType");
    }
    errors
}

/// Whether a text is an address but for zeros before its numbers.
fn has_leading_zeros(text: &str) -> bool {
    let numbers = text.split('.').map(|number| match number.trim_start_matches('0') {
        "" if !number.is_empty() => "0",
        rest => rest,
    });
    let without: Vec<&str> = numbers.collect();
    without.join(".").parse::<Ipv4Addr>().is_ok()
}

fn validate_endpoint(errors: &mut Vec<FieldError>, endpoint: &Value, path: &str, kind: &str) {
    let addresses = items(endpoint, "/addresses");
    if addresses.is_empty() {
        let why = "must contain at least 1 address";
        errors.push(FieldError::required(format!("{path}.addresses"), why));
    }
    for (index, address) in addresses.iter().enumerate() {
        let (text, place) = (
            address.as_str().unwrap_or_default(),
            format!("{path}.addresses[{index}]"),
        );
        if kind == "FQDN" {
            syntax::dns_subdomain(errors, &place, text);
            continue;
        }
        let Ok(address) = text.parse::<IpAddr>() else {
            if has_leading_zeros(text) {
                errors.push(FieldError::invalid(place, text, "must not have leading 0s"));
            } else {
                syntax::ip_address(errors, &place, text);
            }
            continue;
        };
        let wanted = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        if matches!(kind, "IPv4" | "IPv6") && wanted != kind {
            let why = format!("must be an {kind} address");
            errors.push(FieldError::invalid(format!("{path}.addresses"), text, why));
        } else if address.to_string() != text {
            let why = format!("must be in canonical form (\"{address}\")");
            errors.push(FieldError::invalid(place, text, why));
        } else if address.is_loopback() {
            let why = "may not be in the loopback range (127.0.0.0/8, ::1/128)";
            errors.push(FieldError::invalid(place, text, why));
        } else if address.is_unspecified() {
            errors.push(FieldError::invalid(
                place,
                text,
                format!("may not be unspecified ({text})"),
            ));
        }
    }
    let hostname = text(endpoint, "/hostname");
    if !hostname.is_empty() {
        syntax::dns_label(errors, &format!("{path}.hostname"), hostname);
    }
}
