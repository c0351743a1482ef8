//! Sends the request of an action and returns its outcome.

use std::time::Duration;

use kube::Client;
use kube::api::{
    DeleteParams, GetParams, ListParams, Patch as KubePatch, PatchParams, PostParams,
    Preconditions as KubePreconditions, PropagationPolicy, Request,
};
use kube::core::Status;
use serde_json::Value;
use thiserror::Error;

use super::action::{Action, Deletion, Patch, Propagation, Target};

/// The timeout of one request.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// The outcome of an action: the object or list that the server returned, if any.
pub type Outcome = Result<Option<Value>, Failure>;

/// Why an action failed. The key is decided again after a backoff.
#[derive(Debug, Error)]
pub enum Failure {
    /// The server refused the request.
    #[error("{what}: {}", status.message)]
    Refused {
        /// The attempted action.
        what: String,
        /// The server's status.
        status: Box<Status>,
    },
    /// The response could not be read; the action may have been performed.
    #[error("{what}: {source}")]
    Unclear {
        /// The attempted action.
        what: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The request timed out; the action may have been performed.
    #[error("{what}: no answer within {CALL_TIMEOUT:?}")]
    Timeout {
        /// The attempted action.
        what: String,
    },
}

impl Failure {
    /// The server's status, if it refused the request.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Refused { status, .. } => Some(status),
            Self::Unclear { .. } | Self::Timeout { .. } => None,
        }
    }

    /// Whether the object has changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "Conflict")
    }

    /// Whether an object of this name exists.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(Status::is_already_exists)
    }

    /// Whether the namespace is terminating.
    pub fn is_namespace_ending(&self) -> bool {
        let details = self.status().and_then(|status| status.details.as_ref());
        details.is_some_and(|details| {
            details
                .causes
                .iter()
                .any(|cause| cause.reason == "NamespaceTerminating")
        })
    }
}

/// Performs one action other than an event.
pub(super) async fn perform(client: &Client, action: &Action) -> Outcome {
    let request = match request(action) {
        None => return Ok(None),
        Some(Ok(request)) => request,
        Some(Err(source)) => {
            return Err(Failure::Unclear {
                what: describe(action),
                source: Box::new(kube::Error::BuildRequest(source)),
            });
        }
    };
    match tokio::time::timeout(CALL_TIMEOUT, client.request::<Value>(request)).await {
        Ok(Ok(answer)) => Ok(object_of(action, answer)),
        Ok(Err(kube::Error::Api(status))) if is_done(action, &status) => Ok(None),
        Ok(Err(kube::Error::Api(status))) => Err(Failure::Refused {
            what: describe(action),
            status,
        }),
        Ok(Err(source)) => Err(Failure::Unclear {
            what: describe(action),
            source: Box::new(source),
        }),
        Err(_) => Err(Failure::Timeout { what: describe(action) }),
    }
}

/// Whether a refusal means that the action is already done.
fn is_done(action: &Action, status: &Status) -> bool {
    match action {
        Action::Patch { .. } | Action::Replace { .. } | Action::Read { .. } => status.code == 404,
        // With the uid as the only precondition, a conflict means that the name belongs to another object.
        Action::Delete { deletion, .. } => {
            let other = status.code == 409 && deletion.preconditions.resource_version.is_none();
            status.code == 404 || (other && deletion.preconditions.uid.is_some())
        }
        Action::List { .. } | Action::DeleteAll { .. } => matches!(status.code, 404 | 405),
        Action::Create { .. } | Action::Post { .. } | Action::Event { .. } => false,
    }
}

/// The object in a response, if it still exists.
fn object_of(action: &Action, answer: Value) -> Option<Value> {
    if answer["kind"] == "Status" {
        return None;
    }
    match action {
        Action::Delete { .. } => stays(&answer).then_some(answer),
        Action::DeleteAll { .. } => None,
        _ => Some(answer),
    }
}

/// Whether the object in the response to a deletion still exists.
fn stays(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let finalizers = metadata["finalizers"].as_array().is_some_and(|all| !all.is_empty());
    let grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or_default() > 0;
    metadata["deletionTimestamp"].is_string() && (finalizers || grace)
}

type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// The request of an action; `None` for an event, which the recorder sends.
fn request(action: &Action) -> Option<Built> {
    Some(match action {
        Action::Create {
            resource,
            namespace,
            object,
        } => Request::new(resource.path(namespace)).create(&PostParams::default(), bytes(object)),
        Action::Patch {
            target,
            subresource,
            patch,
        } => patch_request(target, *subresource, patch),
        Action::Replace {
            target,
            subresource: None,
            object,
        } => collection(target).replace(&target.key.name, &PostParams::default(), bytes(object)),
        Action::Replace {
            target,
            subresource: Some(subresource),
            object,
        } => {
            collection(target).replace_subresource(subresource, &target.key.name, &PostParams::default(), bytes(object))
        }
        Action::Post {
            target,
            subresource,
            body,
        } => collection(target).create_subresource(subresource, &target.key.name, &PostParams::default(), bytes(body)),
        Action::Delete { target, deletion } => collection(target).delete(&target.key.name, &parameters(deletion)),
        Action::DeleteAll { resource, namespace } => Request::new(resource.path(namespace))
            .delete_collection(&DeleteParams::background(), &ListParams::default()),
        Action::Read {
            target,
            subresource: None,
        } => collection(target).get(&target.key.name, &GetParams::default()),
        Action::Read {
            target,
            subresource: Some(subresource),
        } => collection(target).get_subresource(subresource, &target.key.name),
        Action::List { resource, namespace } => {
            Request::new(resource.path(namespace)).list_metadata(&ListParams::default())
        }
        Action::Event { .. } => return None,
    })
}

fn patch_request(target: &Target, subresource: Option<&'static str>, patch: &Patch) -> Built {
    let patch = match patch {
        Patch::Merge(value) => KubePatch::Merge(value.clone()),
        Patch::Strategic(value) => KubePatch::Strategic(value.clone()),
        Patch::Json(value) => return json_patch_request(target, subresource, value),
    };
    let (request, name, parameters) = (collection(target), &target.key.name, PatchParams::default());
    match subresource {
        None => request.patch(name, &parameters, &patch),
        Some(subresource) => request.patch_subresource(subresource, name, &parameters, &patch),
    }
}

/// kube's JSON patch type is typed; ours is plain data.
fn json_patch_request(target: &Target, subresource: Option<&'static str>, operations: &Value) -> Built {
    let end = subresource.map(|name| format!("/{name}")).unwrap_or_default();
    let path = format!(
        "{}/{}{end}",
        target.resource.path(&target.key.namespace),
        target.key.name
    );
    http::Request::patch(path)
        .header(http::header::ACCEPT, "application/json")
        .header(http::header::CONTENT_TYPE, "application/json-patch+json")
        .body(bytes(operations))
        .map_err(kube::core::request::Error::BuildRequest)
}

fn collection(target: &Target) -> Request {
    Request::new(target.resource.path(&target.key.namespace))
}

fn parameters(deletion: &Deletion) -> DeleteParams {
    let conditions = &deletion.preconditions;
    let any = conditions.uid.is_some() || conditions.resource_version.is_some();
    DeleteParams {
        grace_period_seconds: deletion.grace_seconds,
        propagation_policy: deletion.propagation.map(|propagation| match propagation {
            Propagation::Background => PropagationPolicy::Background,
            Propagation::Foreground => PropagationPolicy::Foreground,
            Propagation::Orphan => PropagationPolicy::Orphan,
        }),
        preconditions: any.then(|| KubePreconditions {
            uid: conditions.uid.clone(),
            resource_version: conditions.resource_version.clone(),
        }),
        ..DeleteParams::default()
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// The description of an action for errors.
fn describe(action: &Action) -> String {
    let at = |verb: &str, target: &Target, subresource: Option<&str>| {
        let slash = if subresource.is_some() { "/" } else { "" };
        let subresource = subresource.unwrap_or_default();
        format!("{verb} {}{slash}{subresource} {}", target.resource, target.key)
    };
    match action {
        Action::Create {
            resource,
            namespace,
            object,
        } => {
            let metadata = &object["metadata"];
            let name = metadata["name"].as_str().or(metadata["generateName"].as_str());
            format!("create {resource} {namespace}/{}", name.unwrap_or_default())
        }
        Action::Patch {
            target, subresource, ..
        } => at("patch", target, *subresource),
        Action::Replace {
            target, subresource, ..
        } => at("replace", target, *subresource),
        Action::Post {
            target, subresource, ..
        } => at("post to", target, Some(subresource)),
        Action::Delete { target, .. } => at("delete", target, None),
        Action::Read { target, subresource } => at("read", target, *subresource),
        Action::DeleteAll { resource, namespace } => format!("delete all {resource} in {namespace}"),
        Action::List { resource, namespace } => format!("list {resource} in {namespace}"),
        Action::Event { reason, .. } => format!("record event {reason}"),
    }
}
