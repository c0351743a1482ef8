//! Requests as objects of the API: their kind, and the fields that the decision uses.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use mcm_api::GoDuration;
use serde::{Deserialize, Serialize};

/// The API group of requests.
pub const GROUP: &str = "remediation.fakecloud.drydock.dev";
/// Their version.
pub const VERSION: &str = "v1alpha1";
/// Their kind.
pub const KIND: &str = "FakeCloudRemediation";
/// The finalizer with which the controller holds a request until its VM is in a final state.
pub const FINALIZER: &str = "remediation.fakecloud.drydock.dev/vm";

/// The retries of a request that names no limit.
const RETRIES: u32 = 1;
/// The time of an attempt of a request that names none.
const TIMEOUT: Duration = Duration::from_mins(5);

pub(super) fn resource() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, KIND), "fakecloudremediations")
}

/// How a VM is repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Strategy {
    /// It is power-cycled.
    #[default]
    Reboot,
    /// Its disk is written again: it is stopped, cleaned and started.
    Rebuild,
    /// Its machine is deleted.
    Delete,
    /// It is power-cycled; after the last retry its machine is deleted.
    Escalate,
}

/// The progress of a remediation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Nothing has been done.
    #[default]
    New,
    /// An attempt was made, and the machine may recover.
    Waiting,
    /// The VM is stopped and will be cleaned.
    Rebuilding,
    /// The machine is deleted.
    Deleting,
    /// All attempts were made.
    Exhausted,
}

/// The spec of a request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    strategy: Strategy,
    retry_limit: Option<u32>,
    timeout: Option<GoDuration>,
}

/// The status of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Status {
    /// The progress.
    pub phase: Phase,
    /// The number of attempts.
    pub retry_count: u32,
    /// When the last attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_attempt: Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>,
    /// An action that was decided and may not be performed yet: it is pending before it is performed, so that a process
    /// that ends in between is not the end of the attempt. Written even if it is `None`, which removes it.
    pub pending_action: Option<PendingAction>,
}

/// An action that is pending before it is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PendingAction {
    /// Power-cycles the running VM.
    Reboot,
    /// Starts the stopped VM.
    Start,
    /// Cleans the stopped VM and starts it.
    Rebuild,
    /// Deletes the Machine.
    DeleteMachine,
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    /// The machine.
    pub machine: String,
    /// Whether the request is being deleted.
    pub deleting: bool,
    /// Whether it has the finalizer.
    pub held: bool,
    /// How the VM is repaired.
    pub strategy: Strategy,
    /// How often.
    pub retry_limit: u32,
    /// How long the machine may take to recover after an attempt.
    pub timeout: Duration,
    /// Whether this process performed the pending action.
    pub performed: bool,
    /// The progress.
    pub status: Status,
}

impl Request {
    /// The request in an object. A field that cannot be read has its default.
    pub fn of(object: &DynamicObject) -> Self {
        let part = |name: &str| object.data.get(name).cloned().unwrap_or_default();
        let spec: Spec = serde_json::from_value(part("spec")).unwrap_or_default();
        Self {
            machine: object.name_any(),
            deleting: object.metadata.deletion_timestamp.is_some(),
            held: object.finalizers().iter().any(|one| one == FINALIZER),
            performed: false,
            strategy: spec.strategy,
            retry_limit: spec.retry_limit.unwrap_or(RETRIES).max(1),
            timeout: spec.timeout.map_or(TIMEOUT, |timeout| timeout.0),
            status: serde_json::from_value(part("status")).unwrap_or_default(),
        }
    }
}
