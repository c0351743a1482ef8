//! An API server in virtual time, and requests to it in process.

use std::time::Duration;

use apiserver::{Authorization, Identity, Options, Server};
use bytes::Bytes;
use clock::{Clock, Seed};
use http::Request;
use http_body_util::BodyExt as _;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::Violation;

/// A watch is read for this long, in virtual time.
const WATCHED: Duration = Duration::from_secs(3600);
/// Frames of a response that are read.
const FRAMES: usize = 1000;

/// A longer part of a URI cannot be sent, in bytes.
pub(super) const MAX_URI: usize = 60_000;

/// The definition of `widgets.example.com`, whose version `v1` has that schema.
pub(super) fn definition(schema: &Value, columns: &Value) -> Value {
    definition_of("widgets", "Widget", schema, columns)
}

/// The definition of a namespaced kind in the group `example.com`, whose version `v1` has that schema.
pub(crate) fn definition_of(plural: &str, kind: &str, schema: &Value, columns: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": plural, "kind": kind },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
                "subresources": { "status": {} }, "additionalPrinterColumns": columns,
            }],
        },
    })
}

/// The path of definitions.
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// The path of the definition of widgets.
pub(super) const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
/// The path of widgets.
pub(super) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) code: u16,
    pub(super) body: Bytes,
}

impl Answer {
    /// The body as JSON; null if it is something else.
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).chars().take(300).collect()
    }
}

/// A server.
#[derive(Debug)]
pub(super) struct World {
    runtime: Runtime,
    pub(super) server: Server,
}

impl World {
    /// A server with the namespaces of a new cluster and no access control.
    pub(super) fn new() -> Result<Self, Violation> {
        Self::with(Authorization::default())
    }

    pub(super) fn with(authorization: Authorization) -> Result<Self, Violation> {
        let runtime = virtual_time()?;
        let server = {
            let _inside = runtime.enter();
            let mut options = Options::new(Clock::simulated(Timestamp::UNIX_EPOCH), Seed::new(1));
            options.authorization = authorization;
            Server::new(options).map_err(|error| Violation::new(error.to_string()))?
        };
        Ok(Self { runtime, server })
    }

    /// Sends a request as that user, reads the response, and checks that it is no internal error. `None`: a fault rule broke the
    /// connection.
    pub(super) fn send(&self, user: &Identity, request: Request<Bytes>) -> Result<Option<Answer>, Violation> {
        let what = format!("{} {}", request.method(), request.uri());
        let answer = self.runtime.block_on(async {
            let response = self.server.handle(Some(user), request).await.ok()?;
            let (parts, mut body) = response.into_parts();
            let mut bytes = Vec::new();
            let read = async {
                for _ in 0..FRAMES {
                    let Some(Ok(frame)) = body.frame().await else { break };
                    bytes.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
                }
            };
            // A watch may last longer.
            tokio::time::timeout(WATCHED, read).await.ok();
            Some(Answer {
                code: parts.status.as_u16(),
                body: bytes.into(),
            })
        });
        match answer {
            Some(answer) if answer.code == 500 && !is_expected_error(&answer.json()) => Err(unexpected(&what, &answer)),
            other => Ok(other),
        }
    }

    /// Sends a request with a JSON body as the administrator.
    pub(super) fn request(
        &self,
        method: &str,
        path: &str,
        media_type: &str,
        body: &Value,
    ) -> Result<Answer, Violation> {
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media_type)
            .body(Bytes::from(body));
        let request = request.map_err(|error| Violation::new(format!("{method} {path}: {error}")))?;
        let answer = self.send(&Identity::admin(), request)?;
        answer.ok_or_else(|| Violation::new(format!("{method} {path}: no response")))
    }

    /// The same, and checks that the response has one of the codes.
    pub(super) fn expect(&self, method: &str, path: &str, body: &Value, codes: &[u16]) -> Result<Answer, Violation> {
        let answer = self.request(method, path, "application/json", body)?;
        if codes.contains(&answer.code) {
            Ok(answer)
        } else {
            Err(unexpected(&format!("{method} {path}"), &answer))
        }
    }

    /// Reads with that media type.
    pub(super) fn read_as(&self, path: &str, accept: &str, codes: &[u16]) -> Result<(), Violation> {
        let request = Request::get(path).header("accept", accept).body(Bytes::new());
        let request = request.map_err(|error| Violation::new(format!("GET {path}: {error}")))?;
        match self.send(&Identity::admin(), request)? {
            Some(answer) if !codes.contains(&answer.code) => {
                Err(unexpected(&format!("GET {path} as {accept}"), &answer))
            }
            _ => Ok(()),
        }
    }

    /// Waits in virtual time.
    pub(super) fn wait(&self, time: Duration) {
        self.runtime.block_on(tokio::time::sleep(time));
    }
}

/// A runtime whose time passes only while everything waits.
pub(super) fn virtual_time() -> Result<Runtime, Violation> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.map_err(|error| Violation::new(format!("no runtime: {error}")))
}

/// Whether a kube-apiserver responds to the request with 500 too.
pub(crate) fn is_expected_error(answer: &Value) -> bool {
    let known = [
        "resourceVersion should not be set on objects to be created",
        "does not contain declared merge key",
        "failed to create typed patch object",
        "failed to convert new object",
        "resourceVersion: Invalid value",
    ];
    let message = answer["message"].as_str().unwrap_or_default();
    known.iter().any(|text| message.contains(text))
}

fn unexpected(what: &str, answer: &Answer) -> Violation {
    Violation::new(format!("{what} -> {} {}", answer.code, answer.text()))
}

/// Percent-encoding of everything but letters, digits, `-` and `.`.
pub(crate) fn encode(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
