//! The options that requests carry, already parsed; what they mean is decided elsewhere.

use std::sync::Arc;

use serde_json::Value;

use super::FieldSelector;
use crate::guard::Guard;
use crate::selector::LabelSelector;
use crate::status::{ApiError, FieldError};

/// What to do with unknown and duplicate fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Drop them.
    Ignore,
    /// Drop them and say so in `Warning` headers.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

/// Options of every write.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// Everything but the write itself.
    pub dry_run: bool,
    /// What to do with unknown and duplicate fields.
    pub field_validation: FieldValidation,
    /// Duplicate fields that decoding the body found.
    pub duplicates: Vec<String>,
    /// Who may refuse the object.
    pub guard: Option<Arc<dyn Guard>>,
}

/// Which revision a list wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListRevision {
    /// The newest.
    #[default]
    Newest,
    /// Not older than this; 0 means any.
    NotOlderThan(u64),
    /// Exactly this.
    Exact(u64),
}

/// Options of lists and deletecollection.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects with these fields.
    pub fields: FieldSelector,
    /// At most this many objects; 0: no limit.
    pub limit: usize,
    /// Where the previous page ended.
    pub continue_token: Option<String>,
    /// Which revision.
    pub revision: ListRevision,
}

/// Options of watches.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Only objects with these labels.
    pub labels: LabelSelector,
    /// Only objects with these fields.
    pub fields: FieldSelector,
    /// Events behind this revision; `None` or 0: the current objects first.
    pub revision: Option<u64>,
    /// Whether bookmarks are welcome.
    pub bookmarks: bool,
    /// Streaming list: `Some(true)` sends the objects and a marked bookmark, `Some(false)` only
    /// what happens from now on.
    pub initial_events: Option<bool>,
    /// When the watch ends by itself.
    pub timeout_seconds: Option<u64>,
}

/// What deletion does with dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// The dependents stay.
    Orphan,
    /// The dependents go later.
    Background,
    /// The dependents go first.
    Foreground,
}

/// `DeleteOptions`.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Seconds; `None`: the object's own.
    pub grace_period_seconds: Option<i64>,
    /// What to do with dependents; `None`: the resource's default.
    pub propagation: Option<Propagation>,
    /// The object must have this uid.
    pub uid: Option<String>,
    /// The object must have this revision, as the client wrote it.
    pub revision: Option<String>,
    /// Everything but the deletion itself.
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Reads `DeleteOptions` from a body.
    ///
    /// # Errors
    /// 400 for wrong types, 422 for a policy that does not exist or two that contradict.
    pub fn from_value(value: &Value) -> Result<Self, ApiError> {
        let mut options = Self::default();
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
            let text = |field: &str| preconditions.get(field).and_then(Value::as_str).map(str::to_owned);
            options.uid = text("uid");
            options.revision = text("resourceVersion");
        }
        options.dry_run = dry_run(value)?;
        Ok(options)
    }

    /// Sets the policy from its text or from the older `orphanDependents`.
    ///
    /// # Errors
    /// 422 for an unknown policy, or when both are given.
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
    parse_dry_run("DeleteOptions", &texts)
}

/// Reads the values of `dryRun`; only `All` is known. `options` is the kind they belong to.
///
/// # Errors
/// 422 for any other value.
pub fn parse_dry_run(options: &str, values: &[&str]) -> Result<bool, ApiError> {
    match values.iter().find(|value| !value.is_empty() && **value != "All") {
        Some(_) => {
            let all: Vec<Value> = values.iter().map(|value| (*value).into()).collect();
            let error = FieldError::not_supported("dryRun", all, &["All"]);
            Err(ApiError::invalid("meta.k8s.io", options, "", &[error]))
        }
        None => Ok(values.contains(&"All")),
    }
}
