//! Opens listeners. An address that is not available is an error that names its flag.

use std::net::SocketAddr;

use anyhow::Context;
use tokio::net::TcpListener;

/// Listens on the address of a flag.
///
/// # Errors
/// The address is not available.
pub(crate) async fn bind(flag: &str, address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}: choose another {flag}"))
}
