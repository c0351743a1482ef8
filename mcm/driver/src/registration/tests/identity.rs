//! Client identities over mutual TLS.

use std::path::Path;
use std::pin::pin;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rstest::rstest;
use tempfile::TempDir;

use super::*;
use crate::tls::{Tls, TlsFiles};

/// The authority of all certificates of a test, which are files in one folder.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

/// Without a common name the subject is empty.
fn named(common_name: &str, dns_names: &[&str]) -> CertificateParams {
    let dns_names: Vec<String> = dns_names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(dns_names).unwrap();
    params.distinguished_name = DistinguishedName::new();
    if !common_name.is_empty() {
        params.distinguished_name.push(DnType::CommonName, common_name);
    }
    params
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = named("authority", &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.crt"), certificate.pem()).unwrap();
        let issuer = Issuer::new(params, key);
        Self { issuer, folder }
    }

    /// A new certificate, with a new key.
    fn issue(&self, file: &str, common_name: &str, dns_names: &[&str]) -> TlsFiles {
        self.issue_for(&KeyPair::generate().unwrap(), file, common_name, dns_names)
    }

    fn issue_for(&self, key: &KeyPair, file: &str, common_name: &str, dns_names: &[&str]) -> TlsFiles {
        let mut params = named(common_name, dns_names);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(key, &self.issuer).unwrap();
        let path = |extension: &str| self.folder.path().join(format!("{file}.{extension}"));
        let write = |path: &Path, text: String| std::fs::write(path, text).unwrap();
        write(&path("crt"), certificate.pem());
        write(&path("key"), key.serialize_pem());
        TlsFiles {
            ca: self.folder.path().join("ca.crt"),
            cert: path("crt"),
            key: path("key"),
        }
    }
}

#[rstest]
#[case::a_renewed_certificate("red driver", &["red.example"], true)]
#[case::another_subject("blue driver", &["red.example"], false)]
#[case::other_names("red driver", &["red.example", "blue.example"], false)]
#[tokio::test]
async fn a_kind_is_shared_by_certificates_with_the_same_subject_and_dns_names(
    #[case] common_name: &str,
    #[case] dns_names: &[&str],
    #[case] shared: bool,
) {
    let authority = Authority::new();
    let first = authority.issue("first", "red driver", &["red.example"]);
    let second = authority.issue("second", common_name, dns_names);
    Box::pin(assert_shared(&authority, first, second, shared)).await;
}

#[rstest]
#[case::the_same_key(true)]
#[case::another_key(false)]
#[tokio::test]
async fn a_kind_is_shared_by_certificates_without_names_of_the_same_key(#[case] shared: bool) {
    let authority = Authority::new();
    let key = KeyPair::generate().unwrap();
    let first = authority.issue_for(&key, "first", "", &[]);
    let second = match shared {
        true => authority.issue_for(&key, "second", "", &[]),
        false => authority.issue("second", "", &[]),
    };
    Box::pin(assert_shared(&authority, first, second, shared)).await;
}

/// Registers two drivers for one kind.
async fn assert_shared(authority: &Authority, first: TlsFiles, second: TlsFiles, shared: bool) {
    let registry = registry();
    let server = authority.issue("server", "mcm", &["localhost"]);
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), Some(server))
        .await
        .unwrap();
    let address = format!("grpcs://{}", listener.address().unwrap());
    let channel = |files: TlsFiles| {
        let server_name = Some("localhost".to_owned());
        crate::channel::patient(&address, Some(Tls { files, server_name })).unwrap()
    };
    let story = async {
        let ready = Notify::new();
        let registrant = Registrant::new(Echo::default(), "red", "first");
        let mut life = pin!(registrant.run(channel(first), |_| ready.notify_one()));
        tokio::select! {
            () = ready.notified() => {}
            ended = life.as_mut() => panic!("{ended}"),
        }
        let registrant = Registrant::new(Echo::default(), "red", "second");
        let accepted = Notify::new();
        tokio::select! {
            () = accepted.notified() => None,
            ended = registrant.run(channel(second), |_| accepted.notify_one()) => Some(ended),
            ended = life.as_mut() => panic!("{ended}"),
        }
    };
    let rejected = tokio::select! {
        rejected = story => rejected,
        served = listener.serve(registry.clone()) => panic!("{served:?}"),
    };
    match rejected {
        None => assert!(shared),
        Some(Ended::Refused(reason)) => assert!(!shared && reason.contains("another subject"), "{reason}"),
        Some(other) => panic!("{other}"),
    }
}
