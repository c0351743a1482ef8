//! Query parameters: decoding, and the request options in them.

use jiff::{SignedDuration, Timestamp};

use super::kubelet::LogOptions;
use crate::registry::{
    DeleteOptions, Entry, FieldSelector, FieldValidation, ListOptions, ListRevision, WatchOptions, WriteOptions,
    parse_dry_run,
};
use crate::selector::LabelSelector;
use crate::status::{ApiError, FieldError, FieldErrorType};

/// The decoded parameters in order.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decode(name, true), decode(value, true))
        });
        Self(pairs.collect())
    }

    /// Selects only the object of that name, in addition to the given selector.
    pub(super) fn select_name(&mut self, name: Option<&str>) {
        let Some(name) = name else { return };
        let given = self.get("fieldSelector").map(|given| format!("{given},"));
        let selector = format!("{}metadata.name={name}", given.unwrap_or_default());
        self.0.retain(|(key, _)| key != "fieldSelector");
        self.0.push(("fieldSelector".to_owned(), selector));
    }

    /// The first value; `None` if the parameter is absent or empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let pair = self.0.iter().find(|(key, _)| key == name);
        pair.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// All values of a parameter, in order.
    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let pairs = self.0.iter().filter(move |(key, _)| key == name);
        pairs.map(|(_, value)| value.as_str())
    }

    /// Whether the parameter is present and not false. `watch` without a value means true.
    pub(super) fn flag(&self, name: &str) -> bool {
        let pair = self.0.iter().find(|(key, _)| key == name);
        pair.is_some_and(|(_, value)| !matches!(value.to_lowercase().as_str(), "false" | "0"))
    }

    fn number(&self, name: &str) -> Result<Option<u64>, ApiError> {
        let Some((_, text)) = self.0.iter().find(|(key, _)| key == name) else {
            return Ok(None);
        };
        let number: i64 = text.parse().map_err(|_| {
            ApiError::bad_request(format!(
                "strconv.ParseInt: parsing {text:?}: invalid syntax (parameter {name})"
            ))
        })?;
        Ok(u64::try_from(number).ok())
    }

    fn revision(&self) -> Result<Option<u64>, FieldError> {
        let Some(text) = self.get("resourceVersion") else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            let detail = format!("strconv.ParseUint: parsing {text:?}: invalid syntax");
            FieldError::invalid("resourceVersion", text, detail)
        })
    }

    /// The revision of a read of one object, and of the start of a watch.
    ///
    /// # Errors
    /// 500 if it is no number, as upstream.
    pub(super) fn least_revision(&self) -> Result<Option<u64>, ApiError> {
        self.revision()
            .map_err(|error| ApiError::new(500, "", error.to_string()))
    }

    fn selectors(&self, entry: &Entry) -> Result<(LabelSelector, FieldSelector), ApiError> {
        let labels = self
            .get("labelSelector")
            .map(LabelSelector::parse)
            .transpose()?
            .unwrap_or_default();
        let fields = self
            .get("fieldSelector")
            .map(|text| FieldSelector::parse(text, &entry.resource))
            .transpose()?;
        Ok((labels, fields.unwrap_or_default()))
    }

    /// The options of a pod's log.
    ///
    /// # Errors
    /// 400 for invalid values.
    pub(super) fn log(&self, now: Timestamp) -> Result<LogOptions, ApiError> {
        let since = match (self.number("sinceSeconds")?, self.get("sinceTime")) {
            (Some(seconds), _) => now
                .checked_sub(SignedDuration::from_secs(seconds.try_into().unwrap_or(i64::MAX)))
                .ok(),
            (None, Some(time)) => {
                let invalid = |_| ApiError::bad_request(format!("sinceTime {time:?} is not a time (RFC 3339)"));
                Some(time.parse().map_err(invalid)?)
            }
            (None, None) => None,
        };
        Ok(LogOptions {
            container: self.get("container").unwrap_or_default().to_owned(),
            since,
            tail: self.number("tailLines")?,
            previous: self.flag("previous"),
            limit: self.number("limitBytes")?,
        })
    }

    /// # Errors
    /// 400 for invalid values, 422 for invalid combinations.
    pub(super) fn list(&self, entry: &Entry) -> Result<ListOptions, ApiError> {
        let (labels, fields) = self.selectors(entry)?;
        let limit = self.number("limit")?.unwrap_or_default();
        self.number("timeoutSeconds")?;
        let continue_token = self.get("continue").map(str::to_owned);
        let revision = self.revision().map_err(|error| ApiError {
            code: 400,
            reason: "BadRequest".into(),
            ..invalid(&[error])
        })?;
        let mut errors = Vec::new();
        if self.get("sendInitialEvents").is_some() {
            errors.push(FieldError::forbidden(
                "sendInitialEvents",
                "sendInitialEvents is forbidden for list",
            ));
        }
        let matching = self.get("resourceVersionMatch");
        if let Some(matching) = matching {
            const FIELD: &str = "resourceVersionMatch";
            if revision.is_none() {
                let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
            if continue_token.is_some() {
                let detail = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
            if !matches!(matching, "Exact" | "NotOlderThan") {
                errors.push(FieldError::not_supported(
                    FIELD,
                    matching,
                    &["Exact", "NotOlderThan", ""],
                ));
            }
            if matching == "Exact" && revision == Some(0) {
                let detail = "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
        }
        if !errors.is_empty() {
            return Err(invalid(&errors));
        }
        if continue_token.is_some() && revision.is_some_and(|revision| revision != 0) {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let revision = match (revision, matching) {
            (None, _) => ListRevision::Newest,
            (Some(revision), Some("Exact")) => ListRevision::Exact(revision),
            // Before resourceVersionMatch existed, a limit made the revision exact.
            (Some(revision), None) if revision > 0 && limit > 0 => ListRevision::Exact(revision),
            (Some(revision), _) => ListRevision::NotOlderThan(revision),
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Ok(ListOptions {
            labels,
            fields,
            limit,
            continue_token,
            revision,
        })
    }

    /// # Errors
    /// As [`Query::list`].
    pub(super) fn watch(&self, entry: &Entry) -> Result<WatchOptions, ApiError> {
        let (labels, fields) = self.selectors(entry)?;
        let revision = self.least_revision()?;
        let initial_events = self.get("sendInitialEvents").map(|_| self.flag("sendInitialEvents"));
        let matching = self.get("resourceVersionMatch");
        let error = match (initial_events, matching) {
            (Some(_), None) => {
                let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
                Some(FieldError::forbidden("resourceVersionMatch", detail))
            }
            (None, Some(_)) => {
                let detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
                Some(FieldError::forbidden("resourceVersionMatch", detail))
            }
            (Some(_), Some(other)) if other != "NotOlderThan" => Some(FieldError::not_supported(
                "resourceVersionMatch",
                other,
                &["NotOlderThan"],
            )),
            _ => None,
        };
        if let Some(error) = error {
            return Err(invalid(&[error]));
        }
        Ok(WatchOptions {
            labels,
            fields,
            revision,
            bookmarks: self.flag("allowWatchBookmarks"),
            initial_events,
            timeout_seconds: self.number("timeoutSeconds")?.filter(|seconds| *seconds > 0),
        })
    }

    /// The options of a write; `agent` is the user agent, after which a client that names no field manager is called.
    ///
    /// # Errors
    /// 422 for unknown values and invalid combinations.
    pub(super) fn write(&self, verb: WriteVerb, agent: &str) -> Result<WriteOptions, ApiError> {
        let manager = self.get("fieldManager").unwrap_or_default();
        let mut errors = Vec::new();
        if verb == WriteVerb::Apply && manager.is_empty() {
            errors.push(FieldError::required("fieldManager", "is required for apply patch"));
        }
        if verb == WriteVerb::Patch && self.get("force").is_some() {
            errors.push(FieldError::forbidden(
                "force",
                "may not be specified for non-apply patch",
            ));
        }
        errors.extend(check_manager(manager));
        let dry_run = self.dry_run().unwrap_or_else(|error| {
            errors.push(error);
            false
        });
        let field_validation = match self.get("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                let supported = ["", "Ignore", "Strict", "Warn"];
                errors.push(FieldError::not_supported("fieldValidation", other, &supported));
                FieldValidation::Warn
            }
        };
        if !errors.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", verb.options(), "", &errors));
        }
        let manager = if manager.is_empty() {
            manager_of(agent)
        } else {
            manager.to_owned()
        };
        Ok(WriteOptions {
            dry_run,
            field_validation,
            manager: Some(manager),
            force: self.flag("force"),
            ..WriteOptions::default()
        })
    }

    /// The options of a deletion without a body.
    ///
    /// # Errors
    /// 400 and 422 for invalid or contradicting values.
    pub(super) fn delete(&self) -> Result<DeleteOptions, ApiError> {
        let invalid = |error| ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &[error]);
        let mut options = DeleteOptions {
            dry_run: self.dry_run().map_err(invalid)?,
            ..DeleteOptions::default()
        };
        if let Some(text) = self.get("gracePeriodSeconds") {
            let seconds = text
                .parse()
                .map_err(|_| ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))?;
            options.grace_period_seconds = Some(seconds);
        }
        let orphan = self.get("orphanDependents").map(|_| self.flag("orphanDependents"));
        options.set_propagation(self.get("propagationPolicy"), orphan)?;
        Ok(options)
    }

    fn dry_run(&self) -> Result<bool, FieldError> {
        let values = self.0.iter().filter(|(name, _)| name == "dryRun");
        parse_dry_run(&values.map(|(_, value)| value.as_str()).collect::<Vec<_>>())
    }
}

/// The kind of a write, which determines its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteVerb {
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH, except for the next.
    Patch,
    /// PATCH with a configuration: server-side apply.
    Apply,
}

impl WriteVerb {
    /// The kind of its options.
    fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

/// The maximum length of a manager's name, in bytes.
const MAX_MANAGER: usize = 128;

fn check_manager(manager: &str) -> Vec<FieldError> {
    const FIELD: &str = "fieldManager";
    let mut errors = Vec::new();
    if manager.len() > MAX_MANAGER {
        errors.push(FieldError {
            kind: FieldErrorType::TooLong,
            field: FIELD.to_owned(),
            value: None,
            detail: format!("may not be more than {MAX_MANAGER} bytes"),
        });
    }
    for (position, letter) in manager.char_indices().filter(|(_, letter)| !is_printable(*letter)) {
        let detail = format!("invalid character U+{:04X} (at position {position})", u32::from(letter));
        errors.push(FieldError::invalid(FIELD, manager, detail));
    }
    errors
}

/// Whether Go's `unicode.IsPrint` accepts the character.
fn is_printable(letter: char) -> bool {
    letter == ' ' || !(letter.is_control() || letter.is_whitespace())
}

/// The name of a client that names no manager: its user agent up to the first slash.
fn manager_of(agent: &str) -> String {
    let mut name = String::new();
    let first = agent.split('/').next().unwrap_or_default();
    for letter in first.chars().filter(|letter| is_printable(*letter)) {
        if name.len().saturating_add(letter.len_utf8()) > MAX_MANAGER {
            break;
        }
        name.push(letter);
    }
    name
}

fn invalid(errors: &[FieldError]) -> ApiError {
    ApiError::invalid("meta.k8s.io", "ListOptions", "", errors)
}

/// Percent-decodes; in queries `+` is a space.
pub(super) fn decode(text: &str, plus: bool) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' if plus => out.push(b' '),
            b'%' => {
                let mut ahead = bytes.clone();
                let digits = [ahead.next(), ahead.next()].map(|byte| char::from(byte.unwrap_or(b'?')).to_digit(16));
                if let [Some(high), Some(low)] = digits {
                    bytes = ahead;
                    out.push(((high << 4) | low) as u8);
                } else {
                    out.push(byte);
                }
            }
            other => out.push(other),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
