//! The state of the control plane's components (`kubectl get componentstatuses`). All of them run in this server.

use http::Response;
use serde_json::{Value, json};

use super::path::Target;
use super::{Body, Exchange, encoded_response, method_not_allowed};
use crate::registry::Entry;
use crate::status::ApiError;

const NAMES: [&str; 3] = ["scheduler", "controller-manager", "etcd-0"];

pub(super) fn serve(
    exchange: &Exchange<'_>,
    entry: &Entry,
    target: &Target,
    verb: &str,
) -> Result<Response<Body>, ApiError> {
    let answer = match (verb, &target.name) {
        ("get", Some(name)) if NAMES.contains(&name.as_str()) => {
            let mut component = component(name);
            component["kind"] = "ComponentStatus".into();
            component["apiVersion"] = "v1".into();
            component
        }
        // Upstream's error has the singular.
        ("get", Some(name)) => {
            let message = format!("componentstatus {name:?} not found");
            return Err(ApiError::new(404, "NotFound", message).of("", "componentstatus", name));
        }
        ("list", None) => {
            let items: Vec<Value> = NAMES.into_iter().map(component).collect();
            json!({ "kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": items })
        }
        _ => return Err(method_not_allowed()),
    };
    Ok(encoded_response(
        200,
        exchange.presentation.computed(entry, answer, exchange.now),
    ))
}

fn component(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "conditions": [{ "type": "Healthy", "status": "True", "message": "ok" }],
    })
}
