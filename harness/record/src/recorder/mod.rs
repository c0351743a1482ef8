//! Collects the record of a run while it is in progress.
//!
//! The engine passes each observation in the order in which it was observed. Events have provisional ids until
//! [`Recorder::finish`] numbers those that remain.

mod actors;
mod checks;
mod faults;
mod finish;
mod named;
mod objects;
mod processes;
mod session;
mod spans;
mod summary;

use std::collections::BTreeMap;

use jiff::Timestamp;
use scenario::cloud::CloudEvent;
use scenario::kinds;
use scenario::observation::{Observation, Quiet, Request, Seen};
use serde_json::Value;

use self::actors::Actors;
use self::checks::Checks;
use self::faults::Windows;
pub use self::finish::Program;
pub use self::processes::{Limit, StageEvent, StageEventKind, Window};
pub use self::session::Session;
use self::spans::Spans;
use crate::draft::{Draft, Interest, ObjectKey, StepMark};
use crate::limits::{self, MOST_POINTS};
use crate::logs;
use crate::model::{ActorKind, CounterStep, Dropped, Log, Micros, Point, Verb};

/// The id of the actor of the scenario.
const SCENARIO: &str = "scenario";
/// The id of the cloud as a whole.
const CLOUD: &str = "cloud";

/// Collects the record of a run.
#[derive(Clone, Debug)]
pub struct Recorder {
    started: Timestamp,
    /// The current step, from 1; 0: before the first one.
    step: usize,
    next: u64,
    actors: Actors,
    points: Vec<Draft>,
    spans: Spans,
    windows: Windows,
    checks: Checks,
    /// All steps that began.
    steps: Vec<StepMark>,
    /// The id of the last write of each object.
    writes: BTreeMap<ObjectKey, u64>,
    /// The holder of the controllers' Lease, by its identity.
    leader: String,
    /// The number of mcm's open watches over time.
    watches: Vec<CounterStep>,
    /// The id of the point of the latest observation; `None`: it has none.
    latest: Option<u64>,
    heartbeats: u64,
    /// When the quiet end of the run began.
    quiet: Option<Micros>,
    dropped: Vec<Dropped>,
    logs: Vec<Log>,
    causes_known: bool,
}

impl Recorder {
    /// An empty record of a scenario that started at this time.
    pub fn new(started: Timestamp) -> Self {
        let mut actors = Actors::default();
        actors.add(SCENARIO, ActorKind::Scenario, SCENARIO, None);
        Self {
            started,
            step: 0,
            next: 0,
            actors,
            points: Vec::new(),
            spans: Spans::default(),
            windows: Windows::default(),
            checks: Checks::default(),
            steps: Vec::new(),
            writes: BTreeMap::new(),
            leader: String::new(),
            watches: Vec::new(),
            latest: None,
            heartbeats: 0,
            quiet: None,
            dropped: Vec::new(),
            logs: Vec::new(),
            causes_known: false,
        }
    }

    /// The start of the scenario.
    pub fn started(&self) -> Timestamp {
        self.started
    }

    /// The number of events that were recorded so far, including those that were dropped later.
    pub fn recorded(&self) -> u64 {
        self.next
    }

    /// Records an observation. `before` is the object's previous version, and `lines` describe the observation.
    pub fn observe(&mut self, observation: &Observation, before: Option<&Value>, lines: &[String]) {
        let at = self.micros(observation.at);
        self.latest = match &observation.what {
            Seen::Applied(kind, object) if kind.key == "Lease" => self.lease(at, object),
            Seen::Applied(kind, object) if kind.key == "Event" => self.event(at, object, lines),
            Seen::Applied(kind, object) => self.written(at, kind, object, before, lines),
            Seen::Deleted(kind, _) if kind.key == "Event" => None,
            Seen::Deleted(kind, object) => self.deleted(at, kind, object, lines),
            Seen::Cloud(event) => self.cloud(at, event, lines),
            Seen::Request(request) => self.request(at, request, lines),
            Seen::Quiet(quiet) => {
                if *quiet == Quiet::Began {
                    self.end_rules(at);
                    self.quiet = Some(at);
                }
                self.note_lines(at, lines)
            }
            Seen::Note(_) => self.note_lines(at, lines),
        };
    }

    /// Records how many watches mcm had open when an observation was made.
    pub fn open_watches(&mut self, at: Timestamp, value: u64) {
        let now = CounterStep {
            at: self.micros(at),
            value,
            point: None,
        };
        match self.watches.last_mut() {
            Some(last) if last.value == value => {}
            Some(last) if last.at >= now.at => last.value = value,
            _ => self.watches.push(now),
        }
    }

    /// Adds the logs of processes, each with the name of its file and its content.
    pub fn add_logs<'a>(&mut self, files: impl Iterator<Item = (&'a str, &'a [u8])>) {
        self.logs = logs::of(files, self.started, &mut self.dropped);
    }

    /// Records a note of the harness.
    pub fn note(&mut self, at: Timestamp, text: &str) {
        let at = self.micros(at);
        self.push(at, SCENARIO, Verb::Note, text.to_owned(), Interest::State);
    }

    fn note_lines(&mut self, at: Micros, lines: &[String]) -> Option<u64> {
        let text = (!lines.is_empty()).then(|| lines.join("; "))?;
        Some(self.push(at, SCENARIO, Verb::Note, text, Interest::State))
    }

    /// Records a request of the controller that was refused or failed, if there is a text about it.
    fn request(&mut self, at: Micros, request: &Request, lines: &[String]) -> Option<u64> {
        let summary = lines.first()?.clone();
        let by = self.actors.process("mcm");
        let plural = request.resource.split('/').next().unwrap_or_default();
        let kind = kinds::all().find(|kind| kind.plural == plural && !request.name.is_empty());
        let actor = match kind {
            Some(kind) => self.actors.involved(kind.kind, &request.namespace, &request.name),
            None => by.clone(),
        };
        let key = kind.map(|kind| ObjectKey {
            kind: kind.kind,
            plural: kind.plural,
            namespace: request.namespace.clone(),
            name: request.name.clone(),
        });
        let previous = key.as_ref().and_then(|key| self.writes.get(key)).copied();
        let id = self.push(at, &actor, Verb::Request, summary, Interest::Call);
        if let Some(draft) = self.points.last_mut() {
            draft.point.code = Some(request.code.to_string());
            draft.point.by = Some(by);
            draft.previous = previous;
            draft.related.extend(kind.map(|kind| (kind.kind, request.name.clone())));
            draft.key = key;
        }
        Some(id)
    }

    fn cloud(&mut self, at: Micros, event: &CloudEvent, lines: &[String]) -> Option<u64> {
        let summary = lines.join("; ");
        match event {
            CloudEvent::Vm(vm) => {
                let actor = self.actors.vm(vm);
                let state = vm.state.to_string();
                if self.spans.current(&actor, crate::SpanClass::Vm) == Some(&state) {
                    return None;
                }
                let summary = match summary.is_empty() {
                    true => format!("VM {} of {} is {state}", vm.id, vm.machine),
                    false => summary,
                };
                let zone = actors::zone_of(&vm.provider_id).map(str::to_owned);
                let id = self.push(at, &actor, Verb::Vm, summary, Interest::State);
                if let Some(draft) = self.points.last_mut() {
                    draft.related.push(("Machine", vm.machine.clone()));
                    draft.related.extend(zone.map(|zone| ("Zone", zone)));
                }
                match vm.state {
                    scenario::cloud::VmState::Terminated => self.spans.end(&actor, crate::SpanClass::Vm, at),
                    _ => self.spans.begin(&actor, crate::SpanClass::Vm, &state, at, Some(id)),
                }
                Some(id)
            }
            CloudEvent::Call(call) => {
                let actor = match call.machine.as_str() {
                    "" => self.actors.add(CLOUD, ActorKind::Cloud, CLOUD, None),
                    machine => self.actors.machine(machine),
                };
                let is_plain = call.code == "OK" && call.rule.is_none();
                let interest = match is_plain && ["ListMachines", "GetMachineStatus"].contains(&call.call.as_str()) {
                    true => Interest::Node,
                    false => Interest::Call,
                };
                let id = self.push(at, &actor, Verb::Call, summary, interest);
                // The identity of a replica is its name and the number of its incarnation.
                let client = call.client.split('_').next().unwrap_or_default();
                let by = (!client.is_empty()).then(|| self.actors.process(client));
                if let Some(draft) = self.points.last_mut() {
                    draft.point.code = Some(call.code.clone());
                    draft.point.fault.clone_from(&call.rule);
                    draft.point.by = by;
                    draft.point.call = Some(call.call.clone());
                    draft.point.delay = (!call.delay.is_zero()).then(|| call.delay.into());
                    draft.related.push(("Machine", call.machine.clone()));
                }
                if let Some(rule) = &call.rule {
                    self.rule_hit(at, rule);
                }
                Some(id)
            }
            CloudEvent::Kubelet(kubelet) => {
                let actor = self.actors.node_of_machine(&kubelet.machine);
                let id = self.push(at, &actor, Verb::Kubelet, summary, Interest::Call);
                if let Some(draft) = self.points.last_mut() {
                    draft.related.push(("Machine", kubelet.machine.clone()));
                }
                Some(id)
            }
        }
    }

    /// Adds a point. Returns its id.
    fn push(&mut self, at: Micros, actor: &str, verb: Verb, summary: String, interest: Interest) -> u64 {
        if self.points.len() >= 2 * MOST_POINTS {
            limits::thin_out(&mut self.points, MOST_POINTS, &mut self.dropped);
        }
        let id = self.next;
        self.next += 1;
        self.points.push(Draft {
            id,
            interest,
            key: None,
            related: Vec::new(),
            order: None,
            cause: None,
            seen: Vec::new(),
            previous: None,
            point: Point {
                number: 0,
                at,
                actor: actor.to_owned(),
                verb,
                summary,
                object: None,
                revision: None,
                by: None,
                cause: None,
                link: None,
                seen: Vec::new(),
                previous: None,
                incomplete: false,
                diff: None,
                cut: false,
                call: None,
                delay: None,
                code: None,
                fault: None,
                violates: None,
                step: (self.step > 0).then_some(self.step),
            },
        });
        id
    }

    /// The events so far.
    #[cfg(test)]
    pub(crate) fn into_points(self) -> Vec<Draft> {
        self.points
    }

    /// A time of the stage's clock; times before the start count as the start.
    fn micros(&self, at: Timestamp) -> Micros {
        let after = at.duration_since(self.started).as_micros();
        Micros(u64::try_from(after).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
