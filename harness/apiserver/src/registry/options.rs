//! Parsed request options; other modules apply them.

use std::sync::Arc;

use serde_json::Value;

use super::FieldSelector;
use crate::guard::Guard;
use crate::reviewer::Reviewer;
use crate::selector::LabelSelector;
use crate::status::{ApiError, FieldError};

/// The treatment of unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them and add `Warning` headers.
    #[default]
    Warn,
    /// Reject the request.
    Strict,
}

/// Options of every write.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Validate without writing.
    pub dry_run: bool,
    /// The treatment of unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// Duplicate fields of the body.
    pub duplicates: Vec<String>,
    /// An additional check that can reject the object.
    pub guard: Option<Arc<dyn Guard>>,
    /// The field manager, as the client calls itself; `None` for the server.
    pub manager: Option<String>,
    /// Whether an applied configuration takes fields from other managers.
    pub force: bool,
    /// Policies and webhooks that decide about the write.
    pub reviewer: Option<Arc<dyn Reviewer>>,
}

/// The revision of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListRevision {
    /// The newest.
    #[default]
    Newest,
    /// Not older than this; 0: any revision.
    NotOlderThan(u64),
    /// Exactly this revision.
    Exact(u64),
}

/// Options of lists and deletecollection.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Selects objects by labels.
    pub labels: LabelSelector,
    /// Selects objects by fields.
    pub fields: FieldSelector,
    /// The maximum number of objects; 0: unlimited.
    pub limit: usize,
    /// The end of the previous page.
    pub continue_token: Option<String>,
    /// The revision to list.
    pub revision: ListRevision,
}

/// Options of watches.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Selects objects by labels.
    pub labels: LabelSelector,
    /// Selects objects by fields.
    pub fields: FieldSelector,
    /// The start: events after this revision; `None` or 0: the current objects first.
    pub revision: Option<u64>,
    /// Whether the client accepts bookmarks.
    pub bookmarks: bool,
    /// Streaming list: `Some(true)` sends the current objects and a marked bookmark, `Some(false)` only new events.
    pub initial_events: Option<bool>,
    /// The timeout of the watch in seconds.
    pub timeout_seconds: Option<u64>,
}

/// The effect of a deletion on dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The dependents are kept.
    Orphan,
    /// The dependents are deleted later.
    Background,
    /// The dependents are deleted first.
    Foreground,
}

/// `DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// In seconds; `None`: the object's own period.
    pub grace_period_seconds: Option<i64>,
    /// The effect on dependents; `None`: the default of the resource.
    pub propagation: Option<Propagation>,
    /// Precondition: the object has this uid.
    pub uid: Option<String>,
    /// Precondition: the object has this revision, as the client wrote it.
    pub revision: Option<String>,
    /// Validate without deleting.
    pub dry_run: bool,
    /// Policies and webhooks that decide about the deletion.
    pub reviewer: Option<Arc<dyn Reviewer>>,
    /// Whether the request names no object.
    pub of_collection: bool,
}

impl DeleteOptions {
    /// Parses `DeleteOptions` from a body.
    ///
    /// # Errors
    /// 400 for wrong types, 422 for an unknown policy or contradicting policies.
    pub fn from_value(value: &Value) -> Result<Self, ApiError> {
        let mut options = Self::default();
        if !value.is_object() {
            return Err(ApiError::bad_request("DeleteOptions: the body is not an object"));
        }
        let kind = value.get("kind").and_then(Value::as_str).unwrap_or_default();
        if !matches!(kind, "" | "DeleteOptions") {
            let version = value.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
            return Err(ApiError::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?}; a deletion takes DeleteOptions"
            )));
        }
        let wrong = |field: &str| ApiError::bad_request(format!("DeleteOptions: {field} has the wrong type"));
        if let Some(seconds) = present(value, "gracePeriodSeconds") {
            options.grace_period_seconds = Some(seconds.as_i64().ok_or_else(|| wrong("gracePeriodSeconds"))?);
        }
        let policy = match present(value, "propagationPolicy") {
            Some(policy) => Some(policy.as_str().ok_or_else(|| wrong("propagationPolicy"))?),
            None => None,
        };
        let orphan = match present(value, "orphanDependents") {
            Some(orphan) => Some(orphan.as_bool().ok_or_else(|| wrong("orphanDependents"))?),
            None => None,
        };
        options.set_propagation(policy, orphan)?;
        if let Some(preconditions) = present(value, "preconditions") {
            if !preconditions.is_object() {
                return Err(wrong("preconditions"));
            }
            let text = |field: &str| preconditions.get(field).and_then(Value::as_str).map(str::to_owned);
            options.uid = text("uid");
            options.revision = text("resourceVersion");
        }
        options.dry_run = dry_run(value)?;
        Ok(options)
    }

    /// Sets the policy from its name or from the legacy `orphanDependents`.
    ///
    /// # Errors
    /// 422 for an unknown policy, or if both are set.
    pub fn set_propagation(&mut self, policy: Option<&str>, orphan: Option<bool>) -> Result<(), ApiError> {
        let invalid = |errors: &[FieldError]| ApiError::invalid("meta.k8s.io", "DeleteOptions", "", errors);
        self.propagation = match (policy, orphan) {
            (Some(policy), Some(_)) => {
                let detail = "orphanDependents and deletionPropagation cannot be both set";
                return Err(invalid(&[FieldError::invalid("propagationPolicy", policy, detail)]));
            }
            (None, None) => self.propagation,
            (None, Some(true)) | (Some("Orphan"), None) => Some(Propagation::Orphan),
            (None, Some(false)) | (Some("Background"), None) => Some(Propagation::Background),
            (Some("Foreground"), None) => Some(Propagation::Foreground),
            (Some(other), None) => {
                let supported = ["Foreground", "Background", "Orphan", "nil"];
                return Err(invalid(&[FieldError::not_supported(
                    "propagationPolicy",
                    other,
                    &supported,
                )]));
            }
        };
        Ok(())
    }
}

fn present<'a>(value: &'a Value, field: &str) -> Option<&'a Value> {
    value.get(field).filter(|value| !value.is_null())
}

fn dry_run(value: &Value) -> Result<bool, ApiError> {
    let entries = value
        .get("dryRun")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    let texts: Vec<&str> = entries.iter().filter_map(Value::as_str).collect();
    parse_dry_run(&texts).map_err(|error| ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &[error]))
}

/// Parses the values of `dryRun`; the only valid one is `All`.
///
/// # Errors
/// Any other value.
pub fn parse_dry_run(values: &[&str]) -> Result<bool, FieldError> {
    match values.iter().find(|value| !value.is_empty() && **value != "All") {
        Some(_) => {
            let all: Vec<Value> = values.iter().map(|value| (*value).into()).collect();
            Err(FieldError::not_supported("dryRun", all, &["All"]))
        }
        None => Ok(values.contains(&"All")),
    }
}
