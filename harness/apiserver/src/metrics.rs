//! The metrics of the server, with upstream's names where they exist: requests, durations, watches and panics. In virtual
//! time nothing is counted.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
pub use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Upstream's buckets of durations, in seconds.
const BUCKETS: [f64; 23] = [
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];

/// What a request is for, as upstream's labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct Target {
    pub(crate) component: &'static str,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    /// A subresource, or a path such as `/healthz`.
    pub(crate) subresource: String,
    /// `resource` for one object, `namespace`, `cluster`, or empty.
    pub(crate) scope: &'static str,
    /// For example `GET`, `LIST`, `WATCH`, `POST` or `APPLY`.
    pub(crate) verb: &'static str,
}

impl Target {
    /// A target that is no served resource. All of these share few series, so that clients cannot create more.
    pub(crate) fn unknown(verb: &'static str) -> Self {
        Self {
            component: "apiserver",
            group: String::new(),
            version: String::new(),
            resource: String::new(),
            subresource: String::new(),
            scope: "",
            verb,
        }
    }

    fn is_watch(&self) -> bool {
        self.verb == "WATCH"
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResponseLabels {
    #[prometheus(flatten)]
    target: Target,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    request_kind: &'static str,
}

/// The metrics of one server.
pub(crate) struct Metrics {
    registry: Registry,
    responses: Family<ResponseLabels, Counter>,
    durations: Family<Target, Histogram, fn() -> Histogram>,
    in_flight: Family<KindLabels, Gauge>,
    watches: Family<Target, Gauge>,
    panics: Family<Target, Counter>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// A collector that its owner shares with the registry.
#[derive(Debug)]
struct Shared(Arc<dyn Collector>);

impl Collector for Shared {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.encode(encoder)
    }
}

/// Counts something as long as it exists.
#[derive(Debug)]
pub(crate) struct Counted(Gauge);

impl Counted {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn histogram() -> Histogram {
    Histogram::new(BUCKETS)
}

impl Metrics {
    /// The metrics of a server, and those of `collectors`.
    pub(crate) fn new(collectors: Vec<Arc<dyn Collector>>) -> Self {
        let responses = Family::default();
        let durations = Family::new_with_constructor(histogram as fn() -> Histogram);
        let (in_flight, watches, panics) = (Family::default(), Family::default(), Family::default());
        let mut registry = Registry::default();
        registry.register(
            "apiserver_request",
            "Number of requests by verb, resource and HTTP response code",
            Family::clone(&responses),
        );
        registry.register(
            "apiserver_request_duration_seconds",
            "Time from the header of a request to its response, without watches",
            Family::clone(&durations),
        );
        registry.register(
            "apiserver_current_inflight_requests",
            "Number of requests without a response, without watches",
            Family::clone(&in_flight),
        );
        registry.register(
            "apiserver_longrunning_requests",
            "Number of open watches",
            Family::clone(&watches),
        );
        registry.register(
            "drydock_request_panics",
            "Number of panics of request handlers, each of which was answered with 500",
            Family::clone(&panics),
        );
        for collector in collectors {
            registry.register_collector(Box::new(Shared(collector)));
        }
        Self {
            registry,
            responses,
            durations,
            in_flight,
            watches,
            panics,
        }
    }

    /// Counts a request until its response begins.
    pub(crate) fn in_flight(&self, method: &Method) -> Counted {
        let request_kind = if method.is_safe() { "readOnly" } else { "mutating" };
        Counted::new(&self.in_flight.get_or_create(&KindLabels { request_kind }))
    }

    /// Counts a watch until it ends.
    pub(crate) fn watch(&self, target: &Target) -> Counted {
        Counted::new(&self.watches.get_or_create(target))
    }

    /// Counts a response.
    pub(crate) fn responded(&self, target: Target, code: u16, took: Duration) {
        if !target.is_watch() {
            self.durations.get_or_create(&target).observe(took.as_secs_f64());
        }
        self.responses.get_or_create(&ResponseLabels { target, code }).inc();
    }

    /// Counts a panic.
    pub(crate) fn panicked(&self, target: &Target) {
        self.panics.get_or_create(target).inc();
    }

    /// All metrics in OpenMetrics' text format.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        if text::encode(&mut text, &self.registry).is_err() {
            tracing::error!("cannot write the metrics");
        }
        text
    }
}
