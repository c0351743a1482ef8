//! The files of a driver call that a person makes: a MachineClass and its Secrets in YAML, and the removal of their values
//! from texts.
//!
//! Everything except [`Source::read`] is pure. No error contains text of a Secret.

mod class;
mod document;
mod error;
mod redaction;
mod secret;

pub use class::class;
pub use document::{Expected, Source, document, field, typed};
pub use error::FileError;
pub use redaction::{exposed_key, redact};
pub use secret::{Data, merged};
