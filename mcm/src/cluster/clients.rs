//! Clients of the two clusters, and the layers that every request passes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use parking_lot::Mutex;
use runtime::kube_config;
use tower::BoxError;

use crate::Error;
use crate::metrics::Metrics;
use crate::options::{IN_CLUSTER, NO_CLUSTER, Options};

/// The timeout of a request; for a watch, of its first byte.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// The timeout of establishing a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client for `config` without kube's retries: they repeat every POST up to fifteen times, so that a
/// refused eviction would take minutes.
///
/// # Errors
/// If credentials or certificates in `config` are unusable.
pub fn client(mut config: Config) -> Result<Client, kube::Error> {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config)
}

/// The clusters that the flags name.
pub struct Clusters {
    /// A client of the cluster with the machines.
    pub control: Client,
    /// A client of the cluster that nodes join.
    pub target: Option<Client>,
    /// The configuration of `control`, for the client of leader election on a thread of its own.
    pub control_config: Config,
}

impl fmt::Debug for Clusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clusters")
            .field("server", &self.control_config.cluster_url)
            .field("target", &self.target.is_some())
            .finish_non_exhaustive()
    }
}

/// Connects to the clusters that the flags name.
///
/// # Errors
/// If a kubeconfig cannot be read or used; the error names its flag.
pub async fn from_options(options: &Options) -> Result<Clusters, Error> {
    let target_flag = ("--target-kubeconfig", options.target_kubeconfig.as_str());
    let control_flag = match options.control_kubeconfig.as_str() {
        "" => target_flag,
        path => ("--control-kubeconfig", path),
    };
    let (control, control_config) = open(control_flag).await?;
    let target = match target_flag.1 {
        NO_CLUSTER => None,
        path if path == control_flag.1 => Some(control.clone()),
        _ => Some(open(target_flag).await?.0),
    };
    Ok(Clusters {
        control,
        target,
        control_config,
    })
}

async fn open((flag, path): (&'static str, &str)) -> Result<(Client, Config), Error> {
    let failed = |reason: String| Error::Kubeconfig {
        flag,
        path: path.to_owned(),
        reason,
    };
    let config = if path.is_empty() || path == IN_CLUSTER {
        kube_config::in_cluster().map_err(|error| failed(format!("not in a pod with a service account: {error}")))?
    } else {
        let kubeconfig = Kubeconfig::read_from(path).map_err(|error| failed(error.to_string()))?;
        kube_config::of(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| failed(error.to_string()))?
    };
    let client = client(config.clone()).map_err(|error| failed(error.to_string()))?;
    Ok((client, config))
}

/// The layers that [`layered`] adds.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// Label of the cluster in metrics.
    pub(crate) cluster: &'static str,
    /// The user agent of the client's requests.
    pub(crate) user_agent: &'static str,
    pub(crate) limit: RateLimit,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
}

/// The user agent of the controllers. The API server uses the part before the slash as the field manager.
pub(crate) const CONTROLLER_AGENT: &str = concat!("machine-controller-manager/", env!("CARGO_PKG_VERSION"));
/// The user agent of leader election, which identifies its requests.
pub(crate) const ELECTION_AGENT: &str = concat!(
    "machine-controller-manager/",
    env!("CARGO_PKG_VERSION"),
    " (leader-election)"
);

/// The user agent of the preflight checks.
const PREFLIGHT_AGENT: &str = concat!("machine-controller-manager/", env!("CARGO_PKG_VERSION"), " (preflight)");

/// `client` with the user agent of the preflight checks.
pub(crate) fn preflight(client: &Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let service = tower::service_fn(move |mut request: Request<Body>| {
        let client = client.clone();
        let agent = HeaderValue::from_static(PREFLIGHT_AGENT);
        request.headers_mut().insert(USER_AGENT, agent);
        async move { exchange(client, request, false).await }
    });
    Client::new(service, namespace)
}

/// Adds layers to `client`.
pub(crate) fn layered(client: &Client, layers: Layers) -> Client {
    let namespace = client.default_namespace().to_owned();
    let client = client.clone();
    let layers = Arc::new(layers);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, layers) = (client.clone(), Arc::clone(&layers));
        async move { layers.send(client, request).await }
    });
    Client::new(service, namespace)
}

impl Layers {
    async fn send(&self, client: Client, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
        self.clock.sleep(self.limit.reserve(self.clock.now())).await;
        request
            .headers_mut()
            .insert(USER_AGENT, HeaderValue::from_static(self.user_agent));
        let method = request.method().clone();
        let path = request.uri().path().to_owned();
        let watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        let result = tokio::time::timeout(REQUEST_TIMEOUT, exchange(client, request, watch)).await;
        let result = result.unwrap_or_else(|_| {
            Err(format!("{method} {path}: no answer within {} s", REQUEST_TIMEOUT.as_secs()).into())
        });
        let code = result.as_ref().map_or(0, |response| response.status().as_u16());
        self.metrics.count_request(self.cluster, method.as_str(), code);
        tracing::trace!(cluster = self.cluster, %method, path, code, "request");
        result
    }
}

/// Sends a request and reads the whole body, so that the timeout covers it; for a watch it returns after
/// the headers.
async fn exchange(client: Client, request: Request<Body>, watch: bool) -> Result<Response<Body>, BoxError> {
    let response = client.send(request).await?;
    if watch {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await?.to_bytes();
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// Allows `qps` requests per second, with a burst of `burst` more. Clones share the limit.
#[derive(Clone, Debug)]
pub(crate) struct RateLimit {
    interval: Option<Duration>,
    burst: u32,
    /// When the next request is due at exactly this rate.
    next: Arc<Mutex<Timestamp>>,
}

impl RateLimit {
    /// There is no limit unless `qps` is positive.
    pub(crate) fn new(qps: f32, burst: i32) -> Self {
        Self {
            interval: (qps > 0.0).then(|| Duration::from_secs_f32(1.0 / qps)),
            burst: u32::try_from(burst).unwrap_or(0),
            next: Arc::new(Mutex::new(Timestamp::MIN)),
        }
    }

    /// Reserves the next slot; returns how long to wait for it.
    fn reserve(&self, now: Timestamp) -> Duration {
        let Some(interval) = self.interval else {
            return Duration::ZERO;
        };
        let mut next = self.next.lock();
        let slot = (*next).max(now);
        *next = slot.checked_add(interval).unwrap_or(Timestamp::MAX);
        let wait = Duration::try_from(slot.duration_since(now)).unwrap_or_default();
        wait.saturating_sub(interval * self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_limit_allows_the_burst_and_spaces_further_requests() {
        let limit = RateLimit::new(10.0, 2);
        let now = Timestamp::from_second(1000).unwrap();
        let waits: Vec<_> = (0..5).map(|_| limit.reserve(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        let later = Timestamp::from_second(1010).unwrap();
        assert_eq!(limit.reserve(later), Duration::ZERO);
    }

    #[test]
    fn without_a_rate_no_request_waits() {
        let limit = RateLimit::new(0.0, 0);
        assert_eq!(limit.reserve(Timestamp::MIN), Duration::ZERO);
        assert_eq!(limit.reserve(Timestamp::MIN), Duration::ZERO);
    }
}
