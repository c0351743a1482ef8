//! The requests that a controller can plan, as plain data, so that plans can be compared and printed.

use k8s_openapi::api::core::v1::ObjectReference;
use serde::Serialize;
use serde_json::{Value, json};

use super::caches::Cached;
use super::resource::{Object, ObjectKey, ResourceType};

/// One request. Every action is safe to repeat: creations carry a fixed name, writes a precondition, deletions
/// a uid.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create an object. Returns the object.
    Create {
        /// The type.
        resource: ResourceType,
        /// The namespace; empty for cluster-scoped kinds.
        namespace: String,
        /// The object, with `name` or `generateName`.
        object: Value,
    },
    /// Patch an object or a subresource. Returns the object; a missing object is not an error.
    Patch {
        /// The object.
        target: Target,
        /// `status`, `scale`, or none.
        subresource: Option<&'static str>,
        /// The patch. With `metadata.resourceVersion` it fails if the object is newer.
        patch: Patch,
    },
    /// Replace an object or a subresource. Returns the object; a missing object is not an error.
    Replace {
        /// The object.
        target: Target,
        /// `status`, `finalize`, or none.
        subresource: Option<&'static str>,
        /// The new content.
        object: Value,
    },
    /// Post to a subresource: `binding`, `eviction`.
    Post {
        /// The object.
        target: Target,
        /// The subresource.
        subresource: &'static str,
        /// The request body.
        body: Value,
    },
    /// Delete an object. A missing object, or another object of the same name, is not an error. Returns the
    /// object if finalizers or its grace period keep it.
    Delete {
        /// The object.
        target: Target,
        /// Preconditions, propagation and grace period.
        deletion: Deletion,
    },
    /// Delete all objects of a type in a namespace.
    DeleteAll {
        /// The type.
        resource: ResourceType,
        /// The namespace.
        namespace: String,
    },
    /// Read an object or a subresource. Returns the object, or nothing if it does not exist.
    Read {
        /// The object.
        target: Target,
        /// `scale`, or none.
        subresource: Option<&'static str>,
    },
    /// Read the metadata of all objects of a type in a namespace. Returns the list.
    List {
        /// The type.
        resource: ResourceType,
        /// The namespace.
        namespace: String,
    },
    /// Record an event. A failure is logged and does not fail the plan.
    Event {
        /// The involved object.
        about: Box<ObjectReference>,
        /// The event type.
        severity: Severity,
        /// The reason, one word in CamelCase.
        reason: &'static str,
        /// The message for humans.
        message: String,
    },
}

/// The object that an action addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The type.
    pub resource: ResourceType,
    /// The key.
    pub key: ObjectKey,
}

impl Target {
    /// The target that addresses a typed object.
    pub fn of<K: Cached>(object: &K) -> Self {
        Self {
            resource: K::KIND.resource(),
            key: ObjectKey::of(object),
        }
    }
}

/// A patch, by patch type.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// JSON merge patch (RFC 7396).
    Merge(Value),
    /// Strategic merge patch: lists merge by their keys. Not supported for custom resources.
    Strategic(Value),
    /// JSON patch (RFC 6902).
    Json(Value),
}

/// The options of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Preconditions on the object's current state.
    pub preconditions: Preconditions,
    /// The propagation policy; the kind's default when `None`.
    pub propagation: Option<Propagation>,
    /// Grace period in seconds; the object's own when `None`.
    pub grace_seconds: Option<u32>,
}

/// The preconditions of a deletion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// The required uid.
    pub uid: Option<String>,
    /// The required resource version.
    pub resource_version: Option<String>,
}

/// The propagation policy of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents are deleted after the owner.
    Background,
    /// Dependents are deleted before the owner.
    Foreground,
    /// Dependents are kept.
    Orphan,
}

impl Propagation {
    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// The type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Type `Normal`.
    Normal,
    /// Type `Warning`: an operator should check.
    Warning,
}

impl Action {
    /// Creates a typed object in its namespace.
    pub fn create<K: Cached + Serialize>(object: &K) -> Self {
        Self::Create {
            resource: K::KIND.resource(),
            namespace: object.metadata().namespace.clone().unwrap_or_default(),
            object: value_of(object),
        }
    }

    /// A merge patch of an object.
    pub fn merge<K: Cached>(object: &K, patch: Value) -> Self {
        Self::Patch {
            target: Target::of(object),
            subresource: None,
            patch: Patch::Merge(patch),
        }
    }

    /// A merge patch of an object; it fails if the object has changed since it was read.
    pub fn merge_as_seen<K: Cached>(object: &K, patch: Value) -> Self {
        Self::merge(object, as_seen(object, patch))
    }

    /// A strategic merge patch of an object's status.
    pub fn patch_status<K: Cached>(object: &K, status: Value) -> Self {
        Self::Patch {
            target: Target::of(object),
            subresource: Some("status"),
            patch: Patch::Strategic(json!({ "status": status })),
        }
    }

    /// A strategic merge patch of an object's status; it fails if the object has changed since it was read.
    pub fn patch_status_as_seen<K: Cached>(object: &K, status: Value) -> Self {
        Self::Patch {
            target: Target::of(object),
            subresource: Some("status"),
            patch: Patch::Strategic(as_seen(object, json!({ "status": status }))),
        }
    }

    /// Replaces an object; fails if the object has changed since it was read.
    pub fn replace<K: Cached + Serialize>(object: &K) -> Self {
        Self::Replace {
            target: Target::of(object),
            subresource: None,
            object: value_of(object),
        }
    }

    /// Replaces an object's status; fails if the object has changed since it was read.
    pub fn replace_status<K: Cached + Serialize>(object: &K) -> Self {
        Self::Replace {
            target: Target::of(object),
            subresource: Some("status"),
            object: value_of(object),
        }
    }

    /// Deletes the object with this uid, and no other object of the same name.
    pub fn delete<K: Cached>(object: &K) -> Self {
        Self::Delete {
            target: Target::of(object),
            deletion: Deletion {
                preconditions: Preconditions {
                    uid: object.metadata().uid.clone(),
                    resource_version: None,
                },
                ..Deletion::default()
            },
        }
    }

    /// Deletes the object with this uid immediately, without a grace period.
    pub fn delete_now<K: Cached>(object: &K) -> Self {
        match Self::delete(object) {
            Self::Delete { target, mut deletion } => {
                deletion.grace_seconds = Some(0);
                Self::Delete { target, deletion }
            }
            other => other,
        }
    }

    /// Records an event about an object.
    pub fn event<K: Cached>(object: &K, severity: Severity, reason: &'static str, message: impl Into<String>) -> Self {
        Self::Event {
            about: Box::new(reference(&K::KIND.resource(), object)),
            severity,
            reason,
            message: message.into(),
        }
    }
}

/// The object reference for the `involvedObject` of an event.
pub(crate) fn reference(resource: &ResourceType, object: &dyn Object) -> ObjectReference {
    let revision = object.metadata().resource_version.as_deref().unwrap_or_default();
    reference_of(resource, &ObjectKey::of(object), object.uid(), revision)
}

/// The same reference from its parts.
pub(crate) fn reference_of(resource: &ResourceType, key: &ObjectKey, uid: &str, revision: &str) -> ObjectReference {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    ObjectReference {
        api_version: Some(resource.api_version()),
        kind: Some(resource.kind.to_string()),
        namespace: some(&key.namespace),
        name: some(&key.name),
        uid: some(uid),
        resource_version: some(revision),
        field_path: None,
    }
}

fn as_seen<K: Cached>(object: &K, mut patch: Value) -> Value {
    patch["metadata"]["resourceVersion"] = json!(object.metadata().resource_version);
    patch
}

/// Objects of the Kubernetes API always serialize.
fn value_of<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
