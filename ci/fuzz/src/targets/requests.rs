//! HTTP requests to the API server: a head as in HTTP/1.1, an empty line, and the body.

use apiserver::Identity;
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};

use super::stored;
use super::world::{DEFINITIONS, MAX_URI, WIDGETS, World, definition, encode};
use crate::mutate::find;
use crate::target::Runner;
use crate::{Outcome, Violation};

/// Objects that the requests of the corpus refer to, with their paths.
pub(crate) fn request_objects() -> Vec<(&'static str, Value)> {
    let schema = json!({
        "type": "object",
        "properties": {
            "spec": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "count": { "type": "integer", "format": "int32", "default": 1, "maximum": 100 },
                    "port": { "x-kubernetes-int-or-string": true },
                    "parts": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": { "type": "object", "required": ["name"], "properties": {
                            "name": { "type": "string" }, "size": { "type": "integer", "default": 2 },
                        } },
                    },
                    "tags": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
                },
                "x-kubernetes-validations": [{ "rule": "!has(self.count) || self.count < 50" }],
            },
            "status": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        },
    });
    let columns = json!([{ "name": "Count", "type": "integer", "jsonPath": ".spec.count" }]);
    let container = json!({ "name": "c", "image": "i", "ports": [{ "containerPort": 80 }], "env": [{ "name": "A", "value": "b" }] });
    let labels = json!({ "app": "d" });
    vec![
        (DEFINITIONS, definition(&schema, &columns)),
        (
            "/api/v1/namespaces/default/configmaps",
            json!({ "metadata": { "name": "a", "finalizers": ["example.com/f"] }, "data": { "k": "v" } }),
        ),
        ("/api/v1/nodes", json!({ "metadata": { "name": "n" } })),
        (
            "/api/v1/namespaces/default/pods",
            json!({ "metadata": { "name": "p", "labels": labels }, "spec": { "nodeName": "n", "containers": [container] } }),
        ),
        (
            "/apis/apps/v1/namespaces/default/deployments",
            json!({ "metadata": { "name": "d" }, "spec": {
                "replicas": 2, "selector": { "matchLabels": labels },
                "template": { "metadata": { "labels": labels }, "spec": { "containers": [container] } },
            } }),
        ),
        (
            WIDGETS,
            json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" },
                "spec": { "count": 3, "parts": [{ "name": "x" }, { "name": "y" }], "tags": ["t"] } }),
        ),
    ]
}

fn world() -> Result<World, Violation> {
    let world = World::new()?;
    for (path, object) in request_objects() {
        world.expect("POST", path, &object, &[201])?;
    }
    Ok(world)
}

pub(super) fn start() -> Result<Runner, Violation> {
    let mut world = Some(self::world()?);
    Ok(Box::new(move |input| {
        let current = world.take().map_or_else(self::world, Ok)?;
        let Some(request) = parse_request(input) else {
            world = Some(current);
            return Ok(Outcome::Refused);
        };
        let (outcome, unchanged) = run(&current, request)?;
        if unchanged {
            world = Some(current);
        }
        Ok(outcome)
    }))
}

/// Sends the request. Returns the outcome, and whether the server is as before.
fn run(world: &World, request: Request<Bytes>) -> Result<(Outcome, bool), Violation> {
    let before = world.server.revision();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let Some(answer) = world.send(&Identity::admin(), request)? else {
        return Ok((Outcome::Refused, false));
    };
    let unchanged = world.server.revision() == before;
    if uri.path().starts_with("/drydock") {
        return Ok((Outcome::Accepted, false));
    }
    if answer.code >= 400 {
        // A deletion of several objects can fail after the first ones.
        if !unchanged && method != "DELETE" {
            return Err(Violation::new(format!(
                "{method} {uri} -> {} and yet the store changed: {}",
                answer.code,
                answer.json()
            )));
        }
        return Ok((Outcome::Refused, unchanged));
    }
    if !unchanged && let Some(path) = path_of(&method, uri.path(), &answer.json()) {
        stored::check(world, &path, &[])?;
    }
    Ok((Outcome::Accepted, unchanged))
}

/// The path of the object that a request wrote; `None` if it wrote none, or deleted one.
fn path_of(method: &http::Method, path: &str, object: &Value) -> Option<String> {
    let path = path.trim_end_matches('/');
    // Names of roles may contain almost everything.
    let name = encode(object["metadata"]["name"].as_str()?);
    if name.len() > MAX_URI {
        return None;
    }
    object["metadata"]["uid"].as_str()?;
    match method.as_str() {
        // Below an object is a subresource.
        "POST" if !path.contains(&format!("/{name}/")) => Some(format!("{path}/{name}")),
        "PUT" | "PATCH" => {
            let end = path.rfind(&format!("/{name}"))?;
            Some(path[..end + 1 + name.len()].to_owned())
        }
        _ => None,
    }
}

/// A request: `METHOD PATH`, headers, an empty line, the body.
pub(crate) fn parse_request(input: &[u8]) -> Option<Request<Bytes>> {
    let at = find(input, b"\n\n")?;
    let head = std::str::from_utf8(&input[..at]).ok()?;
    let mut lines = head.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder().method(method).uri(path.trim());
    for line in lines {
        let (name, value) = line.split_once(':')?;
        request = request.header(name.trim(), value.trim());
    }
    request.body(Bytes::copy_from_slice(&input[at + 2..])).ok()
}
