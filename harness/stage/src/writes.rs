//! Records mcm's write requests to API servers and its calls to the cloud, verbatim and in order, for comparing runs.
//!
//! The record omits resource versions, which depend on the writes of all clients, and the random suffixes of the names
//! of Events. It contains digests of Secret data instead of the data.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use http::{Method, Request};
use kube::client::Body;
use mcm_api::MachineClass;
use mcm_api::cloud::DriverError;
use mcm_driver::Driver;
use mcm_driver::call::{Call, Handler, Outcome};
use mcm_driver::registration::Source;
use parking_lot::Mutex;
use scenario::result::Write;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The record of a run; clones write to the same one.
#[derive(Clone, Debug, Default)]
pub(super) struct Writes(Arc<Mutex<Vec<Write>>>);

impl Writes {
    /// All writes so far.
    pub(super) fn all(&self) -> Vec<Write> {
        self.0.lock().clone()
    }

    /// Records a request to an API server, if it is a write.
    pub(super) fn request(&self, request: &Request<Body>) {
        if request.method() == Method::GET {
            return;
        }
        let body = request.body().try_clone();
        let bytes = body.and_then(|body| body.collect_bytes().now_or_never()?.ok());
        let body = serde_json::from_slice(&bytes.unwrap_or_default()).unwrap_or_default();
        self.add(of_request(request.method().as_str(), request.uri().path(), body));
    }

    /// Wraps a driver so that its calls are recorded.
    pub(super) fn of_driver(&self, driver: Arc<dyn Driver>) -> Arc<dyn Driver> {
        Arc::new(Recorded {
            driver,
            writes: self.clone(),
        })
    }

    fn call(&self, call: &Call) {
        let name_of = |class: &MachineClass| class.metadata.name.clone().unwrap_or_default();
        match call {
            Call::List(class, _) => {
                let object = format!("VMs of class {}", name_of(class));
                self.note(object, "ListMachines", json!({ "class": class }));
            }
            Call::GenerateClass(provider_class, class) => {
                let body = json!({ "providerClass": provider_class });
                self.note(format!("class {}", name_of(class)), "GenerateMachineClass", body);
            }
            Call::VolumeIds(specs) => self.note("volumes".to_owned(), "GetVolumeIds", json!({ "specs": specs })),
            Call::Create(request)
            | Call::Initialize(request)
            | Call::Delete(request)
            | Call::Status(request)
            | Call::Stop(request)
            | Call::Update(request, _) => {
                let machine = request.machine.metadata.name.as_deref().unwrap_or_default();
                let body = json!({
                    "machine": &request.machine,
                    "class": &request.class,
                    "secret": digest(&json!(&request.secret)),
                });
                self.note(format!("VM of {machine}"), call.name(), body);
            }
        }
    }

    fn note(&self, object: String, call: &str, mut body: Value) {
        remove_versions(&mut body);
        let what = format!("{call} {body}");
        self.add(Write { object, what });
    }

    fn add(&self, write: Write) {
        self.0.lock().push(write);
    }
}

/// The record of a request with this method, path and body.
fn of_request(method: &str, path: &str, mut body: Value) -> Write {
    let (resource, rest) = resource_of(path);
    let named = body.pointer("/metadata/name").and_then(Value::as_str);
    let name = rest.first().copied().or(named).unwrap_or_default();
    let is_event = resource.ends_with("events");
    let name = match name.rsplit_once('.') {
        Some((about, _)) if is_event => about.to_owned(),
        _ => name.to_owned(),
    };
    if is_event && body.pointer("/metadata/name").is_some() {
        body["metadata"]["name"] = json!(name);
    }
    if resource.ends_with("secrets") {
        for field in ["data", "stringData"] {
            if let Some(data) = body.get_mut(field) {
                *data = digest(data);
            }
        }
    }
    remove_versions(&mut body);
    let subresource = rest.get(1..).unwrap_or_default().join("/");
    let verb = format!("{method} {subresource}");
    Write {
        object: format!("{resource}/{name}"),
        what: format!("{} {body}", verb.trim_end()),
    }
}

/// Splits a path into its resource, prefixed with the namespace if it has one, and the rest: a name and a subresource.
fn resource_of(path: &str) -> (String, Vec<&str>) {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let version = if parts.first() == Some(&"api") { 2 } else { 3 };
    match parts.get(version..).unwrap_or_default() {
        ["namespaces", namespace, resource, rest @ ..] => (format!("{namespace}/{resource}"), rest.to_vec()),
        [resource, rest @ ..] => ((*resource).to_owned(), rest.to_vec()),
        [] => (path.to_owned(), Vec::new()),
    }
}

/// Removes the resource versions of objects and of references to objects.
fn remove_versions(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("resourceVersion");
            fields.values_mut().for_each(remove_versions);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_versions),
        _ => {}
    }
}

/// A short digest of a value.
fn digest(value: &Value) -> Value {
    let digest = Sha256::digest(value.to_string().as_bytes());
    let digits: String = digest[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    json!(digits)
}

/// A driver whose calls are recorded.
#[derive(Debug)]
struct Recorded {
    driver: Arc<dyn Driver>,
    writes: Writes,
}

#[async_trait]
impl Handler for Recorded {
    async fn handle(&self, call: Call) -> Result<Outcome, DriverError> {
        self.writes.call(&call);
        call.send_to(&*self.driver).await
    }

    fn attach_source(&self, source: Arc<dyn Source>) {
        self.driver.attach(source);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const GROUP: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/shop";

    #[rstest]
    #[case::of_a_node("PATCH", "/api/v1/nodes/m-1", json!({ "spec": {} }), "nodes/m-1", r#"PATCH {"spec":{}}"#)]
    #[case::of_a_status("PATCH", "GROUP/machines/m-1/status", json!({ "status": {} }), "shop/machines/m-1", r#"PATCH status {"status":{}}"#)]
    #[case::of_a_created_machine("POST", "GROUP/machines", json!({ "metadata": { "name": "m-1" } }), "shop/machines/m-1", r#"POST {"metadata":{"name":"m-1"}}"#)]
    #[case::of_an_eviction("POST", "/api/v1/namespaces/shop/pods/web-1/eviction", json!({}), "shop/pods/web-1", "POST eviction {}")]
    #[case::of_a_new_event("POST", "/api/v1/namespaces/shop/events", json!({ "metadata": { "name": "m.1.0f" } }), "shop/events/m.1", r#"POST {"metadata":{"name":"m.1"}}"#)]
    #[case::of_a_repeated_event("PATCH", "/api/v1/namespaces/shop/events/m.1.0f", json!({ "count": 2 }), "shop/events/m.1", r#"PATCH {"count":2}"#)]
    #[case::with_versions("DELETE", "/api/v1/nodes/m-1", json!({ "preconditions": { "uid": "u", "resourceVersion": "7" } }), "nodes/m-1", r#"DELETE {"preconditions":{"uid":"u"}}"#)]
    #[case::without_a_body("DELETE", "/api/v1/nodes/m-1", Value::Null, "nodes/m-1", "DELETE null")]
    fn a_request_is_recorded_by_its_object(
        #[case] method: &str,
        #[case] path: &str,
        #[case] body: Value,
        #[case] object: &str,
        #[case] what: &str,
    ) {
        let write = of_request(method, &path.replace("GROUP", GROUP), body);
        assert_eq!((write.object.as_str(), write.what.as_str()), (object, what));
    }

    #[test]
    fn secret_data_is_recorded_as_a_digest() {
        let token = |data: &str| {
            let body = json!({ "stringData": { "token-secret": data } });
            of_request("POST", "/api/v1/namespaces/kube-system/secrets", body).what
        };
        assert!(!token("abc").contains("abc") && !token("abc").contains("token-secret"));
        assert_eq!(token("abc"), token("abc"));
        assert_ne!(token("abc"), token("abd"));
    }

    #[test]
    fn writes_are_recorded_with_their_body_and_reads_are_not() {
        let writes = Writes::default();
        for method in [Method::GET, Method::PATCH] {
            let body = Body::from(br#"{"spec":{}}"#.to_vec());
            let request = Request::builder().method(method).uri("/api/v1/nodes/m-1").body(body);
            writes.request(&request.unwrap());
        }
        let expected = Write {
            object: "nodes/m-1".to_owned(),
            what: r#"PATCH {"spec":{}}"#.to_owned(),
        };
        assert_eq!(writes.all(), [expected]);
    }
}
