//! Where a service runs.

use std::net::{IpAddr, SocketAddr};

use serde_json::Value;

use crate::service_port::ServicePort;
use crate::store::{Key, Scope, Store};

const SERVICES: &str = "services";
const SLICES: &str = "endpointslices.discovery.k8s.io";
/// The label of a slice with the name of its service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The address of a ready endpoint of a service; `None` if there is none.
pub(super) fn endpoint_of(store: &Store, port: &ServicePort) -> Option<SocketAddr> {
    let ServicePort { namespace, name, port } = port;
    let service = store.get(SERVICES, &Key::new(namespace, name))?.value().ok()?;
    let is_it = |candidate: &&Value| candidate.get("port").and_then(Value::as_u64) == Some((*port).into());
    let port_name = items(&service, "/spec/ports").find(is_it)?.get("name").cloned();
    let scope = Scope {
        namespace: Some(namespace.clone()),
        after: None,
    };
    let slices = store.list(SLICES, &scope, None).ok()?.objects;
    let own = slices
        .iter()
        .filter(|slice| slice.meta.labels.get(SERVICE_LABEL) == Some(name));
    own.filter_map(|slice| slice.value().ok())
        .find_map(|slice| address_in(&slice, port_name.as_ref()))
}

/// The address of a ready endpoint in a slice, with the port of that name.
fn address_in(slice: &Value, port_name: Option<&Value>) -> Option<SocketAddr> {
    let named = |name: Option<&Value>| name.and_then(Value::as_str).unwrap_or_default().to_owned();
    let port = items(slice, "/ports").find(|port| named(port.get("name")) == named(port_name))?;
    let port = u16::try_from(port.get("port")?.as_u64()?).ok()?;
    let is_ready = |endpoint: &&Value| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false));
    let endpoint = items(slice, "/endpoints").find(is_ready)?;
    let address: IpAddr = endpoint.pointer("/addresses/0")?.as_str()?.parse().ok()?;
    Some(SocketAddr::new(address, port))
}

fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_ready_endpoint_counts() {
        let slice = json!({
            "ports": [{ "name": "metrics", "port": 1 }, { "name": "https", "port": 8443 }],
            "endpoints": [
                { "addresses": ["10.1.0.1"], "conditions": { "ready": false } },
                { "addresses": ["10.1.0.2"], "conditions": {} },
            ],
        });
        let found = address_in(&slice, Some(&json!("https")));
        assert_eq!(found, Some("10.1.0.2:8443".parse().unwrap()));
        assert_eq!(address_in(&slice, None), None);
    }
}
