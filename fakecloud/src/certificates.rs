//! Creates the certificates for gRPC between a fake cloud and its clients.

use std::fmt;
use std::path::{Path, PathBuf};

use durable::private_files;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Key of a Secret, and name of its file when mounted: a certificate.
pub const CERTIFICATE: &str = "tls.crt";
/// Key of a Secret, and name of its file when mounted: the private key.
pub const KEY: &str = "tls.key";
/// Key of a Secret, and name of its file when mounted: the certificate of the authority.
pub const AUTHORITY: &str = "ca.crt";
/// Key of a Secret, and name of its file when mounted: the certificate of the authority of control clients.
pub const CONTROL_AUTHORITY: &str = "control-ca.crt";
/// Maximum length of a Service name.
const LABEL_LIMIT: usize = 63;

/// The fake cloud and the validity of its certificates.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Name of its Service and prefix of the names of the Secrets.
    pub name: String,
    /// Namespace of its Service.
    pub namespace: String,
    /// Validity in days from now.
    pub days: u16,
}

/// Two authorities' certificates, and the certificates that they signed. The control API trusts only the second one, so
/// that a machine controller cannot inject faults with its certificate.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The certificate of the authority of the server and of machine controllers, in PEM.
    pub authority: String,
    /// The certificate of the authority of control clients, in PEM.
    pub control_authority: String,
    /// The fake cloud's certificate.
    pub server: Pair,
    /// The machine controllers' certificate.
    pub client: Pair,
    /// The control clients' certificate.
    pub control: Pair,
    subject: Subject,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Pair {
    /// The certificate.
    pub certificate: String,
    /// The private key; a secret.
    pub key: String,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pair")
            .field("certificate", &self.certificate)
            .finish_non_exhaustive()
    }
}

/// Why certificates cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A name is invalid for a Service.
    #[error("{field} {value:?} is not a Kubernetes name: write up to 63 of a-z and 0-9, with - between them")]
    Name {
        /// The field.
        field: &'static str,
        /// The value.
        value: String,
    },
    /// A certificate cannot be created.
    #[error("cannot create a certificate: {0}")]
    Making(#[from] rcgen::Error),
    /// The Secrets cannot be serialized.
    #[error("cannot write the Secrets as YAML: {0}")]
    Yaml(String),
    /// A file cannot be written.
    #[error("cannot write {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        reason: std::io::Error,
    },
}

impl Certificates {
    /// Creates certificates, valid from the day before `now` to tolerate clock differences.
    ///
    /// # Errors
    /// A name is invalid, or the operating system provides no randomness.
    pub fn issue(subject: Subject, now: Timestamp) -> Result<Self, CertificateError> {
        check("the name", &subject.name)?;
        check("the namespace", &subject.namespace)?;
        let blank = |common_name: String| blank(common_name, subject.days, now);

        let (authority, issuer) = authority(blank(format!("{} authority", subject.name)))?;
        let mut params = blank(subject.name.clone());
        params.subject_alt_names = CertificateParams::new(subject.host_names())?.subject_alt_names;
        let server = sign(params, ExtendedKeyUsagePurpose::ServerAuth, &issuer)?;
        let client = blank(format!("{}-client", subject.name));
        let client = sign(client, ExtendedKeyUsagePurpose::ClientAuth, &issuer)?;

        let (control_authority, issuer) = self::authority(blank(format!("{} control authority", subject.name)))?;
        let control = blank(format!("{}-control", subject.name));
        let control = sign(control, ExtendedKeyUsagePurpose::ClientAuth, &issuer)?;
        Ok(Self {
            authority,
            control_authority,
            server,
            client,
            control,
            subject,
        })
    }

    /// The Secrets `NAME-server-tls`, `NAME-client-tls` and `NAME-control-tls`, of type `kubernetes.io/tls`. Each has
    /// the authority of its peers; the server's has both.
    pub fn secrets(&self) -> [Secret; 3] {
        let control_authority = (CONTROL_AUTHORITY, &self.control_authority);
        [
            ("server", &self.server, Some(control_authority)),
            ("client", &self.client, None),
            ("control", &self.control, None),
        ]
        .map(|(side, pair, more)| {
            let data = [
                (CERTIFICATE, &pair.certificate),
                (KEY, &pair.key),
                (AUTHORITY, &self.authority),
            ];
            let data = data.into_iter().chain(more);
            let data = data.map(|(key, text)| (key.to_owned(), ByteString(text.clone().into_bytes())));
            Secret {
                metadata: ObjectMeta {
                    name: Some(format!("{}-{side}-tls", self.subject.name)),
                    namespace: Some(self.subject.namespace.clone()),
                    ..ObjectMeta::default()
                },
                type_: Some("kubernetes.io/tls".to_owned()),
                data: Some(data.collect()),
                ..Secret::default()
            }
        })
    }

    /// The Secrets as YAML, for `kubectl apply -f -`.
    ///
    /// # Errors
    /// They cannot be serialized.
    pub fn yaml(&self) -> Result<String, CertificateError> {
        let mut text = String::new();
        for secret in self.secrets() {
            let secret = serde_saphyr::to_string(&secret).map_err(|error| CertificateError::Yaml(error.to_string()))?;
            text.push_str("---\n");
            text.push_str(secret.trim_end());
            text.push('\n');
        }
        Ok(text)
    }

    /// Writes `ca.crt` and `control-ca.crt`, and `.crt` and `.key` of `server`, `client` and `control`, which only this
    /// user can read, into `folder`. Files of these names are replaced.
    ///
    /// # Errors
    /// The folder or a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), CertificateError> {
        let failed = |path: &Path, reason| CertificateError::File {
            path: path.to_owned(),
            reason,
        };
        private_files::create_folder(folder).map_err(|error| failed(folder, error))?;
        for (name, text) in [
            (AUTHORITY, &self.authority),
            (CONTROL_AUTHORITY, &self.control_authority),
            ("server.crt", &self.server.certificate),
            ("server.key", &self.server.key),
            ("client.crt", &self.client.certificate),
            ("client.key", &self.client.key),
            ("control.crt", &self.control.certificate),
            ("control.key", &self.control.key),
        ] {
            let path = folder.join(name);
            private_files::replace(&path, text.as_bytes()).map_err(|error| failed(&path, error))?;
        }
        Ok(())
    }
}

impl Subject {
    /// All names of the server: those of its Service, and loopback.
    fn host_names(&self) -> Vec<String> {
        let Self { name, namespace, .. } = self;
        [
            name.clone(),
            format!("{name}.{namespace}"),
            format!("{name}.{namespace}.svc"),
            format!("{name}.{namespace}.svc.cluster.local"),
            "localhost".to_owned(),
            "127.0.0.1".to_owned(),
            "::1".to_owned(),
        ]
        .to_vec()
    }
}

fn check(field: &'static str, value: &str) -> Result<(), CertificateError> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let fits = (1..=LABEL_LIMIT).contains(&value.len())
        && value.bytes().all(|byte| inner(byte) || byte == b'-')
        && value.bytes().next().is_some_and(inner)
        && value.bytes().last().is_some_and(inner);
    fits.then_some(()).ok_or_else(|| CertificateError::Name {
        field,
        value: value.to_owned(),
    })
}

fn blank(common_name: String, days: u16, now: Timestamp) -> CertificateParams {
    let midnight = |from_now: SignedDuration| {
        let date = now
            .saturating_add(from_now)
            .unwrap_or(Timestamp::MAX)
            .to_zoned(TimeZone::UTC)
            .date();
        let (month, day) = (date.month().unsigned_abs(), date.day().unsigned_abs());
        rcgen::date_time_ymd(i32::from(date.year()), month, day)
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = midnight(SignedDuration::from_hours(-24));
    params.not_after = midnight(SignedDuration::from_hours(24 * (i64::from(days) + 1)));
    params
}

/// A self-signed authority: its certificate in PEM, and what signs with it.
fn authority(mut params: CertificateParams) -> Result<(String, Issuer<'static, KeyPair>), rcgen::Error> {
    let key = KeyPair::generate()?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let certificate = params.self_signed(&key)?.pem();
    Ok((certificate, Issuer::new(params, key)))
}

fn sign(
    mut params: CertificateParams,
    purpose: ExtendedKeyUsagePurpose,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<Pair, CertificateError> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok(Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use mcm_driver::tls::TlsFiles;
    use rstest::rstest;

    use super::*;

    fn issue(name: &str, namespace: &str) -> Result<Certificates, CertificateError> {
        let subject = Subject {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            days: 30,
        };
        Certificates::issue(subject, Timestamp::from_second(1_800_000_000).unwrap())
    }

    #[test]
    fn the_files_are_private_and_belong_together() {
        let folder = tempfile::tempdir().unwrap();
        let certificates = issue("fakecloud", "shoot").unwrap();
        certificates.write(folder.path()).unwrap();
        certificates.write(folder.path()).unwrap();
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let mode = file.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        for side in ["server", "client", "control"] {
            let files = TlsFiles {
                ca: folder.path().join("ca.crt"),
                cert: folder.path().join(format!("{side}.crt")),
                key: folder.path().join(format!("{side}.key")),
            };
            files.client_config().unwrap();
            files.server_config().unwrap();
        }
    }

    #[test]
    fn the_yaml_contains_secrets_that_pods_can_mount() {
        let certificates = issue("fakecloud", "shoot").unwrap();
        let yaml = certificates.yaml().unwrap();
        let secrets: Vec<Secret> = yaml
            .split("---\n")
            .filter(|text| !text.is_empty())
            .map(|text| serde_saphyr::from_str(text).unwrap())
            .collect();
        assert_eq!(secrets, certificates.secrets());
        let names: Vec<_> = secrets
            .iter()
            .map(|secret| secret.metadata.name.as_deref().unwrap())
            .collect();
        assert_eq!(
            names,
            ["fakecloud-server-tls", "fakecloud-client-tls", "fakecloud-control-tls"]
        );
        let keys = |secret: &Secret| -> Vec<String> { secret.data.as_ref().unwrap().keys().cloned().collect() };
        assert_eq!(keys(&secrets[0]), [AUTHORITY, CONTROL_AUTHORITY, CERTIFICATE, KEY]);
        for secret in &secrets[1..] {
            assert_eq!(keys(secret), [AUTHORITY, CERTIFICATE, KEY]);
        }
    }

    #[test]
    fn keys_stay_out_of_debug_output() {
        let certificates = issue("fakecloud", "shoot").unwrap();
        assert!(!format!("{certificates:?}").contains("PRIVATE"));
    }

    #[rstest]
    #[case::empty("", "shoot", "the name")]
    #[case::capital("Cloud", "shoot", "the name")]
    #[case::dot("fakecloud", "a.b", "the namespace")]
    #[case::dash_at_the_end("fakecloud", "a-", "the namespace")]
    fn an_invalid_service_name_is_rejected(#[case] name: &str, #[case] namespace: &str, #[case] field: &str) {
        let error = issue(name, namespace).unwrap_err().to_string();
        assert!(error.starts_with(field), "{error}");
    }
}
