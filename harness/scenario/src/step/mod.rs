//! The steps of scenarios.
//!
//! Each kind of step has a file with its form, its description, its targets, and its request to the engine. [`Step`]
//! lists all kinds.

mod act_as;
mod annotate;
mod api_fault;
mod apply;
mod autoscaler;
mod change;
mod crash;
mod crash_next;
mod create_vm;
pub mod deferred_target;
mod delete;
mod drain;
mod expect;
mod fail_zone;
mod flap;
mod force_delete;
mod inject;
mod keep;
mod kubelet;
mod kubelet_action;
mod lift;
mod lift_api_fault;
mod patch;
mod pause;
mod process;
mod quiet_end;
mod restore_zone;
mod slow_creation;
mod strip;
mod targets;
mod vm;
mod wait;

pub use fakecloud_api::{At, CloudCall, Partial, Window};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::act_as::ActAs;
pub use self::annotate::Annotate;
pub use self::api_fault::{ApiFault, Client};
pub use self::apply::Apply;
pub use self::autoscaler::Autoscaler;
pub use self::crash::{Crash, Moment};
pub use self::crash_next::CrashNext;
pub use self::create_vm::CreateVm;
use self::deferred_target::DeferredTarget;
pub use self::delete::{Answer, Deletion};
pub use self::drain::Drain;
pub use self::fail_zone::{FailZone, ZoneFailure};
pub use self::flap::Flap;
pub use self::force_delete::ForceDeletion;
pub use self::inject::{Fault, Inject, resolve};
pub(crate) use self::inject::{action_text, named as named_fault, problem as fault_problem};
pub use self::keep::Keep;
pub use self::kubelet::KubeletStep;
pub use self::kubelet_action::{KubeletAction, KubeletFaultKind, KubeletFlapping};
pub use self::lift::Lift;
pub use self::lift_api_fault::LiftApiFault;
pub use self::patch::Patch;
pub use self::pause::Pause;
pub use self::process::{ProcessAction, ProcessStep};
pub use self::quiet_end::QuietEnd;
pub use self::restore_zone::RestoreZone;
pub use self::slow_creation::SlowCreation;
pub use self::strip::Strip;
pub use self::targets::{DisturbanceChange, Subject, Targets};
pub use self::vm::{VmAction, VmStep};
pub use self::wait::Wait;
use crate::duration::DurationExpression;
use crate::expect::Expectation;
use crate::kinds::Kinds;
use crate::names::{Names, Reference};
pub use crate::object_reference::ObjectReference;
pub use crate::process::Process;
use crate::{Problem, StageKind};

/// A request of a step to the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// Create an object, or merge it into the existing one.
    Apply(&'a Apply),
    /// Delete an object.
    Delete {
        /// The object, and the expected response.
        object: &'a Deletion,
        /// Without a grace period.
        force: bool,
    },
    /// Merge a change into an object.
    Merge(Merge<'a>),
    /// Perform a step as another user.
    As(&'a ActAs),
    /// Cordon a node and evict its pods.
    Drain {
        /// The name of the node.
        node: &'a str,
        /// The time within which all pods that can be evicted must be removed.
        within: &'a DurationExpression,
    },
    /// Write a condition of the subject node repeatedly.
    Flap(&'a Flap),
    /// Remove a label from new machines.
    Strip(&'a Strip),
    /// Act as cluster-autoscaler.
    Autoscaler(&'a Autoscaler),
    /// Change the cloud.
    Cloud(CloudRequest<'a>),
    /// End or start a process.
    Process(&'a ProcessStep),
    /// Arm a crash at an effect.
    Crash(&'a Crash),
    /// Arm a crash at the next effect.
    CrashNext(&'a CrashNext),
    /// Pause a process.
    Pause(&'a Pause),
    /// Add a fault rule to the API server.
    AddApiFault(&'a ApiFault),
    /// Remove a fault rule from the API server.
    LiftApiFault(&'a str),
    /// Set the number of machines of the keeper.
    Keep(u32),
    /// Remove all faults, settle, and expect silence.
    QuietEnd(&'a QuietEnd),
    /// Let time pass.
    Wait(&'a DurationExpression),
    /// Choose a machine, and act on it.
    Resolve(&'a DeferredTarget),
    /// Start an expectation.
    Expect(&'a Expectation),
}

/// A change of an object, as a JSON merge patch.
#[derive(Clone, Debug, PartialEq)]
pub struct Merge<'a> {
    /// The API version of the object's kind; `None`: the kind's name identifies it.
    pub api_version: Option<&'a str>,
    /// The object's kind.
    pub kind: &'a str,
    /// The object's name.
    pub name: &'a str,
    /// The object's namespace; `None`: the scenario's.
    pub namespace: Option<&'a str>,
    /// What is merged into the object.
    pub change: Value,
    /// Whether the status is changed instead.
    pub status: bool,
}

/// A request to the cloud's controls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CloudRequest<'a> {
    /// Add a fault rule.
    Inject(&'a Fault),
    /// Remove a fault rule.
    Lift(&'a str),
    /// Delay the next creation of a machine's VM.
    SlowCreation(&'a SlowCreation),
    /// Make a zone fail.
    FailZone(&'a FailZone),
    /// End the failure of a zone.
    RestoreZone(&'a str),
    /// Create a VM without a Machine.
    CreateVm(&'a CreateVm),
    /// Act on the subject VM.
    Vm(&'a VmStep),
    /// Act on the kubelet of the subject VM.
    Kubelet(KubeletAction),
}

/// The definition of a kind of step.
pub(crate) trait StepDefinition {
    /// Description of the step, for the narrative.
    fn description(&self) -> String;

    /// The request to the engine.
    fn request(&self) -> Request<'_>;

    /// The objects and parts of the world that the step affects.
    fn targets(&self) -> Targets {
        Targets::default()
    }

    /// How the step changes the disturbances of the controller; `None`: it does not.
    fn disturbance(&self) -> Option<DisturbanceChange> {
        None
    }

    /// Whether the step consists of a user's requests to the API server, so that another user can perform it.
    fn is_user_request(&self) -> bool {
        false
    }

    /// Checks rules that the types do not express. Returns the field below the step, and the fix.
    fn validate(&self) -> Result<(), Problem> {
        Ok(())
    }

    /// The names in the step that must belong to something that the scenario creates; `kinds` are those of its world.
    ///
    /// # Errors
    /// A kind or resource that does not exist.
    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(Vec::new())
    }

    /// Adds the names that the step creates.
    fn add_names(&self, _names: &mut Names) {}

    /// The durations that must be above zero, with their fields below the step.
    fn durations(&self) -> Vec<(String, &DurationExpression)> {
        Vec::new()
    }

    /// Whether the step may have no effect; `None`: it always has one, or fails.
    fn may_miss(&self) -> Option<bool> {
        None
    }

    /// Lets the step have no effect. A step that implements [`may_miss`](Self::may_miss) implements this too.
    fn let_miss(&mut self) {}
}

/// Declares the kinds of steps.
macro_rules! steps {
    ($($(#[$attribute:meta])* $kind:ident($form:ty),)*) => {
        /// One step. Steps are performed in order; an expectation blocks the next step unless it is `meanwhile`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", deny_unknown_fields)]
        pub enum Step {
            $($(#[$attribute])* $kind($form),)*
        }

        impl Step {
            fn definition(&self) -> &dyn StepDefinition {
                match self {
                    $(Self::$kind(step) => step,)*
                }
            }

            fn definition_mut(&mut self) -> &mut dyn StepDefinition {
                match self {
                    $(Self::$kind(step) => step,)*
                }
            }
        }

        $(impl From<$form> for Step {
            fn from(step: $form) -> Self {
                Self::$kind(step)
            }
        })*
    };
}

steps! {
    /// Creates an object, or merges it into the existing one.
    Apply(Apply),
    /// Deletes an object.
    Delete(Deletion),
    /// Removes an object at once, regardless of finalizers and grace periods (`kubectl delete --force`).
    ForceDelete(ForceDeletion),
    /// Drains a node as `kubectl drain` does: cordons it, and evicts its pods until all are removed.
    #[serde(alias = "evict")]
    Drain(Drain),
    /// Sets annotations; null removes one.
    Annotate(Annotate),
    /// Sends a JSON merge patch.
    Patch(Patch),
    /// Performs a step that consists of requests to the API server as another user, with that user's rights.
    As(ActAs),
    /// Makes cloud calls fail or slow.
    Inject(Inject),
    /// Removes a rule of the cloud.
    Lift(Lift),
    /// Acts on the VM of a machine.
    Vm(VmStep),
    /// Creates a VM without a Machine.
    #[serde(alias = "makeVm")]
    CreateVm(CreateVm),
    /// Acts on the kubelet of a machine's VM.
    Kubelet(KubeletStep),
    /// Ends or starts a process.
    Process(ProcessStep),
    /// Kills a process at one of its effects, counted from its start, and starts it again.
    Crash(Crash),
    /// Kills a process at its next effect, and starts it again.
    CrashNext(CrashNext),
    /// Makes requests to the API server fail, arrive late, read stale data or lose their responses.
    ApiFault(ApiFault),
    /// Removes an API fault.
    LiftApiFault(LiftApiFault),
    /// Pauses a process.
    Pause(Pause),
    /// Delays the effect of a creation.
    SlowCreation(SlowCreation),
    /// Flaps a condition of a node.
    Flap(Flap),
    /// Removes a label from new machines.
    Strip(Strip),
    /// cluster-autoscaler removes empty nodes.
    Autoscaler(Autoscaler),
    /// Changes the number of machines of the keeper.
    Keep(Keep),
    /// Removes all faults, lets the world settle, and checks that no object is written any more.
    QuietEnd(QuietEnd),
    /// Lets time pass.
    Wait(Wait),
    /// Makes a zone of the cloud fail.
    FailZone(FailZone),
    /// Ends the failure of a zone.
    #[serde(alias = "mendZone")]
    RestoreZone(RestoreZone),
    /// Acts on a machine that is chosen when the step runs.
    #[serde(alias = "someone")]
    Deferred(DeferredTarget),
    /// Starts an expectation.
    Expect(Expectation),
}

impl Step {
    /// Description of the step, for the narrative.
    pub fn description(&self) -> String {
        self.definition().description()
    }

    /// The request to the engine.
    pub fn request(&self) -> Request<'_> {
        self.definition().request()
    }

    /// The objects and parts of the world that the step affects.
    pub fn targets(&self) -> Targets {
        self.definition().targets()
    }

    /// The process on which the step acts.
    pub fn process(&self) -> Option<Process> {
        match self {
            Self::Process(step) => Some(step.name),
            Self::Crash(step) => Some(step.process),
            Self::CrashNext(step) => Some(step.process),
            Self::Pause(step) => Some(step.process),
            _ => None,
        }
    }

    /// The word for the step in files, for example `failZone`.
    pub fn word(&self) -> String {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields.keys().next().cloned().unwrap_or_default(),
            _ => String::new(),
        }
    }

    /// Why the stage cannot perform it; `None`: it can.
    pub fn why_not_on(&self, stage: StageKind) -> Option<&'static str> {
        match self {
            Self::Crash(crash) => stage.why_no_gate(crash.process),
            Self::CrashNext(crash) => stage.why_no_gate(crash.process),
            Self::Pause(pause) => stage.why_no_gate(pause.process),
            Self::Process(step)
                if step.name == Process::Remediation && ![StageKind::Sim, StageKind::Kind].contains(&stage) =>
            {
                Some("the remediation controller can be stopped on stages sim and kind only")
            }
            Self::ApiFault(_) if ![StageKind::Sim, StageKind::Embedded].contains(&stage) => {
                Some("the API server of this stage does not support fault rules")
            }
            _ => None,
        }
    }

    /// Whether a crash or a pause hits its process at an effect, so that effects have to be counted.
    pub fn is_at_effect(&self) -> bool {
        matches!(self, Self::Crash(_) | Self::CrashNext(_) | Self::Pause(_))
    }

    /// How the step changes the disturbances of the controller; `None`: it does not.
    pub fn disturbance(&self) -> Option<DisturbanceChange> {
        self.definition().disturbance()
    }

    /// Whether the step may have no effect. A step that can fail to have one and may not fails the run.
    pub fn may_miss(&self) -> bool {
        self.definition().may_miss() == Some(true)
    }

    /// Lets the step have no effect. Steps that always have one do not change.
    pub fn let_miss(&mut self) {
        self.definition_mut().let_miss();
    }

    /// Checks rules that the types do not express. Returns the field below the step, and the fix.
    pub(crate) fn validate(&self) -> Result<(), Problem> {
        self.definition().validate()
    }

    /// See [`StepDefinition::references`].
    pub(crate) fn references(&self, kinds: &Kinds) -> Result<Vec<Reference>, Problem> {
        self.definition().references(kinds)
    }

    /// Adds the names that the step creates.
    pub(crate) fn add_names(&self, names: &mut Names) {
        self.definition().add_names(names);
    }

    /// The durations that must be above zero, with their fields below the step.
    pub(crate) fn durations(&self) -> Vec<(String, &DurationExpression)> {
        self.definition().durations()
    }
}

/// The name of an action in lower case.
fn verb(action: impl std::fmt::Debug) -> String {
    format!("{action:?}").to_lowercase()
}
