//! Tokens of service accounts: issues and verifies them.
//!
//! The claims are those of kube-apiserver. A token is valid until it expires or until its service account, or the
//! object it is bound to, is deleted or recreated.

mod bootstrap;
mod request;
#[cfg(test)]
mod tests;
mod verify;

/// The issuer of the tokens, and their default audience.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
