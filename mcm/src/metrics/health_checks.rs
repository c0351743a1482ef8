//! Metrics of health checks. They disappear with their check.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use mcm_core::health_check::{Outcome, Remediated};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::cache::Key;

/// The metrics of all checks. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct HealthChecks(Arc<Mutex<BTreeMap<Key, Numbers>>>);

#[derive(Debug, Default)]
struct Numbers {
    outcome: Outcome,
    remediations: BTreeMap<Remediated, u64>,
}

impl HealthChecks {
    /// Sets what the last pass of a check found.
    pub(crate) fn set(&self, key: &Key, outcome: &Outcome) {
        self.0.lock().entry(key.clone()).or_default().outcome = outcome.clone();
    }

    /// Counts a step of a remediation.
    pub(crate) fn count(&self, key: &Key, remediated: Remediated) {
        let mut all = self.0.lock();
        let numbers = all.entry(key.clone()).or_default();
        *numbers.remediations.entry(remediated).or_default() += 1;
    }

    /// Removes the metrics of a check that does not exist any more.
    pub(crate) fn forget(&self, key: &Key) {
        self.0.lock().remove(key);
    }
}

fn labels(key: &Key) -> Vec<(&'static str, String)> {
    vec![("namespace", key.namespace.clone()), ("name", key.name.clone())]
}

impl Collector for HealthChecks {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.0.lock();
        let help = "Machines of a MachineHealthCheck by state";
        let mut machines = encoder.encode_descriptor("mhc_machines", help, None, MetricType::Gauge)?;
        for (key, numbers) in all.iter() {
            for (state, count) in &numbers.outcome.machines {
                let mut labels = labels(key);
                labels.push(("state", state.as_str().to_owned()));
                let gauge = ConstGauge::new(i64::try_from(*count).unwrap_or(i64::MAX));
                gauge.encode(machines.encode_family(&labels)?)?;
            }
        }
        let help = "1 while a MachineHealthCheck remediates nothing because of its limit or an invalid spec";
        let mut restricted = encoder.encode_descriptor("mhc_short_circuited", help, None, MetricType::Gauge)?;
        for (key, numbers) in all.iter() {
            let gauge = ConstGauge::new(i64::from(numbers.outcome.short_circuited));
            gauge.encode(restricted.encode_family(&labels(key))?)?;
        }
        let help = "Remediations of a MachineHealthCheck by kind and outcome";
        let mut remediations = encoder.encode_descriptor("mhc_remediations", help, None, MetricType::Counter)?;
        for (key, numbers) in all.iter() {
            for (remediated, count) in &numbers.remediations {
                let (kind, outcome) = remediated.labels();
                let mut labels = labels(key);
                labels.push(("kind", kind.to_owned()));
                labels.push(("outcome", outcome.to_owned()));
                ConstCounter::new(*count).encode(remediations.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use mcm_core::health_check::{Remediator, State};

    use super::*;
    use crate::Metrics;

    #[test]
    fn the_metrics_of_a_check_disappear_with_it() {
        let metrics = Metrics::new();
        let key = Key::new("garden", "workers");
        let checks = metrics.health_checks();
        checks.set(
            &key,
            &Outcome {
                machines: BTreeMap::from([(State::Healthy, 3), (State::InRemediation, 1)]),
                short_circuited: true,
            },
        );
        checks.count(&key, Remediated::Requested(Remediator::Owner));
        let text = metrics.text();
        for line in [
            r#"mcm_mhc_machines{namespace="garden",name="workers",state="in_remediation"} 1"#,
            r#"mcm_mhc_short_circuited{namespace="garden",name="workers"} 1"#,
            r#"mcm_mhc_remediations_total{namespace="garden",name="workers",kind="owner",outcome="requested"} 1"#,
        ] {
            assert!(text.contains(line), "{text}");
        }
        checks.forget(&key);
        assert!(!metrics.text().contains(r#"name="workers""#));
    }
}
