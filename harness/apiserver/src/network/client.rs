//! How to reach a webhook, read from a `clientConfig`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;

use crate::service_port::ServicePort;

/// How to reach a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// Where it is.
    target: Target,
    /// Certificates in PEM that the server must have one of; without them, those of the system count.
    pub(crate) authorities: Option<Vec<u8>>,
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target {
    /// With scheme `https`.
    Url(String),
    /// A path at a port of a service.
    Service { port: ServicePort, path: String },
}

impl Client {
    /// The URL, without parameters.
    pub(crate) fn url(&self) -> String {
        match &self.target {
            Target::Url(url) => url.clone(),
            Target::Service { port, path } => {
                let ServicePort { namespace, name, port } = port;
                let separator = if path.is_empty() || path.starts_with('/') {
                    ""
                } else {
                    "/"
                };
                format!("https://{name}.{namespace}.svc:{port}{separator}{path}")
            }
        }
    }

    /// The port of a service, unless the webhook has a URL.
    pub(crate) fn service(&self) -> Option<&ServicePort> {
        match &self.target {
            Target::Url(_) => None,
            Target::Service { port, path: _ } => Some(port),
        }
    }

    /// Whether the certificates can be read, or there are none.
    pub(crate) fn has_valid_authorities(&self) -> bool {
        let Some(pem) = &self.authorities else { return true };
        let certificates: Result<Vec<CertificateDer<'_>>, _> = CertificateDer::pem_slice_iter(pem).collect();
        certificates.is_ok_and(|certificates| !certificates.is_empty())
    }

    /// Reads a `clientConfig`.
    pub(crate) fn read(client: &Value) -> Self {
        let authorities = STANDARD.decode(text(client, "caBundle")).unwrap_or_default();
        let target = match client.get("service").filter(|service| service.is_object()) {
            Some(service) => {
                let port = service.get("port").and_then(Value::as_u64);
                Target::Service {
                    port: ServicePort {
                        namespace: text(service, "namespace").to_owned(),
                        name: text(service, "name").to_owned(),
                        port: port.and_then(|port| u16::try_from(port).ok()).unwrap_or(443),
                    },
                    path: text(service, "path").to_owned(),
                }
            }
            None => Target::Url(text(client, "url").to_owned()),
        };
        Self {
            target,
            authorities: (!authorities.is_empty()).then_some(authorities),
        }
    }
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}
