//! TLS connections for the gRPC server, with concurrent handshakes.

use std::collections::BTreeSet;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::{Stream, StreamExt, stream};
use parking_lot::Mutex;
use rustls::{CertificateError, ServerConfig};
use rustls_pki_types::CertificateDer;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tonic::transport::server::Connected;
use webpki::EndEntityCert;

use crate::tls::{FileError, TlsFiles};

/// The timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of concurrent handshakes; further clients wait.
const HANDSHAKES: usize = 128;
/// How long to wait after a failed accept, for example when no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection whose client presented a certificate that the authority signed.
#[derive(Debug)]
pub struct Secured(TlsStream<TcpStream>);

/// An endless stream of the connections of `listener`. Clients without a valid certificate are rejected
/// and logged. The files are read again for every connection; while they are unusable, the last usable
/// ones remain in effect.
///
/// # Errors
/// If the files are unusable now.
pub fn incoming(listener: TcpListener, files: TlsFiles) -> Result<impl Stream<Item = io::Result<Secured>>, FileError> {
    let identity = Arc::new(Identity {
        last: Mutex::new(Arc::new(files.server_config()?)),
        files,
    });
    let accepted = stream::unfold(listener, |listener| async {
        loop {
            match listener.accept().await {
                Ok(connection) => return Some((connection, listener)),
                Err(error) => {
                    tracing::warn!(%error, "accepting a connection failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    });
    Ok(accepted
        .map(move |(stream, peer)| handshake(stream, peer, Arc::clone(&identity)))
        .buffer_unordered(HANDSHAKES)
        .filter_map(|secured| ready(secured.map(Ok))))
}

/// The server's current certificate and client authority.
struct Identity {
    files: TlsFiles,
    last: Mutex<Arc<ServerConfig>>,
}

impl Identity {
    fn current(&self) -> Arc<ServerConfig> {
        let mut last = self.last.lock();
        match self.files.server_config() {
            Ok(config) => *last = Arc::new(config),
            Err(error) => tracing::warn!(%error, "unusable certificate files: the previous ones remain in effect"),
        }
        Arc::clone(&last)
    }
}

async fn handshake(stream: TcpStream, peer: SocketAddr, identity: Arc<Identity>) -> Option<Secured> {
    // Avoids delays of small messages; a failure only makes calls slower.
    let _ = stream.set_nodelay(true);
    let accepting = TlsAcceptor::from(identity.current()).accept(stream);
    match tokio::time::timeout(HANDSHAKE_TIMEOUT, accepting).await {
        Ok(Ok(stream)) => Some(Secured(stream)),
        // A TCP health check closes the connection without sending anything.
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => None,
        Ok(Err(error)) => {
            tracing::info!(%peer, reason = rejection_reason(&error, &identity.files), "a client is rejected");
            None
        }
        Err(_) => {
            tracing::info!(%peer, "a client is rejected: no handshake within {} s", HANDSHAKE_TIMEOUT.as_secs());
            None
        }
    }
}

fn rejection_reason(error: &io::Error, files: &TlsFiles) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
    match cause {
        Some(rustls::Error::NoCertificatesPresented) => "it presents no certificate".to_owned(),
        Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            format!(
                "its certificate is not signed by the authority in {}",
                files.ca.display()
            )
        }
        Some(rustls::Error::InvalidMessage(_)) => "it does not use TLS: its address should be grpcs://".to_owned(),
        _ => error.to_string(),
    }
}

/// Subject and DNS names of a client's certificate. They stay the same when the certificate is renewed. A certificate
/// without either is known by its public key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientIdentity {
    subject: Vec<u8>,
    dns_names: BTreeSet<String>,
    /// Empty if there is a subject or a DNS name.
    key: Vec<u8>,
}

impl ClientIdentity {
    /// The identity in a certificate. TLS has verified the certificate, so it can be parsed; if it cannot, the whole
    /// certificate is the key.
    fn of(certificate: &CertificateDer<'_>) -> Self {
        let Ok(parsed) = EndEntityCert::try_from(certificate) else {
            return Self {
                subject: Vec::new(),
                dns_names: BTreeSet::new(),
                key: certificate.to_vec(),
            };
        };
        let subject = parsed.subject().to_vec();
        let dns_names: BTreeSet<String> = parsed.valid_dns_names().map(str::to_owned).collect();
        let is_named = !subject.is_empty() || !dns_names.is_empty();
        let key = match is_named {
            true => Vec::new(),
            false => parsed.subject_public_key_info().to_vec(),
        };
        Self {
            subject,
            dns_names,
            key,
        }
    }

    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self {
            subject: Vec::new(),
            dns_names: [name.to_owned()].into(),
            key: Vec::new(),
        }
    }
}

/// Adds the [`ClientIdentity`] to the extensions of requests.
impl Connected for Secured {
    type ConnectInfo = Option<ClientIdentity>;

    fn connect_info(&self) -> Option<ClientIdentity> {
        let (_, connection) = self.0.get_ref();
        connection.peer_certificates()?.first().map(ClientIdentity::of)
    }
}

impl AsyncRead for Secured {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
