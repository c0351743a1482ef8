//! The HTTPS front end: listening, TLS, who a connection is, and credentials for clients.
//!
//! It turns bytes into requests with an identity; what a request means is decided elsewhere.

mod kubeconfig;
mod listener;

use std::net::SocketAddr;

pub use crate::authority::{Authority, CertificateError, Issued};
pub use kubeconfig::write_private;
pub use listener::Serving;

/// Why the server cannot be reached over a socket.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Somebody else listens there.
    #[error("cannot listen on {address}: the address is in use; stop what listens there or choose another port")]
    AddressInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The operating system refuses.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Its reason.
        source: std::io::Error,
    },
    /// A certificate could not be made or used.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A simulated server has no certificates.
    #[error("a server on a simulated clock has no sockets; use Server::service")]
    Simulated,
}
