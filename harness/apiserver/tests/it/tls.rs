//! TLS of programs that the server calls.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;

/// Accepts connections with a certificate for that name or address, which it returns in PEM.
pub fn acceptor(name: &str) -> (TlsAcceptor, String) {
    let certified = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
    let key = rustls::pki_types::PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), certified.cert.pem())
}
