//! ServiceCIDRs and IPAddresses: the ranges and the addresses of services.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::builder::ResourceBuilder;
use super::fields::{default, immutable, items, text};
use super::syntax;
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

const FAMILY: &str = "ipaddress.kubernetes.io/ip-family";

pub(super) fn resources() -> Vec<Resource> {
    let resource = |kind, plural, type_| ResourceBuilder::new("networking.k8s.io/v1", kind, plural, type_).cluster();
    vec![
        resource("ServiceCIDR", "servicecidrs", "io.k8s.api.networking.v1.ServiceCIDR")
            .status()
            .printer(printers::service_ranges())
            .prepare(prepare_range)
            .validate(validate_range)
            .build(),
        resource("IPAddress", "ipaddresses", "io.k8s.api.networking.v1.IPAddress")
            .short(&["ip"])
            .selectable("spec.parentRef", "/spec/parentRef", "")
            .printer(printers::addresses())
            .validate(validate_address)
            .build(),
    ]
}

/// An address that the server allocated for a service.
pub(crate) fn allocated(address: IpAddr, namespace: &str, service: &str) -> Value {
    let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
    json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "IPAddress",
        "metadata": {
            "name": address.to_string(),
            "labels": { FAMILY: family, "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io" },
        },
        "spec": { "parentRef": { "name": service, "namespace": namespace, "resource": "services" } },
    })
}

fn prepare_range(new: &mut Value, old: Option<&Value>) {
    if old.is_none() {
        default(new, "", "status", json!({}));
    }
}

fn validate_range(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    const PATH: &str = "spec.cidrs";
    let mut errors = Vec::new();
    let ranges = items(new, "/spec/cidrs");
    let before = old.map(|old| items(old, "/spec/cidrs"));
    match before {
        Some(before) if before.len() == ranges.len() || (before.len() == 1 && ranges.len() == 2) => {
            for (index, (before, now)) in before.iter().zip(ranges).enumerate() {
                if before != now {
                    let path = format!("{PATH}[{index}]");
                    errors.push(FieldError::invalid(path, now.clone(), "field is immutable"));
                }
            }
            if before.len() == ranges.len() {
                return errors;
            }
        }
        Some(_) => {
            errors.push(FieldError::invalid(PATH, ranges.to_vec(), "field is immutable"));
            return errors;
        }
        None => {}
    }
    match ranges.len() {
        0 => errors.push(FieldError::required(PATH, "at least one CIDR required")),
        1 | 2 => {
            for (index, range) in ranges.iter().enumerate() {
                validate_cidr(
                    &mut errors,
                    range.as_str().unwrap_or_default(),
                    &format!("{PATH}[{index}]"),
                );
            }
            let is_ipv6 = |range: &Value| range.as_str().is_some_and(|range| range.contains(':'));
            if let ([one, other], true) = (ranges, errors.is_empty())
                && is_ipv6(one) == is_ipv6(other)
            {
                let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
                errors.push(FieldError::invalid(PATH, ranges.to_vec(), why));
            }
        }
        _ => {
            let spec = json!({ "CIDRs": ranges });
            errors.push(FieldError::invalid(PATH, spec, "may only hold up to 2 values"));
        }
    }
    errors
}

fn validate_cidr(errors: &mut Vec<FieldError>, text: &str, path: &str) {
    let parsed = text.split_once('/').and_then(|(address, length)| {
        let address: IpAddr = address.parse().ok()?;
        let length: u32 = length.parse().ok()?;
        (length <= bits(address)).then_some((address, length))
    });
    let Some((address, length)) = parsed else {
        let why = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
        errors.push(FieldError::invalid(path, text, why));
        return;
    };
    let number = match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    };
    let host_bits = bits(address).saturating_sub(length);
    let mask = 1_u128
        .checked_shl(host_bits)
        .map_or(u128::MAX, |first| first.saturating_sub(1));
    if number & mask != 0 {
        let why = "must not have bits set beyond the prefix length";
        errors.push(FieldError::invalid(path, text, why));
    } else if format!("{address}/{length}") != text {
        let why = format!("must be in canonical form (\"{address}/{length}\")");
        errors.push(FieldError::invalid(path, text, why));
    }
}

fn bits(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn validate_address(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    const PARENT: &str = "spec.parentRef";
    let mut errors = Vec::new();
    if let Some(old) = old {
        immutable(&mut errors, new, old, "/spec/parentRef");
        return errors;
    }
    let Some(parent) = new.pointer("/spec/parentRef").filter(|parent| parent.is_object()) else {
        errors.push(FieldError::required(PARENT, ""));
        return errors;
    };
    let group = text(parent, "/group");
    if !group.is_empty() {
        syntax::dns_subdomain(&mut errors, &format!("{PARENT}.group"), group);
    }
    for field in ["resource", "name"] {
        if text(parent, &format!("/{field}")).is_empty() {
            errors.push(FieldError::required(format!("{PARENT}.{field}"), ""));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!(["10.0.0.0/24"]), None, 0)]
    #[case(json!(["10.0.0.0/24", "fd00::/112"]), None, 0)]
    #[case(json!(["10.0.0.0/24", "10.1.0.0/24"]), None, 1)]
    #[case(json!(["10.0.0.1/24"]), None, 1)]
    #[case(json!(["10.0.0.0"]), None, 1)]
    #[case(json!([]), None, 1)]
    #[case(json!(["10.1.0.0/24"]), Some(json!(["10.0.0.0/24"])), 1)]
    #[case(json!(["10.0.0.0/24", "fd00::/112"]), Some(json!(["10.0.0.0/24"])), 0)]
    fn ranges_are_checked(#[case] cidrs: Value, #[case] before: Option<Value>, #[case] expected: usize) {
        let range = |cidrs| json!({ "spec": { "cidrs": cidrs } });
        let errors = validate_range(&range(cidrs), before.map(range).as_ref());
        assert_eq!(errors.len(), expected, "{errors:?}");
    }
}
