//! The pods of simulated kubelets: which there are, what their kubelets have heard of them, and the
//! calls that are made for them. How one pod goes on is in `pod`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::admission;
use super::facts::{PodFacts, PodKey, PodPhase};
use super::fleet::{Fleet, Outcome, Request, Timer, backoff};
use super::objects::OfPods;
use super::pod::lifecycle::{Orders, PodRun};
use super::pod::plan::PodPlan;
use super::pod::status::{self, Conditions, Place};
use crate::model::later;

/// The pods that are bound to any Node.
#[derive(Debug, Default)]
pub(super) struct Pods {
    by_key: BTreeMap<PodKey, u64>,
    pub(super) tracked: BTreeMap<u64, Tracked>,
    pub(super) by_node: BTreeMap<String, BTreeSet<u64>>,
    /// How many pods each Node has had started, which gives the next one its ip.
    started: BTreeMap<String, u64>,
}

/// What a pod has that its kubelet did not hear of.
#[derive(Debug)]
enum Unheard {
    Changed(Box<PodFacts>),
    Gone,
}

/// What is known of a pod's volumes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Volumes {
    /// Nothing was asked yet.
    Unknown,
    Asking,
    /// The names of those that must be attached.
    Known(Vec<String>),
    /// They were mounted, and are not any more.
    Released,
}

#[derive(Debug)]
pub(super) struct Tracked {
    pub(super) key: PodKey,
    pub(super) facts: PodFacts,
    unheard: Option<Unheard>,
    /// Whether its kubelet has ever heard of it.
    heard: bool,
    /// What runs, and on which VM.
    pub(super) run: Option<(u64, PodRun)>,
    volumes: Volumes,
    conditions: Conditions,
    ip: Option<String>,
    /// A call is under way.
    under_way: bool,
    /// The status is to be written.
    dirty: bool,
    /// The phase that was written last, and the resource version that this gave.
    written: Option<(PodPhase, u64)>,
    failures: u32,
    /// After a call that failed, none is made before.
    retry_at: Option<Timestamp>,
    /// Its end was told to the API server.
    ended: bool,
}

/// Why nothing was done to a container.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PodError {
    #[error("there is no pod {0}/{1} on a simulated Node")]
    NoPod(String, String),
    #[error("pod {pod} has no container {container:?}; it has {known}")]
    NoContainer {
        pod: String,
        container: String,
        known: String,
    },
    #[error("pod {0} has several containers, name one: {1}")]
    Several(String, String),
    #[error("container {1:?} of pod {0} does not run now")]
    NotRunning(String, String),
}

impl Tracked {
    fn new(key: PodKey, facts: PodFacts) -> Self {
        Self {
            key,
            facts,
            unheard: None,
            heard: false,
            run: None,
            volumes: Volumes::Unknown,
            conditions: Conditions::default(),
            ip: None,
            under_way: false,
            dirty: false,
            written: None,
            failures: 0,
            retry_at: None,
            ended: false,
        }
    }

    /// Takes over what was seen. Answers whether the status shows something else than was written.
    fn hear(&mut self, facts: PodFacts) -> bool {
        self.heard = true;
        self.dirty |= self.written.is_some() && facts.gates != self.facts.gates;
        self.facts = facts;
        let facts = &self.facts;
        match self.written {
            // A kubelet finishes a pod once; what was seen may be older than what was written.
            Some((phase, version)) => {
                let stale = facts.version != 0 && facts.version < version;
                !self.under_way && !stale && phase != facts.phase
            }
            None => false,
        }
    }

    /// What it requests; nothing once it is over.
    pub(super) fn requested(&self) -> Option<(u128, u128)> {
        let (_, run) = self.run.as_ref()?;
        let plan = self.facts.plan.as_ref().ok()?;
        run.finish.is_none().then_some((plan.cpu, plan.memory))
    }
}

impl Pods {
    /// All pods, to find those that are gone after a new list.
    pub(super) fn keys(&self) -> impl Iterator<Item = &PodKey> {
        self.by_key.keys()
    }

    /// The pods of a Node.
    pub(super) fn of(&self, node: &str) -> impl Iterator<Item = &Tracked> {
        let numbers = self.by_node.get(node).into_iter().flatten();
        numbers.filter_map(|number| self.tracked.get(number))
    }

    fn remove(&mut self, key: &PodKey) -> Option<u64> {
        let number = self.by_key.remove(key)?;
        let pod = self.tracked.remove(&number)?;
        if let Some(numbers) = self.by_node.get_mut(&pod.facts.node) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_node.remove(&pod.facts.node);
            }
        }
        Some(number)
    }
}

impl Fleet {
    /// A pod that is bound to a Node was seen.
    pub(super) fn pod_seen(&mut self, key: PodKey, facts: PodFacts, now: Timestamp) {
        let known = self
            .pods
            .by_key
            .get(&key)
            .and_then(|number| self.pods.tracked.get(number));
        if known.is_some_and(|pod| pod.facts.uid != facts.uid || pod.facts.node != facts.node) {
            self.drop_pod(&key);
        }
        let number = match self.pods.by_key.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.number();
                self.pods.by_key.insert(key.clone(), number);
                self.pods.by_node.entry(facts.node.clone()).or_default().insert(number);
                self.pods.tracked.insert(number, Tracked::new(key, facts.clone()));
                number
            }
        };
        let hears = self.kubelet_of(&facts.node).is_some_and(super::fleet::Kubelet::hears);
        let Some(pod) = self.pods.tracked.get_mut(&number) else {
            return;
        };
        if hears {
            let differs = pod.hear(facts);
            self.heard(number, differs, now);
        } else {
            pod.unheard = Some(Unheard::Changed(Box::new(facts)));
        }
    }

    /// A pod is there no more.
    pub(super) fn pod_gone(&mut self, key: &PodKey, now: Timestamp) {
        let Some(number) = self.pods.by_key.get(key).copied() else {
            return;
        };
        let Some(pod) = self.pods.tracked.get_mut(&number) else {
            return;
        };
        let node = pod.facts.node.clone();
        let holds_volumes = matches!(&pod.volumes, Volumes::Known(names) if !names.is_empty());
        let kubelet = self
            .nodes
            .get(&node)
            .into_iter()
            .flatten()
            .filter_map(|vm| self.kubelets.get(vm));
        let away = kubelet.into_iter().any(|kubelet| !kubelet.hears());
        if away && pod.run.is_some() {
            pod.unheard = Some(Unheard::Gone);
            return;
        }
        self.drop_pod(key);
        if holds_volumes && let Some(vm) = self.kubelet_of(&node).map(|kubelet| kubelet.run.vm) {
            self.status_soon(vm, now);
        }
    }

    fn drop_pod(&mut self, key: &PodKey) {
        if let Some(number) = self.pods.remove(key) {
            self.wheel.cancel(&Timer::Pod(number));
        }
    }

    /// Nobody is left to hear that these pods are gone.
    pub(super) fn drop_unseen_ends(&mut self, node: &str) {
        let gone = self
            .pods
            .of(node)
            .filter(|pod| matches!(pod.unheard, Some(Unheard::Gone)));
        let keys: Vec<PodKey> = gone.map(|pod| pod.key.clone()).collect();
        for key in keys {
            self.drop_pod(&key);
        }
    }

    /// A kubelet that can hear learns what has become of its pods.
    pub(super) fn hear_pods(&mut self, node: &str, now: Timestamp) {
        let numbers: Vec<u64> = self.pods.by_node.get(node).into_iter().flatten().copied().collect();
        if !self.kubelet_of(node).is_some_and(super::fleet::Kubelet::hears) {
            return;
        }
        let mut released = false;
        for number in numbers {
            let Some(pod) = self.pods.tracked.get_mut(&number) else {
                continue;
            };
            match pod.unheard.take() {
                Some(Unheard::Gone) => {
                    released |= matches!(&pod.volumes, Volumes::Known(names) if !names.is_empty());
                    let key = pod.key.clone();
                    self.drop_pod(&key);
                }
                Some(Unheard::Changed(facts)) => {
                    let differs = pod.hear(*facts);
                    self.heard(number, differs, now);
                }
                None => self.consider(number, now),
            }
        }
        if released && let Some(vm) = self.kubelet_of(node).map(|kubelet| kubelet.run.vm) {
            self.status_soon(vm, now);
        }
    }

    /// A kubelet looks at its pods again.
    pub(super) fn consider_pods(&mut self, node: &str, now: Timestamp) {
        let numbers: Vec<u64> = self.pods.by_node.get(node).into_iter().flatten().copied().collect();
        for number in numbers {
            self.consider(number, now);
        }
    }

    /// Other volumes are attached to a Node: what waits for them may go on.
    pub(super) fn volumes_changed(&mut self, node: &str, now: Timestamp) {
        let waiting = |number: &&u64| {
            let pod = self.pods.tracked.get(*number);
            pod.is_some_and(|pod| matches!(&pod.volumes, Volumes::Known(names) if !names.is_empty()))
        };
        let numbers = self.pods.by_node.get(node).into_iter().flatten();
        let waiting: Vec<u64> = numbers.filter(waiting).copied().collect();
        for number in waiting {
            self.consider(number, now);
        }
    }

    /// A Node's kubelet has stopped: it does nothing for its pods, and drops what it was about to.
    pub(super) fn cancel_pods(&mut self, node: &str) {
        for number in self.pods.by_node.get(node).into_iter().flatten() {
            self.wheel.cancel(&Timer::Pod(*number));
            if let Some(pod) = self.pods.tracked.get_mut(number) {
                pod.dirty |= pod.under_way;
                pod.under_way = false;
                if pod.volumes == Volumes::Asking {
                    pod.volumes = Volumes::Unknown;
                }
            }
        }
    }

    /// A VM has stopped: what ran on it has ended.
    pub(super) fn lose_containers(&mut self, node: &str, vm: u64, now: Timestamp) {
        let delay = self.settings.pod_start_delay.0;
        for number in self.pods.by_node.get(node).into_iter().flatten() {
            let Some(pod) = self.pods.tracked.get_mut(number) else {
                continue;
            };
            if let (Some((on, run)), Ok(plan)) = (&mut pod.run, &pod.facts.plan)
                && *on == vm
            {
                run.lose_containers(plan, now, delay);
                pod.dirty = true;
                pod.ip = None;
            }
        }
    }

    /// What a Node's status says of its pods.
    pub(super) fn of_pods(&self, node: &str) -> OfPods<'_> {
        let mut of = OfPods::default();
        for pod in self.pods.of(node) {
            if let Volumes::Known(names) = &pod.volumes {
                of.volumes.extend(names.iter().map(String::as_str));
            }
            if let (Some((_, run)), Ok(plan)) = (&pod.run, &pod.facts.plan)
                && run.has_run(plan)
            {
                of.images
                    .extend(plan.containers.iter().map(|container| container.image.as_str()));
            }
        }
        of
    }

    /// Ends a container of a pod from outside: it is killed, or runs out of memory.
    pub(crate) fn kill_container(
        &mut self,
        key: &PodKey,
        container: &str,
        reason: &'static str,
        now: Timestamp,
    ) -> Result<String, PodError> {
        let missing = || PodError::NoPod(key.0.clone(), key.1.clone());
        let number = self.pods.by_key.get(key).copied().ok_or_else(missing)?;
        let pod = self.pods.tracked.get_mut(&number).ok_or_else(missing)?;
        let name = format!("{}/{}", key.0, key.1);
        let containers = pod.facts.plan.as_ref().map_or(&[][..], |plan| &plan.containers[..]);
        let all = containers.iter().map(|container| container.name.as_str());
        let known = all.collect::<Vec<_>>().join(", ");
        let index = match (container, containers) {
            ("", [_]) => 0,
            ("", _) => return Err(PodError::Several(name, known)),
            _ => containers
                .iter()
                .position(|one| one.name == container)
                .ok_or_else(|| PodError::NoContainer {
                    pod: name.clone(),
                    container: container.to_owned(),
                    known,
                })?,
        };
        let found = containers.get(index).map(|one| one.name.clone()).unwrap_or_default();
        if !pod.run.as_mut().is_some_and(|(_, run)| run.kill(index, reason, now)) {
            return Err(PodError::NotRunning(name, found));
        }
        self.wheel.set_earlier(Timer::Pod(number), now);
        Ok(found)
    }

    /// How many pods are bound to a Node.
    pub(crate) fn pods_on(&self, node: &str) -> usize {
        self.pods.by_node.get(node).map_or(0, BTreeSet::len)
    }

    /// The kubelet has heard of a pod.
    fn heard(&mut self, number: u64, differs: bool, now: Timestamp) {
        if differs && let Some(pod) = self.pods.tracked.get_mut(&number) {
            pod.dirty = true;
            pod.conditions.forget_ready();
            let at = later(now, self.settings.pod_start_delay.0);
            return self.wheel.set_earlier(Timer::Pod(number), at);
        }
        self.consider(number, now);
    }

    /// Takes a pod on, and looks at once what is to be done.
    fn consider(&mut self, number: u64, now: Timestamp) {
        let delay = self.settings.pod_start_delay.0;
        let Some(pod) = self.pods.tracked.get(&number) else {
            return;
        };
        let Some(kubelet) = self
            .kubelet_of(&pod.facts.node)
            .filter(|kubelet| kubelet.handles_pods())
        else {
            return;
        };
        if !pod.heard {
            return;
        }
        let vm = kubelet.run.vm;
        let Ok(plan) = pod.facts.plan.clone() else {
            return self.wheel.set_earlier(Timer::Pod(number), now);
        };
        let fresh = match &pod.run {
            Some((on, _)) if *on == vm => None,
            Some(_) => {
                let (Some(pod), on) = (self.pods.tracked.get_mut(&number), vm) else {
                    return;
                };
                if let Some((of, run)) = &mut pod.run {
                    run.lose_containers(&plan, now, delay);
                    *of = on;
                }
                pod.dirty = true;
                pod.ip = None;
                None
            }
            None => Some(admission::take_on(self, kubelet, pod, &plan, now)),
        };
        if let Some(pod) = self.pods.tracked.get_mut(&number)
            && let Some(run) = fresh
        {
            pod.dirty = status::phase(&plan, &run, pod.facts.gates) != pod.facts.phase;
            pod.written = (pod.facts.phase != PodPhase::Pending).then_some((pod.facts.phase, pod.facts.version));
            pod.ip.clone_from(&pod.facts.ip);
            if pod.written.is_some() && run.finish.is_some() {
                pod.volumes = Volumes::Released;
            }
            pod.run = Some((vm, run));
        }
        self.step(number, now);
    }

    pub(super) fn pod_due(&mut self, number: u64, now: Timestamp) {
        let Some(pod) = self.pods.tracked.get(&number) else {
            return;
        };
        let Some(kubelet) = self
            .kubelet_of(&pod.facts.node)
            .filter(|kubelet| kubelet.handles_pods())
        else {
            return;
        };
        if let (Err(error), false, true) = (&pod.facts.plan, pod.under_way, pod.written.is_none())
            && pod.retry_at.is_none_or(|at| at <= now)
        {
            let clock = kubelet.faults.clock(now);
            let (vm, key) = (kubelet.run.vm, pod.key.clone());
            let patch = status::unusable(&pod.facts, error, &kubelet.host.address, clock);
            let message = format!("pod {}/{}: {error}", key.0, key.1);
            self.report(vm, "PodRefused", &message);
            if let Some(pod) = self.pods.tracked.get_mut(&number) {
                pod.under_way = true;
                pod.written = Some((PodPhase::Finished, 0));
            }
            return self.call(
                vm,
                Request::PodStatus {
                    pod: key,
                    number,
                    patch,
                },
                now,
            );
        }
        self.step(number, now);
    }

    /// Lets a pod go on, and makes the call that this asks for.
    fn step(&mut self, number: u64, now: Timestamp) {
        let stop_delay = self.settings.pod_stop_delay.0;
        let Some(pod) = self.pods.tracked.get(&number) else {
            return;
        };
        let Some(kubelet) = self
            .kubelet_of(&pod.facts.node)
            .filter(|kubelet| kubelet.handles_pods())
        else {
            return;
        };
        let (vm, clock) = (kubelet.run.vm, kubelet.faults.clock(now));
        let attached = |names: &[String]| {
            let attached = kubelet.registered().map(|known| &known.attached);
            names
                .iter()
                .all(|name| attached.is_some_and(|attached| attached.contains(name)))
        };
        let no_plan = pod.facts.plan.is_err();
        let volumes = match (&pod.volumes, &pod.facts.plan) {
            (_, Ok(plan)) if plan.claims.is_empty() => true,
            (Volumes::Known(names), _) => attached(names),
            _ => false,
        };
        let ask = !no_plan && !volumes && pod.volumes == Volumes::Unknown && pod.facts.deletion.is_none();
        let Some(pod) = self.pods.tracked.get_mut(&number) else {
            return;
        };
        if no_plan {
            return self.end_unusable(vm, number, now);
        }
        let (Some((_, run)), Ok(plan)) = (&mut pod.run, &pod.facts.plan) else {
            return;
        };
        let orders = Orders {
            now,
            volumes,
            // The containers of a static pod outlive what stands for it in the API.
            deletion: pod.facts.deletion.filter(|_| !pod.facts.mirror),
            stop_delay,
        };
        let progress = run.step(plan, orders);
        let waits = !volumes && now >= run.not_before && pod.written.is_none() && run.finish.is_none();
        pod.dirty |= progress.changed || (waits && pod.conditions == Conditions::default());
        let over = run.is_over();
        let next = match progress.next {
            None if !volumes && now < run.not_before => Some(run.not_before),
            next => next,
        };
        let released = over && matches!(pod.volumes, Volumes::Known(_));
        let held = matches!(&pod.volumes, Volumes::Known(names) if !names.is_empty());
        if released {
            pod.volumes = Volumes::Released;
        }
        let may_call = !pod.under_way && pod.retry_at.is_none_or(|at| at <= now);
        let retry = pod.retry_at.filter(|at| *at > now);
        if ask && may_call && run.finish.is_none() {
            pod.volumes = Volumes::Asking;
            let (key, claims) = (pod.key.clone(), plan.claims.clone());
            self.call(
                vm,
                Request::ReadVolumes {
                    pod: key,
                    number,
                    claims,
                },
                now,
            );
        }
        match [next, retry].into_iter().flatten().min() {
            Some(next) => self.wheel.set(Timer::Pod(number), next),
            None => self.wheel.cancel(&Timer::Pod(number)),
        }
        if released && held {
            self.status_soon(vm, now);
        }
        if may_call {
            self.write(vm, number, over, clock, now);
        }
    }

    /// Writes a pod's status, or tells its end.
    fn write(&mut self, vm: u64, number: u64, over: bool, clock: Timestamp, now: Timestamp) {
        let Some(pod) = self.pods.tracked.get(&number) else {
            return;
        };
        let ends = pod.facts.deletion.is_some() && (over || pod.facts.mirror) && !pod.ended;
        // Whoever keeps a pod after its end wants to know how it ended.
        let write = pod.dirty && (!ends || pod.facts.finalizers);
        let (key, uid) = (pod.key.clone(), pod.facts.uid.clone());
        let request = if write {
            self.status_request(number, clock)
        } else if ends && pod.facts.mirror {
            Some(Request::RenewMirror { pod: key, number, uid })
        } else if ends {
            Some(Request::EndPod { pod: key, number, uid })
        } else {
            None
        };
        let Some(request) = request else { return };
        if let Some(pod) = self.pods.tracked.get_mut(&number) {
            pod.under_way = true;
            pod.dirty = false;
        }
        self.call(vm, request, now);
    }

    fn status_request(&mut self, number: u64, clock: Timestamp) -> Option<Request> {
        let pod = self.pods.tracked.get(&number)?;
        let kubelet = self.kubelet_of(&pod.facts.node)?;
        let (_, run) = pod.run.as_ref()?;
        let plan = pod.facts.plan.as_ref().ok()?;
        let volumes = !matches!(pod.volumes, Volumes::Unknown | Volumes::Asking) || plan.claims.is_empty();
        let host_ip = kubelet.host.address.clone();
        let starts = pod.ip.is_none() && (run.has_run(plan) || run.initialized);
        let ip = match &pod.ip {
            None if plan.host_network => Some(host_ip.clone()),
            None if starts => Some(self.free_ip(kubelet, &pod.facts.node)),
            known => known.clone(),
        };
        if starts && !plan.host_network {
            *self.pods.started.entry(pod.facts.node.clone()).or_default() += 1;
        }
        let pod = self.pods.tracked.get_mut(&number)?;
        pod.ip = ip;
        let (_, run) = pod.run.as_ref()?;
        let plan = pod.facts.plan.as_ref().ok()?;
        let place = Place {
            host_ip: &host_ip,
            pod_ip: pod.ip.as_deref(),
            volumes,
            now: clock,
        };
        let (patch, phase) = status::patch(&pod.key, &pod.facts, plan, run, &mut pod.conditions, place);
        pod.written = Some((phase, pod.facts.version));
        Some(Request::PodStatus {
            pod: pod.key.clone(),
            number,
            patch,
        })
    }

    /// The first address that none of the Node's pods has.
    fn free_ip(&self, kubelet: &super::fleet::Kubelet, node: &str) -> String {
        let taken: BTreeSet<&str> = self.pods.of(node).filter_map(|pod| pod.ip.as_deref()).collect();
        let range = kubelet
            .registered()
            .map(|known| known.pod_cidr.as_str())
            .unwrap_or_default();
        let first = self.pods.started.get(node).copied().unwrap_or_default();
        let mut candidates = (first..).map(|number| kubelet.host.pod_ip(range, number));
        let most = taken.len() + 1;
        candidates
            .by_ref()
            .take(most)
            .find(|ip| !taken.contains(ip.as_str()))
            .unwrap_or_else(|| kubelet.host.pod_ip(range, first))
    }

    /// Ends a pod that never ran, because its annotations cannot be followed.
    fn end_unusable(&mut self, vm: u64, number: u64, now: Timestamp) {
        let Some(pod) = self.pods.tracked.get_mut(&number) else {
            return;
        };
        let retries = pod.retry_at.is_some_and(|at| at > now);
        if pod.facts.deletion.is_none() || pod.under_way || pod.ended || retries {
            return;
        }
        pod.under_way = true;
        let (key, uid) = (pod.key.clone(), pod.facts.uid.clone());
        self.call(vm, Request::EndPod { pod: key, number, uid }, now);
    }

    pub(super) fn pod_done(&mut self, number: u64, request: &Request, outcome: Outcome, now: Timestamp) {
        let most = self.settings.join_retry.0;
        let Some(pod) = self.pods.tracked.get_mut(&number) else {
            return;
        };
        if let Request::ReadVolumes { .. } = request {
            return self.volumes_read(number, outcome, now);
        }
        pod.under_way = false;
        match (request, outcome) {
            (_, Outcome::Failed(_)) => {
                pod.failures += 1;
                pod.dirty |= matches!(request, Request::PodStatus { .. });
                if pod.facts.plan.is_err() {
                    pod.written = None;
                }
                let at = later(now, backoff(pod.failures, most));
                pod.retry_at = Some(at);
                return self.wheel.set_earlier(Timer::Pod(number), at);
            }
            (Request::EndPod { .. } | Request::RenewMirror { .. }, _) => pod.ended = true,
            (_, Outcome::Written(version)) => {
                if let Some((_, written)) = &mut pod.written {
                    *written = version;
                }
            }
            _ => {}
        }
        pod.failures = 0;
        pod.retry_at = None;
        self.step(number, now);
    }

    fn volumes_read(&mut self, number: u64, outcome: Outcome, now: Timestamp) {
        let most = self.settings.join_retry.0;
        let Some(pod) = self.pods.tracked.get_mut(&number) else {
            return;
        };
        if pod.volumes != Volumes::Asking {
            return;
        }
        if let Outcome::Volumes(Some(names)) = outcome {
            let vm = pod.run.as_ref().map(|(vm, _)| *vm);
            let any = !names.is_empty();
            pod.volumes = Volumes::Known(names);
            pod.failures = 0;
            pod.retry_at = None;
            if let Some(vm) = vm.filter(|_| any) {
                self.status_soon(vm, now);
            }
        } else {
            pod.volumes = Volumes::Unknown;
            pod.failures += 1;
            pod.retry_at = Some(later(now, backoff(pod.failures, most)));
        }
        self.step(number, now);
    }
}

/// A pod as its kubelet finds it.
pub(super) fn found(pod: &Tracked, plan: &PodPlan, now: Timestamp, start_delay: std::time::Duration) -> PodRun {
    match pod.facts.phase {
        PodPhase::Running(_) => PodRun::found(plan, &pod.facts.seen, now),
        PodPhase::Pending => PodRun::new(plan, now, start_delay),
        PodPhase::Finished => {
            let mut run = PodRun::new(plan, now, start_delay);
            run.refuse("", String::new());
            run
        }
    }
}
