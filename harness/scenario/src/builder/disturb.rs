//! Builder functions for disturbances beyond the cloud, for the keeper and for the quiet end.

use apiserver::faults::Rule;
use serde_json::Value;

use crate::duration::DurationExpression;
use crate::expect::{Condition, EventCount, FaultHits};
use crate::keeper::Keeper;
use crate::latency::Latency;
use crate::step::{
    ApiFault, Autoscaler, Client, CreateVm, FailZone, Flap, Keep, LiftApiFault, Patch, Pause, Process, QuietEnd,
    RestoreZone, SlowCreation, Step, Strip, ZoneFailure,
};
use crate::{DuplicateCreates, Scenario};

impl Scenario {
    /// A keeper keeps `replicas` machines named LABEL-1, LABEL-2 and so on; `spec` is added to their class.
    pub fn keeper(mut self, label: &str, replicas: u32, spec: Value) -> Self {
        self.world.keeper = Some(Keeper {
            label: label.to_owned(),
            replicas,
            spec,
        });
        self
    }

    /// A second creation for a machine returns the existing VM: the cloud has idempotency tokens.
    pub fn creates_once(mut self) -> Self {
        self.world.cloud.duplicate_creates = DuplicateCreates::One;
        self
    }

    /// Adds the quiet end; the world may take `settles` to settle.
    pub fn quiet_end(self, settles: impl Into<DurationExpression>) -> Self {
        self.step(Step::QuietEnd(QuietEnd {
            settles: settles.into(),
        }))
    }
}

/// Sets how many machines the keeper keeps.
pub fn keep(replicas: u32) -> Step {
    Step::Keep(Keep { replicas })
}

/// Adds a fault rule to the API server.
pub fn api_fault(rule: Rule) -> Step {
    Step::ApiFault(ApiFault {
        rule,
        by: None,
        may_miss: false,
    })
}

/// Adds a fault rule to the API server that affects one client.
pub fn api_fault_by(client: Client, rule: Rule) -> Step {
    Step::ApiFault(ApiFault {
        rule,
        by: Some(client),
        may_miss: false,
    })
}

/// Removes a fault rule from the API server.
pub fn lift_api_fault(rule: &str) -> Step {
    Step::LiftApiFault(LiftApiFault(rule.to_owned()))
}

/// Pauses the leading mcm.
pub fn pause_leader(time: impl Into<DurationExpression>) -> Step {
    Step::Pause(Pause {
        process: Process::Mcm,
        time: time.into(),
    })
}

/// A zone of the cloud fails.
pub fn fail_zone(zone: &str, failure: ZoneFailure) -> Step {
    Step::FailZone(FailZone {
        zone: zone.to_owned(),
        failure,
        error_percent: None,
        latency: None,
    })
}

/// Half of the calls for a zone of the cloud fail, and replies to the others take that long.
pub fn brown_out(zone: &str, latency: impl Into<Latency>) -> Step {
    Step::FailZone(FailZone {
        zone: zone.to_owned(),
        failure: ZoneFailure::BrownOut,
        error_percent: None,
        latency: Some(latency.into()),
    })
}

/// Restores a zone of the cloud.
pub fn restore_zone(zone: &str) -> Step {
    Step::RestoreZone(RestoreZone(zone.to_owned()))
}

/// A user creates a VM by hand, with or without this cluster's tags.
pub fn create_vm(machine: &str, tagged: bool) -> Step {
    Step::CreateVm(CreateVm {
        machine: machine.to_owned(),
        tagged,
    })
}

/// The next creation of a machine's VM takes effect later, even if the client has given up.
pub fn slow_creation(name: &str, machine: &str, by: impl Into<DurationExpression>) -> Step {
    Step::SlowCreation(SlowCreation {
        name: name.to_owned(),
        machine: machine.to_owned(),
        by: by.into(),
        may_miss: false,
    })
}

/// An agent writes a condition of a machine's node with alternating values.
pub fn flap(
    machine: &str,
    condition: &str,
    values: [&str; 2],
    every: impl Into<DurationExpression>,
    lasts: impl Into<DurationExpression>,
) -> Step {
    Step::Flap(Flap {
        machine: machine.to_owned(),
        condition: condition.to_owned(),
        values: values.map(str::to_owned),
        every: every.into(),
        lasts: lasts.into(),
        may_miss: false,
    })
}

/// A label is removed from each new machine for some time.
pub fn strip(label: &str, value: &str, lasts: impl Into<DurationExpression>) -> Step {
    Step::Strip(Strip {
        label: label.to_owned(),
        value: value.to_owned(),
        lasts: lasts.into(),
        may_miss: false,
    })
}

/// cluster-autoscaler removes nodes of a deployment that were empty for `idle`.
pub fn scale_down_empty(
    deployment: &str,
    idle: impl Into<DurationExpression>,
    lasts: impl Into<DurationExpression>,
) -> Step {
    Step::Autoscaler(Autoscaler {
        deployment: deployment.to_owned(),
        idle: idle.into(),
        lasts: lasts.into(),
        may_miss: false,
    })
}

/// Merges into an object's spec.
pub fn patch_spec(kind: &str, name: &str, merge: Value) -> Step {
    Step::Patch(Patch {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
        merge: serde_json::json!({ "spec": merge }),
        status: false,
    })
}

/// At least `at_least` Events of a reason about an object.
pub fn event_count(kind: &str, name: &str, reason: &str, at_least: usize) -> Condition {
    Condition::EventCount(EventCount {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        reason: reason.to_owned(),
        at_least: Some(at_least),
        at_most: None,
    })
}

/// At least `at_least` hits of a fault rule.
pub fn fault_hits(fault: &str, at_least: u64) -> Condition {
    Condition::FaultHits(FaultHits {
        fault: fault.to_owned(),
        at_least,
    })
}
