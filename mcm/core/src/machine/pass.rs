//! The context of all rules: view, settings and time; and helpers that change a status.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::machine::LastOperation;
use mcm_api::{Machine, MachineStatus, NodeName, Operation, Phase, State, keys};

use super::last_step::LastStep;
use super::similar::similar;
use super::{Action, Answer, Plan, Reason, Settings, View};
use crate::event::EventType;

/// The context of one decision.
pub(super) struct Pass<'a> {
    pub view: &'a View,
    pub settings: &'a Settings,
    pub now: Timestamp,
    last_step: Option<LastStep>,
    node_name: Option<NodeName>,
}

impl<'a> Pass<'a> {
    pub fn new(view: &'a View, settings: &'a Settings, now: Timestamp) -> Self {
        Self {
            view,
            settings,
            now,
            last_step: last_step(&view.machine),
            node_name: node_name(&view.machine),
        }
    }

    pub fn machine(&self) -> &'a Machine {
        &self.view.machine
    }

    pub fn name(&self) -> &'a str {
        self.machine().metadata.name.as_deref().unwrap_or_default()
    }

    pub fn phase(&self) -> Option<&'a Phase> {
        self.machine().status.current_status.phase.as_ref()
    }

    /// See [`MachineStatus::is_being_created`].
    pub fn is_being_created(&self) -> bool {
        self.machine().status.is_being_created()
    }

    /// The value of the label `node`; `None`: absent or empty.
    pub fn node_name(&self) -> Option<&NodeName> {
        self.node_name.as_ref()
    }

    pub fn last_answer(&self) -> Option<&'a Answer> {
        self.view.answers.last()
    }

    pub fn last_step(&self) -> Option<&LastStep> {
        self.last_step.as_ref()
    }

    /// The time since the object was created.
    pub fn age(&self) -> Duration {
        self.since(self.machine().metadata.creation_timestamp.as_ref())
    }

    /// The time since `time`; zero if that is absent or in the future.
    pub fn since(&self, time: Option<&Time>) -> Duration {
        time.map_or(Duration::ZERO, |time| {
            Duration::try_from(self.now.duration_since(time.0)).unwrap_or_default()
        })
    }

    /// How long ago the call of `step` last failed. A similar repeated failure is not written to the status.
    pub fn since_failure(&self, step: &LastStep) -> Duration {
        let written = self.since(step.at.as_ref());
        let again = self.view.call_failed.map(|at| self.since(Some(&Time(at))));
        again.map_or(written, |again| again.min(written))
    }

    /// The current time in whole seconds, as it is written.
    pub fn stamp(&self) -> Time {
        Time(Timestamp::from_second(self.now.as_second()).unwrap_or(self.now))
    }

    /// The machine's status with another last operation.
    pub fn operation(&self, operation: Operation, state: State, description: impl Into<String>) -> MachineStatus {
        let last_operation = LastOperation {
            description: description.into(),
            error_code: String::new(),
            last_update_time: Some(self.stamp()),
            state: Some(state),
            operation: Some(operation),
        };
        MachineStatus {
            last_operation: Some(last_operation),
            ..self.machine().status.clone()
        }
    }

    /// `status` in `phase`; a phase that changes starts now.
    pub fn enter(&self, mut status: MachineStatus, phase: Phase, timeout_active: bool) -> MachineStatus {
        let current = &mut status.current_status;
        if current.phase.as_ref() != Some(&phase) {
            current.phase = Some(phase);
            current.last_update_time = Some(self.stamp());
        }
        current.timeout_active = timeout_active;
        status
    }

    /// `plan` with that status, unless the machine's status is similar.
    pub fn write(&self, plan: Plan, status: MachineStatus) -> Plan {
        let same = similar(&self.machine().status, &status, self.now) && !defect!(StatusWrittenEveryPass);
        Plan {
            status: (!same).then_some(status),
            ..plan
        }
    }

    /// As [`Self::write`], with an event whenever the status is written.
    pub fn report(&self, plan: Plan, status: MachineStatus, type_: EventType, reason: &str, message: String) -> Plan {
        let plan = self.write(plan, status);
        if plan.status.is_none() {
            return plan;
        }
        plan.act(Action::RecordEvent {
            type_,
            reason: reason.to_owned(),
            message,
        })
    }

    /// The plan of a machine that needs no action.
    pub fn nothing(&self) -> Plan {
        Plan::new(Reason::Nothing).after(self.settings.retry.long)
    }
}

/// The last step that the machine's status shows.
pub(super) fn last_step(machine: &Machine) -> Option<LastStep> {
    machine.status.last_operation.as_ref().map(LastStep::parse)
}

pub(super) fn node_name(machine: &Machine) -> Option<NodeName> {
    let labels = machine.metadata.labels.as_ref()?;
    NodeName::new(labels.get(keys::NODE_LABEL)?.as_str())
}
