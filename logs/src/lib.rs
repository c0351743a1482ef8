//! Restricts what programs log, and reads panics for logs. Destinations and log levels are configured elsewhere.

use std::any::Any;

use tracing::{Level, Metadata};

/// Whether an event contains no request or response payload, regardless of the configured filter: transport details
/// can contain credentials, and the Kubernetes client logs the full text of unreadable responses, including Secrets.
pub fn shows_no_payload(metadata: &Metadata<'_>) -> bool {
    let of = |prefixes: &[&str]| prefixes.iter().any(|prefix| metadata.target().starts_with(prefix));
    if of(&["kube_client"]) {
        return false;
    }
    !of(&["hyper", "h2", "tonic", "tower", "rustls"]) || *metadata.level() <= Level::INFO
}

/// The text of a caught panic.
pub fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
