//! Mutual TLS: the files that a side of a connection needs, and what went wrong with them in words.

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

/// The PEM files of one side of a mutually authenticated connection. They are read again for every
/// connection, so that a rotated Secret takes effect without a restart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities that may have signed the other side's certificate.
    pub ca: PathBuf,
    /// This side's certificate, and those between it and the authority.
    pub cert: PathBuf,
    /// The private key of `cert`.
    pub key: PathBuf,
}

/// How a client secures its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The client's files.
    pub files: TlsFiles,
    /// The name that the server's certificate must carry; `None`: the host that is dialled.
    pub server_name: Option<String>,
}

/// A file of [`TlsFiles`] that is not usable.
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
    /// When a file cannot be read, holds something else, or key and certificate do not belong together.
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

    /// The configuration of a server that demands a certificate of every client.
    ///
    /// # Errors
    /// When a file cannot be read, holds something else, or key and certificate do not belong together.
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
        // What the parser says may quote the file, which is a secret.
        PrivateKeyDer::from_pem_slice(&text).map_err(|_| FileError {
            what: "private key",
            path: self.key.clone(),
            reason: "it holds no private key in PEM form".to_owned(),
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
            rustls::Error::InconsistentKeys(_) => format!("the key {} belongs to another one", self.key.display()),
            other => other.to_string(),
        };
        FileError {
            what: "certificate",
            path: self.cert.clone(),
            reason,
        }
    }
}

impl Tls {
    /// The name that the certificate of the server at `host` must carry.
    ///
    /// # Errors
    /// When it is neither a DNS name nor an IP address.
    pub(crate) fn name_of(&self, host: &str) -> Result<ServerName<'static>, String> {
        let name = self.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned())
            .map_err(|_| format!("{name:?} is neither a DNS name nor an IP address that a certificate could carry"))
    }

    /// What to tell a person of a handshake with `peer` that failed: one sentence with the file to look at.
    pub(crate) fn explain(&self, peer: &str, error: &io::Error) -> String {
        let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        match cause {
            Some(rustls::Error::InvalidCertificate(error)) => self.server_certificate(peer, error),
            Some(rustls::Error::AlertReceived(alert)) if is_about_certificates(*alert) => {
                let cert = self.files.cert.display();
                format!(
                    "{peer} refuses the client certificate {cert} ({alert:?}): it must be signed by the server's client CA and not expired"
                )
            }
            Some(rustls::Error::AlertReceived(alert)) => format!("{peer} ends the TLS handshake: {alert:?}"),
            Some(rustls::Error::InvalidMessage(_)) => {
                format!("{peer} does not speak TLS: start it with a certificate, or correct the address")
            }
            _ => format!("no TLS with {peer}: {error}"),
        }
    }

    fn server_certificate(&self, peer: &str, error: &CertificateError) -> String {
        let ca = self.files.ca.display();
        match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => format!(
                "the certificate of {peer} is not signed by the authority in {ca}: give the CA file that belongs to the server's certificate"
            ),
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("the certificate of {peer} has expired: renew the certificate file of the server")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                format!(
                    "the certificate of {peer} is not valid yet: look at its file on the server, and at both clocks"
                )
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => format!(
                "the certificate of {peer} does not carry the name {}{}: set --driver-tls-server-name to one that the server's certificate file carries",
                self.server_name.as_deref().unwrap_or("that is dialled"),
                presented(error),
            ),
            other => format!("the certificate of {peer} is not accepted: {other}"),
        }
    }

    /// What to tell of a server that hangs up right after the handshake.
    pub(crate) fn closed(&self, peer: &str) -> String {
        format!(
            "{peer} closed the connection after the TLS handshake; it may not accept the client certificate {}",
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
        .map_err(|_| unusable("it holds something that is not PEM".to_owned()))?;
    if certificates.is_empty() {
        return Err(unusable("it holds no certificate in PEM form".to_owned()));
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
    fn a_file_that_is_not_there_is_named() {
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
    fn a_peer_that_does_not_speak_tls_is_told_from_one_that_refuses() {
        let tls = Tls {
            files: files(Path::new("/tls")),
            server_name: None,
        };
        let explain = |error| tls.explain("grpcs://x:1", &io::Error::new(io::ErrorKind::InvalidData, error));
        let plain = explain(rustls::Error::InvalidMessage(
            rustls::InvalidMessage::InvalidContentType,
        ));
        assert!(plain.contains("does not speak TLS"), "{plain}");
        let refused = explain(rustls::Error::AlertReceived(AlertDescription::UnknownCA));
        assert!(refused.contains("/tls/tls.crt"), "{refused}");
    }
}
