//! The configuration of a client for an API server, with the proxy that the environment or the kubeconfig selects.
//!
//! kube reads `HTTPS_PROXY` too, but applies it to loopback, and compares `NO_PROXY` with the proxy's own address.

use http::Uri;
use kube::Config;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use proxy::{InvalidProxy, Proxies};

/// Errors of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The kubeconfig, or a file that it refers to, is not usable.
    #[error(transparent)]
    Kubeconfig(KubeconfigError),
    /// `NO_PROXY` is not valid.
    #[error(
        "the environment variable NO_PROXY is not valid ({0}): separate host names, IP addresses and networks by single commas"
    )]
    NoProxy(#[source] kube::config::NoProxyError),
    /// `HTTPS_PROXY` or `HTTP_PROXY` is not valid.
    #[error(transparent)]
    Proxy(#[from] InvalidProxy),
    /// The kubeconfig's `proxy-url` is not valid.
    #[error("proxy-url is not the URL of a proxy: write http://HOST:PORT or https://HOST:PORT")]
    ProxyUrl,
    /// There is no service account.
    #[error(transparent)]
    InCluster(#[from] InClusterError),
}

impl From<KubeconfigError> for ConfigError {
    fn from(error: KubeconfigError) -> Self {
        match error {
            KubeconfigError::ParseNoProxy(source) => Self::NoProxy(source),
            error => Self::Kubeconfig(error),
        }
    }
}

/// The configuration of the cluster that `options` select in a kubeconfig. Its `proxy-url` has precedence over the
/// environment and applies to every address, as for kubectl.
///
/// # Errors
/// If the kubeconfig or the proxy is not usable.
pub async fn of(kubeconfig: Kubeconfig, options: &KubeConfigOptions) -> Result<Config, ConfigError> {
    of_with(kubeconfig, options, &Proxies::from_environment()).await
}

async fn of_with(
    kubeconfig: Kubeconfig,
    options: &KubeConfigOptions,
    proxies: &Proxies,
) -> Result<Config, ConfigError> {
    let proxy_url = proxy_url(&kubeconfig, options);
    let mut config = Config::from_custom_kubeconfig(kubeconfig, options).await?;
    config.proxy_url = match proxy_url {
        Some(url) => Some(explicit(&url)?),
        None => proxies.of(&config.cluster_url)?,
    };
    Ok(config)
}

/// The configuration of the cluster whose pod this process runs in.
///
/// # Errors
/// If the pod has no service account, or the proxy is not usable.
pub fn in_cluster() -> Result<Config, ConfigError> {
    let mut config = Config::incluster()?;
    config.proxy_url = Proxies::from_environment().of(&config.cluster_url)?;
    Ok(config)
}

/// SOCKS proxies are not supported.
fn explicit(url: &str) -> Result<Uri, ConfigError> {
    proxy::parse(url).ok_or(ConfigError::ProxyUrl)
}

/// The `proxy-url` of the selected cluster.
fn proxy_url(kubeconfig: &Kubeconfig, options: &KubeConfigOptions) -> Option<String> {
    let context = options.context.as_ref().or(kubeconfig.current_context.as_ref());
    let context = kubeconfig
        .contexts
        .iter()
        .find(|named| Some(&named.name) == context)
        .and_then(|named| named.context.as_ref());
    let cluster = options.cluster.as_ref().or(context.map(|context| &context.cluster))?;
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == *cluster)?;
    let url = cluster.cluster.as_ref()?.proxy_url.clone();
    url.filter(|url| !url.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kubeconfig(server: &str, proxy_url: Option<&str>) -> Kubeconfig {
        let cluster = serde_json::json!({ "server": server, "proxy-url": proxy_url });
        serde_json::from_value(serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "cluster", "cluster": cluster }],
            "users": [{ "name": "user", "user": { "token": "t" } }],
            "contexts": [{ "name": "c", "context": { "cluster": "cluster", "user": "user" } }],
        }))
        .unwrap()
    }

    fn environment() -> Proxies {
        Proxies::read(|name| (name == "HTTPS_PROXY").then(|| "http://env:1".to_owned()))
    }

    async fn proxy_of(kubeconfig: Kubeconfig) -> Option<String> {
        let config = of_with(kubeconfig, &KubeConfigOptions::default(), &environment()).await;
        config.unwrap().proxy_url.map(|url| url.to_string())
    }

    #[tokio::test]
    async fn the_environment_applies_except_on_loopback() {
        let elsewhere = proxy_of(kubeconfig("https://cluster.example:6443", None)).await;
        assert_eq!(elsewhere.as_deref(), Some("http://env:1/"));
        assert_eq!(proxy_of(kubeconfig("https://127.0.0.1:6443", None)).await, None);
    }

    #[tokio::test]
    async fn the_proxy_url_of_a_cluster_has_precedence() {
        for server in ["https://cluster.example:6443", "https://127.0.0.1:6443"] {
            let proxy = proxy_of(kubeconfig(server, Some("http://file:2"))).await;
            assert_eq!(proxy.as_deref(), Some("http://file:2/"));
        }
    }

    #[tokio::test]
    async fn an_unusable_proxy_url_is_an_error_that_names_the_field() {
        let config = kubeconfig("https://cluster.example", Some("socks5://file:2"));
        let error = of_with(config, &KubeConfigOptions::default(), &environment()).await;
        assert!(error.unwrap_err().to_string().contains("proxy-url"));
    }
}
