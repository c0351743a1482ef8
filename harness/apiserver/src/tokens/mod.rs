//! Tokens of service accounts: issuing them, and whose a token is.
//!
//! Claims are those of kube-apiserver. A token is good as long as it has not expired and its service
//! account, and the object it is bound to, are still the ones it was issued for.

mod bootstrap;
mod request;
#[cfg(test)]
mod tests;
mod verify;

/// Who issues the tokens, and whom they are for unless the request says otherwise.
pub(crate) const ISSUER: &str = "https://kubernetes.default.svc";
