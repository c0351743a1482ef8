//! What policies and webhooks do with an object.

use serde_json::Value;

/// What a policy or webhook did with an object.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Nothing: the request does not concern it.
    None,
    /// It saw the object.
    Seen,
    Changed(Value),
}
