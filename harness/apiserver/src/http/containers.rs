//! Logs of containers, and connections into them (`exec`, `attach`, `port-forward`): the kubelet of the pod's node answers,
//! unless the node is simulated.

use http::Response;
use serde_json::Value;

use super::query::Query;
use super::{Body, Exchange, kubelet, relay};
use crate::identity::Identity;
use crate::network::{Connection, NotConnected, Peer, Place, Tls, Trust};
use crate::registry::Entry;
use crate::resource::Subresource;
use crate::status::ApiError;
use crate::store::Key;
use crate::syntax::percent_encoded;

/// The container runtime of simulated nodes.
const SIMULATED: &str = "fakecloud://";
/// The types of addresses at which kubelets are, the preferred one first.
const ADDRESSES: [&str; 3] = ["InternalIP", "ExternalIP", "Hostname"];
/// The user whose certificate this server shows to kubelets.
const USER: &str = "kube-apiserver-kubelet-client";

/// Whether a request is one for the kubelet of a pod's node.
pub(super) fn is_for_kubelet(subresource: &Subresource, verb: &str) -> bool {
    match subresource {
        Subresource::Log => verb == "get",
        Subresource::Connect { name, .. } => *name != "proxy" && matches!(verb, "get" | "create"),
        _ => false,
    }
}

/// Relays such a request to the kubelet; `None`: the node is simulated.
pub(super) async fn serve(
    exchange: &Exchange<'_>,
    entry: &Entry,
    key: &Key,
    subresource: &Subresource,
) -> Result<Option<Response<Body>>, ApiError> {
    let server = exchange.server;
    if server.registry.clock().is_simulated() {
        return Ok(None);
    }
    let pod = server.registry.get(entry, key)?.value().map_err(ApiError::internal)?;
    let node = pod
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let nodes = server.registry.catalog();
    let nodes = nodes.find("", "v1", "nodes");
    let node = nodes.and_then(|nodes| server.registry.get(nodes, &Key::new("", node)).ok());
    let node = node.and_then(|node| node.value().ok());
    let Some(place) = node.as_ref().and_then(kubelet_of) else {
        return Ok(None);
    };
    let path = path(subresource.name(), &pod, exchange.query)?;
    let request = relay::request(exchange.arrival, &place.to_string(), &path);
    let connect = async {
        let user = Identity {
            groups: vec!["system:masters".to_owned()],
            ..Identity::user(USER)
        };
        let authority = server.authority.as_ref();
        let peer = Peer {
            tls: Some(Tls {
                name: place.host.clone(),
                trust: Trust::Anything,
                client: authority.and_then(|authority| authority.issue(&user).ok()),
            }),
            place: place.clone(),
        };
        server
            .relay(exchange.arrival, Connection::open(&peer).await?, request)
            .await
    };
    let response = connect.await.map_err(|why: NotConnected| {
        let method = exchange.method.as_str();
        let (first, rest) = method.split_at(1);
        let method = format!("{first}{}", rest.to_lowercase());
        ApiError::internal(format!("{method} \"https://{place}{path}\": {why}"))
    })?;
    Ok(Some(response))
}

/// Where the kubelet of a node is; `None` if the node is simulated or has no kubelet.
fn kubelet_of(node: &Value) -> Option<Place> {
    let info = node
        .pointer("/status/nodeInfo/containerRuntimeVersion")
        .and_then(Value::as_str);
    if info.is_some_and(|version| version.starts_with(SIMULATED)) {
        return None;
    }
    let port = node.pointer("/status/daemonEndpoints/kubeletEndpoint/Port")?.as_u64()?;
    let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
    let addresses = node.pointer("/status/addresses")?.as_array()?;
    let host = ADDRESSES.iter().find_map(|wanted| {
        let address = addresses.iter().find(|address| address["type"] == *wanted)?;
        address["address"].as_str()
    })?;
    Some(Place {
        host: host.to_owned(),
        port,
    })
}

/// The path of the kubelet, with the parameters that it knows.
///
/// # Errors
/// 400 for an unknown container, and for several without a choice.
fn path(subresource: &str, pod: &Value, query: &Query) -> Result<String, ApiError> {
    let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (namespace, name) = (text("/metadata/namespace"), text("/metadata/name"));
    let container = || kubelet::container(pod, query.get("container").unwrap_or_default());
    let (path, parameters): (String, &[(&str, &str)]) = match subresource {
        "log" => (
            format!("/containerLogs/{namespace}/{name}/{}", container()?),
            &[
                ("follow", "follow"),
                ("previous", "previous"),
                ("timestamps", "timestamps"),
                ("sinceSeconds", "sinceSeconds"),
                ("sinceTime", "sinceTime"),
                ("tailLines", "tailLines"),
                ("limitBytes", "limitBytes"),
                ("stream", "stream"),
            ],
        ),
        "portforward" => (format!("/portForward/{namespace}/{name}"), &[("ports", "port")]),
        stream => (
            format!("/{stream}/{namespace}/{name}/{}", container()?),
            &[("command", "command")],
        ),
    };
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for (ours, theirs) in parameters {
        pairs.extend(query.all(ours).map(|value| (*theirs, value)));
    }
    if matches!(subresource, "exec" | "attach") {
        let flags = [
            ("stdin", "input"),
            ("stdout", "output"),
            ("stderr", "error"),
            ("tty", "tty"),
        ];
        pairs.extend(
            flags
                .iter()
                .filter(|(ours, _)| query.flag(ours))
                .map(|(_, theirs)| (*theirs, "1")),
        );
    }
    let pairs: Vec<String> = pairs
        .into_iter()
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
    Ok(match pairs.is_empty() {
        true => path,
        false => format!("{path}?{}", pairs.join("&")),
    })
}

/// A text as the value of a parameter.
fn encoded(text: &str) -> String {
    percent_encoded(text, |byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(
        "log",
        "follow=true&tailLines=3&pretty=1",
        "/containerLogs/n/p/main?follow=true&tailLines=3"
    )]
    #[case("log", "container=main", "/containerLogs/n/p/main")]
    #[case(
        "exec",
        "command=sh&command=-c&command=a%26b&stdin=true&stdout=1&stderr=false&tty=true",
        "/exec/n/p/main?command=sh&command=-c&command=a%26b&input=1&output=1&tty=1"
    )]
    #[case("attach", "stdout=true", "/attach/n/p/main?output=1")]
    #[case("portforward", "ports=80&ports=81", "/portForward/n/p?port=80&port=81")]
    fn a_kubelet_has_paths_of_its_own(#[case] subresource: &str, #[case] query: &str, #[case] expected: &str) {
        let pod = json!({
            "metadata": { "namespace": "n", "name": "p" }, "spec": { "containers": [{ "name": "main" }] },
        });
        assert_eq!(path(subresource, &pod, &Query::parse(query)).unwrap(), expected);
    }

    #[rstest]
    #[case::simulated(json!({ "nodeInfo": { "containerRuntimeVersion": "fakecloud://1.0.0" } }), None)]
    #[case::without_kubelet(json!({ "daemonEndpoints": { "kubeletEndpoint": { "Port": 0 } } }), None)]
    #[case::without_internal_address(json!({ "addresses": [{ "type": "Hostname", "address": "here" }] }), Some("here:10250"))]
    #[case::with_all(json!({}), Some("10.1.0.1:10250"))]
    fn a_node_says_where_its_kubelet_is(#[case] change: Value, #[case] expected: Option<&str>) {
        let mut status = json!({
            "nodeInfo": { "containerRuntimeVersion": "containerd://2.0.0" },
            "daemonEndpoints": { "kubeletEndpoint": { "Port": 10250 } },
            "addresses": [{ "type": "Hostname", "address": "h" }, { "type": "InternalIP", "address": "10.1.0.1" }],
        });
        status
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        let place = kubelet_of(&json!({ "status": status }));
        assert_eq!(place.map(|place| place.to_string()).as_deref(), expected);
    }
}
