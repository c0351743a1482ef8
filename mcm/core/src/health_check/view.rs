//! The input of a decision about one health check.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use mcm_api::health_check::TemplateReference;
use mcm_api::{Machine, MachineHealthCheck};
use serde_json::Value;

/// A snapshot of everything that a decision about one health check uses.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// The check.
    pub check: MachineHealthCheck,
    /// The machines of the namespace that its selector matches, ordered by name.
    pub targets: Vec<Target>,
    /// Another check that selects the machine, by the machine's name.
    pub overlaps: BTreeMap<String, String>,
    /// The connection to the clusters.
    pub connection: Connection,
    /// The requests to other controllers; see [`needs_requests`](super::needs_requests).
    pub requests: RequestView,
    /// The templates of the policy.
    pub templates: BTreeMap<TemplateReference, TemplateView>,
    /// Why the request for a machine could not be created in this pass, by the machine's name.
    pub failed_requests: BTreeMap<String, String>,
}

/// A machine and its Node.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The machine.
    pub machine: Arc<Machine>,
    /// Its Node.
    pub node: NodeState,
}

impl Target {
    /// The machine's name.
    pub fn name(&self) -> &str {
        self.machine.metadata.name.as_deref().unwrap_or_default()
    }
}

/// The Node that a machine's label names.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum NodeState {
    /// There is no such Node, or no label.
    #[default]
    Absent,
    /// mcm has no target cluster: nothing is known about nodes, and only the rules about the Machine count.
    NotObserved,
    /// The Node may exist, and cannot be read, for this reason.
    Unreadable(String),
    /// The Node.
    Present(Arc<Node>),
}

/// What this process knows about its connection to the API servers of machines and nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// Both respond, and changes are observed.
    Up {
        /// Since when this process observes the clusters; `None`: for a long time.
        since: Option<Timestamp>,
        /// The end of the last outage that this process observed; `None`: there was none.
        after_outage: Option<Timestamp>,
    },
    /// One does not respond.
    Lost {
        /// Since when.
        since: Timestamp,
    },
}

impl Default for Connection {
    fn default() -> Self {
        Self::Up {
            since: None,
            after_outage: None,
        }
    }
}

/// The requests to other controllers.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum RequestView {
    /// Not read, because the policy has no template.
    #[default]
    NotRead,
    /// They cannot be read, for this reason.
    Unreadable(String),
    /// All requests in the namespace, of the kinds of the policy and of those that the check's status names.
    Known(Vec<Request>),
}

impl RequestView {
    /// The requests, if they are known.
    pub fn known(&self) -> &[Request] {
        match self {
            Self::Known(requests) => requests,
            Self::NotRead | Self::Unreadable(_) => &[],
        }
    }

    /// Whether requests may exist that the view does not have.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable(_))
    }
}

/// The kind of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKind {
    /// API group and version.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

impl RequestKind {
    /// The kind of requests from a template: its kind without `Template`.
    pub fn of(template: &TemplateReference) -> Self {
        let kind = template.kind.strip_suffix("Template").unwrap_or(&template.kind);
        Self {
            api_version: template.api_version.clone(),
            kind: kind.to_owned(),
        }
    }
}

/// A request to another controller: an object with the name of a machine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// Its kind.
    pub kind: RequestKind,
    /// Its name, which is that of the machine.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The health check that created it; `None`: another controller or a user did.
    pub check: Option<String>,
    /// Whether that check does not exist any more. The check that selects the machine then continues the request.
    pub is_orphaned: bool,
    /// The name of the template that it was created from; empty: unknown.
    pub template: String,
}

/// A template of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TemplateView {
    /// There is none of that name in the namespace.
    #[default]
    Missing,
    /// It cannot be read, for this reason.
    Unreadable(String),
    /// The object.
    Present(Arc<Value>),
}

/// Settings of all health checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether remediation stops at `maxUnhealthy` itself, as the proposal says, not only above it.
    pub exclusive_limit: bool,
    /// How long after an outage no timeout begins to count, and how long a process observes the clusters before it requests
    /// anything.
    pub outage_grace: Duration,
    /// The time between two looks at requests that another controller works on.
    pub request_period: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            exclusive_limit: false,
            outage_grace: Duration::from_mins(1),
            request_period: Duration::from_secs(15),
        }
    }
}
