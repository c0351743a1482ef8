//! Steps: what a scenario does to its world.

use std::collections::BTreeMap;

use mcm_api::Code;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::deferred_target::DeferredTarget;
use super::disturb::{ApiFault, Autoscaler, Flap, Keep, Pause, QuietEnd, SlowCreation, Strip};
use super::duration::{DurationExpression, Timeouts};
use super::expect::Expectation;
use super::fixtures;
use super::workload::{self, Budget, Kind, Priority, Workload};

/// One step. Steps are performed in order; an expectation holds the next one up unless it is made `meanwhile`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Step {
    /// Creates an object, or merges it into the one that is there.
    Apply(Apply),
    /// Deletes an object.
    Delete(Deletion),
    /// Removes an object at once, whoever still has to do something for it (`kubectl delete --force`).
    ForceDelete(Deletion),
    /// Empties a node as `kubectl drain` does: it is cordoned, and its pods are evicted until all are gone.
    Evict(Evict),
    /// Sets annotations; null removes one.
    Annotate(Annotate),
    /// Sends a JSON merge patch.
    Patch(Patch),
    /// Does one of the above as another user, with that user's rights.
    As(ActAs),
    /// Makes cloud calls fail or slow.
    Inject(Fault),
    /// Takes a rule of that name away.
    Lift(String),
    /// Does something to the VM of a machine.
    Vm(VmStep),
    /// Somebody makes a VM by hand.
    MakeVm(MakeVm),
    /// Does something to the kubelet of a machine's VM.
    Kubelet(KubeletStep),
    /// Ends or starts a process.
    Process(ProcessStep),
    /// Kills a process at one of its effects, counted from its start, and starts it again.
    Crash(Crash),
    /// Makes requests of the API server fail, late, stale or lost.
    ApiFault(ApiFault),
    /// Takes an API fault of that name away.
    LiftApiFault(String),
    /// A process stands still.
    Pause(Pause),
    /// A creation takes effect late.
    SlowCreation(SlowCreation),
    /// A condition of a node flaps.
    Flap(Flap),
    /// Labels of new machines are taken away.
    Strip(Strip),
    /// cluster-autoscaler removes empty nodes.
    Autoscaler(Autoscaler),
    /// Changes how many machines the keeper keeps.
    Keep(Keep),
    /// All faults are lifted; it settles, and nothing is written any more.
    QuietEnd(QuietEnd),
    /// Lets time pass.
    Wait(DurationExpression),
    /// A zone of the cloud fails.
    FailZone(FailZone),
    /// A zone is back.
    MendZone(String),
    /// Something happens to a machine that is chosen when its turn comes.
    Someone(DeferredTarget),
    /// Something that must be seen.
    Expect(Expectation),
}

/// A zone of the cloud fails, until it is mended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailZone {
    /// The zone's name.
    pub zone: String,
    /// What of it.
    pub failure: ZoneFailure,
}

/// What of a zone fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ZoneFailure {
    /// Calls about its VMs; the VMs run.
    Api,
    /// Its VMs stop and none boots; calls are answered.
    Compute,
    /// Both.
    Both,
}

/// What is applied: a whole object, or a fixture by what matters in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Apply {
    /// A machine of class `class-a` with that name.
    Machine(String),
    /// Any object, with `apiVersion`, `kind` and `metadata.name`.
    Object(Value),
    /// A Deployment.
    Deployment(Workload),
    /// A StatefulSet.
    StatefulSet(Workload),
    /// A DaemonSet.
    DaemonSet(Workload),
    /// A disruption budget.
    Budget(Budget),
    /// A class of priorities.
    Priority(Priority),
    /// The class of the cloud's volumes.
    StorageClass,
    /// A namespace of that name.
    Namespace(String),
}

impl Apply {
    /// The object that it stands for, in `namespace` where it is a machine, with what durations are worth on a stage.
    pub fn object(&self, namespace: &str, timeouts: &Timeouts) -> Value {
        match self {
            Self::Machine(name) => fixtures::machine(name, namespace),
            Self::Object(object) => object.clone(),
            Self::Deployment(workload) => workload.object(Kind::Deployment, timeouts),
            Self::StatefulSet(workload) => workload.object(Kind::StatefulSet, timeouts),
            Self::DaemonSet(workload) => workload.object(Kind::DaemonSet, timeouts),
            Self::Budget(budget) => budget.object(),
            Self::Priority(priority) => priority.object(),
            Self::StorageClass => workload::storage_class(),
            Self::Namespace(name) => workload::namespace(name),
        }
    }

    /// The namespace that it names, as its own or as what it makes.
    pub fn namespace(&self) -> Option<&str> {
        let named = match self {
            Self::Object(object) => object.pointer("/metadata/namespace")?.as_str()?,
            Self::Deployment(workload) | Self::StatefulSet(workload) | Self::DaemonSet(workload) => {
                workload.namespace.as_deref()?
            }
            Self::Namespace(name) => name,
            Self::Machine(_) | Self::Budget(_) | Self::Priority(_) | Self::StorageClass => return None,
        };
        (!named.is_empty()).then_some(named)
    }

    fn validate(&self) -> Result<(), (String, String)> {
        let (word, workload, kind) = match self {
            Self::Object(object) => return validate_object(object),
            Self::Deployment(workload) => ("deployment", workload, Kind::Deployment),
            Self::StatefulSet(workload) => ("statefulSet", workload, Kind::StatefulSet),
            Self::DaemonSet(workload) => ("daemonSet", workload, Kind::DaemonSet),
            Self::Machine(_) | Self::Budget(_) | Self::Priority(_) | Self::StorageClass | Self::Namespace(_) => {
                return Ok(());
            }
        };
        workload
            .validate(kind)
            .map_err(|(field, message)| (format!("apply.{word}.{field}"), message.to_owned()))
    }
}

fn validate_object(object: &Value) -> Result<(), (String, String)> {
    for pointer in ["/apiVersion", "/kind", "/metadata/name"] {
        if !object.pointer(pointer).is_some_and(Value::is_string) {
            let field = pointer.trim_start_matches('/').replace('/', ".");
            return Err((
                format!("apply.object.{field}"),
                "is missing: every object names it".to_owned(),
            ));
        }
    }
    Ok(())
}

/// Empties a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Evict {
    /// The machine whose node it is.
    pub machine: String,
    /// When all pods that have to go must be gone.
    pub within: DurationExpression,
}

/// The name of an object; its namespace is the scenario's unless it says another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ObjectReference {
    /// For instance `Machine`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// Deletes an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Deletion {
    /// For instance `Machine`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// What the API server must answer; else the step fails.
    #[serde(default, skip_serializing_if = "Answer::is_deleted")]
    pub answer: Answer,
}

/// What an API server answers to a deletion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// It is deleted.
    #[default]
    Deleted,
    /// It is deleted, or was gone already.
    DeletedIfThere,
    /// There is no such object.
    NotFound,
    /// It is forbidden. Nothing is deleted if it is not: a dry run is asked for until it is refused, for as long as slack, since
    /// API servers take a moment to heed a new rule.
    Forbidden,
}

impl Answer {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references")]
    fn is_deleted(&self) -> bool {
        *self == Self::Deleted
    }
}

/// Sets annotations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Annotate {
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// Values by key; null removes the key.
    pub annotations: BTreeMap<String, Option<String>>,
}

/// A step that another user than the administrator takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ActAs {
    /// The user's name, as bindings have it.
    pub user: String,
    /// What the user does: applies, deletes, evicts, annotates or patches.
    pub step: Box<Step>,
    /// Whether it must be refused; else a refusal fails the step.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refused: bool,
}

impl ActAs {
    fn validate(&self) -> Result<(), (String, String)> {
        if self.user.trim().is_empty() {
            return Err(("as.user".to_owned(), "say who acts".to_owned()));
        }
        match &*self.step {
            Step::Apply(_)
            | Step::Delete(_)
            | Step::ForceDelete(_)
            | Step::Evict(_)
            | Step::Annotate(_)
            | Step::Patch(_) => self.step.validate(),
            _ => Err((
                "as.step".to_owned(),
                "a user applies, deletes, forceDeletes, evicts, annotates or patches".to_owned(),
            )),
        }
    }
}

/// A JSON merge patch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Patch {
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The object's namespace; absent: the scenario's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What is merged into the object.
    pub merge: Value,
    /// True: into its status.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub status: bool,
}

/// A rule by which cloud calls fail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    /// The rule's name: reports count its hits under it, and `lift` takes it away by it.
    pub name: String,
    /// Which call.
    pub call: CloudCall,
    /// Of which machine; absent: of any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// How many matching calls pass first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub skip: u32,
    /// How many calls it hits; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// The answer of a hit; absent: the call is only slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// What the answer of a hit says; absent: the cloud's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// How long a hit takes before it is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<DurationExpression>,
    /// True: the call does its work and then fails.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub after_effect: bool,
    /// What else a hit does; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
}

/// What a call that is struck does to the cloud beside its answer (`docs/cloud-faults.md` has the rules).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Effect {
    /// Nothing is done, and the answer says that all is well; a VM that lives is not found. Byzantine.
    Lie,
    /// A creation makes a VM that never boots; a deletion never ends.
    Stuck,
    /// A creation makes network interfaces and no VM; the answer is the fault's `code`.
    OnlyNics,
    /// A lookup or a list shows the cloud as it was so long ago.
    Stale(DurationExpression),
    /// The answer of a creation or a lookup does not name the node. Byzantine.
    Nameless,
}

impl Effect {
    /// Whether no cloud that keeps its contract does so.
    pub fn is_byzantine(&self) -> bool {
        matches!(self, Self::Lie | Self::Nameless)
    }
}

impl Fault {
    /// A rule that does nothing yet, for every one of these calls.
    pub fn of(name: impl Into<String>, call: CloudCall) -> Self {
        Self {
            name: name.into(),
            call,
            machine: None,
            skip: 0,
            times: None,
            code: None,
            message: None,
            latency: None,
            after_effect: false,
            effect: None,
        }
    }

    /// Of that machine alone.
    #[must_use]
    pub fn machine(self, machine: &str) -> Self {
        Self {
            machine: Some(machine.to_owned()),
            ..self
        }
    }

    /// So many calls at most.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self {
            times: Some(times),
            ..self
        }
    }

    /// A hit is answered with that code.
    #[must_use]
    pub fn code(self, code: Code) -> Self {
        Self {
            code: Some(code),
            ..self
        }
    }

    /// The answer of a hit says that.
    #[must_use]
    pub fn message(self, message: &str) -> Self {
        Self {
            message: Some(message.to_owned()),
            ..self
        }
    }

    /// A hit does that.
    #[must_use]
    pub fn effect(self, effect: Effect) -> Self {
        Self {
            effect: Some(effect),
            ..self
        }
    }

    /// What a fault lacks that does nothing at all.
    pub(crate) fn idle(&self) -> Option<&'static str> {
        let idle = self.code.is_none() && self.latency.is_none() && self.effect.is_none();
        idle.then_some("a fault needs a `code`, a `latency` or an `effect`")
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// A call of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CloudCall {
    /// Makes a VM.
    CreateMachine,
    /// Finishes a VM.
    InitializeMachine,
    /// Deletes a VM.
    DeleteMachine,
    /// Looks for a VM.
    GetMachineStatus,
    /// Lists VMs.
    ListMachines,
    /// Applies a changed provider spec to a VM.
    UpdateMachine,
    /// Attaches a volume, of the cloud or of a cluster's storage; the machine is the one whose Node asks for it.
    AttachVolume,
    /// Detaches it.
    DetachVolume,
}

impl CloudCall {
    /// The name in the driver's contract.
    pub fn rpc(self) -> &'static str {
        match self {
            Self::CreateMachine => "CreateMachine",
            Self::InitializeMachine => "InitializeMachine",
            Self::DeleteMachine => "DeleteMachine",
            Self::GetMachineStatus => "GetMachineStatus",
            Self::ListMachines => "ListMachines",
            Self::UpdateMachine => "UpdateMachine",
            Self::AttachVolume => "AttachVolume",
            Self::DetachVolume => "DetachVolume",
        }
    }
}

/// Does something to the VM of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VmStep {
    /// Whose VM.
    pub machine: String,
    /// What.
    #[serde(rename = "do")]
    pub action: VmAction,
}

/// Somebody makes a VM by hand, without a Machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MakeVm {
    /// The name that it gets; a Machine of that name may come later.
    pub machine: String,
    /// Whether it has the tags by which this cluster's VMs are known.
    pub tagged: bool,
}

/// What can be done to a VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum VmAction {
    /// Its host dies: it is stopped at once and nobody is told.
    Kill,
    /// It is shut down.
    Stop,
    /// It is started again.
    Start,
    /// It is stopped and started.
    Reboot,
    /// Its progress is held where it is.
    Hold,
    /// One step of a held VM's progress.
    Step,
    /// A held VM goes on by itself.
    Release,
    /// It is deleted behind the back of whoever made it.
    Delete,
}

/// Does something to a kubelet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeletStep {
    /// On whose VM.
    pub machine: String,
    /// What.
    #[serde(rename = "do")]
    pub action: KubeletAction,
}

/// What can be done to a kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum KubeletAction {
    /// It stops; the VM runs on.
    Stop,
    /// It starts again.
    Start,
    /// Its disk is full: the node is under DiskPressure, and otherwise well.
    FillDisk,
    /// There is room again.
    FreeDisk,
}

/// Ends or starts a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessStep {
    /// Which.
    pub name: Process,
    /// What.
    #[serde(rename = "do")]
    pub action: ProcessAction,
}

/// A process of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Process {
    /// The machine controller manager.
    Mcm,
    /// The built-in controllers of Kubernetes; a process of their own in virtual time alone.
    Controllers,
    /// fakecloud, whose ledger outlives it. In virtual time its kubelets, its storage and its cloud controller alone end
    /// and start: its calls are answered as before.
    Fakecloud,
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mcm => f.write_str("mcm"),
            Self::Controllers => f.write_str("controllers"),
            Self::Fakecloud => f.write_str("fakecloud"),
        }
    }
}

/// What can be done to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ProcessAction {
    /// Ended without notice (SIGKILL).
    Kill,
    /// Started with empty caches.
    Start,
    /// Both.
    Restart,
    /// Of several, the one that holds the Lease is ended without notice; where something supervises it, that starts it
    /// again.
    KillLeader,
    /// One after another is asked to end (SIGTERM) and started again, each when the one before is up.
    RollingRestart,
}

/// Kills a process at one of its effects (an API write or a cloud call).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Crash {
    /// Which.
    pub process: Process,
    /// Before or after the effect is done.
    pub at: Moment,
    /// Which effect, counted from 1 since the process was first started; of several processes, over all of them.
    pub effect: u64,
}

/// On which side of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Moment {
    /// It never happens.
    Before,
    /// It happens and its answer is lost.
    After,
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Before => "before",
            Self::After => "after",
        })
    }
}

impl Step {
    /// Checks what types alone do not: the field below the step, and what would do.
    pub(super) fn validate(&self) -> Result<(), (String, String)> {
        match self {
            Self::Apply(apply) => apply.validate(),
            Self::As(step) => step.validate(),
            Self::Inject(fault) if fault.idle().is_some() => {
                Err(("inject".to_owned(), fault.idle().unwrap_or_default().to_owned()))
            }
            Self::ApiFault(fault) => fault
                .rule
                .check()
                .map_err(|invalid| ("apiFault.rule".to_owned(), invalid.to_string())),
            Self::Crash(crash) if crash.effect == 0 => {
                Err(("crash.effect".to_owned(), "effects are counted from 1".to_owned()))
            }
            Self::Expect(expectation) => expectation
                .validate()
                .map_err(|(field, message)| (format!("expect.{field}"), message)),
            _ => Ok(()),
        }
    }
}
