//! What the engine has to do for a step. A kind of step that needs nothing else than one of these touches no other crate.

use serde_json::Value;

use super::act_as::ActAs;
use super::api_fault::ApiFault;
use super::apply::Apply;
use super::autoscaler::Autoscaler;
use super::crash::Crash;
use super::deferred_target::DeferredTarget;
use super::delete::Deletion;
use super::evict::Evict;
use super::fail_zone::FailZone;
use super::flap::Flap;
use super::inject::Fault;
use super::kubelet::KubeletAction;
use super::make_vm::MakeVm;
use super::pause::Pause;
use super::process::ProcessStep;
use super::quiet_end::QuietEnd;
use super::slow_creation::SlowCreation;
use super::strip::Strip;
use super::vm::VmAction;
use crate::duration::DurationExpression;
use crate::expect::Expectation;

/// A request of a step to the engine.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// Create an object, or merge it into the one that exists.
    Apply(&'a Apply),
    /// Delete an object.
    Delete {
        /// Which, and the expected answer.
        object: &'a Deletion,
        /// Without a grace period.
        force: bool,
    },
    /// Merge a change into an object.
    Merge(Merge<'a>),
    /// Perform a step as another user.
    As(&'a ActAs),
    /// Cordon a node and evict its pods.
    Evict(&'a Evict),
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
    /// Lift all faults, settle, and expect silence.
    QuietEnd(&'a QuietEnd),
    /// Let time pass.
    Wait(&'a DurationExpression),
    /// Choose a machine, and act on it.
    Resolve(&'a DeferredTarget),
    /// Watch for an expectation.
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
