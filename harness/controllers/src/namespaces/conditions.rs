//! The conditions of a terminating namespace.

use quantity::Saturating as _;
use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, NamespaceCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

/// The remaining content of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// The number of objects by resource, `PLURAL.GROUP`.
    pub counts: BTreeMap<String, usize>,
    /// The number of objects by finalizer.
    pub finalizers: BTreeMap<String, usize>,
}

impl Remains {
    /// Adds a list from the API server.
    pub fn add(&mut self, resource: &str, list: &Value) {
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        if items.is_empty() {
            return;
        }
        self.counts.entry(resource.to_owned()).or_default().raise(items.len());
        for finalizer in items
            .iter()
            .filter_map(|item| item["metadata"]["finalizers"].as_array())
            .flatten()
            .filter_map(Value::as_str)
        {
            self.finalizers.entry(finalizer.to_owned()).or_default().raise(1);
        }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }
}

/// The desired conditions; `None` when they are already set.
pub(super) fn wanted(namespace: &Namespace, remains: &Remains, now: Timestamp) -> Option<Vec<NamespaceCondition>> {
    let old = namespace
        .status
        .as_ref()
        .and_then(|status| status.conditions.clone())
        .unwrap_or_default();
    let mut new = old.clone();
    for (kind, status, reason, message) in texts(remains) {
        match new.iter_mut().find(|condition| condition.type_ == kind) {
            Some(condition) => {
                if condition.status != status {
                    condition.last_transition_time = Some(Time(now));
                }
                condition.status = status.to_owned();
                condition.reason = Some(reason.to_owned());
                condition.message = Some(message);
            }
            None => new.push(NamespaceCondition {
                type_: kind.to_owned(),
                status: status.to_owned(),
                reason: Some(reason.to_owned()),
                message: Some(message),
                last_transition_time: Some(Time(now)),
            }),
        }
    }
    (new != old).then_some(new)
}

/// The resource with its group; upstream keeps the trailing period for the core group.
fn with_group(resource: &str) -> String {
    let period = if resource.contains('.') { "" } else { "." };
    format!("{resource}{period}")
}

fn texts(remains: &Remains) -> [(&'static str, &'static str, &'static str, String); 5] {
    let list = |parts: &BTreeMap<String, usize>, verb: &str| {
        let parts: Vec<_> = parts
            .iter()
            .map(|(name, count)| format!("{name}{verb} {count} resource instances"))
            .collect();
        parts.join(", ")
    };
    let content = if remains.counts.is_empty() {
        ("False", "ContentRemoved", "All content successfully removed".to_owned())
    } else {
        let counts = remains.counts.iter().map(|(name, count)| (with_group(name), *count));
        let parts = list(&counts.collect(), " has");
        (
            "True",
            "SomeResourcesRemain",
            format!("Some resources are remaining: {parts}"),
        )
    };
    let finalizers = if remains.finalizers.is_empty() {
        let message = "All content-preserving finalizers finished".to_owned();
        ("False", "ContentHasNoFinalizers", message)
    } else {
        let parts = list(&remains.finalizers, " in");
        let message = format!("Some content in the namespace has finalizers remaining: {parts}");
        ("True", "SomeFinalizersRemain", message)
    };
    [
        (
            "NamespaceDeletionDiscoveryFailure",
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered".to_owned(),
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure",
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed".to_owned(),
        ),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization".to_owned(),
        ),
        ("NamespaceContentRemaining", content.0, content.1, content.2),
        ("NamespaceFinalizersRemaining", finalizers.0, finalizers.1, finalizers.2),
    ]
}
