//! Expectations: a condition on the world, and a time.

use std::borrow::Cow;
use std::fmt;

use mcm_api::Phase;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::duration::DurationExpression;
use crate::Problem;
use crate::object_reference::ObjectReference;
use fakecloud_api::{CloudCall, CodeText};

/// A condition that must be observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expectation {
    /// The condition.
    pub that: Condition,
    /// When it must hold.
    pub holds: Temporal,
    /// Whether the next steps run while it is evaluated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub meanwhile: bool,
    /// Whether it may be met although nothing that its condition names ever existed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_miss: bool,
}

/// When a condition must hold, relative to the start of the expectation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Temporal {
    /// At some time within the duration.
    Eventually(DurationExpression),
    /// All the time for the duration.
    Always(DurationExpression),
    /// Not at any time within the duration.
    Never(DurationExpression),
    /// Continuously for a time, within another time.
    ForAtLeast(ForAtLeast),
    /// It becomes true at most a number of times within a duration.
    AtMost(AtMost),
    /// From this step to the end of the scenario; it is evaluated during the steps that follow.
    Throughout,
}

/// Continuously for `time`, within `within`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForAtLeast {
    /// How long the condition holds continuously.
    pub time: DurationExpression,
    /// Deadline for the end of that time.
    pub within: DurationExpression,
}

/// At most `times` within `within`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AtMost {
    /// Maximum; a condition that holds at the start counts once, and each call counts.
    pub times: u64,
    /// How long it is counted.
    pub within: DurationExpression,
}

/// A condition on the last observed state of the world.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Condition {
    /// A machine exists and has a phase.
    Phase(PhaseIs),
    /// No Machine of that name exists.
    MachineGone(String),
    /// No Node of that name exists (a node has the name of its machine).
    NodeGone(String),
    /// An object exists.
    Exists(ObjectReference),
    /// An object's status reflects its newest spec: `observedGeneration` equals `generation`.
    Observed(ObjectReference),
    /// Number of a machine's VMs that are not terminated.
    VmCount(VmCount),
    /// Number of answered driver calls for a machine.
    Calls(Calls),
    /// A machine's `lastOperation.errorCode`.
    ErrorCode(ErrorCodeIs),
    /// A machine's `lastOperation.description` contains a text.
    #[serde(alias = "says")]
    DescriptionContains(DescriptionContains),
    /// The phases of a machine, from the first to the last.
    History(History),
    /// A field of an object.
    Field(FieldIs),
    /// A field of an object has the same value as at the start of the expectation.
    Unchanged(FieldOf),
    /// Number of pods of a workload.
    Pods(Pods),
    /// The pods of a workload on a node are the same as at the start of the expectation, and none is being deleted.
    SamePods(PodsOn),
    /// Number of nodes to which the volumes of a claim are attached.
    Attached(Attached),
    /// Number of volumes of a claim.
    VolumesOf(VolumesOf),
    /// Number of Events about an object.
    #[serde(alias = "told")]
    EventCount(EventCount),
    /// Minimum number of hits of a fault rule.
    #[serde(alias = "struck")]
    FaultHits(FaultHits),
    /// All conditions hold.
    All(Vec<Condition>),
    /// At least one condition holds.
    Any(Vec<Condition>),
    /// The condition does not hold.
    Not(Box<Condition>),
}

/// The schema of [`Phase`].
struct PhaseText;

impl JsonSchema for PhaseText {
    fn schema_name() -> Cow<'static, str> {
        "Phase".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "The phase of a machine.", "type": "string", "enum": Phase::TEXTS })
    }
}

/// A machine exists and has a phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PhaseIs {
    /// Name of the machine.
    pub machine: String,
    /// The phase.
    #[schemars(with = "PhaseText")]
    pub is: Phase,
}

/// Number of a machine's VMs that are not terminated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VmCount {
    /// Name of the machine.
    pub machine: String,
    /// The number.
    pub is: usize,
}

/// Number of answered driver calls for a machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Calls {
    /// The call.
    pub call: CloudCall,
    /// Name of the machine.
    pub machine: String,
    /// Minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<u64>,
    /// Maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u64>,
}

/// A machine's `lastOperation.errorCode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorCodeIs {
    /// Name of the machine.
    pub machine: String,
    /// The code's name.
    #[schemars(with = "CodeText")]
    pub is: mcm_api::Code,
}

/// A machine's `lastOperation.description` contains a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DescriptionContains {
    /// Name of the machine.
    pub machine: String,
    /// The text.
    pub text: String,
}

/// The phases of a machine in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct History {
    /// Name of the machine.
    pub machine: String,
    /// Every observed phase with its time.
    pub phases: Vec<PhaseChange>,
}

/// A phase, and its distance from the previous one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PhaseChange {
    /// The phase.
    #[schemars(with = "PhaseText")]
    pub phase: Phase,
    /// Minimum distance from the previous phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<DurationExpression>,
    /// Maximum distance from the previous phase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<DurationExpression>,
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FieldIs {
    /// The API version of its kind; absent: the kind's name identifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The path of the field, a JSON pointer: `/spec/providerID`. A part such as `[type=Ready]` selects the first item of a
    /// list with this field: `/status/conditions/[type=Ready]/status`.
    pub field: String,
    /// Its value; null: the field does not exist.
    pub is: Value,
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FieldOf {
    /// The API version of its kind; absent: the kind's name identifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// The path of the field, as in `field`: `/spec/volumeName`.
    pub field: String,
}

/// Number of pods of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pods {
    /// The workload's name: the pods' label `app`.
    pub of: String,
    /// Only pods on the node of this machine; absent: all pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// Only pods in this state; absent: all pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub are: Option<PodState>,
    /// Minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    /// Maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
}

/// State of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PodState {
    /// Its condition Ready is True, and it is not being deleted.
    Ready,
    /// The scheduler found no node for it.
    Unschedulable,
    /// It is being deleted.
    Terminating,
}

impl fmt::Display for PodState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ready => "ready",
            Self::Unschedulable => "unschedulable",
            Self::Terminating => "terminating",
        })
    }
}

/// The pods of a workload on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodsOn {
    /// The workload's name.
    pub of: String,
    /// The machine of the node.
    pub on: String,
}

/// Number of nodes to which the volumes of a claim are attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attached {
    /// The claim's name.
    pub claim: String,
    /// Only the node of this machine; absent: all nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    /// Maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
}

/// Number of volumes of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumesOf {
    /// The claim's name; the claim may be deleted.
    pub claim: String,
    /// The number.
    pub is: usize,
}

/// Number of Kubernetes Events about an object; an event's `count` adds up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventCount {
    /// The API version of its kind; absent: the kind's name identifies it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The object's kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The event's reason.
    pub reason: String,
    /// Minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    /// Maximum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
}

/// Minimum number of hits of a fault rule of the cloud or the API server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultHits {
    /// The rule's name.
    pub fault: String,
    /// Minimum.
    pub at_least: u64,
}

impl Expectation {
    pub(super) fn validate(&self) -> Result<(), Problem> {
        if let (Temporal::AtMost(_), Condition::Calls(calls)) = (&self.holds, &self.that)
            && (calls.at_least.is_some() || calls.at_most.is_some())
        {
            return Err((
                "that.calls".to_owned(),
                "the expectation `atMost` counts the calls: omit `atLeast` and `atMost` here".to_owned(),
            ));
        }
        if self.holds == Temporal::Throughout && !self.meanwhile {
            return Err((
                "meanwhile".to_owned(),
                "a `throughout` expectation is evaluated during the next steps: set `meanwhile: true`".to_owned(),
            ));
        }
        self.that.validate("that", matches!(self.holds, Temporal::AtMost(_)))
    }
}

impl Condition {
    fn validate(&self, path: &str, counted: bool) -> Result<(), Problem> {
        let wrong = |field: &str, message: &str| Err((format!("{path}.{field}"), message.to_owned()));
        match self {
            Self::Calls(calls) if !counted && calls.at_least.is_none() && calls.at_most.is_none() => {
                wrong("calls", "set `atLeast`, `atMost` or both")
            }
            Self::Pods(pods) if pods.at_least.is_none() && pods.at_most.is_none() => {
                wrong("pods", "set `atLeast`, `atMost` or both")
            }
            Self::Attached(attached) if attached.at_least.is_none() && attached.at_most.is_none() => {
                wrong("attached", "set `atLeast`, `atMost` or both")
            }
            Self::Unchanged(field) if !field.field.starts_with('/') => wrong(
                "unchanged.field",
                "write a JSON pointer that begins with /, as in /spec/volumeName",
            ),
            Self::Field(field) if !field.field.starts_with('/') => wrong(
                "field.field",
                "write a JSON pointer that begins with /, as in /spec/providerID",
            ),
            Self::All(list) | Self::Any(list) => {
                let word = if matches!(self, Self::All(_)) { "all" } else { "any" };
                if list.is_empty() {
                    return wrong(word, "name at least one condition");
                }
                for (index, condition) in list.iter().enumerate() {
                    condition.validate(&format!("{path}.{word}[{index}]"), false)?;
                }
                Ok(())
            }
            Self::Not(condition) => condition.validate(&format!("{path}.not"), false),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Phase(PhaseIs { machine, is }) => write!(f, "machine {machine} is {is}"),
            Self::MachineGone(name) => write!(f, "machine {name} is gone"),
            Self::NodeGone(name) => write!(f, "node {name} is gone"),
            Self::Exists(ObjectReference { kind, name, .. }) => write!(f, "{kind} {name} exists"),
            Self::Observed(ObjectReference { kind, name, .. }) => {
                write!(f, "the status of {kind} {name} reflects its newest spec")
            }
            Self::VmCount(VmCount { machine, is }) => write!(f, "machine {machine} has {is} VM(s)"),
            Self::Calls(calls) => {
                write!(f, "{} for {}", calls.call.rpc(), calls.machine)?;
                if let Some(minimum) = calls.at_least {
                    write!(f, " at least {minimum} times")?;
                }
                calls
                    .at_most
                    .map_or(Ok(()), |maximum| write!(f, " at most {maximum} times"))
            }
            Self::Unchanged(FieldOf { kind, name, field, .. }) => write!(f, "{kind} {name} has the same {field}"),
            Self::Pods(pods) => {
                bounds(f, pods.at_least, pods.at_most)?;
                write!(f, "pods of {}", pods.of)?;
                if let Some(machine) = &pods.on {
                    write!(f, " on {machine}")?;
                }
                pods.are.map_or(Ok(()), |state| write!(f, " {state}"))
            }
            Self::SamePods(PodsOn { of, on }) => write!(f, "the pods of {of} on {on} are the same"),
            Self::Attached(attached) => {
                write!(f, "claim {} is attached to ", attached.claim)?;
                bounds(f, attached.at_least, attached.at_most)?;
                match &attached.to {
                    Some(machine) => write!(f, "node {machine}"),
                    None => f.write_str("nodes"),
                }
            }
            Self::VolumesOf(VolumesOf { claim, is }) => write!(f, "claim {claim} has {is} volume(s)"),
            Self::ErrorCode(ErrorCodeIs { machine, is }) => write!(f, "machine {machine} reports {is}"),
            Self::DescriptionContains(DescriptionContains { machine, text }) => {
                write!(f, "the last operation of machine {machine} contains {text:?}")
            }
            Self::History(History { machine, phases }) => {
                let phases: Vec<&str> = phases.iter().map(|change| change.phase.as_str()).collect();
                write!(
                    f,
                    "machine {machine} had the phases {}, each within its time bounds",
                    phases.join(", ")
                )
            }
            Self::Field(FieldIs {
                kind, name, field, is, ..
            }) => write!(f, "{kind} {name} has {field} = {is}"),
            Self::EventCount(events) => {
                bounds(f, events.at_least, events.at_most)?;
                write!(f, "event(s) {} about {} {}", events.reason, events.kind, events.name)
            }
            Self::FaultHits(FaultHits { fault, at_least }) => write!(f, "fault {fault} has at least {at_least} hit(s)"),
            Self::All(list) => join(f, list, " and "),
            Self::Any(list) => join(f, list, " or "),
            Self::Not(condition) => write!(f, "not ({condition})"),
        }
    }
}

/// Writes the bounds of a number, followed by a space.
fn bounds(f: &mut fmt::Formatter<'_>, minimum: Option<usize>, maximum: Option<usize>) -> fmt::Result {
    match (minimum, maximum) {
        (Some(minimum), Some(maximum)) if minimum == maximum => write!(f, "exactly {minimum} "),
        (Some(minimum), Some(maximum)) => write!(f, "{minimum} to {maximum} "),
        (Some(minimum), None) => write!(f, "at least {minimum} "),
        (None, Some(maximum)) => write!(f, "at most {maximum} "),
        (None, None) => Ok(()),
    }
}

fn join(f: &mut fmt::Formatter<'_>, list: &[Condition], word: &str) -> fmt::Result {
    for (index, condition) in list.iter().enumerate() {
        if index > 0 {
            f.write_str(word)?;
        }
        write!(f, "{condition}")?;
    }
    Ok(())
}

impl Expectation {
    /// The durations in its text.
    pub fn durations(&self) -> Vec<&DurationExpression> {
        match &self.holds {
            Temporal::Eventually(time) | Temporal::Always(time) | Temporal::Never(time) => vec![time],
            Temporal::ForAtLeast(form) => vec![&form.time, &form.within],
            Temporal::AtMost(form) => vec![&form.within],
            Temporal::Throughout => Vec::new(),
        }
    }
}

impl fmt::Display for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holds {
            Temporal::Eventually(within) => write!(f, "eventually, within {within}: {}", self.that),
            Temporal::Always(time) => write!(f, "always, for {time}: {}", self.that),
            Temporal::Never(time) => write!(f, "never, for {time}: {}", self.that),
            Temporal::ForAtLeast(form) => {
                write!(f, "for at least {}, within {}: {}", form.time, form.within, self.that)
            }
            Temporal::Throughout => write!(f, "from here to the end: {}", self.that),
            Temporal::AtMost(form) => write!(f, "at most {} times within {}: {}", form.times, form.within, self.that),
        }
    }
}
