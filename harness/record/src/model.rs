//! The format of a record.

mod checks;
mod logs;

use std::time::Duration;

use jiff::Timestamp;
use scenario::StageKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::checks::{Check, CheckKind, CheckState, Unmet};
pub use self::logs::{Log, LogLine};

/// A time of a run: microseconds since the start of its scenario, by the clock of its stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Micros(pub u64);

impl From<Duration> for Micros {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
    }
}

/// The record of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunRecord {
    /// The version of the format: 1.
    pub version: u32,
    /// The run: what was run, and how it ended.
    pub meta: Meta,
    /// The machines, VMs, nodes, processes, faults and other rows of the timeline, in the order of their first appearance.
    pub actors: Vec<Actor>,
    /// States that last, in the order of their start.
    pub spans: Vec<Span>,
    /// Events, in the order of their numbers.
    pub points: Vec<Point>,
    /// Numbers over time.
    pub counters: Vec<Counter>,
    /// Invariants and expectations.
    pub checks: Vec<Check>,
    /// The logs of processes, ordered by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<Log>,
    /// Events that are not part of the record, because it would be too large.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<Dropped>,
}

/// The run: what was run, and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// The version of the program that wrote the record.
    pub drydock: String,
    /// The commit that was tested, if the environment names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Where the scenario ran.
    #[serde(flatten)]
    pub place: Place,
    /// The plan as YAML, without the data of Secrets.
    pub plan: String,
    /// The disturbances of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disturbances: Vec<DisturbanceCount>,
    /// The start of the scenario by the clock of its stage.
    #[schemars(with = "String")]
    pub started: Timestamp,
    /// Its duration by the clock of its stage.
    pub lasted: Micros,
    /// The duration of the run by the wall clock, in seconds.
    pub wall_seconds: f64,
    /// The trace of a simulated run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceHash>,
    /// How the run ended.
    pub verdict: Verdict,
    /// The command that repeats the run.
    pub replay: String,
    /// Whether causes are recorded.
    pub causes: Causes,
}

/// Where a scenario ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Place {
    /// The name of the scenario.
    pub scenario: String,
    /// What the scenario is about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The stage.
    pub stage: StageKind,
    /// The stage of the nodes, if they have a separate one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<StageKind>,
    /// The seed of all randomness.
    pub seed: u64,
    /// The defect that was planted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutant: Option<String>,
    /// The command that replaced mcm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
}

/// A disturbance of the plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DisturbanceCount {
    /// Its description.
    pub what: String,
    /// How often it had an effect.
    pub hits: u64,
}

/// Identifies a simulated run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TraceHash {
    /// SHA-256 over all entries.
    pub hash: String,
    /// The number of entries.
    pub entries: u64,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Whether every expectation was met and no invariant is violated.
    pub passed: bool,
    /// The verdict in one sentence.
    pub sentence: String,
    /// When the run failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Micros>,
    /// The number of the step in which the run failed, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
    /// The number of the event that showed the failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<u32>,
}

/// Whether the causes of events are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Causes {
    /// The trace of the run contains them.
    Recorded,
    /// The stage has no trace of what a process received, so the causes of writes and calls are not known. None are guessed.
    Unknown,
}

/// A machine, VM, node, process or fault: a row of the timeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// Identifies it in the record, for example `machine/m-1`.
    pub id: String,
    /// What it is.
    pub kind: ActorKind,
    /// Its name.
    pub name: String,
    /// The actor that it belongs to: of a machine its set, of a VM its machine, of a pod its node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// The zone of the cloud that it is in, as the id of an actor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}

/// The kinds of actors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ActorKind {
    /// The steps of the scenario, which stand for users.
    Scenario,
    /// A fault: a rule, a failed zone, a disturbance of the plan.
    Fault,
    /// A process: mcm, the built-in controllers, fakecloud, a driver.
    Process,
    /// A zone of the cloud.
    Zone,
    /// A MachineDeployment.
    Deployment,
    /// A MachineSet.
    Set,
    /// A Machine.
    Machine,
    /// A VM.
    Vm,
    /// A Node and its kubelet.
    Node,
    /// A pod.
    Pod,
    /// Another object.
    Object,
    /// The cloud as a whole.
    Cloud,
}

/// A state that lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Span {
    /// The actor, by its id.
    pub actor: String,
    /// When it begins.
    pub from: Micros,
    /// When it ends; absent: it lasts to the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Micros>,
    /// The state, for example `Running`.
    pub label: String,
    /// The kind of state.
    pub class: SpanClass,
    /// The number of the event that began it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<u32>,
}

/// The kinds of states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SpanClass {
    /// The phase of a machine or a pod.
    Phase,
    /// The drain of a machine's node: of a deletion, a preservation or an update in place.
    Drain,
    /// The state of a VM.
    Vm,
    /// Whether a node is Ready.
    Node,
    /// Whether a process runs.
    Process,
    /// The time in which a process holds the controllers' Lease.
    Leader,
    /// The time in which a fault can have an effect.
    Fault,
    /// A step of the scenario.
    Step,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Point {
    /// Its number, from 1.
    pub number: u32,
    /// When it was observed.
    pub at: Micros,
    /// The actor whose history it belongs to, by its id.
    pub actor: String,
    /// The kind of event.
    pub verb: Verb,
    /// The event in one line.
    pub summary: String,
    /// The object that was written: kind, namespace and name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// The resource version of the object after the write.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// The process that performed it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// The number of the event that led to it, or of the last one that came before it; `link` says which.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<u32>,
    /// How `cause` is known. Absent in records of older versions: as `before`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<Link>,
    /// The numbers of other events that came before and may have to do with it, the latest first. Of a write or a call: the
    /// latest change of each related object that the process received since the previous write of the object. Of the
    /// result of a check: the main events of the objects that it names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<u32>,
    /// The number of the previous write of the same object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<u32>,
    /// Whether an earlier write of the object is not part of the record, so that the object at this moment is not known
    /// completely.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incomplete: bool,
    /// The change as a JSON merge patch (RFC 7386) of the previous version; without `metadata.managedFields` and
    /// `metadata.resourceVersion`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<Value>,
    /// Whether parts of the change were left out, because it is too large. Texts in their place say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// The method of a cloud call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// How long the cloud delayed the answer of the call. Absent: it answered at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Micros>,
    /// The machine code of a call, or the HTTP code of a refused request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The fault rule that changed the outcome of a call or a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// The index of the check that it violates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub violates: Option<usize>,
    /// The number of the step during which it happened, from 1. In `sim` it is the step during which a request was sent;
    /// on other stages the one during which the change was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<usize>,
}

/// How the cause of an event is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Link {
    /// The cause is recorded: the step that sent the request or started the fault, the call that changed the VM, the
    /// observation that decided the check.
    Caused,
    /// The previous change of the same object; nothing about related objects was received since.
    Own,
    /// The latest change of the object or of a related one that the process had received before. It came before; whether it
    /// is the reason is not known.
    Before,
    /// The latest event of the objects that a missed check names.
    Named,
}

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Verb {
    /// An object was created or changed.
    Write,
    /// An object was removed.
    Delete,
    /// A call of the cloud was answered.
    Call,
    /// A request to the API server was refused or failed.
    Request,
    /// A Kubernetes Event.
    Event,
    /// A VM changed its state.
    Vm,
    /// A kubelet did something.
    Kubelet,
    /// A step of the scenario began.
    Step,
    /// A note of the harness.
    Note,
    /// A fault began, had an effect, or ended.
    Fault,
    /// A process started, ended, paused or began to lead.
    Process,
    /// An expectation was met or missed.
    Expectation,
    /// The run ended.
    Verdict,
}

impl Verb {
    /// Whether an event of this kind reports something about an object, and does not change it.
    pub(crate) fn is_about_an_object(self) -> bool {
        matches!(self, Self::Event | Self::Request)
    }
}

/// A number over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counter {
    /// What is counted, for example `machines Running`.
    pub name: String,
    /// The chart that it is a part of, for example `machines by phase`.
    pub chart: String,
    /// Each change.
    pub steps: Vec<CounterStep>,
}

/// A change of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CounterStep {
    /// When it changed.
    pub at: Micros,
    /// Its value from then on.
    pub value: u64,
    /// The number of the event that changed it; absent: it is not known, and the step is the last one of its time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub point: Option<u32>,
}

/// Events that are not part of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dropped {
    /// Which events.
    pub what: String,
    /// Their number.
    pub count: u64,
}
