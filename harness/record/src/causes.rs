//! Finds who wrote an object, and the event that led to it, in the trace of a simulated run.
//!
//! The trace contains what each process received and sent, in order. An object's resource version identifies the write,
//! and so the process that sent it. The cause of a write is the latest change of the object, or of a related
//! one, that this process had received before: a delivery of a watch, or the answer of a cloud call.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use crate::draft::Draft;
use crate::model::{Micros, Verb};

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
    /// A delivery of a watch.
    Delivery {
        /// The kind of the object.
        kind: String,
        /// The name of the object.
        name: String,
        /// Its resource version.
        revision: u64,
    },
    /// The answer of a cloud call.
    Answer {
        /// The name of the call.
        call: String,
    },
}

/// A kind and a name. Names of machines, nodes and sets are unique in a scenario.
type Name = (String, String);

/// A process, and the kind and name of an object.
type Received<'a> = (&'a str, &'a str, &'a str);

/// The trace, by process and object.
#[derive(Default)]
struct Index<'a> {
    /// The entry of a write by kind, namespace, name and revision; the name is empty for creations.
    writes: BTreeMap<(&'a str, &'a str, &'a str, u64), usize>,
    /// Deliveries: the entries with their revisions, by process, kind and name.
    deliveries: BTreeMap<Received<'a>, Vec<(usize, u64)>>,
    /// Answers: the entries, by process, call and time.
    answers: BTreeMap<(&'a str, &'a str, Micros), Vec<usize>>,
}

impl<'a> Index<'a> {
    fn new(trace: &'a [TraceEntry], micros: impl Fn(Timestamp) -> Micros) -> Self {
        let mut index = Self::default();
        for (number, TraceEntry { at, process, event, .. }) in trace.iter().enumerate() {
            match event {
                TraceEvent::Write {
                    plural,
                    namespace,
                    name,
                    revision,
                } => {
                    // A later write of the same revision changed nothing.
                    let key = (plural.as_str(), namespace.as_str(), name.as_str(), *revision);
                    index.writes.entry(key).or_insert(number);
                }
                TraceEvent::Delivery { kind, name, revision } => {
                    let of_object = index.deliveries.entry((process, kind, name)).or_default();
                    of_object.push((number, *revision));
                }
                TraceEvent::Answer { call } => {
                    let of_call = index.answers.entry((process, call, micros(*at))).or_default();
                    of_call.push(number);
                }
            }
        }
        index
    }

    /// The entry of the write after which an object has a revision.
    fn write(&self, draft: &Draft) -> Option<usize> {
        let key = draft.key.as_ref()?;
        let revision = draft.point.revision?;
        let named = (key.plural, key.namespace.as_str(), key.name.as_str(), revision);
        let created = (key.plural, key.namespace.as_str(), "", revision);
        self.writes.get(&named).or_else(|| self.writes.get(&created)).copied()
    }

    /// The last delivery of an object to a process before an entry: the entry, and the revision.
    fn delivered(&self, process: &str, (kind, name): &Name, before: usize) -> Option<(usize, u64)> {
        last_before(self.deliveries.get(&(process, kind.as_str(), name.as_str()))?, before)
    }

    /// The entry of the answer of a call; `number` counts the equal calls that were answered at that time.
    fn answer(&self, process: &str, call: &str, at: Micros, number: usize) -> Option<usize> {
        self.answers.get(&(process, call, at))?.get(number).copied()
    }
}

/// Sets the process and the cause of each event that the trace explains. The process is the id of its actor.
pub(crate) fn find(points: &mut [Draft], trace: &[TraceEntry], micros: impl Fn(Timestamp) -> Micros) {
    let explained = explain(points, trace, micros);
    for (draft, explained) in points.iter_mut().zip(explained) {
        if let Some(process) = explained.process {
            draft.point.by = Some(format!("process/{process}"));
        }
        draft.cause = draft.cause.or(explained.cause);
        draft.order = draft.order.or(explained.order);
    }
}

/// What a trace says about an event.
#[derive(Default)]
struct Explained {
    /// The name of the process that performed it.
    process: Option<String>,
    /// The id of its cause.
    cause: Option<u64>,
    /// Its place in the trace.
    order: Option<u64>,
}

/// Explains each event.
fn explain(points: &[Draft], trace: &[TraceEntry], micros: impl Fn(Timestamp) -> Micros) -> Vec<Explained> {
    let index = Index::new(trace, micros);
    let changes = Changes::of(points);
    // The entry of each event, and the answers that a process received about a machine.
    let mut answers: BTreeMap<(&str, &str), Vec<(usize, u64)>> = BTreeMap::new();
    let mut equal_calls: BTreeMap<(&str, &str, Micros), usize> = BTreeMap::new();
    let mut entries = Vec::with_capacity(points.len());
    for draft in points {
        let process = draft.point.by.as_deref().and_then(|by| by.strip_prefix("process/"));
        let entry = match (&draft.call, process) {
            (None, _) => index.write(draft),
            (Some(_), None) => None,
            (Some(call), Some(process)) => {
                let number = equal_calls.entry((process, call, draft.point.at)).or_default();
                *number += 1;
                index.answer(process, call, draft.point.at, *number - 1)
            }
        };
        if let (Some(entry), Some(_)) = (entry, &draft.call) {
            for (_, machine) in &draft.related {
                let process = trace[entry].process.as_str();
                answers.entry((process, machine)).or_default().push((entry, draft.id));
            }
        }
        entries.push(entry);
    }
    answers.values_mut().for_each(|list| list.sort_unstable());
    let calls_of_vms = calls_of_vms(points);
    // The place of each call in the trace.
    let with_entries = points.iter().zip(&entries);
    let calls: BTreeMap<u64, u64> = with_entries
        .filter(|(draft, _)| draft.call.is_some())
        .filter_map(|(draft, entry)| Some((draft.id, trace[(*entry)?].number)))
        .collect();
    let explained = points.iter().zip(entries).map(|(draft, entry)| {
        if draft.point.verb == Verb::Vm {
            let call = calls_of_vms.get(&draft.id);
            return Explained {
                process: None,
                cause: call.copied(),
                order: call.and_then(|call| calls.get(call).copied()),
            };
        }
        let Some(entry) = entry else {
            return Explained::default();
        };
        let process = trace[entry].process.as_str();
        let mut received: Option<(usize, u64)> = None;
        for name in changes.around(draft) {
            let delivered = index.delivered(process, &name, entry);
            let delivered = delivered.and_then(|(at, revision)| Some((at, changes.at(&name, revision)?)));
            let answered = answers.get(&(process, name.1.as_str())).filter(|_| name.0 == "Machine");
            let answered = answered.and_then(|list| last_before(list, entry));
            received = [received, delivered, answered].into_iter().flatten().max();
        }
        Explained {
            process: Some(process.to_owned()),
            order: Some(trace[entry].number),
            cause: received.map(|(_, id)| id).filter(|id| *id != draft.id),
        }
    });
    explained.collect()
}

/// The last entry of a list before an entry of the trace.
fn last_before(list: &[(usize, u64)], entry: usize) -> Option<(usize, u64)> {
    let count = list.partition_point(|(at, _)| *at < entry);
    list[..count].last().copied()
}

/// The changes of all objects.
struct Changes {
    /// The events of an object by revision.
    revisions: BTreeMap<Name, BTreeMap<u64, u64>>,
    /// The objects that belong to an object.
    children: BTreeMap<Name, BTreeSet<Name>>,
}

impl Changes {
    fn of(points: &[Draft]) -> Self {
        let mut revisions: BTreeMap<Name, BTreeMap<u64, u64>> = BTreeMap::new();
        let mut children: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
        for draft in points {
            let (Some(key), Some(revision)) = (&draft.key, draft.point.revision) else {
                continue;
            };
            let name = (key.kind.to_owned(), key.name.clone());
            for (kind, parent) in &draft.related {
                let parent = ((*kind).to_owned(), parent.clone());
                children.entry(parent).or_default().insert(name.clone());
            }
            revisions.entry(name).or_default().entry(revision).or_insert(draft.id);
        }
        Self { revisions, children }
    }

    /// The object of an event, the objects that it belongs to, and those that belong to it.
    fn around(&self, draft: &Draft) -> BTreeSet<Name> {
        let mut names: BTreeSet<Name> = draft
            .related
            .iter()
            .map(|(kind, name)| ((*kind).to_owned(), name.clone()))
            .collect();
        if let Some(key) = &draft.key {
            let own = (key.kind.to_owned(), key.name.clone());
            names.extend(self.children.get(&own).into_iter().flatten().cloned());
            names.insert(own);
        }
        names
    }

    /// The event of an object's newest change up to a revision.
    fn at(&self, name: &Name, revision: u64) -> Option<u64> {
        let of_object = self.revisions.get(name)?;
        of_object.range(..=revision).next_back().map(|(_, id)| *id)
    }
}

/// The calls that change a VM.
const CHANGING: [&str; 3] = ["CreateMachine", "DeleteMachine", "StopMachine"];

/// The call that changed a VM: the ledger records it at the same moment, after the VM.
fn calls_of_vms(points: &[Draft]) -> BTreeMap<u64, u64> {
    let mut calls: BTreeMap<(Micros, &str), Vec<u64>> = BTreeMap::new();
    for draft in points {
        if draft.call.as_deref().is_some_and(|call| CHANGING.contains(&call)) {
            for (_, machine) in &draft.related {
                calls.entry((draft.point.at, machine)).or_default().push(draft.id);
            }
        }
    }
    let vms = points.iter().filter(|draft| draft.point.verb == Verb::Vm);
    let call = |draft: &Draft| {
        let (_, machine) = draft.related.first()?;
        let of_machine = calls.get(&(draft.point.at, machine.as_str()))?;
        Some((draft.id, *of_machine.iter().find(|call| **call > draft.id)?))
    };
    vms.filter_map(call).collect()
}

#[cfg(test)]
mod tests;
