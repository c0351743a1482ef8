//! The number of objects that cannot be decoded completely, by kind.

use std::fmt;
use std::sync::{Arc, OnceLock};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// Counts the damaged objects of each kind at the time of the scrape.
pub(super) type DamageCount = Box<dyn Fn() -> Vec<(&'static str, usize)> + Send + Sync>;

/// Exports the count, once it is set.
pub(super) struct DamageCollector(pub(super) Arc<OnceLock<DamageCount>>);

impl fmt::Debug for DamageCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DamageCollector")
    }
}

impl Collector for DamageCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Objects with fields that cannot be decoded; they are not reconciled until they are corrected";
        let mut gauge = encoder.encode_descriptor("undecodable_objects", help, None, MetricType::Gauge)?;
        for (kind, count) in self.0.get().map(|count| count()).unwrap_or_default() {
            let count = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
            count.encode(gauge.encode_family(&[("kind", kind)])?)?;
        }
        Ok(())
    }
}
