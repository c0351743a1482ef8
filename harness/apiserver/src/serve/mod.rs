//! The HTTPS front end: listener, TLS, client identities, and credentials for clients.
//!
//! It converts bytes to requests with an identity; `http` interprets them.

mod kubeconfig;
mod listener;
mod monitor;

use std::net::SocketAddr;

pub use crate::authority::{Authority, CertificateError, Issued};
pub use listener::Serving;

/// A failure to serve on a socket.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Another process listens on the address.
    #[error("cannot listen on {address}: the address is in use; stop what listens there or choose another port")]
    AddressInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The operating system rejects the address.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error.
        source: std::io::Error,
    },
    /// A certificate could not be created or used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A simulated server has no certificates.
    #[error("a server on a simulated clock has no sockets; use Server::service")]
    Simulated,
}
