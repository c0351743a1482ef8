//! Clients of the two clusters, and what every request of this process goes through.

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
use tower::BoxError;

use crate::Error;
use crate::metrics::Metrics;
use crate::options::{IN_CLUSTER, NO_CLUSTER, Options};

/// How long a request may take; a watch: how long its first byte may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a connection may take to be made.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of `config` without kube's own retries: they repeat every POST up to fifteen times and
/// turn a refused eviction into minutes.
///
/// # Errors
/// When credentials or certificates in `config` are not usable.
pub fn client(mut config: Config) -> Result<Client, kube::Error> {
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config)
}

/// The clients that the flags name: the cluster with the machines, and the one that nodes join.
///
/// # Errors
/// When a kubeconfig cannot be read or used; the error names its flag.
pub async fn from_options(options: &Options) -> Result<(Client, Option<Client>), Error> {
    let target_flag = ("--target-kubeconfig", options.target_kubeconfig.as_str());
    let control_flag = match options.control_kubeconfig.as_str() {
        "" => target_flag,
        path => ("--control-kubeconfig", path),
    };
    let control = open(control_flag).await?;
    let target = match target_flag.1 {
        NO_CLUSTER => None,
        path if path == control_flag.1 => Some(control.clone()),
        _ => Some(open(target_flag).await?),
    };
    Ok((control, target))
}

async fn open((flag, path): (&'static str, &str)) -> Result<Client, Error> {
    let failed = |reason: String| Error::Kubeconfig {
        flag,
        path: path.to_owned(),
        reason,
    };
    let config = if path.is_empty() || path == IN_CLUSTER {
        Config::incluster().map_err(|error| failed(format!("not in a pod with a service account: {error}")))?
    } else {
        let kubeconfig = Kubeconfig::read_from(path).map_err(|error| failed(error.to_string()))?;
        Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| failed(error.to_string()))?
    };
    client(config).map_err(|error| failed(error.to_string()))
}

/// What [`layered`] does to requests.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// Label of the cluster in metrics.
    pub(crate) cluster: &'static str,
    /// What the server sees as this client's name.
    pub(crate) user_agent: &'static str,
    pub(crate) limit: RateLimit,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
}

/// The user agent of the controllers. What stands before the slash becomes the field manager.
pub(crate) const CONTROLLER_AGENT: &str = concat!("machine-controller-manager/", env!("CARGO_PKG_VERSION"));
/// The user agent of leader election, so that its requests can be told apart.
pub(crate) const ELECTION_AGENT: &str = concat!(
    "machine-controller-manager/",
    env!("CARGO_PKG_VERSION"),
    " (leader-election)"
);

/// The user agent of what is looked at before the controllers start.
const PREFLIGHT_AGENT: &str = concat!("machine-controller-manager/", env!("CARGO_PKG_VERSION"), " (preflight)");

/// `client` for what is looked at before the controllers start.
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

/// `client` behind these layers, whatever its transport is.
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
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, exchange(client, request, watch)).await;
        let answer = answer.unwrap_or_else(|_| {
            Err(format!("{method} {path}: no answer within {} s", REQUEST_TIMEOUT.as_secs()).into())
        });
        let code = answer.as_ref().map_or(0, |response| response.status().as_u16());
        self.metrics.count_request(self.cluster, method.as_str(), code);
        tracing::trace!(cluster = self.cluster, %method, path, code, "request");
        answer
    }
}

/// The whole answer, so that one that stops half-way runs into the timeout as well; of a watch only
/// its beginning.
async fn exchange(client: Client, request: Request<Body>, watch: bool) -> Result<Response<Body>, BoxError> {
    let response = client.send(request).await?;
    if watch {
        return Ok(response);
    }
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await?.to_bytes();
    Ok(Response::from_parts(parts, Body::from(bytes)))
}

/// At most `qps` requests a second, with `burst` more at once. Clones share the limit.
#[derive(Clone, Debug)]
pub(crate) struct RateLimit {
    interval: Option<Duration>,
    burst: u32,
    /// When a request would come that keeps to the rate exactly.
    next: Arc<Mutex<Timestamp>>,
}

impl RateLimit {
    /// No limit where `qps` is not above zero.
    pub(crate) fn new(qps: f32, burst: i32) -> Self {
        Self {
            interval: (qps > 0.0).then(|| Duration::from_secs_f32(1.0 / qps)),
            burst: u32::try_from(burst).unwrap_or(0),
            next: Arc::new(Mutex::new(Timestamp::MIN)),
        }
    }

    /// Takes the next place; gives how long to wait for it.
    fn reserve(&self, now: Timestamp) -> Duration {
        let Some(interval) = self.interval else {
            return Duration::ZERO;
        };
        let mut next = self.next.lock();
        let place = (*next).max(now);
        *next = place.checked_add(interval).unwrap_or(Timestamp::MAX);
        let wait = Duration::try_from(place.duration_since(now)).unwrap_or_default();
        wait.saturating_sub(interval * self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_limit_lets_the_burst_through_and_spaces_the_rest() {
        let limit = RateLimit::new(10.0, 2);
        let now = Timestamp::from_second(1000).unwrap();
        let waits: Vec<_> = (0..5).map(|_| limit.reserve(now).as_millis()).collect();
        assert_eq!(waits, [0, 0, 0, 100, 200]);
        let later = Timestamp::from_second(1010).unwrap();
        assert_eq!(limit.reserve(later), Duration::ZERO);
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let limit = RateLimit::new(0.0, 0);
        assert_eq!(limit.reserve(Timestamp::MIN), Duration::ZERO);
        assert_eq!(limit.reserve(Timestamp::MIN), Duration::ZERO);
    }
}
