//! The model of the running world: observations change it, readers ask for what they need. It knows no clock and no client.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use judge::object::{label, text};
use judge::texts;
use judge::world::{WorldState, key};
use parking_lot::Mutex;
use record::{Place, Program, Recorder, RunRecord, StageEvent, StageEventKind};
use scenario::cloud::{CloudEvent, Vm, VmState};
use scenario::kinds::Kind;
use scenario::observation::{Observation, Seen};
use scenario::step::{Process, Request};
use scenario::{Step, Timeouts};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::active::{ActiveFault, ActiveFaults};
use crate::entity::{self, Entity, EntityKind, Pods, vm_id};
use crate::faults::{self, Fault, FaultPlan, FaultStep, Fleet, Member};
use crate::feed::{Changes, Feed};
use crate::session::{self, PlanError, Session};
use crate::settings::Settings;

/// With more nodes, the timeline has no rows for nodes and pods: only the topology shows them.
const MOST_RECORDED_NODES: usize = 500;
/// After this number of observations the timeline begins again, so that a world can run for weeks.
const MOST_RECORDED: u64 = 200_000;
/// The events of an object in its details.
const MOST_EVENTS: usize = 20;
/// The owners of an object in its details. Owners may form a cycle: the API server does not check them.
const MOST_OWNERS: usize = 8;
/// The label of a machine with the name of its deployment.
const POOL_LABELS: [&str; 1] = ["name"];

/// The model.
#[derive(Debug)]
pub struct LiveWorld {
    settings: Settings,
    started: Timestamp,
    state: WorldState,
    recorder: Recorder,
    /// Whether the timeline is recorded here; otherwise the run that is observed records it.
    keeps_timeline: bool,
    recorded: u64,
    /// Since when the timeline lasts.
    recording_since: Timestamp,
    feed: Feed,
    /// The pods of each node, by its name.
    pods: BTreeMap<String, Pods>,
    nodes: usize,
    session: Session,
    /// The processes, and whether they run.
    processes: BTreeMap<Process, bool>,
    next_fault: u64,
    active: ActiveFaults,
    changed: watch::Sender<u64>,
}

/// A timeline.
#[derive(Clone, Debug)]
pub struct Timeline {
    recorder: Recorder,
    since: Timestamp,
    session: record::Session,
}

impl Timeline {
    /// Its record, which ends now.
    pub fn record(self, now: Timestamp) -> RunRecord {
        self.recorder.so_far(now.max(self.since), self.session)
    }
}

/// The model, shared by the watches and the server.
pub type Shared = Arc<Mutex<LiveWorld>>;

impl LiveWorld {
    /// An empty world that started at this time.
    pub fn new(started: Timestamp, settings: Settings) -> Self {
        Self {
            settings,
            started,
            state: WorldState::default(),
            recorder: Recorder::new(started),
            keeps_timeline: true,
            recorded: 0,
            recording_since: started,
            feed: Feed::default(),
            pods: BTreeMap::new(),
            nodes: 0,
            session: Session::default(),
            processes: BTreeMap::new(),
            next_fault: 0,
            active: ActiveFaults::default(),
            changed: watch::Sender::new(0),
        }
    }

    /// An empty world whose timeline is recorded elsewhere.
    pub fn without_timeline(started: Timestamp, settings: Settings) -> Self {
        Self {
            keeps_timeline: false,
            ..Self::new(started, settings)
        }
    }

    /// Forgets everything that was observed: all watches begin again. The session goes on.
    pub fn restart(&mut self, at: Timestamp) {
        self.state = WorldState::default();
        self.begin_timeline(at);
        self.pods.clear();
        self.nodes = 0;
        self.feed.clear();
        self.publish();
    }

    /// Begins the timeline again, with the processes as they are.
    fn begin_timeline(&mut self, at: Timestamp) {
        self.recorder = Recorder::new(at);
        self.recording_since = at;
        self.recorded = 0;
        for (process, runs) in self.processes.clone() {
            self.record_process(at, process, if runs { "runs" } else { "is down" }, runs);
        }
    }

    /// A process has started or ended.
    pub fn process(&mut self, at: Timestamp, process: Process, what: &str, runs: bool) {
        self.processes.insert(process, runs);
        self.record_process(at, process, what, runs);
        self.touch();
    }

    fn record_process(&mut self, at: Timestamp, process: Process, what: &str, runs: bool) {
        let event = StageEvent {
            number: None,
            at,
            what: StageEventKind::Process {
                name: process.to_string(),
                text: what.to_owned(),
                runs,
            },
        };
        self.recorder.add_stage_events(vec![event], at);
    }

    /// The faults that the world can have.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = faults::all();
        faults.retain(|fault| !self.settings.without.iter().any(|begin| fault.name.starts_with(begin)));
        faults
    }

    /// Applies an event of a watch.
    pub fn observe(&mut self, at: Timestamp, what: Seen) {
        let observation = Observation { at, what };
        let lines = texts::of_observation(&observation, &self.state);
        let before = self.state.absorb(&observation);
        match &observation.what {
            Seen::Applied(kind, object) => self.applied(kind, object, before.as_ref()),
            Seen::Deleted(kind, object) => {
                self.session.remove(kind.key, object, self.started, at);
                self.deleted(kind, object, before.as_ref());
            }
            Seen::Cloud(CloudEvent::Vm(vm)) if vm.state == VmState::Terminated => {
                self.state.vms.remove(&vm.id);
                self.feed.remove(&vm_id(&vm.id));
            }
            Seen::Cloud(CloudEvent::Vm(vm)) => self.feed.set(Entity::of_vm(vm)),
            _ => {}
        }
        if !self.keeps_timeline {
            if !lines.is_empty() {
                self.feed.touch();
            }
        } else if self.is_recorded(&observation.what) {
            self.recorded += 1;
            if self.recorded > MOST_RECORDED {
                self.begin_timeline(at);
                self.recorder
                    .note(at, "the timeline begins again: it had become too long");
            }
            self.recorder.observe(&observation, before.as_ref(), &lines);
            if !lines.is_empty() {
                self.feed.touch();
            }
        }
        self.publish();
    }

    /// Applies a complete list of a kind: objects that are not in it are gone.
    pub fn listed(&mut self, at: Timestamp, kind: &'static Kind, names: &BTreeSet<(String, String)>) {
        let gone: Vec<Value> = self
            .state
            .objects
            .iter()
            .filter(|((of, namespace, name), _)| *of == kind.key && !names.contains(&(namespace.clone(), name.clone())))
            .map(|(_, object)| object.clone())
            .collect();
        for object in gone {
            self.observe(at, Seen::Deleted(kind, Box::new(object)));
        }
    }

    /// Applies a list of all VMs that exist: others are gone.
    pub fn listed_vms(&mut self, at: Timestamp, vms: Vec<Vm>) {
        let listed: BTreeSet<&str> = vms.iter().map(|vm| vm.id.as_str()).collect();
        let is_gone = |vm: &&Vm| !listed.contains(vm.id.as_str());
        let gone: Vec<Vm> = self.state.vms.values().filter(is_gone).cloned().collect();
        let gone = gone.into_iter().map(|vm| Vm {
            state: VmState::Terminated,
            ..vm
        });
        let changed: Vec<Vm> = gone
            .chain(vms.into_iter().filter(|vm| {
                let known = self.state.vms.get(&vm.id);
                known.is_none_or(|known| (known.state, &known.node) != (vm.state, &vm.node))
            }))
            .collect();
        for vm in changed {
            self.observe(at, Seen::Cloud(CloudEvent::Vm(vm)));
        }
    }

    fn applied(&mut self, kind: &'static Kind, object: &Value, before: Option<&Value>) {
        if kind.key == "Pod" {
            self.count_pod(object, before);
            return;
        }
        let Some(mut entity) = Entity::of_object(kind.key, object) else {
            return;
        };
        if entity.kind == EntityKind::Node {
            self.nodes += usize::from(before.is_none());
            entity.pods = self.pods.get(&entity.name).copied();
        }
        self.feed.set(entity);
    }

    fn deleted(&mut self, kind: &'static Kind, object: &Value, before: Option<&Value>) {
        if kind.key == "Pod" {
            self.uncount_pod(before.unwrap_or(object));
            return;
        }
        let (_, namespace, name) = key(kind, object);
        if kind.key == "Node" && before.is_some() {
            self.nodes = self.nodes.saturating_sub(1);
        }
        self.feed.remove(&entity::id_of(kind.key, &namespace, &name));
    }

    fn count_pod(&mut self, pod: &Value, before: Option<&Value>) {
        if let Some(before) = before {
            self.uncount_pod(before);
        }
        let node = text(pod, "/spec/nodeName");
        if !node.is_empty() {
            entity::add_pod(self.pods.entry(node.to_owned()).or_default(), pod);
            self.show_pods(node);
        }
    }

    fn uncount_pod(&mut self, pod: &Value) {
        let node = text(pod, "/spec/nodeName");
        let mut one = Pods::default();
        entity::add_pod(&mut one, pod);
        if let Some(pods) = self.pods.get_mut(node) {
            pods.running = pods.running.saturating_sub(one.running);
            pods.pending = pods.pending.saturating_sub(one.pending);
            pods.failed = pods.failed.saturating_sub(one.failed);
            if *pods == Pods::default() {
                self.pods.remove(node);
            }
            self.show_pods(node);
        }
    }

    fn show_pods(&mut self, node: &str) {
        if let Some(entity) = self.feed.get(&entity::id_of("Node", "", node)) {
            let pods = self.pods.get(node).copied();
            let entity = Entity { pods, ..entity.clone() };
            self.feed.set(entity);
        }
    }

    /// Whether the timeline has a row for it.
    fn is_recorded(&self, seen: &Seen) -> bool {
        match seen {
            Seen::Applied(kind, _) | Seen::Deleted(kind, _) => {
                self.nodes <= MOST_RECORDED_NODES || !["Node", "Pod", "Event"].contains(&kind.key)
            }
            _ => true,
        }
    }

    /// Records that steps of a fault were performed: in the timeline as they are, in the plan as another world can perform
    /// them.
    pub fn performed<'a>(&mut self, at: Timestamp, steps: impl IntoIterator<Item = &'a FaultStep>) {
        let since = Duration::try_from(at.duration_since(self.started)).unwrap_or_default();
        for step in steps {
            self.session.add(since, [step.planned.clone()]);
            let number = self.session.len();
            self.recorder
                .step(at, number, &step.step, "", end_of_pause(at, &step.step));
        }
        self.feed.touch();
        self.publish();
    }

    /// Records that a step could not be performed.
    pub fn failed(&mut self, at: Timestamp, step: &Step, reason: &str) {
        self.recorder
            .note(at, &format!("{} failed: {reason}", step.description()));
        self.feed.touch();
        self.publish();
    }

    /// The number for the names of the next fault.
    pub fn next_fault(&mut self) -> u64 {
        self.next_fault += 1;
        self.next_fault
    }

    /// A fault has begun.
    pub fn begun(&mut self, number: u64, at: Timestamp, plan: &Arc<FaultPlan>) {
        self.active.begin(number, at, plan);
        self.touch();
    }

    /// Takes a fault that ends from the list of active ones; `None`: it has ended already.
    pub fn end(&mut self, number: u64) -> Option<Arc<FaultPlan>> {
        let plan = self.active.end(number);
        self.touch();
        plan
    }

    /// A fault that has begun and not ended, by its number.
    pub fn active_fault(&self, number: u64) -> Option<(ActiveFault, Arc<FaultPlan>)> {
        self.active.get(number)
    }

    /// The faults that have begun and not ended. `now` is the time of a simulated world, in which faults end by themselves.
    pub fn active_faults(&self, now: Option<Timestamp>) -> Vec<ActiveFault> {
        let mut faults = self.active.all();
        faults.retain(|fault| fault.until.zip(now).is_none_or(|(until, now)| now < until));
        faults
    }

    /// Tells the readers that something changed that the topology does not show.
    pub fn touch(&mut self) {
        self.feed.touch();
        self.publish();
    }

    fn publish(&self) {
        let number = self.feed.number();
        self.changed
            .send_if_modified(|known| std::mem::replace(known, number) != number);
    }

    /// The number of the last change, and a notification of later ones.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The changes after a number; 0: everything.
    pub fn after(&self, number: u64) -> Changes {
        self.feed.after(number)
    }

    /// The timeline so far, to be made a record without holding up the watches.
    pub fn timeline(&self) -> Timeline {
        Timeline {
            recorder: self.recorder.clone(),
            since: self.recording_since,
            session: record::Session {
                place: Place {
                    scenario: session::NAME.to_owned(),
                    about: String::new(),
                    stage: self.settings.stage,
                    target: None,
                    seed: self.settings.seed,
                    mutant: None,
                    controller: None,
                },
                // The page asks for the plan when a user saves it.
                plan: String::new(),
                sentence: format!("The world is up since {}.", self.started),
                replay: self.settings.command.clone(),
                program: Program {
                    version: self.settings.version.clone(),
                    commit: None,
                },
            },
        }
    }

    /// The session as a plan in YAML.
    ///
    /// # Errors
    /// See [`PlanError`].
    pub fn plan(&self) -> Result<String, PlanError> {
        let ends = self.active.ends().flat_map(|(until, plan)| {
            let at = Duration::try_from(until.duration_since(self.started)).unwrap_or_default();
            plan.end.iter().map(move |step| (at, step.planned.clone()))
        });
        self.session
            .yaml(&self.state, ends.collect(), self.started, &self.settings)
    }

    /// What faults can act on.
    pub fn fleet(&self) -> Fleet {
        let mut positions: BTreeMap<String, u64> = BTreeMap::new();
        let mut members = Vec::new();
        let mut zones = BTreeSet::new();
        for vm in self.feed.all().filter(|entity| entity.kind == EntityKind::Vm) {
            zones.insert(vm.zone.clone());
        }
        let vms = self.vms_by_machine();
        for machine in self.state.of_kind("Machine") {
            let name = text(machine, "/metadata/name");
            // Positions are those among all machines of a pool: a machine without a VM counts.
            let of = entity::owner(machine).map(|_| {
                let pool = pool_of(machine).to_owned();
                let position = positions.entry(pool.clone()).or_default();
                *position += 1;
                (pool, *position - 1)
            });
            let vm = vms.get(text(machine, "/metadata/uid")).or_else(|| vms.get(name));
            if let Some(vm) = vm {
                members.push(Member {
                    machine: name.to_owned(),
                    vm: vm.id.clone(),
                    node: vm.node.clone(),
                    zone: Entity::of_vm(vm).zone,
                    of,
                });
            }
        }
        zones.remove("");
        Fleet {
            members,
            zones: zones.into_iter().collect(),
        }
    }

    /// The VM of each machine, by the machine's uid, or by its name if the VM has none: of several the one that
    /// changed last, as far as that is known.
    fn vms_by_machine(&self) -> BTreeMap<&str, &Vm> {
        let mut vms: BTreeMap<&str, &Vm> = BTreeMap::new();
        for vm in self.state.vms.values().filter(|vm| vm.state != VmState::Terminated) {
            let machine = match vm.machine_uid.as_str() {
                "" => &vm.machine,
                uid => uid,
            };
            let latest = vms.entry(machine).or_insert(vm);
            if vm.revision >= latest.revision {
                *latest = vm;
            }
        }
        vms
    }

    /// The details of an entity: its owners, conditions, events, and of a node its pods; `None`: it does not exist.
    pub fn details(&self, id: &str) -> Option<Value> {
        let entity = self.feed.get(id)?;
        let owner_of = |entity: &&Entity| self.feed.get(entity.parent.as_deref()?);
        let owners: Vec<&Entity> = std::iter::successors(owner_of(&entity), owner_of)
            .take(MOST_OWNERS)
            .collect();
        let object = self.object(id);
        let conditions = object.and_then(|object| object.pointer("/status/conditions"));
        Some(json!({
            "entity": entity,
            "owners": owners,
            "conditions": conditions,
            "lastOperation": object.and_then(|object| object.pointer("/status/lastOperation")),
            "events": self.events(&entity.name),
            "pods": self.pods_of(entity),
        }))
    }

    fn object(&self, id: &str) -> Option<&Value> {
        let mut parts = id.splitn(3, '/');
        let kind = scenario::kinds::find(parts.next()?).ok()?;
        let (namespace, name) = match (parts.next()?, parts.next()) {
            (namespace, Some(name)) => (namespace, name),
            (name, None) => ("", name),
        };
        self.state
            .objects
            .get(&(kind.key, namespace.to_owned(), name.to_owned()))
    }

    /// The latest events of an object, by its name.
    fn events(&self, name: &str) -> Vec<Value> {
        let of = self
            .state
            .of_kind("Event")
            .filter(|event| text(event, "/involvedObject/name") == name || text(event, "/regarding/name") == name);
        let mut events: Vec<Value> = of
            .map(|event| {
                let at = ["/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"].map(|path| text(event, path));
                json!({
                    "at": at.iter().find(|at| !at.is_empty()),
                    "reason": event["reason"],
                    "message": event.get("message").or_else(|| event.get("note")),
                    "count": event["count"],
                })
            })
            .collect();
        events.sort_by(|one, other| other["at"].as_str().cmp(&one["at"].as_str()));
        events.truncate(MOST_EVENTS);
        events
    }

    fn pods_of(&self, entity: &Entity) -> Vec<Value> {
        if entity.kind != EntityKind::Node {
            return Vec::new();
        }
        let pods = self
            .state
            .of_kind("Pod")
            .filter(|pod| text(pod, "/spec/nodeName") == entity.name);
        pods.map(|pod| json!({ "name": pod.pointer("/metadata/name"), "phase": pod.pointer("/status/phase") }))
            .take(200)
            .collect()
    }
}

/// The pool of a machine with an owner: the prefix of the names of all machines of the same deployment or set.
fn pool_of(machine: &Value) -> &str {
    let labelled = POOL_LABELS
        .iter()
        .map(|key| label(machine, key))
        .find(|name| !name.is_empty());
    let name = text(machine, "/metadata/name");
    match labelled {
        Some(pool) if name.starts_with(pool) => pool,
        // A set's machine has a suffix.
        _ => name.rsplit_once('-').map_or(name, |(pool, _)| pool),
    }
}

/// When the pause ends that a step begins. Its time is a number of seconds.
fn end_of_pause(at: Timestamp, step: &Step) -> Option<Timestamp> {
    match step.request() {
        Request::Pause(pause) => at.saturating_add(pause.time.value(&Timeouts::short())).ok(),
        _ => None,
    }
}

#[cfg(test)]
#[path = "world_tests.rs"]
mod tests;
