//! Lists the Secrets that exist at the end of a run.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use runtime::error::brief;
use stage::clusters::Clusters;

/// The key of the number of bootstrap tokens in the result of [`secrets`].
pub const TOKENS: &str = "bootstrap tokens";

/// Secrets cannot be listed.
#[derive(Debug, thiserror::Error)]
#[error("cannot list Secrets in {namespace}: {}", brief(source))]
pub struct SecretsError {
    /// Their namespace.
    pub namespace: String,
    /// The cause.
    pub source: Box<kube::Error>,
}

/// The names of the Secrets in a scenario's namespace; bootstrap tokens, which have random names, are counted.
///
/// # Errors
/// When they cannot be listed.
pub async fn secrets(clusters: &Clusters, namespace: &str) -> Result<BTreeMap<String, String>, SecretsError> {
    let (mut end, mut tokens) = (BTreeMap::new(), 0_u32);
    let mut secrets = Vec::new();
    for (client, namespace) in [(clusters.control(), namespace), (clusters.target(), "kube-system")] {
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let listed = api.list_metadata(&ListParams::default()).await;
        let listed = listed.map_err(|source| SecretsError {
            namespace: namespace.to_owned(),
            source: Box::new(source),
        })?;
        secrets.extend(listed.items);
    }
    for secret in secrets {
        let name = secret.metadata.name.unwrap_or_default();
        if name.starts_with("bootstrap-token-") {
            tokens += 1;
        } else {
            let namespace = secret.metadata.namespace.unwrap_or_default();
            end.insert(format!("Secret {namespace}/{name}"), "exists".to_owned());
        }
    }
    end.insert(TOKENS.to_owned(), tokens.to_string());
    Ok(end)
}
