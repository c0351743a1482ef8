//! Checks what a load balancer needs: its class, the ranges of its clients, and the addresses in its status.

use serde_json::Value;

use crate::kinds::fields::{is_set, items, one_of, same, text};
use crate::kinds::syntax::{self, Range};
use crate::status::FieldError;

const OTHER_TYPE: &str = "may only be used when `type` is 'LoadBalancer'";
const CIDR_RULE: &str = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";

pub(super) fn validate(errors: &mut Vec<FieldError>, new: &Value) {
    let balances = text(new, "/spec/type") == "LoadBalancer";
    if balances {
        let class = text(new, "/spec/loadBalancerClass");
        if !class.is_empty() {
            syntax::qualified_name(errors, "spec.loadBalancerClass", class);
        }
    } else {
        for (field, path) in [
            ("loadBalancerSourceRanges", "spec.LoadBalancerSourceRanges"),
            ("allocateLoadBalancerNodePorts", "spec.allocateLoadBalancerNodePorts"),
            ("loadBalancerClass", "spec.loadBalancerClass"),
        ] {
            if !same(new.pointer(&format!("/spec/{field}")), None) {
                errors.push(FieldError::forbidden(path, OTHER_TYPE));
            }
        }
    }
    for (index, range) in items(new, "/spec/loadBalancerSourceRanges").iter().enumerate() {
        let range = range.as_str().unwrap_or_default().trim();
        if Range::parse(range).is_none() {
            let path = format!("spec.LoadBalancerSourceRanges[{index}]");
            errors.push(FieldError::invalid(path, range, CIDR_RULE));
        }
    }
    validate_status(errors, new, balances);
}

fn validate_status(errors: &mut Vec<FieldError>, new: &Value, balances: bool) {
    const PATH: &str = "status.loadBalancer.ingress";
    let ingress = items(new, "/status/loadBalancer/ingress");
    if !balances && !ingress.is_empty() {
        let why = "may only be used when `spec.type` is 'LoadBalancer'";
        errors.push(FieldError::forbidden(PATH, why));
        return;
    }
    for (index, point) in ingress.iter().enumerate() {
        let path = format!("{PATH}[{index}]");
        let (address, mode) = (text(point, "/ip"), format!("{path}.ipMode"));
        if !address.is_empty() {
            syntax::ip_address(errors, &format!("{path}.ip"), address);
            one_of(errors, point, "/ipMode", &mode, &["Proxy", "VIP"]);
        } else if is_set(point.get("ipMode")) {
            errors.push(FieldError::forbidden(mode, "may not be specified when `ip` is not set"));
        }
        let (name, path) = (text(point, "/hostname"), format!("{path}.hostname"));
        if !name.is_empty() {
            syntax::dns_subdomain(errors, &path, name);
            if name.parse::<std::net::IpAddr>().is_ok() {
                let why = "must be a DNS name, not an IP address";
                errors.push(FieldError::invalid(path, name, why));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn fields(service: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate(&mut errors, service);
        errors.into_iter().map(|error| error.field).collect()
    }

    #[rstest]
    #[case("LoadBalancer", json!({ "ip": "10.0.0.1", "ipMode": "VIP" }), &[])]
    #[case("LoadBalancer", json!({ "ip": "x" }), &["status.loadBalancer.ingress[0].ip"])]
    #[case("LoadBalancer", json!({ "ipMode": "VIP" }), &["status.loadBalancer.ingress[0].ipMode"])]
    #[case("LoadBalancer", json!({ "hostname": "10.0.0.1" }), &["status.loadBalancer.ingress[0].hostname"])]
    #[case("ClusterIP", json!({ "ip": "10.0.0.1" }), &["status.loadBalancer.ingress"])]
    fn addresses_belong_to_a_balancer(#[case] kind: &str, #[case] point: Value, #[case] expected: &[&str]) {
        let service = json!({ "spec": { "type": kind }, "status": { "loadBalancer": { "ingress": [point] } } });
        assert_eq!(fields(&service), expected);
    }

    #[test]
    fn ranges_of_clients_are_checked() {
        let service =
            json!({ "spec": { "type": "LoadBalancer", "loadBalancerSourceRanges": [" 10.0.0.0/8 ", "10.0.0.0"] } });
        assert_eq!(fields(&service), ["spec.LoadBalancerSourceRanges[1]"]);
    }
}
