//! Creates the default content of every namespace: the ServiceAccount `default`, and the root certificate with
//! which pods verify the API server. Deleted or changed objects are restored.

mod accounts;
mod certificates;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::Namespace;

pub use accounts::ServiceAccounts;
pub use certificates::RootCertificates;

/// Why an object is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It does not exist.
    Missing,
    /// Its content differs.
    Changed,
}

/// The API server rejects new objects in a terminating namespace.
fn takes_objects(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    namespace.metadata.deletion_timestamp.is_none() && phase != Some("Terminating")
}
