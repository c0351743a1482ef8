//! Metrics of preserved machines, computed at each scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

use mcm_api::{Machine, MachineDeployment, MachineSet, Phase, PreservationStage, keys};
use mcm_core::ownership::controller;
use mcm_core::preservation::OwnersList;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::cache::Cache;

type Labels = Vec<(&'static str, String)>;

/// The caches, once they exist.
pub(super) struct PreservationCollector {
    pub(super) machines: Arc<OnceLock<Cache<Machine>>>,
    pub(super) sets: Arc<OnceLock<Cache<MachineSet>>>,
    pub(super) deployments: Arc<OnceLock<Cache<MachineDeployment>>>,
}

impl fmt::Debug for PreservationCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PreservationCollector")
    }
}

impl Collector for PreservationCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let machines = self.machines.get().map(Cache::all).unwrap_or_default();
        let preserved = machines.iter().filter(|machine| machine.status.is_preserved());
        let mut counts: BTreeMap<[String; 4], i64> = BTreeMap::new();
        let mut expiries: BTreeMap<[String; 2], i64> = BTreeMap::new();
        for machine in preserved {
            let [namespace, deployment] = pool(machine);
            let (phase, requester) = (phase(machine).to_owned(), requester(machine).to_owned());
            *counts
                .entry([namespace.clone(), deployment.clone(), phase, requester])
                .or_default() += 1;
            if let Some(expiry) = &machine.status.current_status.preserve_expiry_time {
                let expiry = expiry.0.as_second();
                let next = expiries.entry([namespace, deployment]).or_insert(expiry);
                *next = expiry.min(*next);
            }
        }
        let names = ["namespace", "machine_deployment", "phase", "requester"];
        gauges(
            &mut encoder,
            "preserved_machines",
            "Preserved machines by phase (Draining, Failed:Preserved, Running:Preserved) and requester",
            counts
                .into_iter()
                .map(|(labels, count)| (names.into_iter().zip(labels).collect(), count)),
        )?;
        gauges(
            &mut encoder,
            "preservation_next_expiry_timestamp_seconds",
            "When the next preservation of the deployment ends",
            expiries
                .into_iter()
                .map(|(labels, expiry)| (names.into_iter().zip(labels).collect(), expiry)),
        )?;
        self.places(&mut encoder)
    }
}

impl PreservationCollector {
    /// The places for failed machines of each deployment, and of each set without one.
    fn places(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let deployments = self.deployments.get().map(Cache::all).unwrap_or_default();
        let sets = self.sets.get().map(Cache::all).unwrap_or_default();
        let alone = sets.iter().filter(|set| controller(&set.metadata).is_none());
        let owners: Vec<(Labels, i64, i64)> = deployments
            .iter()
            .map(|one| {
                (
                    &one.metadata,
                    "MachineDeployment",
                    one.status.preservations.len(),
                    OwnersList::Deployment(one).maximum(),
                )
            })
            .chain(alone.map(|set| {
                (
                    &set.metadata,
                    "MachineSet",
                    set.status.preservations.len(),
                    OwnersList::Set(set).maximum(),
                )
            }))
            .map(|(metadata, kind, used, maximum)| {
                let labels = vec![
                    ("kind", kind.to_owned()),
                    ("name", metadata.name.clone().unwrap_or_default()),
                    ("namespace", metadata.namespace.clone().unwrap_or_default()),
                ];
                let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
                (labels, number(used), number(maximum))
            })
            .collect();
        gauges(
            encoder,
            "preservation_places_used",
            "Failed machines that are preserved, also those that users requested",
            owners.iter().map(|(labels, used, _)| (labels.clone(), *used)),
        )?;
        gauges(
            encoder,
            "preservation_places_maximum",
            "autoPreserveFailedMax: so many failed machines are preserved without a request",
            owners.into_iter().map(|(labels, _, maximum)| (labels, maximum)),
        )
    }
}

/// Namespace and deployment; the latter is empty for machines without one.
fn pool(machine: &Machine) -> [String; 2] {
    let labels = machine.metadata.labels.as_ref();
    let deployment = labels.and_then(|labels| labels.get(keys::DEPLOYMENT_LABEL));
    [
        machine.metadata.namespace.clone().unwrap_or_default(),
        deployment.cloned().unwrap_or_default(),
    ]
}

fn phase(machine: &Machine) -> &'static str {
    let record = machine.status.preservation.as_ref();
    if record.is_some_and(|record| record.stage == PreservationStage::Draining) {
        return "Draining";
    }
    match machine.status.current_status.base() {
        Some(Phase::Failed) => "Failed:Preserved",
        _ => "Running:Preserved",
    }
}

/// Who requested the preservation: `auto`, `machine` or `node`.
fn requester(machine: &Machine) -> &str {
    let record = machine.status.preservation.as_ref();
    record.map_or("machine", |record| record.by.as_str())
}

fn gauges(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    lines: impl Iterator<Item = (Labels, i64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in lines {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
