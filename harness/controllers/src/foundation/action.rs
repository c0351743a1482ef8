//! What a controller can ask for: one request each, as data, so that plans compare and print.

use k8s_openapi::api::core::v1::ObjectReference;
use serde::Serialize;
use serde_json::{Value, json};

use super::caches::Cached;
use super::resource::{Object, ObjectKey, ResourceType};

/// One request. Each is safe to repeat: a creation of the same name, a write with a precondition, a
/// removal of a uid.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create an object; its answer is the object.
    Create {
        /// Its type.
        resource: ResourceType,
        /// Its namespace; empty for kinds of the whole cluster.
        namespace: String,
        /// The object, with name or `generateName`.
        object: Value,
    },
    /// Patch an object or a subresource; its answer is the object. An object that is gone is no failure.
    Patch {
        /// Which object.
        target: Target,
        /// `status`, `scale`, or nothing.
        subresource: Option<&'static str>,
        /// The patch. With `metadata.resourceVersion` inside, a newer object makes it fail.
        patch: Patch,
    },
    /// Replace an object or a subresource; its answer is the object. An object that is gone is no failure.
    Replace {
        /// Which object.
        target: Target,
        /// `status`, `finalize`, or nothing.
        subresource: Option<&'static str>,
        /// What it becomes.
        object: Value,
    },
    /// Post to a subresource: `binding`, `eviction`.
    Post {
        /// Which object.
        target: Target,
        /// The subresource.
        subresource: &'static str,
        /// What is posted.
        body: Value,
    },
    /// Delete an object. That it is gone, or is another one by now, is no failure. Its answer is the
    /// object if it stays for finalizers or its grace period.
    Delete {
        /// Which object.
        target: Target,
        /// How.
        deletion: Deletion,
    },
    /// Delete everything of a type in a namespace.
    DeleteAll {
        /// The type.
        resource: ResourceType,
        /// The namespace.
        namespace: String,
    },
    /// Read an object or a subresource; its answer is what is read, nothing if it is not there.
    Read {
        /// Which object.
        target: Target,
        /// `scale`, or nothing.
        subresource: Option<&'static str>,
    },
    /// Read everything of a type in a namespace, metadata only; its answer is the list.
    List {
        /// The type.
        resource: ResourceType,
        /// The namespace.
        namespace: String,
    },
    /// Record an event. Its failure is logged and no failure of the plan.
    Event {
        /// What it is about.
        about: Box<ObjectReference>,
        /// How bad it is.
        severity: Severity,
        /// Why, in one camel-case word.
        reason: &'static str,
        /// What a person should know.
        message: String,
    },
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its type.
    pub resource: ResourceType,
    /// Its key.
    pub key: ObjectKey,
}

impl Target {
    /// The target of a typed object.
    pub fn of<K: Cached>(object: &K) -> Self {
        Self {
            resource: K::KIND.resource(),
            key: ObjectKey::of(object),
        }
    }
}

/// How an object is changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Patch {
    /// RFC 7396.
    Merge(Value),
    /// Kubernetes' own: lists merge by their keys. Not for custom resources.
    Strategic(Value),
    /// RFC 6902.
    Json(Value),
}

/// How an object is deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// What it must be at that moment.
    pub preconditions: Preconditions,
    /// What becomes of its dependents; the kind's default when `None`.
    pub propagation: Option<Propagation>,
    /// Seconds of grace; the object's own when `None`.
    pub grace_seconds: Option<u32>,
}

/// What an object must be for a deletion to happen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preconditions {
    /// Its uid.
    pub uid: Option<String>,
    /// Its resource version.
    pub resource_version: Option<String>,
}

/// What becomes of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

impl Propagation {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Background => "Background",
            Self::Foreground => "Foreground",
            Self::Orphan => "Orphan",
        }
    }
}

/// How bad an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// All as it should be.
    Normal,
    /// Somebody should look.
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

    /// A merge patch of an object, which fails if the object has changed since.
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

    /// A strategic merge patch of an object's status, which fails if the object has changed since.
    pub fn patch_status_as_seen<K: Cached>(object: &K, status: Value) -> Self {
        Self::Patch {
            target: Target::of(object),
            subresource: Some("status"),
            patch: Patch::Strategic(as_seen(object, json!({ "status": status }))),
        }
    }

    /// Replaces an object, if it has not changed since.
    pub fn replace<K: Cached + Serialize>(object: &K) -> Self {
        Self::Replace {
            target: Target::of(object),
            subresource: None,
            object: value_of(object),
        }
    }

    /// Replaces an object's status, if the object has not changed since.
    pub fn replace_status<K: Cached + Serialize>(object: &K) -> Self {
        Self::Replace {
            target: Target::of(object),
            subresource: Some("status"),
            object: value_of(object),
        }
    }

    /// Deletes this object and no other of its name.
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

    /// Deletes this object, at once and without grace.
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

/// The reference to an object that its events carry.
pub(crate) fn reference(resource: &ResourceType, object: &dyn Object) -> ObjectReference {
    let revision = object.metadata().resource_version.as_deref().unwrap_or_default();
    reference_of(resource, &ObjectKey::of(object), object.uid(), revision)
}

/// The same from its parts.
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

/// Objects of the Kubernetes API are always representable.
fn value_of<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}
