//! Metrics of the sets and deployments that exist at the time of the scrape; those of deleted objects disappear.
//!
//! Names and labels are upstream's.

use std::fmt;
use std::sync::{Arc, OnceLock};

use mcm_api::set::MachineSummary;
use mcm_api::{MachineDeployment, MachineSet};
use mcm_core::deployment::{Bounds, ROLLING_UPDATE};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use super::condition_number;
use crate::cache::Cache;

/// Exports metrics from the caches of sets and deployments, once they are set.
pub(super) struct OwnerCollector {
    pub(super) sets: Arc<OnceLock<Cache<MachineSet>>>,
    pub(super) deployments: Arc<OnceLock<Cache<MachineDeployment>>>,
}

impl fmt::Debug for OwnerCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OwnerCollector")
    }
}

type Labels = Vec<(&'static str, String)>;
/// One sample: labels and value.
type Line = (Labels, i64);

impl Collector for OwnerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let sets = self.sets.get().map(Cache::all).unwrap_or_default();
        total(
            &mut encoder,
            "machine_set_items_total",
            "MachineSets in the namespace",
            sets.len(),
        )?;
        for (name, help, of) in SETS {
            gauge(&mut encoder, name, help, sets.iter().flat_map(|set| of(set)))?;
        }
        let deployments = self.deployments.get().map(Cache::all).unwrap_or_default();
        let name = "machine_deployment_items_total";
        total(
            &mut encoder,
            name,
            "MachineDeployments in the namespace",
            deployments.len(),
        )?;
        for (name, help, of) in DEPLOYMENTS {
            gauge(&mut encoder, name, help, deployments.iter().flat_map(|one| of(one)))?;
        }
        Ok(())
    }
}

/// A metric's name, its help text, and its samples for one object.
type Row<K> = (&'static str, &'static str, fn(&K) -> Vec<Line>);

const SETS: [Row<MachineSet>; 9] = [
    ("machine_set_info", "Always 1", |set| {
        let class = &set.spec.machine_class;
        let more = [
            ("createdAt", created(&set.metadata)),
            ("spec_machine_class_api_group", class.api_group.clone()),
            ("spec_machine_class_kind", class.kind.clone()),
            ("spec_machine_class_name", class.name.clone()),
        ];
        vec![(identity(&set.metadata).chain(more).collect(), 1)]
    }),
    ("machine_set_info_spec_replicas", "Wanted machines", |set| {
        one(&set.metadata, set.spec.replicas)
    }),
    (
        "machine_set_info_spec_min_ready_seconds",
        "Seconds that a machine must be ready to count as available",
        |set| one(&set.metadata, set.spec.min_ready_seconds),
    ),
    ("machine_set_status_condition", CONDITIONS, |set| {
        let conditions = set.status.conditions.iter();
        conditions
            .map(|condition| condition_line(&set.metadata, &condition.type_, &condition.status))
            .collect()
    }),
    ("machine_set_failed_machines", FAILED, |set| {
        failed(&set.metadata, set.status.failed_machines.as_deref())
    }),
    ("machine_set_status_available_replicas", AVAILABLE, |set| {
        one(&set.metadata, set.status.available_replicas)
    }),
    (
        "machine_set_status_fully_labelled_replicas",
        "Machines with all labels of the template",
        |set| one(&set.metadata, set.status.fully_labeled_replicas),
    ),
    ("machine_set_status_ready_replicas", READY, |set| {
        one(&set.metadata, set.status.ready_replicas)
    }),
    ("machine_set_status_replicas", EXISTING, |set| {
        one(&set.metadata, set.status.replicas)
    }),
];

const DEPLOYMENTS: [Row<MachineDeployment>; 17] = [
    ("machine_deployment_info", "Always 1", |deployment| {
        let more = [
            ("createdAt", created(&deployment.metadata)),
            ("spec_strategy_type", deployment.spec.strategy.type_.clone()),
        ];
        vec![(identity(&deployment.metadata).chain(more).collect(), 1)]
    }),
    (
        "machine_deployment_info_spec_paused",
        "1 while the deployment is paused",
        |given| one(&given.metadata, i32::from(given.spec.paused)),
    ),
    ("machine_deployment_info_spec_replicas", "Wanted machines", |given| {
        one(&given.metadata, given.spec.replicas)
    }),
    (
        "machine_deployment_info_spec_min_ready_seconds",
        "Seconds that a machine must be ready to count as available",
        |given| one(&given.metadata, given.spec.min_ready_seconds),
    ),
    (
        "machine_deployment_info_spec_rolling_update_max_surge",
        "Machines that a rolling update may create beyond the replicas; a percentage is converted to machines",
        |given| bound(given, |bounds| bounds.surge),
    ),
    (
        "machine_deployment_info_spec_rolling_update_max_unavailable",
        "Machines that may be unavailable during a rolling update; a percentage is converted to machines",
        |given| bound(given, |bounds| bounds.unavailable),
    ),
    (
        "machine_deployment_info_spec_revision_history_limit",
        "Old sets that are kept",
        |given| maybe(&given.metadata, given.spec.revision_history_limit.map(i64::from)),
    ),
    (
        "machine_deployment_info_spec_progress_deadline_seconds",
        "Seconds without progress until a rollout is late",
        |given| maybe(&given.metadata, given.spec.progress_deadline_seconds.map(i64::from)),
    ),
    (
        "machine_deployment_info_spec_rollback_to_revision",
        "The revision to roll back to; 0: the previous one",
        |given| {
            let revision = given.spec.rollback_to.as_ref().map(|rollback| rollback.revision);
            maybe(&given.metadata, revision)
        },
    ),
    ("machine_deployment_status_condition", CONDITIONS, |given| {
        let conditions = given.status.conditions.iter();
        conditions
            .map(|condition| condition_line(&given.metadata, &condition.type_, &condition.status))
            .collect()
    }),
    ("machine_deployment_status_available_replicas", AVAILABLE, |given| {
        one(&given.metadata, given.status.available_replicas)
    }),
    (
        "machine_deployment_status_unavailable_replicas",
        "Wanted machines that are not available",
        |given| one(&given.metadata, given.status.unavailable_replicas),
    ),
    ("machine_deployment_status_ready_replicas", READY, |given| {
        one(&given.metadata, given.status.ready_replicas)
    }),
    (
        "machine_deployment_status_updated_replicas",
        "Machines of the newest template",
        |given| one(&given.metadata, given.status.updated_replicas),
    ),
    ("machine_deployment_status_replicas", EXISTING, |given| {
        one(&given.metadata, given.status.replicas)
    }),
    (
        "machine_deployment_status_collision_count",
        "Collisions of names of sets",
        |given| maybe(&given.metadata, given.status.collision_count.map(i64::from)),
    ),
    ("machine_deployment_failed_machines", FAILED, |given| {
        failed(&given.metadata, given.status.failed_machines.as_deref())
    }),
];

const AVAILABLE: &str = "Machines that have been ready for long enough";
const CONDITIONS: &str = "Conditions: True 1, False 0, Unknown 2";
const FAILED: &str = "Always 1: a machine that failed";
const READY: &str = "Machines in phase Running";
const EXISTING: &str = "Machines, including those that are being deleted";

type Metadata = k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

fn identity(metadata: &Metadata) -> impl Iterator<Item = (&'static str, String)> {
    [
        ("name", metadata.name.clone().unwrap_or_default()),
        ("namespace", metadata.namespace.clone().unwrap_or_default()),
    ]
    .into_iter()
}

fn created(metadata: &Metadata) -> String {
    let time = metadata.creation_timestamp.as_ref();
    time.map(|time| time.0.as_second().to_string()).unwrap_or_default()
}

fn one(metadata: &Metadata, value: i32) -> Vec<Line> {
    maybe(metadata, Some(i64::from(value)))
}

fn maybe(metadata: &Metadata, value: Option<i64>) -> Vec<Line> {
    value
        .map(|value| (identity(metadata).collect(), value))
        .into_iter()
        .collect()
}

fn bound(deployment: &MachineDeployment, of: fn(&Bounds) -> i64) -> Vec<Line> {
    let rolling = deployment.spec.strategy.type_ == ROLLING_UPDATE;
    let value = rolling.then(|| of(&Bounds::of(&deployment.spec)));
    maybe(&deployment.metadata, value)
}

fn condition_line(metadata: &Metadata, type_: &str, status: &str) -> Line {
    let labels = identity(metadata).chain([("condition", type_.to_owned())]);
    (labels.collect(), condition_number(status))
}

fn failed(metadata: &Metadata, machines: Option<&[MachineSummary]>) -> Vec<Line> {
    let machines = machines.unwrap_or_default().iter();
    machines
        .map(|machine| {
            let last = machine.last_operation.as_ref();
            let state = last.and_then(|last| last.state.as_ref()).map(ToString::to_string);
            let operation = last.and_then(|last| last.operation.as_ref()).map(ToString::to_string);
            let more = [
                ("failed_machine_name", machine.name.clone()),
                ("failed_machine_provider_id", machine.provider_id.clone()),
                ("failed_machine_owner_ref", machine.owner_ref.clone()),
                ("failed_machine_last_operation_state", state.unwrap_or_default()),
                (
                    "failed_machine_last_operation_machine_operation_type",
                    operation.unwrap_or_default(),
                ),
            ];
            (identity(metadata).chain(more).collect(), 1)
        })
        .collect()
}

fn total(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, count: usize) -> fmt::Result {
    let gauge = ConstGauge::new(i64::try_from(count).unwrap_or(i64::MAX));
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    lines: impl Iterator<Item = Line>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in lines {
        ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
