//! The plan of a workload decision: ordered writes, events, and the time of the next decision.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::meta::Owner;
use crate::Kind;

/// An object that a workload controller writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Object {
    /// A pod.
    Pod(Box<Pod>),
    /// A claim of a StatefulSet pod.
    Claim(Box<PersistentVolumeClaim>),
    /// A ReplicaSet.
    ReplicaSet(Box<ReplicaSet>),
    /// A Deployment.
    Deployment(Box<Deployment>),
    /// A DaemonSet.
    DaemonSet(Box<DaemonSet>),
    /// A StatefulSet.
    StatefulSet(Box<StatefulSet>),
    /// A controller revision.
    Revision(Box<ControllerRevision>),
    /// A Job.
    Job(Box<Job>),
    /// An endpoint slice.
    EndpointSlice(Box<EndpointSlice>),
}

impl Object {
    /// The object's kind.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Pod(_) => Kind::Pod,
            Self::Claim(_) => Kind::PersistentVolumeClaim,
            Self::ReplicaSet(_) => Kind::ReplicaSet,
            Self::Deployment(_) => Kind::Deployment,
            Self::DaemonSet(_) => Kind::DaemonSet,
            Self::StatefulSet(_) => Kind::StatefulSet,
            Self::Revision(_) => Kind::ControllerRevision,
            Self::Job(_) => Kind::Job,
            Self::EndpointSlice(_) => Kind::EndpointSlice,
        }
    }
}

macro_rules! objects {
    ($($type:ty => $variant:ident),* $(,)?) => {
        $(impl From<$type> for Object {
            fn from(object: $type) -> Self {
                Self::$variant(Box::new(object))
            }
        })*
    };
}

objects! {
    Pod => Pod,
    PersistentVolumeClaim => Claim,
    ReplicaSet => ReplicaSet,
    Deployment => Deployment,
    DaemonSet => DaemonSet,
    StatefulSet => StatefulSet,
    ControllerRevision => Revision,
    Job => Job,
    EndpointSlice => EndpointSlice,
}

/// One observed object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The uid; an object with the same name and another uid is not changed.
    pub uid: String,
}

impl Target {
    /// The object with this metadata.
    pub fn new(kind: Kind, meta: &ObjectMeta) -> Self {
        Self {
            kind,
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
        }
    }
}

/// An event to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Whether it is of type Warning.
    pub warning: bool,
    /// The event's message; in the event of a creation, `{}` stands for the generated name.
    pub reason: &'static str,
    /// The event's message; in the note on a creation, `{}` stands for the name that the server gave.
    pub message: String,
}

impl Note {
    /// A Normal event.
    pub fn normal(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            warning: false,
            reason,
            message: message.into(),
        }
    }

    /// A Warning event.
    pub fn warning(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            warning: true,
            reason,
            message: message.into(),
        }
    }
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Create an object; then record the event on the owner, or `FailedCreate` on a failure.
    Create {
        /// The object.
        object: Object,
        /// The event after the creation.
        note: Option<Note>,
    },
    /// Replace the object, if its resourceVersion is unchanged.
    Update {
        /// The object.
        object: Object,
    },
    /// Replace the object's status (and annotations), if its resourceVersion is unchanged.
    UpdateStatus {
        /// The object.
        object: Object,
    },
    /// Apply a JSON merge patch, if uid and resourceVersion in it match.
    Patch {
        /// The object.
        target: Target,
        /// The patch.
        patch: Value,
    },
    /// Delete the object, if its uid matches; then record the event on the owner.
    Delete {
        /// The object.
        target: Target,
        /// Whether its dependents are deleted first.
        foreground: bool,
        /// The event after the deletion.
        note: Option<Note>,
    },
    /// Record an event on the owner.
    Record(Note),
}

/// The actions for one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The actions, in order; the first failure ends the plan.
    pub actions: Vec<Action>,
    /// When to decide again without a change.
    pub deadline: Option<Timestamp>,
}

impl Plan {
    /// Requests another decision no later than `at`.
    pub fn wake(&mut self, at: Option<Timestamp>) {
        self.deadline = [self.deadline, at].into_iter().flatten().min();
    }

    /// Creates a pod, with upstream's event.
    pub fn create_pod(&mut self, pod: Pod) {
        self.actions.push(Action::Create {
            object: pod.into(),
            note: Some(Note::normal("SuccessfulCreate", "Created pod: {}")),
        });
    }

    /// Deletes a pod, with upstream's event.
    pub fn delete_pod(&mut self, pod: &Pod) {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        self.actions.push(Action::Delete {
            target: Target::new(Kind::Pod, &pod.metadata),
            foreground: false,
            note: Some(Note::normal("SuccessfulDelete", format!("Deleted pod: {name}"))),
        });
    }

    /// Creates an object without an event.
    pub fn create(&mut self, object: impl Into<Object>) {
        self.actions.push(Action::Create {
            object: object.into(),
            note: None,
        });
    }

    /// Replaces an object.
    pub fn update(&mut self, object: impl Into<Object>) {
        self.actions.push(Action::Update { object: object.into() });
    }

    /// Replaces an object's status.
    pub fn update_status(&mut self, object: impl Into<Object>) {
        self.actions.push(Action::UpdateStatus { object: object.into() });
    }

    /// Deletes an object without an event, with background propagation.
    pub fn delete(&mut self, kind: Kind, meta: &ObjectMeta) {
        self.actions.push(Action::Delete {
            target: Target::new(kind, meta),
            foreground: false,
            note: None,
        });
    }

    /// Records an event.
    pub fn record(&mut self, note: Note) {
        self.actions.push(Action::Record(note));
    }

    /// Makes `owner` the controller of an orphan.
    pub fn adopt(&mut self, kind: Kind, meta: &ObjectMeta, owner: &Owner) {
        let mut references = meta.owner_references.clone().unwrap_or_default();
        references.push(owner.controller_reference());
        self.patch_metadata(kind, meta, json!({ "ownerReferences": references }));
    }

    /// Removes the reference to `owner`.
    pub fn release(&mut self, kind: Kind, meta: &ObjectMeta, owner: &Owner) {
        let mut references = meta.owner_references.clone().unwrap_or_default();
        references.retain(|reference| reference.uid != owner.uid);
        self.patch_metadata(kind, meta, json!({ "ownerReferences": references }));
    }

    /// Removes one finalizer.
    pub fn remove_finalizer(&mut self, kind: Kind, meta: &ObjectMeta, finalizer: &str) {
        let mut finalizers = meta.finalizers.clone().unwrap_or_default();
        finalizers.retain(|present| present != finalizer);
        self.patch_metadata(kind, meta, json!({ "finalizers": finalizers }));
    }

    /// A metadata patch with uid and resourceVersion as preconditions.
    fn patch_metadata(&mut self, kind: Kind, meta: &ObjectMeta, mut change: Value) {
        if let Some(change) = change.as_object_mut() {
            change.insert("uid".to_owned(), json!(meta.uid));
            change.insert("resourceVersion".to_owned(), json!(meta.resource_version));
        }
        self.actions.push(Action::Patch {
            target: Target::new(kind, meta),
            patch: json!({ "metadata": change }),
        });
    }
}

/// The failure of the controller's last attempt to act on the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The refused write.
    pub what: Attempt,
    /// The server's message.
    pub message: String,
}

/// The writes whose failures appear in a status; conflicts and name collisions do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// A creation.
    Create,
    /// A deletion.
    Delete,
}
