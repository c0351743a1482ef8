//! The metrics of the server, with upstream's names where they exist: requests, durations, watches and panics.
//!
//! A request adds to a few atomic numbers and takes no lock: the series of a target are in a table of fixed size whose
//! slots are written once. In virtual time nothing is counted.

mod series;
mod target;
mod text;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Method;

use self::series::Series;
pub(crate) use self::target::Target;
pub use self::text::{Family, Kind, Sample, parse};
use self::text::{render, sample};

/// The number of slots for targets: some thousand kinds, verbs and scopes.
const SLOTS: usize = 4096;
/// How many slots a lookup tries before it gives up.
const PROBES: usize = 64;
/// The value of upstream's label `component`.
const COMPONENT: &str = "apiserver";

/// Adds metrics of another part of the process to those of the server, such as of its controllers.
pub trait Source: Send + Sync + fmt::Debug {
    /// The current values.
    fn families(&self) -> Vec<Family>;
}

/// The metrics of one server.
pub(crate) struct Metrics {
    slots: Box<[OnceLock<Arc<Series>>]>,
    /// Requests for targets that do not exist, and those that find no slot.
    other: Arc<Series>,
    mutating: Arc<AtomicU64>,
    read_only: Arc<AtomicU64>,
    sources: Vec<Arc<dyn Source>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics")
            .field("sources", &self.sources)
            .finish_non_exhaustive()
    }
}

/// Counts something as long as it exists.
#[derive(Debug)]
pub(crate) struct Counted(Arc<AtomicU64>);

impl Counted {
    fn new(number: &Arc<AtomicU64>) -> Self {
        number.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(number))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Metrics {
    pub(crate) fn new(sources: Vec<Arc<dyn Source>>) -> Self {
        Self {
            slots: (0..SLOTS).map(|_| OnceLock::new()).collect(),
            other: Arc::new(Series::new(&Target::unknown("other"))),
            mutating: Arc::default(),
            read_only: Arc::default(),
            sources,
        }
    }

    /// Counts a request until its response begins.
    pub(crate) fn in_flight(&self, method: &Method) -> Counted {
        Counted::new(if method.is_safe() {
            &self.read_only
        } else {
            &self.mutating
        })
    }

    /// Counts a watch until it ends.
    pub(crate) fn watch(&self, target: &Target<'_>) -> Counted {
        Counted::new(self.series(target, || true).watches())
    }

    /// Counts a response. `exists` is called for a target that had no request yet: requests for others share one series,
    /// so that clients cannot fill the table.
    pub(crate) fn responded(&self, target: &Target<'_>, exists: impl FnOnce() -> bool, code: u16, took: Duration) {
        self.series(target, exists).responded(code, took);
    }

    /// Counts a panic.
    pub(crate) fn panicked(&self, target: &Target<'_>, exists: impl FnOnce() -> bool) {
        self.series(target, exists).panicked();
    }

    /// Counts a panic before the target of the request was known.
    pub(crate) fn panicked_early(&self) {
        self.other.panicked();
    }

    fn series(&self, target: &Target<'_>, exists: impl FnOnce() -> bool) -> &Arc<Series> {
        let mut hasher = DefaultHasher::new();
        target.hash(&mut hasher);
        let slot = hasher.finish().checked_rem(SLOTS as u64).unwrap_or_default();
        let start = usize::try_from(slot).unwrap_or_default();
        let mut exists = Some(exists);
        for slot in self.slots.iter().cycle().skip(start).take(PROBES) {
            if let Some(series) = slot.get() {
                if series.is_of(target) {
                    return series;
                }
                continue;
            }
            if exists.take().is_some_and(|exists| !exists()) {
                break;
            }
            let series = slot.get_or_init(|| Arc::new(Series::new(target)));
            // Another thread can be faster with another target.
            if series.is_of(target) {
                return series;
            }
        }
        &self.other
    }

    /// All metrics in Prometheus' text format.
    pub(crate) fn text(&self) -> String {
        let mut families = self.of_requests();
        families.extend(self.sources.iter().flat_map(|source| source.families()));
        render(&families)
    }

    fn of_requests(&self) -> Vec<Family> {
        let mut all: Vec<&Arc<Series>> = self.slots.iter().filter_map(OnceLock::get).collect();
        all.push(&self.other);
        all.sort_by(|one, other| one.labels().cmp(other.labels()));
        let mut requests = Family::new(
            "apiserver_request_total",
            "Number of requests by verb, resource and HTTP response code.",
            Kind::Counter,
        );
        let mut watches = Family::new("apiserver_longrunning_requests", "Number of open watches.", Kind::Gauge);
        let mut panics = Family::new(
            "drydock_request_panics_total",
            "Number of panics of request handlers, each of which was answered with 500.",
            Kind::Counter,
        );
        let mut durations = Family::new(
            "apiserver_request_duration_seconds",
            "Time from the header of a request to its response, without watches.",
            Kind::Histogram,
        );
        for series in all {
            let labels = series.labels();
            for (code, count) in series.codes() {
                requests.samples.push(sample(labels, &[("code", &code)], count));
            }
            if series.is_watch() {
                watches.samples.push(sample(labels, &[], series.open_watches()));
            }
            if let count @ 1.. = series.panics() {
                panics.samples.push(sample(labels, &[], count));
            }
            durations.samples.extend(series.histogram());
        }
        let mut in_flight = Family::new(
            "apiserver_current_inflight_requests",
            "Number of requests without a response, without watches.",
            Kind::Gauge,
        );
        for (kind, number) in [("mutating", &self.mutating), ("readOnly", &self.read_only)] {
            let labels = [("request_kind", kind.to_owned())];
            in_flight
                .samples
                .push(sample(&labels, &[], number.load(Ordering::Relaxed)));
        }
        vec![requests, durations, in_flight, watches, panics]
    }
}

#[cfg(test)]
mod tests {
    use super::series::BUCKETS;
    use super::*;

    fn target(resource: &str) -> Target<'_> {
        Target {
            verb: "GET",
            group: "apps",
            version: "v1",
            resource,
            subresource: "",
            scope: "resource",
        }
    }

    /// The values of a metric, each with one of its labels.
    fn values(metrics: &Metrics, name: &str, label: &str) -> Vec<(String, f64)> {
        let of_name = parse(&metrics.text(), name);
        of_name
            .into_iter()
            .map(|sample| (sample.label(label).unwrap_or_default().to_owned(), sample.value))
            .collect()
    }

    #[test]
    fn requests_are_counted_by_target_and_code() {
        let metrics = Metrics::new(Vec::new());
        for code in [200, 200, 404] {
            metrics.responded(&target("deployments"), || true, code, Duration::from_millis(30));
        }
        metrics.responded(&target("nonsense"), || false, 404, Duration::ZERO);
        let requests = parse(&metrics.text(), "apiserver_request_total");
        let found: Vec<_> = requests
            .iter()
            .map(|sample| (sample.label("resource"), sample.label("code"), sample.value))
            .collect();
        assert_eq!(
            found,
            [
                (Some(""), Some("404"), 1.0),
                (Some("deployments"), Some("200"), 2.0),
                (Some("deployments"), Some("404"), 1.0)
            ]
        );
    }

    #[test]
    fn durations_fill_cumulative_buckets() {
        let metrics = Metrics::new(Vec::new());
        for milliseconds in [1, 30, 30, 100_000] {
            metrics.responded(
                &target("deployments"),
                || true,
                200,
                Duration::from_millis(milliseconds),
            );
        }
        let buckets = values(&metrics, "apiserver_request_duration_seconds_bucket", "le");
        let at = |bound: &str| buckets.iter().find(|(le, _)| le == bound).unwrap().1;
        assert_eq!(
            (at("0.005"), at("0.025"), at("0.05"), at("60"), at("+Inf")),
            (1.0, 1.0, 3.0, 3.0, 4.0)
        );
        // With the bounds of 60 seconds and infinity.
        assert_eq!(buckets.len(), BUCKETS.len() + 2);
        assert_eq!(
            values(&metrics, "apiserver_request_duration_seconds_count", "verb")[0].1,
            4.0
        );
        let sum = values(&metrics, "apiserver_request_duration_seconds_sum", "verb")[0].1;
        assert!((sum - 100.061).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn what_is_open_is_counted_until_it_is_dropped() {
        let metrics = Metrics::new(Vec::new());
        let watched = Target {
            verb: "WATCH",
            scope: "cluster",
            ..target("deployments")
        };
        let held = (
            metrics.in_flight(&Method::GET),
            metrics.in_flight(&Method::PATCH),
            metrics.watch(&watched),
        );
        let in_flight = || values(&metrics, "apiserver_current_inflight_requests", "request_kind");
        let watches = || values(&metrics, "apiserver_longrunning_requests", "resource");
        let expected = |count| vec![("mutating".to_owned(), count), ("readOnly".to_owned(), count)];
        assert_eq!(in_flight(), expected(1.0));
        assert_eq!(watches(), [("deployments".to_owned(), 1.0)]);
        drop(held);
        assert_eq!(in_flight(), expected(0.0));
        assert_eq!(watches(), [("deployments".to_owned(), 0.0)]);
    }

    #[test]
    fn a_full_table_counts_further_targets_together() {
        let metrics = Metrics::new(Vec::new());
        let names: Vec<String> = (0..2 * SLOTS).map(|number| format!("kind{number}")).collect();
        for name in &names {
            metrics.responded(&target(name), || true, 200, Duration::ZERO);
        }
        let counted = values(&metrics, "apiserver_request_total", "resource");
        let total: f64 = counted.iter().map(|(_, value)| value).sum();
        assert!((total - 2.0 * SLOTS as f64).abs() < 0.5, "{total}");
        assert!(counted.len() <= SLOTS + 1);
    }

    #[test]
    fn concurrent_requests_are_all_counted() {
        let metrics = Metrics::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let metrics = &metrics;
                scope.spawn(move || {
                    for number in 0..1000_u16 {
                        let name = format!("kind{}", number % 50);
                        let code = 200 + thread;
                        metrics.responded(&target(&name), || true, code, Duration::ZERO);
                    }
                });
            }
        });
        let counted = values(&metrics, "apiserver_request_total", "code");
        assert_eq!(counted.len(), 200);
        assert!(counted.iter().all(|(_, value)| (*value - 20.0).abs() < 0.5));
    }
}
