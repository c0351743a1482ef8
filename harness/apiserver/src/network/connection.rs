//! One connection to a program outside the server.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::keys::Issued;

/// A host, by name or address, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// Which certificates of a program are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Those of an authority of the system.
    System,
    /// Those of one of these authorities, in PEM.
    Authorities(Vec<u8>),
    /// All.
    Anything,
}

/// The program at the end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) place: Place,
    /// `None`: HTTP.
    pub(crate) tls: Option<Tls>,
}

/// The encryption of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    /// The name or address in the certificate of the program.
    pub(crate) name: String,
    pub(crate) trust: Trust,
    /// The certificate that the server shows to the program.
    pub(crate) client: Option<Issued>,
}

/// An open connection. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    _driver: AbortOnDropHandle<Result<(), hyper::Error>>,
}

impl Connection {
    /// Connects to a program. Needs a runtime of tokio.
    ///
    /// # Errors
    /// The reason in the words of Go.
    pub(crate) async fn open(peer: &Peer) -> Result<Self, NotConnected> {
        let Peer { place, tls } = peer;
        let stream = dial(place).await?;
        let Some(Tls { name, trust, client }) = tls else {
            return Self::begin(stream).await;
        };
        let name = ServerName::try_from(name.clone()).map_err(NotConnected::new)?;
        let connector = TlsConnector::from(Arc::new(tls_config(trust, client.as_ref())?));
        let stream = connector.connect(name, stream).await;
        let stream = stream.map_err(|error| NotConnected(format!("tls: failed to verify certificate: {error}")))?;
        Self::begin(stream).await
    }

    async fn begin(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<Self, NotConnected> {
        let opened = http1::handshake(TokioIo::new(stream)).await;
        let (sender, driver) = opened.map_err(NotConnected::new)?;
        Ok(Self {
            sender,
            _driver: AbortOnDropHandle::new(tokio::spawn(driver.with_upgrades())),
        })
    }

    /// Sends a request. The body of the response needs the connection.
    ///
    /// # Errors
    /// The reason in the words of Go.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, NotConnected> {
        let response = self.sender.send_request(request).await;
        response.map_err(
            |error| match error.is_closed() || error.is_incomplete_message() || error.is_canceled() {
                true => NotConnected("EOF".to_owned()),
                false => NotConnected::new(error),
            },
        )
    }
}

/// The reason why a program is not reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotConnected(pub(super) String);

impl NotConnected {
    pub(crate) fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

/// Connects to the first address of a host that accepts the connection.
///
/// # Errors
/// The reason why the first address does not.
async fn dial(place: &Place) -> Result<TcpStream, NotConnected> {
    let addresses = tokio::net::lookup_host((place.host.as_str(), place.port)).await;
    let addresses = addresses.map_err(|error| NotConnected(format!("dial tcp: lookup {}: {error}", place.host)))?;
    let mut refusal = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => refusal.get_or_insert((address, error)),
        };
    }
    let Some((address, error)) = refusal else {
        return Err(NotConnected(format!("dial tcp: lookup {}: no such host", place.host)));
    };
    let why = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        _ => error.to_string(),
    };
    Err(NotConnected(format!("dial tcp {address}: connect: {why}")))
}

fn tls_config(trust: &Trust, client: Option<&Issued>) -> Result<ClientConfig, NotConnected> {
    let bad = |error: &dyn fmt::Display| NotConnected(format!("the certificates of caBundle: {error}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(NotConnected::new)?;
    let mut roots = RootCertStore::empty();
    let config = match trust {
        Trust::System => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            config.with_root_certificates(roots)
        }
        Trust::Authorities(pem) => {
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate = certificate.map_err(|error| bad(&error))?;
                roots.add(certificate).map_err(|error| bad(&error))?;
            }
            config.with_root_certificates(roots)
        }
        Trust::Anything => {
            let any = Arc::new(AnyCertificate(provider));
            config.dangerous().with_custom_certificate_verifier(any)
        }
    };
    let Some(client) = client else {
        return Ok(config.with_no_client_auth());
    };
    let certificate = CertificateDer::from_pem_slice(client.certificate.as_bytes()).map_err(NotConnected::new)?;
    let key = PrivateKeyDer::from_pem_slice(client.key.as_bytes()).map_err(NotConnected::new)?;
    config
        .with_client_auth_cert(vec![certificate], key)
        .map_err(NotConnected::new)
}

/// Accepts every certificate whose key the program has.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
