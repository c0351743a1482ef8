//! Counters of preservations that started, ended and were refused since the process started.

use mcm_api::PreservedBy;
use mcm_core::preservation::{Refusal, Release};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

use super::PoolLabels;

/// By namespace and deployment, and by requester or reason.
#[derive(Default)]
pub(super) struct PreservationCounters {
    started: Family<StartLabels, Counter>,
    ended: Family<ReasonLabels, Counter>,
    refused: Family<ReasonLabels, Counter>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StartLabels {
    #[prometheus(flatten)]
    pool: PoolLabels,
    requester: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabels {
    #[prometheus(flatten)]
    pool: PoolLabels,
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

    pub(super) fn started(&self, pool: PoolLabels, by: &PreservedBy) {
        let requester = by.as_str().to_owned();
        self.started.get_or_create(&StartLabels { pool, requester }).inc();
    }

    pub(super) fn ended(&self, pool: PoolLabels, why: Release) {
        let reason = why.reason();
        self.ended.get_or_create(&ReasonLabels { pool, reason }).inc();
    }

    pub(super) fn refused(&self, pool: PoolLabels, why: Refusal) {
        let reason = why.reason();
        self.refused.get_or_create(&ReasonLabels { pool, reason }).inc();
    }
}
