//! Where drivers dial in: plain on loopback, mutual TLS anywhere.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::Registry;
use crate::incoming::incoming;
use crate::tls::TlsFiles;

/// How often a driver is probed, and how long its answer may take: one that is dead or stands still is noticed within
/// twice this time.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Why nobody can register.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Off loopback drivers would be believed, and Secrets sent, without proof.
    #[error(
        "drivers that register off loopback ({0}) need TLS: give a CA, a certificate and its key, or listen on 127.0.0.1"
    )]
    Unprotected(SocketAddr),
    /// The address cannot be taken.
    #[error("cannot listen for drivers on {address}: {reason}; choose another address")]
    Taken {
        /// Where.
        address: SocketAddr,
        /// What is wrong.
        reason: String,
    },
    /// A file is not usable.
    #[error(transparent)]
    File(#[from] crate::tls::FileError),
    /// The server ended.
    #[error("drivers are no longer served: {0}")]
    Ended(#[from] tonic::transport::Error),
}

/// An address on which drivers are awaited.
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    files: Option<TlsFiles>,
}

impl Listener {
    /// Listens on `address`; with `files` by mutual TLS.
    ///
    /// # Errors
    /// Off loopback without files, with files that are not usable, or when the address is taken.
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

    /// Where it listens.
    ///
    /// # Errors
    /// When the operating system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is dropped.
    ///
    /// # Errors
    /// When the server ends.
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
