//! What every namespace has: the default ServiceAccount, and the root certificate that pods trust
//! the API server by. Both come back when somebody deletes them.

mod accounts;
mod certificates;
#[cfg(test)]
mod tests;

use k8s_openapi::api::core::v1::Namespace;

pub use accounts::ServiceAccounts;
pub use certificates::RootCertificates;

/// Why something is written into a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It is not there.
    Missing,
    /// It does not say what it should.
    Changed,
}

/// Nothing can be created in a namespace that is ending.
fn takes_objects(namespace: &Namespace) -> bool {
    let phase = namespace.status.as_ref().and_then(|status| status.phase.as_deref());
    namespace.metadata.deletion_timestamp.is_none() && phase != Some("Terminating")
}
