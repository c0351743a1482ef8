//! The builder of scenarios in Rust.

mod conditions;
mod disturb;
mod workloads;

use std::time::Duration;

use mcm_api::Code;

pub use self::conditions::*;
pub use self::disturb::*;
pub use self::workloads::*;
use super::duration::{DurationExpression, Named};
use super::expect::{AtMost, Condition, Expectation, ForAtLeast, Temporal};
use super::step::{
    ActAs, Annotate, Answer, Apply, CloudCall, Crash, CrashNext, Deletion, Fault, KubeletAction, KubeletStep, Lift,
    Moment, ObjectReference, Patch, Process, ProcessAction, ProcessStep, Step, VmAction, VmStep, Wait,
};
use super::{HealthChecks, Scenario, Stages, World};
use crate::StageKind;

impl Scenario {
    /// A scenario without steps yet.
    pub fn new(name: &str, about: &str) -> Self {
        Self {
            name: name.to_owned(),
            about: about.to_owned(),
            stages: None,
            tags: Default::default(),
            world: World::default(),
            steps: Vec::new(),
        }
    }

    /// Adds a tag.
    pub fn tag(mut self, tag: &str) -> Self {
        self.tags.insert(tag.to_owned());
        self
    }

    /// Limits it to some stages, with the reason.
    pub fn only_on(mut self, stages: impl IntoIterator<Item = StageKind>, because: &str) -> Self {
        self.stages = Some(Stages {
            only: stages.into_iter().collect(),
            because: because.to_owned(),
        });
        self
    }

    /// A new VM cannot join before it is initialized.
    pub fn require_initialize(mut self) -> Self {
        self.world.cloud.require_initialize = true;
        self
    }

    /// Sets the time from the creation of a VM until it is up.
    pub fn boots_in(mut self, delay: impl Into<DurationExpression>) -> Self {
        self.world.cloud.boot_delay = delay.into();
        self
    }

    /// Sets the number of mcm processes.
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.world.replicas = replicas;
        self
    }

    /// Sets the number of driver processes that register with mcm.
    #[must_use]
    pub fn drivers(mut self, drivers: u32) -> Self {
        self.world.drivers = drivers;
        self
    }

    /// mcm evaluates MachineHealthChecks.
    #[must_use]
    pub fn health_checks(self) -> Self {
        self.with_health_checks(HealthChecks::On)
    }

    /// Where MachineHealthChecks are evaluated.
    #[must_use]
    pub fn with_health_checks(mut self, health_checks: HealthChecks) -> Self {
        self.world.health_checks = health_checks;
        self
    }

    /// The example remediation controller of fakecloud runs.
    #[must_use]
    pub fn remediation(mut self) -> Self {
        self.world.remediation = true;
        self.world.creates.push(ObjectReference {
            api_version: None,
            kind: "FakeCloudRemediation".to_owned(),
            name: "*".to_owned(),
        });
        self
    }

    /// Another mcm serves the same cluster, with its machines in `namespace`.
    pub fn neighbour(mut self, namespace: &str) -> Self {
        self.world.neighbour = Some(namespace.to_owned());
        self
    }

    /// mcm has no target cluster.
    #[must_use]
    pub fn without_target(mut self) -> Self {
        self.world.no_target = true;
        self
    }

    /// Sets the number of nodes without a machine.
    #[must_use]
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.world.nodes = nodes;
        self
    }

    /// Adds a step.
    pub fn step(mut self, step: impl Into<Step>) -> Self {
        self.steps.push(step.into());
        self
    }

    /// Adds steps.
    pub fn steps(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.steps.extend(steps);
        self
    }

    /// Adds an expectation: `that` within a time.
    pub fn eventually(self, within: impl Into<DurationExpression>, that: Condition) -> Self {
        self.expect(that, Temporal::Eventually(within.into()))
    }

    /// Adds an expectation: `that` all the time for a duration.
    pub fn always(self, time: impl Into<DurationExpression>, that: Condition) -> Self {
        self.expect(that, Temporal::Always(time.into()))
    }

    /// Adds an expectation: `that` not at any time within a duration.
    pub fn never(self, time: impl Into<DurationExpression>, that: Condition) -> Self {
        self.expect(that, Temporal::Never(time.into()))
    }

    /// Adds an expectation: `that` continuously for `time`, within `within`.
    pub fn for_at_least(
        self,
        time: impl Into<DurationExpression>,
        within: impl Into<DurationExpression>,
        that: Condition,
    ) -> Self {
        self.expect(
            that,
            Temporal::ForAtLeast(ForAtLeast {
                time: time.into(),
                within: within.into(),
            }),
        )
    }

    /// Adds an expectation: `that` becomes true at most `times` within a duration.
    pub fn at_most(self, times: u64, within: impl Into<DurationExpression>, that: Condition) -> Self {
        self.expect(
            that,
            Temporal::AtMost(AtMost {
                times,
                within: within.into(),
            }),
        )
    }

    /// Adds an expectation: `that` from this step to the end of the scenario.
    pub fn throughout(self, that: Condition) -> Self {
        self.expect(that, Temporal::Throughout).meanwhile()
    }

    fn expect(self, that: Condition, holds: Temporal) -> Self {
        self.step(Step::Expect(Expectation {
            that,
            holds,
            meanwhile: false,
            may_miss: false,
        }))
    }

    /// Lets the last step have no effect, see [`may_miss`].
    #[must_use]
    pub fn may_miss(mut self) -> Self {
        if let Some(step) = self.steps.last_mut() {
            step.let_miss();
        }
        self
    }

    /// Lets the last expectation run during the steps that follow.
    pub fn meanwhile(mut self) -> Self {
        if let Some(Step::Expect(expectation)) = self.steps.last_mut() {
            expectation.meanwhile = true;
        }
        self
    }
}

/// Lets a step have no effect: the run passes even if its fault hits nothing, or its expectation could never fail.
pub fn may_miss(mut step: Step) -> Step {
    step.let_miss();
    step
}

/// See [`Named::HealthTimeout`].
pub fn health_timeout() -> DurationExpression {
    Named::HealthTimeout.into()
}

/// See [`Named::CreationTimeout`].
pub fn creation_timeout() -> DurationExpression {
    Named::CreationTimeout.into()
}

/// See [`Named::DrainTimeout`].
pub fn drain_timeout() -> DurationExpression {
    Named::DrainTimeout.into()
}

/// See [`Named::NodeGrace`].
pub fn node_grace() -> DurationExpression {
    Named::NodeGrace.into()
}

/// See [`Named::BootDelay`].
pub fn boot_delay() -> DurationExpression {
    Named::BootDelay.into()
}

/// See [`Named::ShortRetry`].
pub fn short_retry() -> DurationExpression {
    Named::ShortRetry.into()
}

/// See [`Named::MediumRetry`].
pub fn medium_retry() -> DurationExpression {
    Named::MediumRetry.into()
}

/// See [`Named::LongRetry`].
pub fn long_retry() -> DurationExpression {
    Named::LongRetry.into()
}

/// See [`Named::LeaseDuration`].
pub fn lease_duration() -> DurationExpression {
    Named::LeaseDuration.into()
}

/// See [`Named::PodToleration`].
pub fn pod_toleration() -> DurationExpression {
    Named::PodToleration.into()
}

/// See [`Named::ForcedDetach`].
pub fn forced_detach() -> DurationExpression {
    Named::ForcedDetach.into()
}

/// See [`Named::OrphanPeriod`].
pub fn orphan_period() -> DurationExpression {
    Named::OrphanPeriod.into()
}

/// See [`Named::ApiTimeout`].
pub fn api_timeout() -> DurationExpression {
    Named::ApiTimeout.into()
}

/// See [`Named::PreserveTimeout`].
pub fn preserve_timeout() -> DurationExpression {
    Named::PreserveTimeout.into()
}

/// See [`Named::Slack`].
pub fn slack() -> DurationExpression {
    Named::Slack.into()
}

/// A literal number of seconds.
pub fn seconds(seconds: u64) -> DurationExpression {
    Duration::from_secs(seconds).into()
}

/// Creates a machine of class `class-a`.
pub fn create_machine(name: &str) -> Step {
    Step::Apply(Apply::Machine(name.to_owned()))
}

/// Deletes a machine.
pub fn delete_machine(name: &str) -> Step {
    delete("Machine", name)
}

/// Deletes an object.
pub fn delete(kind: &str, name: &str) -> Step {
    Step::Delete(Deletion {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        answer: Answer::Deleted,
    })
}

/// Deletes a machine that does not exist; the API server must return NotFound.
pub fn delete_unknown_machine(name: &str) -> Step {
    Step::Delete(Deletion {
        api_version: None,
        kind: "Machine".to_owned(),
        name: name.to_owned(),
        answer: Answer::NotFound,
    })
}

/// Tries to delete an object; the API server must forbid it.
pub fn deletion_forbidden(kind: &str, name: &str) -> Step {
    Step::Delete(Deletion {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        answer: Answer::Forbidden,
    })
}

/// Deletes a machine if it exists.
pub fn delete_machine_if_present(name: &str) -> Step {
    Step::Delete(Deletion {
        api_version: None,
        kind: "Machine".to_owned(),
        name: name.to_owned(),
        answer: Answer::DeletedIfThere,
    })
}

/// Sets an annotation.
pub fn annotate(kind: &str, name: &str, key: &str, value: &str) -> Step {
    Step::Annotate(Annotate {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        annotations: [(key.to_owned(), Some(value.to_owned()))].into(),
    })
}

/// A user performs a step with their own rights.
pub fn by(user: &str, step: Step) -> Step {
    Step::As(ActAs {
        user: user.to_owned(),
        step: Box::new(step),
        refused: false,
    })
}

/// A user tries a step, which must be forbidden.
pub fn refused_to(user: &str, step: Step) -> Step {
    Step::As(ActAs {
        user: user.to_owned(),
        step: Box::new(step),
        refused: true,
    })
}

/// Merges into an object's status.
pub fn patch_status(kind: &str, name: &str, merge: serde_json::Value) -> Step {
    Step::Patch(Patch {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: None,
        merge,
        status: true,
    })
}

/// Merges into an object in a namespace.
pub fn patch(kind: &str, name: &str, namespace: &str, merge: serde_json::Value) -> Step {
    Step::Patch(Patch {
        api_version: None,
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: Some(namespace.to_owned()),
        merge,
        status: false,
    })
}

/// Lets time pass.
pub fn wait(time: impl Into<DurationExpression>) -> Step {
    Step::Wait(Wait(time.into()))
}

/// An action on the VM of a machine.
pub fn vm(machine: &str, action: VmAction) -> Step {
    Step::Vm(VmStep::new(machine, action))
}

/// The cloud preempts the VM of a machine after a notice.
pub fn preempt(machine: &str, notice: impl Into<DurationExpression>) -> Step {
    Step::Vm(VmStep {
        notice: Some(notice.into()),
        ..VmStep::new(machine, VmAction::Preempt)
    })
}

/// An action on the kubelet of a machine's VM.
pub fn kubelet(machine: &str, action: KubeletAction) -> Step {
    Step::Kubelet(KubeletStep {
        machine: machine.to_owned(),
        action,
    })
}

/// Ends or starts `mcm`.
pub fn mcm(action: ProcessAction) -> Step {
    Step::Process(ProcessStep {
        name: Process::Mcm,
        action,
    })
}

/// Ends or starts `fakecloud`.
pub fn fakecloud(action: ProcessAction) -> Step {
    Step::Process(ProcessStep {
        name: Process::Fakecloud,
        action,
    })
}

/// Ends or starts the driver processes.
pub fn drivers(action: ProcessAction) -> Step {
    Step::Process(ProcessStep {
        name: Process::Drivers,
        action,
    })
}

/// Kills `mcm` at one of its effects and starts it again.
pub fn crash_mcm(at: Moment, effect: u64) -> Step {
    Step::Crash(Crash {
        process: Process::Mcm,
        at,
        effect,
        may_miss: false,
    })
}

/// Kills `mcm` at its next effect and starts it again.
pub fn crash_mcm_next(at: Moment) -> Step {
    Step::CrashNext(CrashNext {
        process: Process::Mcm,
        at,
        may_miss: false,
    })
}

/// The `nth` matching call (from 1) for a machine fails with `code`, once.
pub fn fail_call(name: &str, call: CloudCall, machine: &str, nth: u32, code: Code) -> Step {
    inject(
        Fault::of(name, call)
            .machine(machine)
            .skip(nth.saturating_sub(1).into())
            .times(1)
            .code(code),
    )
}

/// Every matching call for a machine fails with `code`, until the rule is removed.
pub fn fail_calls(name: &str, call: CloudCall, machine: &str, code: Code) -> Step {
    inject(Fault::of(name, call).machine(machine).code(code))
}

/// Every matching call for a machine takes longer by `latency`.
pub fn slow_call(name: &str, call: CloudCall, machine: &str, latency: impl Into<DurationExpression>) -> Step {
    let latency: DurationExpression = latency.into();
    inject(Fault::of(name, call).machine(machine).latency(latency))
}

/// Adds a fault rule to the cloud.
pub fn inject(fault: Fault) -> Step {
    Step::Inject(fault.into())
}

/// Removes a fault rule from the cloud.
pub fn lift(rule: &str) -> Step {
    Step::Lift(Lift(rule.to_owned()))
}

/// Creates an object, or merges it into the existing one.
pub fn apply(object: serde_json::Value) -> Step {
    Step::Apply(Apply::Object(object))
}
