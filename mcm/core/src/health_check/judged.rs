//! A machine during a pass: its health, its remediation so far, and what the pass decides about it.

use jiff::Timestamp;
use mcm_api::keys;

use super::evaluate::Health;
use super::outcome::State;
use super::requests::{MachineRequests, Step};
use super::view::Target;
use crate::ownership::controller;
use crate::remediation::CANNOT_BE_REMEDIATED;

pub(super) const WITH_OWNER: &str = "its owner replaces it";

/// A machine with what the pass decided about it.
pub(super) struct Judged<'a> {
    pub target: &'a Target,
    pub health: Health,
    pub machine_requests: MachineRequests<'a>,
    /// Whether its replacement by the owner is requested.
    pub with_owner: bool,
    /// When the check acts or decides again.
    pub next: Option<Timestamp>,
    /// What happens, for the status.
    pub text: String,
    /// What becomes of its requests.
    pub step: Step,
    /// Whether this pass requests it.
    pub asks_owner: bool,
}

impl Judged<'_> {
    pub fn is_in_remediation(&self) -> bool {
        self.with_owner || self.machine_requests.is_any()
    }

    /// Whether it takes one of the places of `maxInFlight`. A machine whose remediation cannot continue now would keep the
    /// others from theirs: it is preserved, it has no owner, or a rollout replaces it.
    pub fn takes_place(&self) -> bool {
        let machine = &*self.target.machine;
        let cannot = || {
            let condition = machine.status.condition(keys::OWNER_REMEDIATED);
            condition.is_some_and(|condition| condition.reason.as_deref() == Some(CANNOT_BE_REMEDIATED))
        };
        let is_left = self.with_owner && (controller(&machine.metadata).is_none() || cannot());
        let waits = machine.status.is_kept() || is_left;
        self.is_in_remediation() && !(waits && self.machine_requests.own.is_empty())
    }

    /// Whether it counts as healthy: a machine that is being remediated may have a node that looks healthy.
    pub fn counts_as_healthy(&self) -> bool {
        let in_remediation = self.is_in_remediation();
        self.health == Health::Healthy && !in_remediation || in_remediation && defect!(RemediatedCountAsHealthy)
    }

    /// Requests cannot be read: the record is the only trace of one that may exist.
    pub fn keep_record(&mut self) {
        self.step.entry.clone_from(&self.machine_requests.entry);
        self.step.waits = true;
        self.text = "requests cannot be read".to_owned();
    }

    pub fn is_unhealthy(&self) -> bool {
        matches!(self.health, Health::Unhealthy { .. })
    }

    pub fn state(&self) -> State {
        match &self.health {
            _ if self.is_in_remediation() => State::InRemediation,
            Health::Healthy => State::Healthy,
            Health::Pending { .. } => State::Pending,
            Health::Unhealthy { .. } => State::Unhealthy,
            Health::NotCounted => State::NotCounted,
        }
    }
}

impl Judged<'_> {
    /// Requests that the owner replaces the machine, unless that is requested already.
    pub fn ask_owner(&mut self, may_begin: bool) {
        let deleting = self.target.machine.metadata.deletion_timestamp.is_some();
        if self.with_owner {
            let condition = self.target.machine.status.condition(keys::OWNER_REMEDIATED);
            let summary = condition
                .and_then(|condition| condition.message.clone())
                .unwrap_or_default();
            self.text = if summary.is_empty() {
                WITH_OWNER.to_owned()
            } else {
                summary
            };
            return;
        }
        self.asks_owner = may_begin && (!deleting || defect!(DyingMachinesAreMarked));
        if self.asks_owner {
            self.text = WITH_OWNER.to_owned();
        }
    }
}
