//! Expectations: a condition on the world, and when it must hold.

use std::fmt;

use mcm_api::Phase;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::duration::DurationExpression;
use crate::object_reference::ObjectReference;
use fakecloud_api::CloudCall;

/// Something that must be seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Expectation {
    /// What.
    pub that: Condition,
    /// When.
    pub holds: Temporal,
    /// True: the next steps go on while it is checked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub meanwhile: bool,
}

/// When a condition must hold, counted from the step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Temporal {
    /// At some moment before the time is over.
    Eventually(DurationExpression),
    /// At every moment until the time is over.
    Always(DurationExpression),
    /// At no moment until the time is over.
    Never(DurationExpression),
    /// Without a break for a time, before another time is over.
    ForAtLeast(ForAtLeast),
    /// It becomes true at most so often until the time is over.
    AtMost(AtMost),
    /// At every moment from here to the end of the scenario; it is checked beside the steps that follow.
    Throughout,
}

/// Without a break for `time`, before `within` is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForAtLeast {
    /// How long without a break.
    pub time: DurationExpression,
    /// When that must be over.
    pub within: DurationExpression,
}

/// At most `times` until `within` is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AtMost {
    /// How often; a condition that holds at the start counts once, a call counts by itself.
    pub times: u64,
    /// Until when it is counted.
    pub within: DurationExpression,
}

/// A condition on the world as it was last seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum Condition {
    /// A machine is there and in that phase.
    Phase(PhaseIs),
    /// There is no Machine of that name.
    MachineGone(String),
    /// There is no Node of that name (a node is named after its machine).
    NodeGone(String),
    /// There is an object.
    Exists(ObjectReference),
    /// An object's status is about its newest spec: `observedGeneration` is `generation`.
    Observed(ObjectReference),
    /// So many VMs of a machine exist, in whatever state but terminated.
    VmCount(VmCount),
    /// So many driver calls for a machine were answered.
    Calls(Calls),
    /// A machine's `lastOperation.errorCode`.
    ErrorCode(ErrorCodeIs),
    /// A machine's `lastOperation.description` contains a text.
    Says(Says),
    /// The phases that a machine went through, from the first to the last.
    History(History),
    /// A field of an object.
    Field(FieldIs),
    /// A field of an object has the value that it had when the expectation began.
    Unchanged(FieldOf),
    /// So many pods of a workload.
    Pods(Pods),
    /// The pods of a workload on a node are those that they were when the expectation began, and none is to go.
    SamePods(PodsOn),
    /// The volumes of a claim are attached to so many nodes.
    Attached(Attached),
    /// So many volumes were made for a claim and are still there.
    VolumesOf(VolumesOf),
    /// Events told of an object.
    Told(EventCount),
    /// A fault rule has struck.
    Struck(FaultHits),
    /// All of them.
    All(Vec<Condition>),
    /// One of them at least.
    Any(Vec<Condition>),
    /// Not so.
    Not(Box<Condition>),
}

/// A machine is there and in that phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PhaseIs {
    /// Which machine.
    pub machine: String,
    /// The phase's text.
    pub is: Phase,
}

/// So many VMs of a machine exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VmCount {
    /// Which machine.
    pub machine: String,
    /// How many.
    pub is: usize,
}

/// So many driver calls for a machine were answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Calls {
    /// Which call.
    pub call: CloudCall,
    /// For which machine.
    pub machine: String,
    /// No fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<u64>,
    /// No more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u64>,
}

/// A machine's `lastOperation.errorCode`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorCodeIs {
    /// Which machine.
    pub machine: String,
    /// The code's name.
    pub is: mcm_api::Code,
}

/// A machine's `lastOperation.description` contains a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Says {
    /// Which machine.
    pub machine: String,
    /// The text.
    pub text: String,
}

/// The phases of a machine in order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct History {
    /// Which machine.
    pub machine: String,
    /// Every phase that it was seen in, and when.
    pub phases: Vec<PhaseChange>,
}

/// One phase, and how long after the one before it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PhaseChange {
    /// The phase's text.
    pub phase: Phase,
    /// Not earlier after the phase before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<DurationExpression>,
    /// Not later after the phase before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<DurationExpression>,
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FieldIs {
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// A JSON pointer, for instance `/spec/providerID`.
    pub field: String,
    /// Its value; null for a field that is not there.
    pub is: Value,
}

/// A field of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FieldOf {
    /// The object's kind.
    pub kind: String,
    /// The object's name.
    pub name: String,
    /// A JSON pointer, for instance `/spec/volumeName`.
    pub field: String,
}

/// So many pods of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Pods {
    /// The workload's name: the pods' label `app`.
    pub of: String,
    /// On the node of that machine; absent: on any or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// Those in that state; absent: all that are there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub are: Option<PodState>,
    /// No fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    /// No more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
}

/// How a pod can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodState {
    /// Its condition Ready is True, and it is not to go.
    Ready,
    /// The scheduler found no node for it.
    Unschedulable,
    /// It was deleted and is still there.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodsOn {
    /// The workload's name.
    pub of: String,
    /// The machine whose node it is.
    pub on: String,
}

/// The volumes of a claim are attached to so many nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attached {
    /// The claim's name.
    pub claim: String,
    /// Of the nodes only that of this machine; absent: of any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// No fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    /// No more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
}

/// So many volumes were made for a claim and are still there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumesOf {
    /// The claim's name; it may be gone.
    pub claim: String,
    /// How many.
    pub is: usize,
}

/// So many Kubernetes Events tell of an object; one that counts repetitions counts as often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct EventCount {
    /// The object's kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The event's reason.
    pub reason: String,
    /// No fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<usize>,
    /// No more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<usize>,
}

/// A fault rule, of the cloud's or of the API server's, has struck.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FaultHits {
    /// The rule's name.
    pub fault: String,
    /// So often or more.
    pub at_least: u64,
}

impl Expectation {
    pub(super) fn validate(&self) -> Result<(), (String, String)> {
        if let (Temporal::AtMost(_), Condition::Calls(calls)) = (&self.holds, &self.that)
            && (calls.at_least.is_some() || calls.at_most.is_some())
        {
            return Err((
                "that.calls".to_owned(),
                "under `atMost` calls are counted by themselves: leave atLeast and atMost out".to_owned(),
            ));
        }
        if self.holds == Temporal::Throughout && !self.meanwhile {
            return Err((
                "meanwhile".to_owned(),
                "what holds throughout is checked beside other steps: write `meanwhile: true`".to_owned(),
            ));
        }
        self.that.validate("that", matches!(self.holds, Temporal::AtMost(_)))
    }
}

impl Condition {
    fn validate(&self, path: &str, counted: bool) -> Result<(), (String, String)> {
        let wrong = |field: &str, message: &str| Err((format!("{path}.{field}"), message.to_owned()));
        match self {
            Self::Calls(calls) if !counted && calls.at_least.is_none() && calls.at_most.is_none() => {
                wrong("calls", "say `atLeast`, `atMost` or both")
            }
            Self::Pods(pods) if pods.at_least.is_none() && pods.at_most.is_none() => {
                wrong("pods", "say `atLeast`, `atMost` or both")
            }
            Self::Attached(attached) if attached.at_least.is_none() && attached.at_most.is_none() => {
                wrong("attached", "say `atLeast`, `atMost` or both")
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
            Self::Exists(ObjectReference { kind, name }) => write!(f, "{kind} {name} exists"),
            Self::Observed(ObjectReference { kind, name }) => {
                write!(f, "the status of {kind} {name} is about its newest spec")
            }
            Self::VmCount(VmCount { machine, is }) => write!(f, "machine {machine} has {is} VM(s)"),
            Self::Calls(calls) => {
                write!(f, "{} for {}", calls.call.rpc(), calls.machine)?;
                if let Some(least) = calls.at_least {
                    write!(f, " at least {least} times")?;
                }
                calls.at_most.map_or(Ok(()), |most| write!(f, " at most {most} times"))
            }
            Self::Unchanged(FieldOf { kind, name, field }) => write!(f, "{kind} {name} has the same {field}"),
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
            Self::Says(Says { machine, text }) => write!(f, "machine {machine} says {text:?}"),
            Self::History(History { machine, phases }) => {
                let phases: Vec<&str> = phases.iter().map(|change| change.phase.as_str()).collect();
                write!(
                    f,
                    "machine {machine} went through {}, each at its time",
                    phases.join(", ")
                )
            }
            Self::Field(FieldIs { kind, name, field, is }) => write!(f, "{kind} {name} has {field} = {is}"),
            Self::Told(told) => {
                bounds(f, told.at_least, told.at_most)?;
                write!(f, "event(s) {} tell of {} {}", told.reason, told.kind, told.name)
            }
            Self::Struck(FaultHits { fault, at_least }) => write!(f, "fault {fault} struck at least {at_least} times"),
            Self::All(list) => join(f, list, " and "),
            Self::Any(list) => join(f, list, " or "),
            Self::Not(condition) => write!(f, "not ({condition})"),
        }
    }
}

/// How many, in words, with a space behind.
fn bounds(f: &mut fmt::Formatter<'_>, least: Option<usize>, most: Option<usize>) -> fmt::Result {
    match (least, most) {
        (Some(least), Some(most)) if least == most => write!(f, "exactly {least} "),
        (Some(least), Some(most)) => write!(f, "{least} to {most} "),
        (Some(least), None) => write!(f, "at least {least} "),
        (None, Some(most)) => write!(f, "at most {most} "),
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
