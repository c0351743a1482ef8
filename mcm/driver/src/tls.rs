//! Mutual TLS: the files of one side of a connection, and explanations of failures.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::WebPkiClientVerifier;
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};

/// The protocol that both sides agree on; gRPC needs HTTP/2.
const PROTOCOL: &[u8] = b"h2";

/// The PEM files of one side of a mutually authenticated connection. They are read for every
/// connection, so that a rotated Secret takes effect without a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the accepted authorities of the peer's certificate.
    pub ca: PathBuf,
    /// This side's certificate and intermediate certificates.
    pub cert: PathBuf,
    /// The private key of `cert`.
    pub key: PathBuf,
}

/// The TLS configuration of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The client's files.
    pub files: TlsFiles,
    /// The name that the server's certificate must carry; `None`: the host of the address.
    pub server_name: Option<String>,
}

/// A file of [`TlsFiles`] is unusable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} {} is not usable: {reason}", path.display())]
pub struct FileError {
    what: &'static str,
    path: PathBuf,
    reason: String,
}

impl TlsFiles {
    /// The configuration of a client.
    ///
    /// # Errors
    /// If a file cannot be read or parsed, or if key and certificate do not match.
    pub fn client_config(&self) -> Result<ClientConfig, FileError> {
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| self.unusable_certificate(&error))?
            .with_root_certificates(self.roots()?);
        let mut config = builder
            .with_client_auth_cert(self.certificates()?, self.private_key()?)
            .map_err(|error| self.unusable_certificate(&error))?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(config)
    }

    /// The configuration of a server that requires a certificate from every client.
    ///
    /// # Errors
    /// If a file cannot be read or parsed, or if key and certificate do not match.
    pub fn server_config(&self) -> Result<ServerConfig, FileError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(self.roots()?), provider())
            .build()
            .map_err(|error| self.unusable_authority(error.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| self.unusable_certificate(&error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.certificates()?, self.private_key()?)
            .map_err(|error| self.unusable_certificate(&error))?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, FileError> {
        let mut roots = RootCertStore::empty();
        for certificate in read_certificates("certificate authority", &self.ca)? {
            roots
                .add(certificate)
                .map_err(|error| self.unusable_authority(error.to_string()))?;
        }
        Ok(roots)
    }

    fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, FileError> {
        read_certificates("certificate", &self.cert)
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, FileError> {
        let text = read("private key", &self.key)?;
        // The parser's error may quote the file, which is a secret.
        PrivateKeyDer::from_pem_slice(&text).map_err(|_| FileError {
            what: "private key",
            path: self.key.clone(),
            reason: "it contains no private key in PEM form".to_owned(),
        })
    }

    fn unusable_authority(&self, reason: String) -> FileError {
        FileError {
            what: "certificate authority",
            path: self.ca.clone(),
            reason,
        }
    }

    fn unusable_certificate(&self, error: &rustls::Error) -> FileError {
        let reason = match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("the key {} belongs to another certificate", self.key.display())
            }
            other => other.to_string(),
        };
        FileError {
            what: "certificate",
            path: self.cert.clone(),
            reason,
        }
    }
}

/// A name that no certificate can carry.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is neither a DNS name nor an IP address that a certificate could carry")]
pub(crate) struct InvalidServerName(String);

impl Tls {
    /// The name that the certificate of the server at `host` must carry.
    ///
    /// # Errors
    /// If it is neither a DNS name nor an IP address.
    pub(crate) fn name_of(&self, host: &str) -> Result<ServerName<'static>, InvalidServerName> {
        let name = self.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned()).map_err(|_| InvalidServerName(name.to_owned()))
    }

    /// Explains a failed handshake with `peer` in one sentence that names the file to check.
    pub(crate) fn explain(&self, peer: &str, error: &io::Error) -> String {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        match cause {
            Some(rustls::Error::InvalidCertificate(error)) => self.server_certificate(peer, error),
            Some(rustls::Error::AlertReceived(alert)) if is_about_certificates(*alert) => {
                let cert = self.files.cert.display();
                format!(
                    "{peer} rejects the client certificate {cert} ({alert:?}): it must be signed by the server's client CA and not expired"
                )
            }
            Some(rustls::Error::AlertReceived(alert)) => format!("{peer} ends the TLS handshake: {alert:?}"),
            Some(rustls::Error::InvalidMessage(_)) => {
                format!("{peer} does not use TLS: start it with a certificate, or correct the address")
            }
            _ => format!("no TLS with {peer}: {error}"),
        }
    }

    fn server_certificate(&self, peer: &str, error: &CertificateError) -> String {
        let ca = self.files.ca.display();
        match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
                "the certificate of {peer} is not signed by the authority in {ca}: use the CA file of the server's certificate"
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("the certificate of {peer} has expired: renew the certificate file of the server")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!("the certificate of {peer} is not valid yet: check its file on the server, and both clocks")
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
                "the certificate of {peer} does not contain the name {}{}: set --driver-tls-server-name to a name in the server's certificate file",
                self.server_name.as_deref().unwrap_or("of its address"),
                presented(error),
            ),
            other => format!("the certificate of {peer} is not accepted: {other}"),
        }
    }

    /// Explains why a server closes the connection right after the handshake.
    pub(crate) fn closed(&self, peer: &str) -> String {
        format!(
            "{peer} closed the connection after the TLS handshake; it may reject the client certificate {}",
            self.files.cert.display()
        )
    }
}

fn presented(error: &CertificateError) -> String {
    match error {
        CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
            format!(" but {}", presented.join(", "))
        }
        _ => String::new(),
    }
}

fn is_about_certificates(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::AccessDenied
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate
    )
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn read(what: &'static str, path: &Path) -> Result<Vec<u8>, FileError> {
    std::fs::read(path).map_err(|error| FileError {
        what,
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

fn read_certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let text = read(what, path)?;
    let unusable = |reason: String| FileError {
        what,
        path: path.to_owned(),
        reason,
    };
    let certificates = CertificateDer::pem_slice_iter(&text)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| unusable("it contains data that is not PEM".to_owned()))?;
    if certificates.is_empty() {
        return Err(unusable("it contains no certificate in PEM form".to_owned()));
    }
    Ok(certificates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(folder: &Path) -> TlsFiles {
        TlsFiles {
            ca: folder.join("ca.crt"),
            cert: folder.join("tls.crt"),
            key: folder.join("tls.key"),
        }
    }

    #[test]
    fn an_absent_file_is_named() {
        let error = files(Path::new("/no/such/folder"))
            .client_config()
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("the certificate authority /no/such/folder/ca.crt is not usable")
                && !error.contains('\n'),
            "{error}"
        );
    }

    #[test]
    fn a_file_without_a_certificate_is_named_and_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        std::fs::write(&files.ca, "planted-secret").unwrap();
        let error = files.server_config().unwrap_err().to_string();
        assert!(
            error.contains("ca.crt") && error.contains("no certificate in PEM form"),
            "{error}"
        );
        std::fs::write(&files.key, "-----BEGIN PRIVATE KEY-----\nplanted-secret").unwrap();
        let error = files.private_key().unwrap_err().to_string();
        assert!(error.contains("tls.key") && !error.contains("planted"), "{error}");
    }

    #[test]
    fn a_plaintext_peer_and_a_rejected_certificate_have_different_explanations() {
        let tls = Tls {
            files: files(Path::new("/tls")),
            server_name: None,
        };
        let explain = |error| tls.explain("grpcs://x:1", &io::Error::new(io::ErrorKind::InvalidData, error));
        let plain = explain(rustls::Error::InvalidMessage(
            rustls::InvalidMessage::InvalidContentType,
        ));
        assert!(plain.contains("does not use TLS"), "{plain}");
        let rejected = explain(rustls::Error::AlertReceived(AlertDescription::UnknownCA));
        assert!(rejected.contains("/tls/tls.crt"), "{rejected}");
    }
}
