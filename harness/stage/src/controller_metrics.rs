//! The panics of the built-in controllers, as metrics of the embedded API server.

use std::fmt;

use ::controllers::{PanicCounts, Panics};
use apiserver::metrics::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

/// The counter of panics of each controller, without the suffix of counters.
pub const PANICS: &str = "drydock_controller_panics";
/// The counter of starts after a panic.
pub const RESTARTS: &str = "drydock_controller_restarts";

/// Adds the panics of controllers to the metrics of a server.
#[derive(Clone, Debug, Default)]
pub struct ControllerMetrics(pub Panics);

impl Collector for ControllerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.0.counts();
        let mut counter = |name, help, count: fn(&PanicCounts) -> u64| {
            let mut counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (controller, counts) in &counts {
                ConstCounter::new(count(counts)).encode(counter.encode_family(&[("controller", *controller)])?)?;
            }
            fmt::Result::Ok(())
        };
        counter(PANICS, "Number of panics of a built-in controller", |counts| {
            counts.panics
        })?;
        let help = "Number of starts of a built-in controller after a panic";
        counter(RESTARTS, help, |counts| counts.restarts)
    }
}
