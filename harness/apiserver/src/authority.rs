//! The certificate authority of one server: created at start, discarded at the end.
//!
//! The key never leaves this process, so every valid client certificate was issued here, and its fingerprint
//! identifies the client.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest as _, Sha256};

use crate::identity::Identity;

/// A failure to create or use a certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The certificate could not be created.
    #[error("creating a certificate: {0}")]
    Making(#[from] rcgen::Error),
    /// TLS could not be set up.
    #[error("setting up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Issues the server's and the clients' certificates.
pub struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
    issued: Mutex<BTreeMap<[u8; 32], Identity>>,
}

/// A certificate and its key in PEM format.
#[derive(Clone)]
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The private key; a secret.
    pub key: String,
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// A new authority.
    ///
    /// # Errors
    /// If the operating system provides no randomness.
    pub fn new() -> Result<Self, CertificateError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name("kubernetes", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let certificate = params.self_signed(&key)?;
        Ok(Self {
            certificate,
            issuer: Issuer::new(params, key),
            issued: Mutex::new(BTreeMap::new()),
        })
    }

    /// The authority's certificate.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// A client certificate for that user.
    ///
    /// # Errors
    /// If the operating system provides no randomness.
    pub fn issue(&self, identity: &Identity) -> Result<Issued, CertificateError> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name(&identity.user, &identity.groups);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer)?;
        let mut issued = self.issued.lock();
        issued.insert(fingerprint(certificate.der()), identity.clone());
        Ok(Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// The identity of a certificate.
    pub(crate) fn identify(&self, certificate: &CertificateDer<'_>) -> Option<Identity> {
        let issued = self.issued.lock();
        issued.get(&fingerprint(certificate)).cloned()
    }

    /// TLS settings for a server at that address; client certificates are optional.
    pub(crate) fn server_tls(&self, address: IpAddr) -> Result<rustls::ServerConfig, CertificateError> {
        let key = KeyPair::generate()?;
        let mut names = vec![
            "localhost".to_owned(),
            "kubernetes".to_owned(),
            "kubernetes.default.svc".to_owned(),
        ];
        names.extend(["127.0.0.1".to_owned(), "::1".to_owned(), address.to_string()]);
        names.dedup();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = name("kube-apiserver", &[]);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer)?;
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.der().clone())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.der().clone()], key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn name(common: &str, organizations: &[String]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for organization in organizations {
        name.push(DnType::OrganizationName, organization.as_str());
    }
    name.push(DnType::CommonName, common);
    name
}

fn fingerprint(certificate: &CertificateDer<'_>) -> [u8; 32] {
    Sha256::digest(certificate).into()
}
