//! Metrics registry, readiness, and their HTTP endpoints.
//!
//! There is no global state: two controllers in one process have separate registries.

mod damage;
mod health_checks;
pub mod http;
mod owners;
mod preservation;
mod preservation_counters;
mod readiness;

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mcm_api::{Code, Machine, MachineClass, MachineDeployment, MachineSet, MachineStatus, Phase};
use mcm_core::machine::Metric;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use self::damage::{DamageCollector, DamageCount};
use self::health_checks::HealthChecks;
use self::owners::OwnerCollector;
use self::preservation::PreservationCollector;
use self::preservation_counters::PreservationCounters;
pub use self::readiness::{Activity, Readiness};
use crate::cache::Cache;

/// All metrics of one controller. Clones share them.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    registry: Mutex<Registry>,
    machines: Arc<OnceLock<Cache<Machine>>>,
    sets: Arc<OnceLock<Cache<MachineSet>>>,
    deployments: Arc<OnceLock<Cache<MachineDeployment>>>,
    damaged: Arc<OnceLock<DamageCount>>,
    stale: Counter,
    late_renewals: Histogram,
    health_evaluations: Histogram,
    readiness: Readiness,
    requests: Family<RequestLabels, Counter>,
    driver_seconds: Family<OperationLabels, Histogram, fn() -> Histogram>,
    driver_failures: Family<FailureLabels, Counter>,
    durations: Durations,
    drain_duration: Family<PoolLabels, Gauge<f64, AtomicU64>>,
    failed_joins: Family<VmLabels, Gauge>,
    driver_calls: Family<ServiceLabels, Counter>,
    driver_call_seconds: Family<ServiceLabels, Histogram, fn() -> Histogram>,
    driver_errors: Family<ServiceLabels, Counter>,
    frozen: Gauge,
    orphans: Family<OrphanLabels, Counter>,
    orphan_candidates: Gauge,
    preservations: PreservationCounters,
    health_checks: HealthChecks,
}

#[derive(Default)]
struct Durations {
    create: VmGauge,
    initialize: VmGauge,
    join: VmGauge,
    delete: VmGauge,
}

type VmGauge = Family<VmLabels, Gauge<f64, AtomicU64>>;

/// A histogram for computations, which take between less than a millisecond and some seconds.
fn short_seconds() -> Histogram {
    Histogram::new([0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5])
}

/// A histogram for cloud calls, which take between some milliseconds and two minutes.
fn seconds() -> Histogram {
    Histogram::new([0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0])
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    cluster: &'static str,
    method: String,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OperationLabels {
    provider: String,
    operation: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ServiceLabels {
    provider: String,
    service: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OrphanLabels {
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    provider: String,
    operation: &'static str,
    error_code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabels {
    namespace: String,
    machine_deployment: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VmLabels {
    namespace: String,
    machine_deployment: String,
    instance_type: String,
    zone: String,
}

impl VmLabels {
    fn pool(&self) -> PoolLabels {
        PoolLabels {
            namespace: self.namespace.clone(),
            machine_deployment: self.machine_deployment.clone(),
        }
    }

    fn of(machine: &Machine, class: Option<&MachineClass>) -> Self {
        let label = |labels: &Option<std::collections::BTreeMap<String, String>>, key: &str| {
            labels
                .as_ref()
                .and_then(|labels| labels.get(key))
                .cloned()
                .unwrap_or_default()
        };
        let template = machine
            .spec
            .node_template
            .as_ref()
            .map(|template| &template.metadata.labels);
        Self {
            namespace: machine.metadata.namespace.clone().unwrap_or_default(),
            machine_deployment: label(&machine.metadata.labels, mcm_api::keys::DEPLOYMENT_LABEL),
            instance_type: class
                .and_then(|class| class.node_template.as_ref())
                .map(|template| template.instance_type.clone())
                .unwrap_or_default(),
            zone: template
                .map(|labels| label(labels, "topology.kubernetes.io/zone"))
                .unwrap_or_default(),
        }
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Inner {
    fn new() -> Self {
        Self {
            registry: Mutex::default(),
            machines: Arc::default(),
            sets: Arc::default(),
            deployments: Arc::default(),
            damaged: Arc::default(),
            stale: Counter::default(),
            late_renewals: seconds(),
            health_evaluations: short_seconds(),
            readiness: Readiness::default(),
            requests: Family::default(),
            driver_seconds: Family::new_with_constructor(seconds),
            driver_failures: Family::default(),
            durations: Durations::default(),
            drain_duration: Family::default(),
            failed_joins: Family::default(),
            driver_calls: Family::default(),
            driver_call_seconds: Family::new_with_constructor(seconds),
            driver_errors: Family::default(),
            frozen: Gauge::default(),
            orphans: Family::default(),
            orphan_candidates: Gauge::default(),
            preservations: PreservationCounters::default(),
            health_checks: HealthChecks::default(),
        }
    }

    fn register_safety(&self, registry: &mut Registry) {
        registry.register(
            "machine_controller_frozen",
            "1 while an API server does not respond and no VM is created or deleted",
            self.frozen.clone(),
        );
        registry.register(
            "machine_stale_machines",
            "Machines that sets deleted because their nodes were unhealthy for too long",
            self.stale.clone(),
        );
        registry.register(
            "leader_election_renewal_lateness_seconds",
            "How long after it was due each renewal of the Lease began: time during which the process did not run",
            self.late_renewals.clone(),
        );
        registry.register(
            "mhc_evaluation_duration_seconds",
            "How long a MachineHealthCheck took to find its machines in the caches and to evaluate them",
            self.health_evaluations.clone(),
        );
        registry.register(
            "orphan_vms",
            "VMs that looked like orphans, by outcome: collected, refused or failed",
            self.orphans.clone(),
        );
        registry.register(
            "orphan_vm_candidates",
            "VMs that looked like orphans in the last search",
            self.orphan_candidates.clone(),
        );
    }

    fn register_requests(&self, registry: &mut Registry) {
        registry.register(
            "cloud_api_requests",
            "Calls to the cloud's driver; the service is the call's name",
            self.driver_calls.clone(),
        );
        registry.register(
            "cloud_api_api_request_duration_seconds",
            "Duration of calls to the cloud's driver; the service is the call's name",
            self.driver_call_seconds.clone(),
        );
        registry.register(
            "cloud_api_requests_failed",
            "Calls to the cloud's driver that failed; the service is the call's name",
            self.driver_errors.clone(),
        );
        registry.register(
            "kube_api_requests",
            "Requests to Kubernetes API servers by status code; 0: no response",
            self.requests.clone(),
        );
        registry.register(
            "cloud_api_driver_request_duration_seconds",
            "Duration of calls to the cloud's driver",
            self.driver_seconds.clone(),
        );
        registry.register(
            "cloud_api_driver_requests_failed",
            "Calls to the cloud's driver that failed",
            self.driver_failures.clone(),
        );
    }

    fn register_durations(&self, registry: &mut Registry) {
        for (name, help, family) in [
            (
                "machine_create_duration_seconds",
                "From a machine's creation to its VM's creation",
                &self.durations.create,
            ),
            (
                "machine_initialize_duration_seconds",
                "From a machine's creation to its VM's initialisation",
                &self.durations.initialize,
            ),
            (
                "machine_join_duration_seconds",
                "From a machine's creation until its node is healthy",
                &self.durations.join,
            ),
            (
                "machine_delete_duration_seconds",
                "From a machine's deletion to its VM's deletion",
                &self.durations.delete,
            ),
        ] {
            registry.register(name, help, family.clone());
        }
        registry.register(
            "machine_drain_duration_seconds",
            "From a machine's deletion to the end of its node's drain",
            self.drain_duration.clone(),
        );
        // A gauge, because the text form appends `_total` to the name of every counter.
        registry.register(
            "machine_num_failed_join",
            "Machines that did not join within their creation timeout",
            self.failed_joins.clone(),
        );
    }

    fn register_collectors(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(MachineCollector(Arc::clone(&self.machines))));
        registry.register_collector(Box::new(OwnerCollector {
            sets: Arc::clone(&self.sets),
            deployments: Arc::clone(&self.deployments),
        }));
        registry.register_collector(Box::new(PreservationCollector {
            machines: Arc::clone(&self.machines),
            sets: Arc::clone(&self.sets),
            deployments: Arc::clone(&self.deployments),
        }));
        registry.register_collector(Box::new(DamageCollector(Arc::clone(&self.damaged))));
        registry.register_collector(Box::new(self.health_checks.clone()));
        registry.register_collector(Box::new(LeaderCollector(self.readiness.clone())));
    }
}

impl Metrics {
    /// A registry with all metrics at their initial values.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("mcm");
        let inner = Inner::new();
        inner.preservations.register(&mut registry);
        inner.register_safety(&mut registry);
        inner.register_requests(&mut registry);
        inner.register_durations(&mut registry);
        inner.register_collectors(&mut registry);
        *inner.registry.lock() = registry;
        Self(Arc::new(inner))
    }

    /// The metrics in text form.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let registry = self.0.registry.lock();
        if prometheus_client::encoding::text::encode(&mut text, &registry).is_err() {
            tracing::error!("the metrics cannot be encoded");
        }
        text
    }

    /// The metrics of health checks.
    pub(crate) fn health_checks(&self) -> &HealthChecks {
        &self.0.health_checks
    }

    /// The activity of the process.
    pub fn readiness(&self) -> &Readiness {
        &self.0.readiness
    }

    /// Exports metrics of these machines from now on.
    pub(crate) fn show(&self, machines: Cache<Machine>) {
        if self.0.machines.set(machines).is_err() {
            tracing::warn!("a second controller shares these metrics: its machines are not exported");
        }
    }

    /// Exports metrics of these sets and deployments from now on.
    pub(crate) fn show_owners(&self, sets: Cache<MachineSet>, deployments: Cache<MachineDeployment>) {
        if self.0.sets.set(sets).is_err() || self.0.deployments.set(deployments).is_err() {
            tracing::warn!("a second controller shares these metrics: its sets and deployments are not exported");
        }
    }

    /// Exports the number of damaged objects of each kind from now on.
    pub(crate) fn show_damage(&self, count: impl Fn() -> Vec<(&'static str, usize)> + Send + Sync + 'static) {
        if self.0.damaged.set(Box::new(count)).is_err() {
            tracing::warn!("a second controller shares these metrics: its damaged objects are not exported");
        }
    }

    /// A renewal of the Lease began `late`.
    pub(crate) fn observe_renewal(&self, late: Duration) {
        self.0.late_renewals.observe(late.as_secs_f64());
    }

    /// A health check took this long to find and evaluate its machines, without reads from API servers.
    pub(crate) fn observe_health_evaluation(&self, took: Duration) {
        self.0.health_evaluations.observe(took.as_secs_f64());
    }

    /// Counts machines that a set deleted because their nodes were unhealthy for too long.
    pub(crate) fn count_stale(&self, machines: usize) {
        self.0.stale.inc_by(u64::try_from(machines).unwrap_or_default());
    }

    pub(crate) fn set_frozen(&self, frozen: bool) {
        self.0.frozen.set(i64::from(frozen));
    }

    /// Counts a VM that looked like an orphan: `collected`, `refused` or `failed`.
    pub(crate) fn count_orphan(&self, outcome: &'static str) {
        self.0.orphans.get_or_create(&OrphanLabels { outcome }).inc();
    }

    /// Sets the number of VMs that look like orphans.
    pub(crate) fn set_orphan_candidates(&self, vms: usize) {
        self.0.orphan_candidates.set(i64::try_from(vms).unwrap_or(i64::MAX));
    }

    pub(crate) fn count_request(&self, cluster: &'static str, method: &str, code: u16) {
        self.0
            .requests
            .get_or_create(&RequestLabels {
                cluster,
                method: method.to_owned(),
                code,
            })
            .inc();
    }

    pub(crate) fn observe_call(&self, provider: &str, operation: &'static str, took: Duration, failure: Option<Code>) {
        let provider = provider.to_owned();
        let call = ServiceLabels {
            provider: provider.clone(),
            service: operation,
        };
        self.0.driver_calls.get_or_create(&call).inc();
        let took = took.as_secs_f64();
        self.0.driver_call_seconds.get_or_create(&call).observe(took);
        if let Some(code) = failure {
            self.0.driver_errors.get_or_create(&call).inc();
            let labels = FailureLabels {
                provider: provider.clone(),
                operation,
                error_code: code.name(),
            };
            self.0.driver_failures.get_or_create(&labels).inc();
        }
        self.0
            .driver_seconds
            .get_or_create(&OperationLabels { provider, operation })
            .observe(took);
    }

    pub(crate) fn observe(&self, metric: &Metric, machine: &Machine, class: Option<&MachineClass>) {
        let labels = VmLabels::of(machine, class);
        let (family, duration) = match metric {
            Metric::CreateDuration(duration) => (&self.0.durations.create, duration),
            Metric::InitializeDuration(duration) => (&self.0.durations.initialize, duration),
            Metric::JoinDuration(duration) => (&self.0.durations.join, duration),
            Metric::DeleteDuration(duration) => (&self.0.durations.delete, duration),
            Metric::DrainDuration(duration) => {
                let drain = self.0.drain_duration.get_or_create(&labels.pool());
                drain.set(duration.as_secs_f64().round());
                return;
            }
            Metric::FailedJoin => {
                self.0.failed_joins.get_or_create(&labels).inc();
                return;
            }
            Metric::PreservationStarted(by) => return self.0.preservations.started(labels.pool(), by),
            Metric::PreservationEnded(why) => return self.0.preservations.ended(labels.pool(), *why),
            Metric::PreservationRefused(why) => return self.0.preservations.refused(labels.pool(), *why),
        };
        family.get_or_create(&labels).set(duration.as_secs_f64().round());
    }
}

/// Exports whether this process leads at the time of the scrape.
#[derive(Debug)]
struct LeaderCollector(Readiness);

impl Collector for LeaderCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let gauge = ConstGauge::new(i64::from(self.0.get().is_leading()));
        gauge.encode(encoder.encode_descriptor(
            "leader",
            "1 while this process holds the Lease, or needs none",
            None,
            gauge.metric_type(),
        )?)
    }
}

/// Exports metrics of the machines that exist at the time of the scrape; those of deleted machines disappear.
struct MachineCollector(Arc<OnceLock<Cache<Machine>>>);

impl fmt::Debug for MachineCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MachineCollector")
    }
}

impl Collector for MachineCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let machines = self.0.get().map(Cache::all).unwrap_or_default();
        let count = ConstGauge::new(i64::try_from(machines.len()).unwrap_or(i64::MAX));
        count.encode(encoder.encode_descriptor(
            "machine_items_total",
            "Machines in the namespace",
            None,
            count.metric_type(),
        )?)?;

        let mut phases = encoder.encode_descriptor(
            "machine_current_status_phase",
            "Failed and preserved -5, Terminating -4, Failed -3, CrashLoopBackOff -2, Unknown -1, Pending 0, Running 1, others 0",
            None,
            MetricType::Gauge,
        )?;
        for machine in &machines {
            let gauge = ConstGauge::new(phase_number(&machine.status));
            gauge.encode(phases.encode_family(&identity(machine))?)?;
        }
        let mut info = encoder.encode_descriptor("machine_info", "Always 1", None, MetricType::Gauge)?;
        for machine in &machines {
            ConstGauge::new(1i64).encode(info.encode_family(&info_labels(machine))?)?;
        }
        let mut conditions = encoder.encode_descriptor(
            "machine_status_condition",
            "Conditions of the machine's node: True 1, False 0, Unknown 2",
            None,
            MetricType::Gauge,
        )?;
        for machine in &machines {
            for condition in &machine.status.conditions {
                let mut labels = identity(machine).to_vec();
                labels.push(("condition", condition.type_.clone()));
                let gauge = ConstGauge::new(condition_number(&condition.status));
                gauge.encode(conditions.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn identity(machine: &Machine) -> [(&'static str, String); 2] {
    [
        ("name", machine.metadata.name.clone().unwrap_or_default()),
        ("namespace", machine.metadata.namespace.clone().unwrap_or_default()),
    ]
}

fn info_labels(machine: &Machine) -> Vec<(&'static str, String)> {
    let created = machine
        .metadata
        .creation_timestamp
        .as_ref()
        .map(|time| time.0.as_second().to_string());
    let node = machine
        .metadata
        .labels
        .as_ref()
        .and_then(|labels| labels.get(mcm_api::keys::NODE_LABEL));
    let class = &machine.spec.class;
    let mut labels = identity(machine).to_vec();
    labels.extend([
        ("createdAt", created.unwrap_or_default()),
        ("spec_provider_id", machine.spec.provider_id.clone()),
        ("spec_class_api_group", class.api_group.clone()),
        ("spec_class_kind", class.kind.clone()),
        ("spec_class_name", class.name.clone()),
        ("node_name", node.cloned().unwrap_or_default()),
    ]);
    labels
}

/// A failed machine that is preserved has a number of its own, so that alerts about failed machines ignore it.
fn phase_number(status: &MachineStatus) -> i64 {
    if status.is_kept_failed() {
        return -5;
    }
    match status.current_status.base() {
        Some(Phase::Terminating) => -4,
        Some(Phase::Failed) => -3,
        Some(Phase::CrashLoopBackOff) => -2,
        Some(Phase::Unknown) => -1,
        Some(Phase::Pending) => 0,
        Some(Phase::Running) => 1,
        _ => 0,
    }
}

fn condition_number(status: &str) -> i64 {
    match status {
        "True" => 1,
        "False" => 0,
        _ => 2,
    }
}

#[cfg(test)]
mod alerts;
#[cfg(test)]
mod grafana;
#[cfg(test)]
mod tests;
