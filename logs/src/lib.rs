//! What may stand in a log of any program. What must not live here: where a log goes, and how much of it.

use tracing::{Level, Metadata};

/// Whether a line holds no request or response, whatever filter a person asks for: the transports'
/// details may show credentials, and the Kubernetes client warns with the whole text of answers that
/// it cannot read, Secrets among them.
pub fn shows_no_payload(metadata: &Metadata<'_>) -> bool {
    let of = |prefixes: &[&str]| prefixes.iter().any(|prefix| metadata.target().starts_with(prefix));
    if of(&["kube_client"]) {
        return false;
    }
    !of(&["hyper", "h2", "tonic", "tower", "rustls"]) || *metadata.level() <= Level::INFO
}
