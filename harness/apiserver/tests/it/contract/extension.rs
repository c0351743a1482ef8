//! An API server of a case: it serves one group version, and answers most requests with what it received.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

use crate::tls::acceptor;

/// An API server on loopback, until it is dropped.
pub struct Extension {
    pub port: u16,
    /// For `caBundle`; its certificate is for all services of the namespace `default`.
    pub authority: String,
    _task: AbortOnDropHandle<()>,
}

impl Extension {
    pub async fn start() -> Self {
        let (acceptor, authority) = acceptor("*.default.svc");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self {
            port: listener.local_addr().unwrap().port(),
            authority: STANDARD.encode(authority),
            _task: AbortOnDropHandle::new(tokio::spawn(serve(listener, acceptor))),
        }
    }
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor) {
    let mut connections = Vec::new();
    while let Ok((stream, _)) = listener.accept().await {
        let acceptor = acceptor.clone();
        let connection = tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let _ended = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service_fn(respond))
                .await;
        });
        // Connections end with the server.
        connections.push(AbortOnDropHandle::new(connection));
    }
}

async fn respond(request: Request<Incoming>) -> hyper::Result<Response<Full<Bytes>>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let path = parts.uri.path();
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let (code, answer) = match segments.as_slice() {
        ["apis", group, version] => (200, resources(group, version)),
        ["apis", _, _, rest @ ..] if rest.last() == Some(&"teapot") => (418, json!({ "kind": "Status", "code": 418 })),
        ["apis", _, _, _, ..] => {
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let echo = json!({
                "method": parts.method.as_str(), "target": parts.uri.to_string(),
                "headers": selected(&parts.headers), "body": body,
            });
            (200, echo)
        }
        _ => (404, json!({ "kind": "Status", "code": 404 })),
    };
    let mut response = Response::new(Full::from(answer.to_string()));
    *response.status_mut() = code.try_into().unwrap();
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert("content-type", json);
    Ok(response)
}

fn resources(group: &str, version: &str) -> Value {
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"),
        "resources": [
            {
                "name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "shortNames": ["tg"],
                "verbs": ["create", "get", "list"],
            },
            { "name": "things/status", "singularName": "", "namespaced": true, "kind": "Thing", "verbs": ["get"] },
        ],
    })
}

/// The headers about the user and the content.
fn selected(headers: &HeaderMap) -> Value {
    let is_shown = |name: &str| {
        ["x-remote-", "impersonate-"]
            .iter()
            .any(|start| name.starts_with(start))
            || ["accept", "authorization", "content-type"].contains(&name)
    };
    let shown = headers.iter().filter(|(name, _)| is_shown(name.as_str()));
    let mut texts: Vec<String> = shown
        .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
        .collect();
    texts.sort();
    texts.into()
}
