//! The addresses and node ports of services: which ones a service has, wants, and gets if they are free.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{is_headless, needs_address, needs_ports};
use crate::kinds::fields::{default, items, items_mut, object, text};

/// Addresses belong to 10.96.0.0/12. The last one is the broadcast address.
const FIRST: u32 = 0x0a60_0001;
const COUNT: u32 = (1 << 20) - 2;
/// The node ports.
pub(crate) const PORTS: RangeInclusive<i64> = 30_000..=32_767;
const PORT_COUNT: u32 = 2768;

/// The address that a service needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// None: a headless service, or the name of another one.
    None,
    /// This one, which the client chose or the service has.
    Fixed(IpAddr),
    /// Any free one; the candidates follow from namespace and name, so that equal runs produce equal addresses.
    Any(u32),
}

impl Address {
    /// The candidate after that many taken ones; `None` after all.
    pub(crate) fn candidate(seed: u32, attempt: u32) -> Option<IpAddr> {
        let offset = seed.wrapping_add(attempt).checked_rem(COUNT)?;
        (attempt < COUNT).then(|| Ipv4Addr::from(FIRST.saturating_add(offset)).into())
    }

    /// Whether an address is in the range of services.
    pub(crate) fn in_range(address: IpAddr) -> bool {
        match address {
            IpAddr::V4(address) => (FIRST..FIRST.saturating_add(COUNT)).contains(&u32::from(address)),
            IpAddr::V6(_) => false,
        }
    }
}

/// The address that the service needs.
pub(crate) fn wanted_address(service: &Value) -> Address {
    if !needs_address(service) || is_headless(service) {
        return Address::None;
    }
    match text(service, "/spec/clusterIP").parse() {
        Ok(address) => Address::Fixed(address),
        Err(_) => Address::Any(seed(service, "")),
    }
}

/// The addresses that the service has.
pub(crate) fn addresses(service: &Value) -> Vec<IpAddr> {
    let addresses = items(service, "/spec/clusterIPs").iter();
    addresses.filter_map(|address| address.as_str()?.parse().ok()).collect()
}

pub(crate) fn set_address(service: &mut Value, address: IpAddr) {
    let text = address.to_string();
    default(service, "/spec", "clusterIP", text.as_str());
    default(service, "/spec", "clusterIPs", json!([text]));
}

/// The node ports that the service has, with their protocols.
pub(crate) fn ports(service: &Value) -> Vec<(i64, String)> {
    let ports = items(service, "/spec/ports").iter();
    let mut ports: Vec<(i64, String)> = ports
        .filter_map(|port| {
            let number = port
                .get("nodePort")
                .and_then(Value::as_i64)
                .filter(|number| *number != 0)?;
            Some((number, text(port, "/protocol").to_owned()))
        })
        .collect();
    let health = service.pointer("/spec/healthCheckNodePort").and_then(Value::as_i64);
    ports.extend(
        health
            .filter(|number| *number != 0)
            .map(|number| (number, "TCP".to_owned())),
    );
    ports
}

/// Sets the missing node ports to free ones; `is_free` returns whether no service has a port. Returns false if none is
/// left.
pub(crate) fn missing_ports(service: &mut Value, is_free: &dyn Fn(i64) -> bool) -> bool {
    if !needs_ports(service) {
        return true;
    }
    let skipped = service
        .pointer("/spec/allocateLoadBalancerNodePorts")
        .and_then(Value::as_bool)
        == Some(false);
    let mut taken: Vec<(i64, String)> = ports(service);
    let seeds: Vec<u32> = (0..items(service, "/spec/ports").len())
        .map(|index| seed(service, &index.to_string()))
        .collect();
    let health_seed = seed(service, "health");
    let mut complete = true;
    let mut free = |seed: u32, protocol: &str, earlier: &[(i64, String)]| {
        let own = |number: i64| earlier.iter().any(|(other, of)| *other == number && of == protocol);
        let found = (0..PORT_COUNT)
            .filter_map(|attempt| seed.wrapping_add(attempt).checked_rem(PORT_COUNT))
            .map(|offset| PORTS.start().saturating_add(i64::from(offset)))
            .find(|number| is_free(*number) && !own(*number));
        complete &= found.is_some();
        found
    };
    let mut by_port: Vec<(i64, String, i64)> = Vec::new();
    if !skipped {
        for (port, seed) in items_mut(service, "/spec/ports").iter_mut().zip(seeds) {
            let protocol = text(port, "/protocol").to_owned();
            let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
            if port.get("nodePort").and_then(Value::as_i64).unwrap_or_default() == 0 {
                // TCP and UDP of one port share a node port.
                let shared = by_port
                    .iter()
                    .find(|(of, other, _)| *of == number && *other != protocol)
                    .map(|(_, _, node_port)| *node_port);
                let Some(node_port) = shared.or_else(|| free(seed, &protocol, &taken)) else {
                    continue;
                };
                if let Some(port) = port.as_object_mut() {
                    port.insert("nodePort".to_owned(), node_port.into());
                }
                taken.push((node_port, protocol.clone()));
            }
            let node_port = port.get("nodePort").and_then(Value::as_i64).unwrap_or_default();
            by_port.push((number, protocol, node_port));
        }
    }
    let has_health = service
        .pointer("/spec/healthCheckNodePort")
        .is_some_and(|port| *port != 0);
    if super::needs_health_check(service)
        && !has_health
        && let (Some(number), Some(spec)) = (free(health_seed, "TCP", &taken), object(service, "/spec"))
    {
        spec.insert("healthCheckNodePort".to_owned(), number.into());
    }
    complete
}

/// A number that depends on namespace, name and purpose only.
fn seed(service: &Value, purpose: &str) -> u32 {
    let mut name = format!(
        "{}/{}",
        text(service, "/metadata/namespace"),
        text(service, "/metadata/name")
    );
    if !purpose.is_empty() {
        name.push('/');
        name.push_str(purpose);
    }
    let hash = Sha256::digest(name);
    hash.iter()
        .take(4)
        .fold(0_u32, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(spec: Value) -> Value {
        json!({ "metadata": { "namespace": "a", "name": "s" }, "spec": spec })
    }

    #[test]
    fn the_same_service_gets_the_same_address_every_time() {
        let Address::Any(seed) = wanted_address(&service(json!({ "type": "ClusterIP" }))) else {
            panic!("no address")
        };
        let first = Address::candidate(seed, 0).unwrap();
        assert_eq!(Address::candidate(seed, 0), Some(first));
        assert_ne!(Address::candidate(seed, 1), Some(first));
        assert!(Address::in_range(first));
    }

    #[test]
    fn a_headless_service_needs_no_address() {
        assert_eq!(wanted_address(&service(json!({ "clusterIP": "None" }))), Address::None);
        assert_eq!(
            wanted_address(&service(json!({ "type": "ExternalName" }))),
            Address::None
        );
    }

    #[test]
    fn node_ports_are_free_and_shared_between_protocols() {
        let mut service = service(json!({ "type": "NodePort", "ports": [
            { "port": 53, "protocol": "TCP" }, { "port": 53, "protocol": "UDP" }, { "port": 80, "protocol": "TCP" },
        ] }));
        assert!(missing_ports(&mut service, &|number| number != 30_000));
        let number = |index: usize| service["spec"]["ports"][index]["nodePort"].as_i64().unwrap();
        assert_eq!(number(0), number(1));
        assert_ne!(number(0), number(2));
        assert!(PORTS.contains(&number(2)));
        assert!(!missing_ports(
            &mut self::service(json!({ "type": "NodePort", "ports": [{ "port": 1 }] })),
            &|_| false
        ));
    }
}
