//! The listener for drivers: plain on loopback, mutual TLS anywhere.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::Registry;
use crate::incoming::incoming;
use crate::tls::TlsFiles;

/// The interval and the timeout of keep-alive probes: a dead or stalled driver is detected within twice this time.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Why drivers cannot register.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Off loopback, unauthenticated drivers could register and receive Secrets.
    #[error(
        "drivers that register off loopback ({0}) need TLS: give a CA, a certificate and its key, or listen on 127.0.0.1"
    )]
    Unprotected(SocketAddr),
    /// The address cannot be bound.
    #[error("cannot listen for drivers on {address}: {reason}; choose another address")]
    Taken {
        /// The address.
        address: SocketAddr,
        /// The error of the operating system.
        reason: String,
    },
    /// A certificate or key file is unusable.
    #[error(transparent)]
    File(#[from] crate::tls::FileError),
    /// The server ended.
    #[error("drivers are no longer served: {0}")]
    Ended(#[from] tonic::transport::Error),
}

/// A bound address on which drivers register.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    files: Option<TlsFiles>,
}

impl Listener {
    /// Listens on `address`, with mutual TLS if `files` are given.
    ///
    /// # Errors
    /// Off loopback without files, with unusable files, or if the address cannot be bound.
    pub async fn bind(address: SocketAddr, files: Option<TlsFiles>) -> Result<Self, ListenError> {
        match &files {
            None if !address.ip().is_loopback() => return Err(ListenError::Unprotected(address)),
            None => {}
            Some(files) => drop(files.server_config()?),
        }
        let listener = TcpListener::bind(address).await.map_err(|error| ListenError::Taken {
            address,
            reason: error.to_string(),
        })?;
        Ok(Self { listener, files })
    }

    /// The bound address.
    ///
    /// # Errors
    /// If the operating system does not return it.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is dropped.
    ///
    /// # Errors
    /// If the server fails.
    pub async fn serve(self, registry: Registry) -> Result<(), ListenError> {
        let server = Server::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE))
            .http2_keepalive_timeout(Some(KEEP_ALIVE))
            .add_service(registry.into_server());
        match self.files {
            None => {
                let connections = TcpIncoming::from(self.listener).with_nodelay(Some(true));
                server.serve_with_incoming(connections).await?;
            }
            Some(files) => server.serve_with_incoming(incoming(self.listener, files)?).await?,
        }
        Ok(())
    }
}
