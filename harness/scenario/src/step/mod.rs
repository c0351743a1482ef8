//! Steps: what a scenario does to its world.
//!
//! Each kind of step is a file: its form, its description, what it affects, and what the engine has to do. [`Step`] lists
//! all kinds.

mod act_as;
mod annotate;
mod api_fault;
mod apply;
mod autoscaler;
mod crash;
pub mod deferred_target;
mod delete;
mod evict;
mod expect;
mod fail_zone;
mod flap;
mod force_delete;
mod inject;
mod keep;
mod kubelet;
mod lift;
mod lift_api_fault;
mod make_vm;
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
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::act_as::ActAs;
pub use self::annotate::Annotate;
pub use self::api_fault::{ApiFault, Client};
pub use self::apply::Apply;
pub use self::autoscaler::Autoscaler;
pub use self::crash::{Crash, Moment};
use self::deferred_target::DeferredTarget;
pub use self::delete::{Answer, Deletion};
pub use self::evict::Evict;
pub use self::fail_zone::{FailZone, ZoneFailure};
pub use self::flap::Flap;
pub use self::force_delete::ForceDeletion;
pub use self::inject::{Fault, resolve};
pub(crate) use self::inject::{named as named_fault, problem as fault_problem};
pub use self::keep::Keep;
pub use self::kubelet::{KubeletAction, KubeletStep};
pub use self::lift::Lift;
pub use self::lift_api_fault::LiftApiFault;
pub use self::make_vm::MakeVm;
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
pub use crate::object_reference::ObjectReference;
pub use crate::process::Process;

/// A request of a step to the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// Create an object, or merge it into the one that exists.
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
    Evict {
        /// The name of the node.
        node: &'a str,
        /// The time in which all pods that can be evicted must be gone.
        within: &'a DurationExpression,
    },
    /// Write a condition of the subject node again and again.
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
    /// Create a VM by hand.
    MakeVm(&'a MakeVm),
    /// Act on the subject VM.
    Vm(VmAction),
    /// Act on the kubelet of the subject VM.
    Kubelet(KubeletAction),
}

/// What a kind of step states about itself.
pub(crate) trait StepDefinition {
    /// The step in words, for the narrative.
    fn description(&self) -> String;

    /// What the engine has to do.
    fn request(&self) -> Request<'_>;

    /// What the step affects.
    fn targets(&self) -> Targets {
        Targets::default()
    }

    /// What the step changes about the disturbances of the controller; `None`: nothing.
    fn disturbance(&self) -> Option<DisturbanceChange> {
        None
    }

    /// Whether a user does it with requests to the API server, so that it can be done as another user.
    fn is_user_request(&self) -> bool {
        false
    }

    /// Checks what types alone do not: the field below the step, and the fix.
    fn validate(&self) -> Result<(), (String, String)> {
        Ok(())
    }
}

/// Declares the kinds of steps.
macro_rules! steps {
    ($($(#[$attribute:meta])* $kind:ident($form:ty),)*) => {
        /// One step. Steps are performed in order; an expectation holds up the next one unless it is made `meanwhile`.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
        }

        $(impl From<$form> for Step {
            fn from(step: $form) -> Self {
                Self::$kind(step)
            }
        })*
    };
}

steps! {
    /// Creates an object, or merges it into the one that exists.
    Apply(Apply),
    /// Deletes an object.
    Delete(Deletion),
    /// Removes an object at once, whatever finalizers or grace periods remain (`kubectl delete --force`).
    ForceDelete(ForceDeletion),
    /// Empties a node as `kubectl drain` does: it is cordoned, and its pods are evicted until all are gone.
    Evict(Evict),
    /// Sets annotations; null removes one.
    Annotate(Annotate),
    /// Sends a JSON merge patch.
    Patch(Patch),
    /// Performs one of the steps above as another user, with that user's rights.
    As(ActAs),
    /// Makes cloud calls fail or slow.
    #[serde(deserialize_with = "inject::read")]
    Inject(Fault),
    /// Removes a rule of the cloud.
    Lift(Lift),
    /// Acts on the VM of a machine.
    Vm(VmStep),
    /// Creates a VM by hand.
    MakeVm(MakeVm),
    /// Acts on the kubelet of a machine's VM.
    Kubelet(KubeletStep),
    /// Ends or starts a process.
    Process(ProcessStep),
    /// Kills a process at one of its effects, counted from its start, and starts it again.
    Crash(Crash),
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
    /// Changes how many machines the keeper keeps.
    Keep(Keep),
    /// Removes all faults; the world settles, and no object is written any more.
    QuietEnd(QuietEnd),
    /// Lets time pass.
    Wait(Wait),
    /// Makes a zone of the cloud fail.
    FailZone(FailZone),
    /// Ends the failure of a zone.
    #[serde(rename = "mendZone")]
    RestoreZone(RestoreZone),
    /// Acts on a machine that is chosen when the step runs.
    #[serde(rename = "someone")]
    Deferred(DeferredTarget),
    /// Expects something to be observed.
    Expect(Expectation),
}

impl Step {
    /// The step in words, for the narrative.
    pub fn description(&self) -> String {
        self.definition().description()
    }

    /// What the engine has to do.
    pub fn request(&self) -> Request<'_> {
        self.definition().request()
    }

    /// What the step affects.
    pub fn targets(&self) -> Targets {
        self.definition().targets()
    }

    /// What the step changes about the disturbances of the controller; `None`: nothing.
    pub fn disturbance(&self) -> Option<DisturbanceChange> {
        self.definition().disturbance()
    }

    /// Checks what types alone do not: the field below the step, and the fix.
    pub(crate) fn validate(&self) -> Result<(), (String, String)> {
        self.definition().validate()
    }
}

/// An action as a scenario file has it.
fn verb(action: impl std::fmt::Debug) -> String {
    format!("{action:?}").to_lowercase()
}
