//! Creates clients from kubeconfigs, and derives kubeconfigs with one context for another user or namespace.

use std::path::{Path, PathBuf};

use kube::config::{self, KubeConfigOptions, Kubeconfig};
use runtime::error::brief;
use runtime::kube_config::{self, ConfigError};
use serde_json::{Value, json};

use super::files::{FileError, private_file};

/// Errors of using and deriving kubeconfigs.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    /// The client cannot be created.
    #[error("cannot create a client from {}: {source}", path.display())]
    Client {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: KubeconfigProblem,
    },
    /// Another kubeconfig cannot be derived from it.
    #[error("cannot derive a kubeconfig from {}: {source}", path.display())]
    Derive {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: KubeconfigProblem,
    },
    /// A constructed kubeconfig cannot be serialized as YAML.
    #[error("cannot serialize a kubeconfig as YAML: {0}")]
    NoYaml(#[source] serde_saphyr::ser::Error),
    /// The file cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// Defects of a kubeconfig.
#[derive(Debug, thiserror::Error)]
pub enum KubeconfigProblem {
    /// The file, or a file that it refers to, cannot be read.
    #[error(transparent)]
    Read(#[from] config::KubeconfigError),
    /// Its values or the proxy cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It has no context of that name.
    #[error("it has no context {0:?}")]
    NoContext(String),
    /// It has no cluster of that name.
    #[error("it has no cluster {0:?}")]
    NoCluster(String),
    /// The client cannot be created from its values.
    #[error("{}", brief(.0))]
    Client(#[from] kube::Error),
    /// Its values have the wrong types.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// It cannot be serialized as YAML.
    #[error(transparent)]
    Yaml(#[from] serde_saphyr::ser::Error),
}

/// Creates a client from a kubeconfig.
///
/// # Errors
/// [`KubeconfigError::Client`].
pub async fn client_of(kubeconfig: &Path) -> Result<kube::Client, KubeconfigError> {
    read_client(kubeconfig).await.map_err(|source| KubeconfigError::Client {
        path: kubeconfig.to_owned(),
        source,
    })
}

async fn read_client(kubeconfig: &Path) -> Result<kube::Client, KubeconfigProblem> {
    let read = Kubeconfig::read_from(kubeconfig)?;
    let mut config = kube_config::of(read, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}

/// Derives a kubeconfig with the current context's cluster and namespace, for another user.
pub(super) fn with_token(kubeconfig: &Path, user: &str, token: &str) -> Result<String, KubeconfigError> {
    derive(kubeconfig, user, token).map_err(|source| KubeconfigError::Derive {
        path: kubeconfig.to_owned(),
        source,
    })
}

fn derive(kubeconfig: &Path, user: &str, token: &str) -> Result<String, KubeconfigProblem> {
    let read = Kubeconfig::read_from(kubeconfig)?;
    let mut value = current_context(&read)?;
    value["users"][0]["user"] = json!({ "token": token });
    value["users"][0]["name"] = user.into();
    value["contexts"][0]["context"]["user"] = user.into();
    Ok(serde_saphyr::to_string(&value)?)
}

/// Reduces a kubeconfig to its current context.
pub(super) fn current_context(kubeconfig: &Kubeconfig) -> Result<Value, KubeconfigProblem> {
    let name = kubeconfig.current_context.as_deref().unwrap_or_default();
    let context = kubeconfig.contexts.iter().find(|context| context.name == name);
    let context = context.and_then(|context| context.context.clone());
    let context = context.ok_or_else(|| KubeconfigProblem::NoContext(name.to_owned()))?;
    let cluster = kubeconfig
        .clusters
        .iter()
        .find(|cluster| cluster.name == context.cluster);
    let cluster = cluster.ok_or_else(|| KubeconfigProblem::NoCluster(context.cluster.clone()))?;
    let wanted = context.user.clone().unwrap_or_default();
    let user = kubeconfig.auth_infos.iter().find(|user| user.name == wanted);
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "users": [user.cloned().unwrap_or_default()],
        "contexts": [{ "name": name, "context": context }],
        "current-context": name,
    }))
}

/// Writes a kubeconfig with `namespace` in its only context.
pub(super) fn write_kubeconfig(path: &Path, mut value: Value, namespace: &str) -> Result<PathBuf, KubeconfigError> {
    value["contexts"][0]["context"]["namespace"] = namespace.into();
    let text = serde_saphyr::to_string(&value).map_err(KubeconfigError::NoYaml)?;
    Ok(private_file(path, &text)?)
}
