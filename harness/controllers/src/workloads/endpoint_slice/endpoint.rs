//! The endpoint of a pod, and its ports.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::workloads::{meta, pods};

const ZONE: &str = "topology.kubernetes.io/zone";

/// The address family of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    IPv4,
    IPv6,
}

impl Family {
    pub fn name(self) -> &'static str {
        match self {
            Self::IPv4 => "IPv4",
            Self::IPv6 => "IPv6",
        }
    }
}

/// The address families of a Service.
pub fn families(service: &Service) -> Vec<Family> {
    let named = service.spec.as_ref().and_then(|spec| spec.ip_families.as_deref());
    let mut families: Vec<Family> = named
        .unwrap_or_default()
        .iter()
        .map(|name| if name == "IPv6" { Family::IPv6 } else { Family::IPv4 })
        .collect();
    if families.is_empty() {
        families.push(Family::IPv4);
    }
    families.sort();
    families
}

/// The endpoint of a pod; `None` if the pod is finished, has no address of the family, or runs on a missing
/// node (unless the Service publishes unready addresses).
pub fn endpoint(service: &Service, pod: &Pod, node: Option<&Node>, family: Family) -> Option<Endpoint> {
    if pods::is_terminal(pod) {
        return None;
    }
    let address = address(pod, family)?;
    let spec = service.spec.clone().unwrap_or_default();
    let publishes_all = spec.publish_not_ready_addresses == Some(true);
    if node.is_none() && !publishes_all {
        return None;
    }
    let ready = pods::is_ready(pod);
    let terminating = meta::is_deleting(&pod.metadata);
    let zone = node.and_then(|node| meta::label(&node.metadata, ZONE));
    Some(Endpoint {
        addresses: vec![address],
        conditions: Some(EndpointConditions {
            ready: Some(publishes_all || (ready && !terminating)),
            serving: Some(ready),
            terminating: Some(terminating),
        }),
        hostname: host_name(service, pod),
        node_name: pods::node(pod).map(str::to_owned),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }),
        zone: zone.map(str::to_owned),
        ..Endpoint::default()
    })
}

fn address(pod: &Pod, family: Family) -> Option<String> {
    let status = pod.status.as_ref()?;
    let listed = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str());
    let addresses = listed.chain(status.pod_ip.as_deref());
    let of_family = |address: &&str| match address.parse() {
        Ok(IpAddr::V4(_)) => family == Family::IPv4,
        Ok(IpAddr::V6(_)) => family == Family::IPv6,
        Err(_) => false,
    };
    addresses.into_iter().find(of_family).map(str::to_owned)
}

/// A pod with a host name in the Service's subdomain gets its own DNS record.
fn host_name(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let named = spec.hostname.as_deref().filter(|name| !name.is_empty())?;
    let within = spec.subdomain.as_deref() == service.metadata.name.as_deref()
        && pod.metadata.namespace == service.metadata.namespace;
    within.then(|| named.to_owned())
}

/// The ports of a Service on a pod, without named ports that the pod does not have.
pub fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let listed = service.spec.as_ref().and_then(|spec| spec.ports.as_deref());
    listed
        .unwrap_or_default()
        .iter()
        .filter_map(|port| {
            let number = target_port(port, pod)?;
            Some(EndpointPort {
                app_protocol: port.app_protocol.clone(),
                name: Some(port.name.clone().unwrap_or_default()),
                port: Some(number),
                protocol: Some(protocol(port).to_owned()),
            })
        })
        .collect()
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

fn target_port(port: &ServicePort, pod: &Pod) -> Option<i32> {
    match port.target_port.as_ref() {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let spec = pod.spec.as_ref()?;
            let sidecars = spec
                .init_containers
                .iter()
                .flatten()
                .filter(|container| container.restart_policy.as_deref() == Some("Always"));
            let containers = spec.containers.iter().chain(sidecars);
            containers
                .flat_map(|container| container.ports.iter().flatten())
                .find(|own| {
                    own.name.as_deref() == Some(name) && own.protocol.as_deref().unwrap_or("TCP") == protocol(port)
                })
                .map(|own| own.container_port)
        }
    }
}
