//! Errors in Kubernetes' format: the `Status` object with its reasons, details and messages.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

/// How many invalid fields a response lists.
const MAX_ERRORS: usize = 100;

/// An error response. Constructors follow `k8s.io/apimachinery/pkg/api/errors`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// The HTTP code.
    pub code: u16,
    /// A machine-readable reason; empty if upstream sends none.
    pub reason: Cow<'static, str>,
    /// A human-readable message; some clients match parts of it.
    pub message: String,
    /// `details` of the Status.
    pub details: Option<Value>,
    /// `metadata.continue`: continues an expired list.
    pub continue_token: Option<String>,
    /// Whether a custom resource could not be converted to another version.
    pub(crate) unconverted: bool,
}

impl ApiError {
    /// An error without details.
    pub fn new(code: u16, reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: reason.into(),
            message: message.into(),
            details: None,
            continue_token: None,
            unconverted: false,
        }
    }

    /// 400: the request is invalid.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 422: `Pod "x" is invalid: spec.containers: Required value`.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let errors = errors.get(..MAX_ERRORS).unwrap_or(errors);
        // Upstream's aggregated errors name each text once.
        let mut texts: Vec<String> = Vec::new();
        for text in errors.iter().map(ToString::to_string) {
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let qualified = if group.is_empty() {
            kind.to_owned()
        } else {
            format!("{kind}.{group}")
        };
        let list = match texts.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes: Vec<Value> = errors.iter().map(FieldError::cause).collect();
        let mut details = Map::new();
        insert_nonempty(&mut details, "name", name);
        insert_nonempty(&mut details, "group", group);
        insert_nonempty(&mut details, "kind", kind);
        details.insert("causes".into(), causes.into());
        Self {
            details: Some(details.into()),
            ..Self::new(422, "Invalid", format!("{qualified} {name:?} is invalid: {list}"))
        }
    }

    /// 410: the history does not reach back that far.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 500: a bug of the server.
    pub fn internal(message: impl std::fmt::Display) -> Self {
        let text = message.to_string();
        Self {
            details: Some(json!({ "causes": [{ "message": text }] })),
            ..Self::new(500, "InternalError", format!("Internal error occurred: {text}"))
        }
    }

    /// Adds a cause to the details.
    pub fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let mut cause = Map::new();
        insert_nonempty(&mut cause, "reason", reason);
        insert_nonempty(&mut cause, "message", message);
        insert_nonempty(&mut cause, "field", field);
        let details = self.details.get_or_insert_with(|| json!({}));
        if let Some(causes) = details
            .as_object_mut()
            .map(|details| details.entry("causes").or_insert_with(|| json!([])))
            .and_then(Value::as_array_mut)
        {
            causes.push(cause.into());
        }
        self
    }

    /// Adds `retryAfterSeconds` to the details.
    pub fn retry_after(mut self, seconds: u32) -> Self {
        let details = self.details.get_or_insert_with(|| json!({}));
        if let Some(details) = details.as_object_mut() {
            details.insert("retryAfterSeconds".into(), seconds.into());
        }
        self
    }

    /// Adds the object to the details.
    pub fn of(mut self, group: &str, plural: &str, name: &str) -> Self {
        let mut details = Map::new();
        insert_nonempty(&mut details, "name", name);
        insert_nonempty(&mut details, "group", group);
        insert_nonempty(&mut details, "kind", plural);
        self.details = Some(details.into());
        self
    }

    /// The Status object.
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), token.clone().into());
        }
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": metadata,
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.as_ref().into();
        }
        if let Some(details) = &self.details {
            status["details"] = details.clone();
        }
        status
    }
}

fn insert_nonempty(map: &mut Map<String, Value>, key: &str, value: &str) {
    if !value.is_empty() {
        map.insert(key.into(), value.into());
    }
}

/// A text as Go quotes it.
fn go_quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len().saturating_add(2));
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            letter if letter.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// The kind of an invalid field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorType {
    /// `Required value`
    Required,
    /// `Invalid value: <value>`
    Invalid,
    /// `Invalid value: <type>` for a value of the wrong JSON type
    TypeInvalid,
    /// `Unsupported value: <value>`
    NotSupported,
    /// `Duplicate value: <value>`
    Duplicate,
    /// `Forbidden`
    Forbidden,
    /// `Not found: <value>`
    NotFound,
    /// `Too long`
    TooLong,
    /// `Too many: <value>`
    TooMany,
}

/// An invalid field; formatted as in `k8s.io/apimachinery/pkg/util/validation/field`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The kind of the error.
    pub kind: FieldErrorType,
    /// The path, for instance `spec.containers[0].name`.
    pub field: String,
    /// The value in the message; `None` if it contains none.
    pub value: Option<Value>,
    /// Further details; may be empty.
    pub detail: String,
}

impl FieldError {
    /// `spec.foo: Required value: detail`.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorType::Required,
            field: field.into(),
            value: None,
            detail: detail.into(),
        }
    }

    /// `spec.foo: Invalid value: "x": detail`.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorType::Invalid,
            field: field.into(),
            value: Some(value.into()),
            detail: detail.into(),
        }
    }

    /// `spec.foo: Forbidden: detail`.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            kind: FieldErrorType::Forbidden,
            field: field.into(),
            value: None,
            detail: detail.into(),
        }
    }

    /// `spec.foo: Duplicate value: "x"`.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        let value = Some(value.into());
        Self {
            kind: FieldErrorType::Duplicate,
            field: field.into(),
            value,
            detail: String::new(),
        }
    }

    /// `spec.foo: Unsupported value: "x": supported values: "a", "b"`.
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let list: Vec<String> = supported.iter().map(|text| format!("{text:?}")).collect();
        let detail = if list.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", list.join(", "))
        };
        Self {
            kind: FieldErrorType::NotSupported,
            field: field.into(),
            value: Some(value.into()),
            detail,
        }
    }

    /// `spec.foo: Too many: 65: must have at most 64 items`.
    pub fn too_many(field: impl Into<String>, found: usize, most: usize) -> Self {
        Self {
            kind: FieldErrorType::TooMany,
            field: field.into(),
            value: Some(found.into()),
            detail: format!("must have at most {most} items"),
        }
    }

    /// The text without the field, as in the message of a cause.
    fn body(&self) -> String {
        let word = match self.kind {
            FieldErrorType::Required => "Required value",
            FieldErrorType::Invalid | FieldErrorType::TypeInvalid => "Invalid value",
            FieldErrorType::NotSupported => "Unsupported value",
            FieldErrorType::Duplicate => "Duplicate value",
            FieldErrorType::Forbidden => "Forbidden",
            FieldErrorType::NotFound => "Not found",
            FieldErrorType::TooLong => "Too long",
            FieldErrorType::TooMany => "Too many",
        };
        let mut text = word.to_owned();
        if let Some(value) = &self.value {
            text.push_str(": ");
            text.push_str(&match value {
                Value::String(quoted) => go_quoted(quoted),
                other => other.to_string(),
            });
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    fn cause(&self) -> Value {
        let reason = match self.kind {
            FieldErrorType::Required => "FieldValueRequired",
            FieldErrorType::Invalid => "FieldValueInvalid",
            FieldErrorType::TypeInvalid => "FieldValueTypeInvalid",
            FieldErrorType::NotSupported => "FieldValueNotSupported",
            FieldErrorType::Duplicate => "FieldValueDuplicate",
            FieldErrorType::Forbidden => "FieldValueForbidden",
            FieldErrorType::NotFound => "FieldValueNotFound",
            FieldErrorType::TooLong => "FieldValueTooLong",
            FieldErrorType::TooMany => "FieldValueTooMany",
        };
        json!({ "reason": reason, "message": self.body(), "field": self.field })
    }
}

impl std::fmt::Display for FieldError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}
