//! Where a service runs.

use serde_json::Value;

use super::connection::Place;
use crate::service_port::ServicePort;
use crate::store::{Key, Scope, Store};

pub(crate) const SERVICES: &str = "services";
pub(crate) const SLICES: &str = "endpointslices.discovery.k8s.io";
/// The label of a slice with the name of its service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The object whose absence makes a service unreachable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The service itself.
    Service,
    /// The port.
    Port,
    /// An EndpointSlice.
    Slices,
    /// A ready endpoint with the port of that name.
    Endpoint { port_name: String },
}

/// The external name of a service, or a ready endpoint.
pub(super) fn place_of(store: &Store, port: &ServicePort) -> Result<Place, Missing> {
    let ServicePort { namespace, name, port } = port;
    let stored = store.get(SERVICES, &Key::new(namespace, name));
    let service = stored.and_then(|service| service.value().ok());
    let service = service.ok_or(Missing::Service)?;
    if text(&service, "/spec/type") == "ExternalName" {
        let host = text(&service, "/spec/externalName").to_owned();
        return Ok(Place { host, port: *port });
    }
    let is_it = |candidate: &&Value| candidate.get("port").and_then(Value::as_u64) == Some((*port).into());
    let found = items(&service, "/spec/ports").find(is_it).ok_or(Missing::Port)?;
    let port_name = text(found, "/name");
    let scope = Scope {
        namespace: Some(namespace.clone()),
        after: None,
    };
    let slices = store.list(SLICES, &scope, None).map(|listing| listing.objects);
    let slices = slices.unwrap_or_default();
    let mut own = slices
        .iter()
        .filter(|slice| slice.meta.labels.get(SERVICE_LABEL) == Some(name))
        .peekable();
    own.peek().ok_or(Missing::Slices)?;
    own.filter_map(|slice| slice.value().ok())
        .find_map(|slice| place_in(&slice, port_name))
        .ok_or_else(|| Missing::Endpoint {
            port_name: port_name.to_owned(),
        })
}

/// The address of a ready endpoint in a slice, with the port of that name.
fn place_in(slice: &Value, port_name: &str) -> Option<Place> {
    let port = items(slice, "/ports").find(|port| text(port, "/name") == port_name)?;
    let port = u16::try_from(port.get("port")?.as_u64()?).ok()?;
    let is_ready = |endpoint: &&Value| endpoint.pointer("/conditions/ready") != Some(&Value::Bool(false));
    let endpoint = items(slice, "/endpoints").find(is_ready)?;
    let host = endpoint.pointer("/addresses/0")?.as_str()?.to_owned();
    Some(Place { host, port })
}

fn items<'a>(value: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    value.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
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
        let found = place_in(&slice, "https").map(|place| place.to_string());
        assert_eq!(found.as_deref(), Some("10.1.0.2:8443"));
        assert_eq!(place_in(&slice, ""), None);
    }
}
