//! Finds who wrote an object, and the event that led to it, in the trace of a simulated run.
//!
//! The trace contains what each process received and sent, in order. An object's resource version identifies the write,
//! and so the process that sent it. No cause is guessed. What the harness does itself is known: the step that sent a request
//! or started a fault. Of the write of another process only what it had received before is known (lists, deliveries of
//! watches and answers of cloud calls, since it started); [`Link`] keeps the two apart.

mod changes;
mod cloud;
mod processes;
mod received;
mod steps;

use jiff::Timestamp;

use self::changes::Changes;
use self::cloud::CloudHistory;
use self::processes::Processes;
use self::received::{Received, Sent};
use self::steps::Steps;
use crate::draft::{Draft, PROCESS, StepMark, TracePlace};
use crate::model::{Link, Micros, Verb};

/// What a process received or sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceEntry {
    /// Its position in the trace.
    pub number: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The name of the process.
    pub process: String,
    /// What happened.
    pub event: TraceEvent,
}

/// An entry of a trace that causes depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A successful write to the API server.
    Write {
        /// The plural name of the kind.
        plural: String,
        /// The namespace; empty: none.
        namespace: String,
        /// The name; empty: the server or the body named it.
        name: String,
        /// The newest revision of the server after the write.
        revision: u64,
    },
    /// A request to the API server that was refused or had no response.
    Refused {
        /// The plural name of the kind.
        plural: String,
        /// The namespace; empty: none.
        namespace: String,
        /// The name; empty: the body has it.
        name: String,
        /// The rule that let it be refused.
        rule: Option<String>,
    },
    /// A delivery of a watch.
    Delivery {
        /// The kind of the object.
        kind: String,
        /// The name of the object.
        name: String,
        /// Its resource version.
        revision: u64,
    },
    /// A successful list: what the process had not received by watches.
    List {
        /// The plural name of the kind.
        plural: String,
        /// The newest revision of the server after the list.
        revision: u64,
    },
    /// The process starts, and has received nothing.
    Started,
    /// The answer of a cloud call.
    Answer {
        /// The name of the call.
        call: String,
    },
}

/// A kind and a name. Names of machines, nodes and sets are unique in a scenario.
type Name = (String, String);

/// The process of the harness itself, which performs the steps.
const HARNESS: &str = "drydock";
/// The process of all simulated kubelets.
const KUBELETS: &str = "kubelets";

/// Sets the process and the cause of each event that the trace explains. The process is the id of its actor.
pub(crate) fn find(
    points: &mut [Draft],
    steps: &[StepMark],
    trace: &[TraceEntry],
    micros: impl Fn(Timestamp) -> Micros,
) {
    let explained = explain(points, steps, trace, micros);
    for (draft, explained) in points.iter_mut().zip(explained) {
        if let Some(process) = explained.process {
            draft.point.by = Some(format!("{PROCESS}{process}"));
        }
        if draft.cause.is_none() {
            draft.cause = explained.cause;
            draft.seen = explained.seen;
        }
        draft.order = draft.order.or(explained.order);
        draft.point.fault = draft.point.fault.take().or(explained.fault);
        draft.point.step = explained.step.or(draft.point.step);
    }
}

/// What a trace says about an event.
#[derive(Default)]
struct Explained {
    /// The name of the process that performed it.
    process: Option<String>,
    /// The id of its cause, and how that is known.
    cause: Option<(Link, u64)>,
    /// The ids of other events that its process had received, the latest first.
    seen: Vec<u64>,
    /// Its place in the trace.
    order: Option<TracePlace>,
    /// The rule that let it be refused.
    fault: Option<String>,
    /// The number of the step during which it was sent.
    step: Option<usize>,
}

/// Explains each event.
fn explain(
    points: &[Draft],
    steps: &[StepMark],
    trace: &[TraceEntry],
    micros: impl Fn(Timestamp) -> Micros,
) -> Vec<Explained> {
    let changes = Changes::of(points);
    let received = Received::of(points, trace, &changes, micros);
    let cloud = CloudHistory::of(points);
    let processes = Processes::of(points);
    let steps = Steps::of(steps, points);
    let explained = points.iter().enumerate().map(|(index, draft)| match draft.point.verb {
        Verb::Vm | Verb::Kubelet => {
            let call = cloud.call_of_vm(draft.id);
            let place = call
                .and_then(|call| received.entry_of(call))
                .map(|entry| trace[entry].number);
            let by_call = call.map(|call| (Link::Caused, call));
            let step = steps.disturbing(draft, cloud.zone_of(draft)).filter(|_| call.is_none());
            let by_step = step.map(|step| (Link::Caused, step.id));
            Explained {
                cause: by_call.or(by_step).or_else(|| cloud.before(draft)),
                order: place.map(TracePlace::of_vm).or(step.and_then(|step| step.order)),
                step: step.map(|step| step.number),
                ..Explained::default()
            }
        }
        Verb::Note => Explained {
            cause: steps.keeping(draft).map(|id| (Link::Caused, id)),
            ..Explained::default()
        },
        Verb::Process => Explained {
            cause: processes.before(draft),
            ..Explained::default()
        },
        Verb::Fault => Explained {
            cause: cloud.begin_of_fault(draft).map(|id| (Link::Caused, id)),
            ..Explained::default()
        },
        _ => {
            let Some(Sent {
                process,
                entry,
                bound,
                rule,
                ..
            }) = received.request_at(index)
            else {
                return Explained::default();
            };
            let order = TracePlace::of(trace[entry].number);
            let step = steps.at(order);
            let (cause, seen) = match process {
                HARNESS => (steps.writing(draft, order).map(|id| (Link::Caused, id)), Vec::new()),
                KUBELETS => match cloud.of_kubelet(draft) {
                    Some(event) => (Some((Link::Before, event)), Vec::new()),
                    None => received.before(draft, process, bound),
                },
                _ => received.before(draft, process, bound),
            };
            Explained {
                process: Some(process.to_owned()),
                cause,
                seen,
                order: Some(order),
                fault: rule.map(str::to_owned),
                step: step.map(|step| step.number),
            }
        }
    });
    explained.collect()
}

#[cfg(test)]
mod tests;
