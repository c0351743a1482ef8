//! What each process had received and done before each of its requests.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use scenario::kinds;

use super::changes::Changes;
use super::{Name, TraceEntry, TraceEvent};
use crate::draft::{Draft, PROCESS, TracePlace};
use crate::model::{Link, Micros, Verb};

/// The maximum number of other events that came before a write.
const MOST_SEEN: usize = 4;

/// A process, and the kind and name of an object.
type Key<'a> = (&'a str, &'a str, &'a str);

/// The request whose effect an event is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent<'a> {
    /// The process that sent it.
    pub(super) process: &'a str,
    /// Its entry: of a write and of a call that was answered at once its own, of another call the last one of its time.
    pub(super) entry: usize,
    /// What the process received before this entry can have led to the request.
    pub(super) bound: usize,
    /// The entry of the answer of a call; `None`: the process did not receive it.
    answer: Option<usize>,
    /// The rule that let the API server refuse it.
    pub(super) rule: Option<&'a str>,
}

/// The trace by process and object.
pub(super) struct Received<'a> {
    changes: &'a Changes,
    /// The request of each event, by its index.
    requests: Vec<Option<Sent<'a>>>,
    /// The entry of each event's request, by its id.
    by_id: BTreeMap<u64, usize>,
    /// Deliveries: the entries with the revisions.
    deliveries: BTreeMap<Key<'a>, Vec<(usize, u64)>>,
    /// Lists of a kind, by its plural name: the entries with the revisions.
    lists: BTreeMap<(&'a str, &'a str), Vec<(usize, u64)>>,
    /// The entries of lists that were the first one of their kind after their process had started.
    first_lists: BTreeSet<usize>,
    /// The entries at which a process started, with the ids of the events that say so.
    starts: BTreeMap<&'a str, Vec<(usize, Option<u64>)>>,
    /// Answers that a process received about a machine: the entries with the ids of the calls.
    answers: BTreeMap<(&'a str, &'a str), Vec<(usize, u64)>>,
    /// Writes of an object by a process: the entries with the ids.
    writes: BTreeMap<Key<'a>, Vec<(usize, u64)>>,
}

impl<'a> Received<'a> {
    pub(super) fn of(
        points: &'a [Draft],
        trace: &'a [TraceEntry],
        changes: &'a Changes,
        micros: impl Fn(Timestamp) -> Micros,
    ) -> Self {
        let requests = requests_of(points, trace, micros);
        let mut received = Self {
            changes,
            by_id: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            lists: BTreeMap::new(),
            first_lists: BTreeSet::new(),
            starts: BTreeMap::new(),
            answers: BTreeMap::new(),
            writes: BTreeMap::new(),
            requests,
        };
        let processes = points.iter().filter(|draft| draft.point.verb == Verb::Process);
        let process_events: BTreeMap<TracePlace, u64> =
            processes.filter_map(|draft| Some((draft.order?, draft.id))).collect();
        for (number, entry) in trace.iter().enumerate() {
            let TraceEntry { process, event, .. } = entry;
            match event {
                TraceEvent::Delivery { kind, name, revision } => {
                    let of_object = received.deliveries.entry((process, kind, name)).or_default();
                    of_object.push((number, *revision));
                }
                TraceEvent::List { plural, revision } => {
                    let of_kind = received.lists.entry((process, plural)).or_default();
                    let start = received.starts.get(process.as_str()).and_then(|starts| starts.last());
                    let is_first = |(start, _): &(usize, _)| of_kind.last().is_none_or(|(last, _)| last < start);
                    if start.is_some_and(is_first) {
                        received.first_lists.insert(number);
                    }
                    of_kind.push((number, *revision));
                }
                TraceEvent::Started => {
                    let event = process_events.get(&TracePlace::of(entry.number)).copied();
                    received.starts.entry(process).or_default().push((number, event));
                }
                TraceEvent::Write { .. } | TraceEvent::Refused { .. } | TraceEvent::Answer { .. } => {}
            }
        }
        for (draft, request) in points.iter().zip(&received.requests) {
            let Some(Sent {
                process, entry, answer, ..
            }) = *request
            else {
                continue;
            };
            received.by_id.insert(draft.id, entry);
            if draft.point.call.is_some() {
                for (_, machine) in &draft.related {
                    let of_machine = received.answers.entry((process, machine)).or_default();
                    of_machine.extend(answer.map(|answer| (answer, draft.id)));
                }
            } else if let Some(key) = draft.key.as_ref().filter(|_| !draft.point.verb.is_about_an_object()) {
                let of_object = received.writes.entry((process, key.kind, &key.name)).or_default();
                of_object.push((entry, draft.id));
            }
        }
        received.answers.values_mut().for_each(|list| list.sort_unstable());
        received.writes.values_mut().for_each(|list| list.sort_unstable());
        received
    }

    /// The request of an event, by the index of the event.
    pub(super) fn request_at(&self, index: usize) -> Option<Sent<'a>> {
        self.requests.get(index).copied().flatten()
    }

    /// The entry of an event's request, by its id.
    pub(super) fn entry_of(&self, id: u64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// What came before the request of a process: the latest event that can have led to it, and others.
    pub(super) fn before(&self, draft: &Draft, process: &str, entry: usize) -> (Option<(Link, u64)>, Vec<u64>) {
        // What was received before the previous write of the object has led to that one already.
        let previous = draft.previous.and_then(|id| Some((self.entry_of(id)?, id)));
        let since = previous.map_or(0, |(entry, _)| entry);
        let around = self.changes.around(draft);
        let mut found: Vec<(usize, u64)> = Vec::new();
        let mut status: Vec<(usize, u64)> = Vec::new();
        for name in &around.own {
            found.extend(self.delivered(process, name, entry));
            found.extend(self.done(draft, process, name, entry));
        }
        for name in &around.shared {
            found.extend(self.ordered(process, name, entry, since));
            status.extend(self.delivered(process, name, entry));
        }
        let is_new = |(at, id): &(usize, u64)| *at >= since && *id != draft.id;
        found.retain(is_new);
        found.sort_unstable();
        // What a process lists first after its start, it would not have looked at without it.
        let start = self.start(process, entry).filter(|(start, _)| *start >= since);
        let is_by_start = found.last().is_none_or(|(at, _)| self.first_lists.contains(at));
        let start = start.filter(|_| is_by_start).and_then(|(_, event)| event);
        let link = |id: u64| {
            if Some(id) == draft.previous {
                Link::Own
            } else {
                Link::Before
            }
        };
        let cause = found.pop().map(|(_, id)| (link(id), id));
        let cause = cause.or(draft.previous.map(|id| (Link::Own, id)));
        let cause = cause.or(start.map(|id| (Link::Before, id)));
        found.extend(status.into_iter().filter(is_new));
        found.sort_unstable();
        let mut seen: Vec<u64> = found.into_iter().rev().map(|(_, id)| id).collect();
        seen.retain(|id| Some(*id) != draft.previous && cause.is_none_or(|(_, cause)| cause != *id));
        seen.dedup();
        seen.truncate(MOST_SEEN);
        seen.extend(start.filter(|start| cause.is_some_and(|(_, cause)| cause != *start)));
        (cause, seen)
    }

    /// The last start of a process before an entry.
    fn start(&self, process: &str, before: usize) -> Option<(usize, Option<u64>)> {
        let starts = self.starts.get(process)?;
        let count = starts.partition_point(|(start, _)| *start < before);
        starts[..count].last().copied()
    }

    /// What a process received about an object between two entries, by watches and by lists: the entries with the
    /// revisions. Nothing that it received before it started counts.
    fn revisions<'s>(
        &'s self,
        process: &'s str,
        name: &'s Name,
        after: usize,
        before: usize,
    ) -> [&'s [(usize, u64)]; 2] {
        let after = self.start(process, before).map_or(after, |(start, _)| after.max(start));
        let watched = self.deliveries.get(&(process, name.0.as_str(), name.1.as_str()));
        let listed = kinds::find(&name.0)
            .ok()
            .and_then(|kind| self.lists.get(&(process, kind.plural)));
        [watched, listed].map(|list| between(list.map_or(&[], Vec::as_slice), after, before))
    }

    /// The last change of an object that a process received before an entry.
    fn delivered(&self, process: &str, name: &Name, before: usize) -> Option<(usize, u64)> {
        let lists = self.revisions(process, name, 0, before);
        let (at, revision) = lists.iter().filter_map(|list| list.last()).max()?;
        Some((*at, self.changes.at(name, *revision)?))
    }

    /// The last change of more than the status of an object that a process received before an entry, and after another.
    fn ordered(&self, process: &str, name: &Name, before: usize, after: usize) -> Option<(usize, u64)> {
        let [watched, listed] = self.revisions(process, name, after, before);
        let watched = watched
            .iter()
            .rev()
            .find_map(|(at, revision)| Some((*at, self.changes.order_at(name, *revision)?)));
        let listed = listed
            .last()
            .and_then(|(at, revision)| Some((*at, self.changes.order_up_to(name, *revision)?)));
        watched.max(listed)
    }

    /// What a process did last about an object before an entry: a cloud call about a machine, or, if a Kubernetes Event reports
    /// it, a write.
    fn done(&self, draft: &Draft, process: &str, name: &Name, before: usize) -> Option<(usize, u64)> {
        let answers = self.answers.get(&(process, name.1.as_str()));
        let answered = answers.filter(|_| name.0 == "Machine");
        let answered = answered.and_then(|list| last_before(list, before));
        let written = self.writes.get(&(process, name.0.as_str(), name.1.as_str()));
        let written = written.filter(|_| draft.point.verb == Verb::Event);
        answered.max(written.and_then(|list| last_before(list, before)))
    }
}

/// The part of a list from an entry of the trace to another one.
fn between(list: &[(usize, u64)], after: usize, before: usize) -> &[(usize, u64)] {
    let last = list.partition_point(|(at, _)| *at < before);
    let first = list.partition_point(|(at, _)| *at < after).min(last);
    &list[first..last]
}

/// The last entry of a list before an entry of the trace.
fn last_before(list: &[(usize, u64)], entry: usize) -> Option<(usize, u64)> {
    let count = list.partition_point(|(at, _)| *at < entry);
    list[..count].last().copied()
}

/// The request of each event: of a write the one with its revision, of a call the one with its answer, of a refused request
/// the last one about its object at that time. A call that the cloud answered late was sent before, at the time of its effect; the trace has only
/// the answer.
fn requests_of<'a>(
    points: &'a [Draft],
    trace: &'a [TraceEntry],
    micros: impl Fn(Timestamp) -> Micros,
) -> Vec<Option<Sent<'a>>> {
    // By kind, namespace, name and revision; the name is empty for creations.
    let mut writes: BTreeMap<(&str, &str, &str, u64), usize> = BTreeMap::new();
    let mut answers: BTreeMap<(&str, &str, Micros), Vec<usize>> = BTreeMap::new();
    // The last of equal ones at one time.
    let mut refusals: BTreeMap<(&str, &str, &str, Micros), usize> = BTreeMap::new();
    let times: Vec<Micros> = trace.iter().map(|entry| micros(entry.at)).collect();
    for (number, TraceEntry { process, event, .. }) in trace.iter().enumerate() {
        match event {
            TraceEvent::Write {
                plural,
                namespace,
                name,
                revision,
            } => {
                // A later write of the same revision changed nothing.
                writes.entry((plural, namespace, name, *revision)).or_insert(number);
            }
            TraceEvent::Refused {
                plural,
                namespace,
                name,
                ..
            } => drop(refusals.insert((plural, namespace, name, times[number]), number)),
            TraceEvent::Answer { call } => answers.entry((process, call, times[number])).or_default().push(number),
            TraceEvent::Delivery { .. } | TraceEvent::List { .. } | TraceEvent::Started => {}
        }
    }
    let at_once = |entry: usize| Sent {
        process: &trace[entry].process,
        entry,
        bound: entry,
        answer: None,
        rule: match &trace[entry].event {
            TraceEvent::Refused { rule, .. } => rule.as_deref(),
            _ => None,
        },
    };
    let write = |draft: &Draft| {
        let (key, revision) = (draft.key.as_ref()?, draft.point.revision?);
        let named = (key.plural, key.namespace.as_str(), key.name.as_str(), revision);
        let created = (key.plural, key.namespace.as_str(), "", revision);
        writes
            .get(&named)
            .or_else(|| writes.get(&created))
            .copied()
            .map(at_once)
    };
    let refused = |draft: &Draft| {
        let key = draft.key.as_ref()?;
        let named = (key.plural, key.namespace.as_str(), key.name.as_str(), draft.point.at);
        let created = (key.plural, key.namespace.as_str(), "", draft.point.at);
        refusals
            .get(&named)
            .or_else(|| refusals.get(&created))
            .copied()
            .map(at_once)
    };
    // Equal calls that are answered at one time are answered in their order.
    let mut equal_calls: BTreeMap<(&str, &str, Micros), usize> = BTreeMap::new();
    let request = |draft| {
        let draft: &Draft = draft;
        let Some(call) = &draft.point.call else {
            return match draft.point.verb {
                Verb::Request => refused(draft),
                _ => write(draft),
            };
        };
        let process = draft.point.by.as_deref()?.strip_prefix(PROCESS)?;
        let delay = draft.point.delay.map_or(0, |delay| delay.0);
        let key = (process, call.as_str(), Micros(draft.point.at.0.saturating_add(delay)));
        let count = equal_calls.entry(key).or_default();
        *count += 1;
        let answer = answers.get(&key).and_then(|list| list.get(*count - 1)).copied();
        let (entry, bound) = match delay {
            0 => (answer?, answer?),
            _ => {
                let bound = times.partition_point(|time| *time <= draft.point.at);
                (bound.checked_sub(1)?, bound)
            }
        };
        Some(Sent {
            process,
            entry,
            bound,
            answer,
            rule: None,
        })
    };
    points.iter().map(request).collect()
}
