//! The certificate authority of one server: created at start, and discarded at the end or stored with the server's data.
//!
//! Only this server has the key, so every valid client certificate was issued here, and its fingerprint identifies the
//! client.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use sha2::{Digest as _, Sha256};

use crate::identity::Identity;
pub use crate::keys::Issued;
use crate::keys::{Client, KeptKeys, KeysError, TokenSecret};

/// A failure to create or use a certificate.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The certificate could not be created.
    #[error("creating a certificate: {0}")]
    Making(#[from] rcgen::Error),
    /// TLS could not be set up.
    #[error("setting up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// A stored certificate is not valid.
    #[error("a stored certificate is not valid: {0}")]
    Pem(#[from] rustls_pki_types::pem::Error),
    /// The keys could not be stored.
    #[error(transparent)]
    Keys(#[from] KeysError),
}

/// Issues the server's and the clients' certificates.
pub struct Authority {
    issued: Issued,
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
    clients: Mutex<Clients>,
}

/// The clients with certificates of the authority.
struct Clients {
    /// By the fingerprints of their certificates.
    identities: BTreeMap<[u8; 32], Identity>,
    /// Where their certificates are stored; `None`: nowhere.
    kept: Option<KeptKeys>,
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
        let issued = Issued {
            certificate: parameters().self_signed(&key)?.pem(),
            key: key.serialize_pem(),
        };
        Self::of(issued, None)
    }

    /// An authority whose keys are stored in a folder.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn stored_in(self, folder: &Path, token_secret: TokenSecret) -> Result<Self, CertificateError> {
        let kept = KeptKeys::create(folder, self.issued.clone(), token_secret)?;
        Self::of(self.issued, Some(kept))
    }

    /// The authority with these keys and its clients.
    ///
    /// # Errors
    /// The keys are not valid.
    pub(crate) fn restore(kept: KeptKeys) -> Result<Self, CertificateError> {
        Self::of(kept.authority().clone(), Some(kept))
    }

    fn of(issued: Issued, kept: Option<KeptKeys>) -> Result<Self, CertificateError> {
        let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes())?;
        let issuer = Issuer::new(parameters(), KeyPair::from_pem(&issued.key)?);
        let mut identities = BTreeMap::new();
        for client in kept.iter().flat_map(KeptKeys::clients) {
            let certificate = CertificateDer::from_pem_slice(client.issued.certificate.as_bytes())?;
            identities.insert(fingerprint(&certificate), client.identity.clone());
        }
        Ok(Self {
            issued,
            certificate,
            issuer,
            clients: Mutex::new(Clients { identities, kept }),
        })
    }

    /// The authority's certificate.
    pub fn pem(&self) -> String {
        self.issued.certificate.clone()
    }

    /// A client certificate for that user. An authority with stored keys has one per user.
    ///
    /// # Errors
    /// If the operating system provides no randomness, or the certificate cannot be stored.
    pub fn issue(&self, identity: &Identity) -> Result<Issued, CertificateError> {
        let mut clients = self.clients.lock();
        if let Some(issued) = clients.kept.as_ref().and_then(|kept| kept.client(identity)) {
            return Ok(issued.clone());
        }
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name(&identity.user, &identity.groups);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer)?;
        let issued = Issued {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        };
        if let Some(kept) = &mut clients.kept {
            kept.add(Client {
                identity: identity.clone(),
                issued: issued.clone(),
            })?;
        }
        let fingerprint = fingerprint(certificate.der());
        clients.identities.insert(fingerprint, identity.clone());
        Ok(issued)
    }

    /// The identity of a certificate.
    pub(crate) fn identify(&self, certificate: &CertificateDer<'_>) -> Option<Identity> {
        let clients = self.clients.lock();
        clients.identities.get(&fingerprint(certificate)).cloned()
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
        roots.add(self.certificate.clone())?;
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

/// The parameters of the authority's certificate.
fn parameters() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name("kubernetes", &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
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
