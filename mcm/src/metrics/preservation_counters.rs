//! Counters of preservations that started, ended and were refused since the process started.

use mcm_api::{Machine, PreservedBy};
use mcm_core::preservation::{Refusal, Release};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::preservation::pool;

/// By namespace and deployment, and by requester or reason.
#[derive(Default)]
pub(super) struct PreservationCounters {
    started: Family<StartLabels, Counter>,
    ended: Family<ReasonLabels, Counter>,
    refused: Family<ReasonLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StartLabels {
    namespace: String,
    machine_deployment: String,
    requester: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    namespace: String,
    machine_deployment: String,
    reason: &'static str,
}

impl PreservationCounters {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register(
            "preservations_started",
            "Preservations that started, by requester: auto, machine or node",
            self.started.clone(),
        );
        registry.register(
            "preservations_ended",
            "Preservations that ended, by reason, for example Expired or Refused",
            self.ended.clone(),
        );
        registry.register(
            "preservations_refused",
            "Failed machines that are not preserved although that is requested, by reason: RollingOut or MaximumReached",
            self.refused.clone(),
        );
    }

    pub(super) fn started(&self, machine: &Machine, by: &PreservedBy) {
        let [namespace, machine_deployment] = pool(machine);
        let requester = by.as_str().to_owned();
        let labels = StartLabels {
            namespace,
            machine_deployment,
            requester,
        };
        self.started.get_or_create(&labels).inc();
    }

    pub(super) fn ended(&self, machine: &Machine, why: Release) {
        self.ended.get_or_create(&reason_labels(machine, why.reason())).inc();
    }

    pub(super) fn refused(&self, machine: &Machine, why: Refusal) {
        self.refused.get_or_create(&reason_labels(machine, why.reason())).inc();
    }
}

fn reason_labels(machine: &Machine, reason: &'static str) -> ReasonLabels {
    let [namespace, machine_deployment] = pool(machine);
    ReasonLabels {
        namespace,
        machine_deployment,
        reason,
    }
}
