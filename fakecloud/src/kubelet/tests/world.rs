//! A cloud, its fleet, and a minimal API server.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Seed;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::Config;
use crate::Delay;
use crate::kubelet::calls::{Effect, Outcome, Request};
use crate::kubelet::facts::{NodeFacts, PodFacts, PodKey};
use crate::kubelet::fleet::Fleet;
use crate::kubelet::objects::Host;
use crate::model::{Cloud, KubeletFault, Reference, test_request as request};

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000).unwrap() + SignedDuration::from_secs(seconds)
}

pub(super) struct World {
    pub(super) cloud: Cloud,
    pub(super) fleet: Fleet,
    pub(super) nodes: BTreeMap<String, NodeFacts>,
    pub(super) secret: Option<BTreeMap<String, ByteString>>,
    /// The pods of the API server.
    pub(super) pods: BTreeMap<PodKey, Value>,
    /// The volumes behind claims; `None`: not bound.
    pub(super) volumes: Option<Vec<String>>,
    pub(super) failing: bool,
    pub(super) now: Timestamp,
    pub(super) uids: u32,
    pub(super) version: u64,
    pub(super) narrative: Vec<String>,
    /// The renewal times of the Lease, and the status patches of Nodes.
    pub(super) renewals: Vec<Timestamp>,
    /// Time of the last successful renewal.
    pub(super) last_renewal: Option<Timestamp>,
    pub(super) statuses: Vec<Value>,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with_config(Config::default())
    }

    pub(super) fn with_config(config: Config) -> Self {
        let config = Config {
            boot_delay: Delay::Constant(Duration::from_secs(4)),
            ..config
        };
        config.check().unwrap();
        Self {
            fleet: Fleet::new(config.settings().kubelet, "c1".to_owned()),
            cloud: Cloud::new(config.settings().cloud, Seed::new(1), at(0)),
            nodes: BTreeMap::new(),
            secret: None,
            pods: BTreeMap::new(),
            volumes: None,
            failing: false,
            now: at(0),
            uids: 0,
            version: 0,
            narrative: Vec::new(),
            renewals: Vec::new(),
            last_renewal: None,
            statuses: Vec::new(),
        }
    }

    /// A world in which machine `a` has a VM that boots at second 4, with the given user data.
    pub(super) fn with_machine(user_data: &str) -> Self {
        let mut world = Self::new();
        world.create("a", user_data);
        world
    }

    /// A world in which machine `a` has joined, at second 10.
    pub(super) fn joined() -> Self {
        let mut world = Self::with_machine("");
        world.until(10);
        world.log();
        world
    }

    pub(super) fn create(&mut self, machine: &str, user_data: &str) {
        let mut request = request(machine);
        request
            .secret
            .insert("userData".to_owned(), ByteString(user_data.as_bytes().to_vec()));
        self.cloud.create_machine(&request, self.now).result.unwrap();
    }

    pub(super) fn vm(&mut self, command: impl FnOnce(&mut Cloud, &Reference, Timestamp)) {
        command(&mut self.cloud, &Reference::Machine("a".to_owned()), self.now);
        self.settle();
    }

    pub(super) fn breaks(&mut self, fault: KubeletFault) {
        self.vm(|cloud, vm, now| drop(cloud.break_kubelet(vm, fault, None, now).unwrap().id.clone()));
    }

    pub(super) fn remove_faults(&mut self) {
        self.vm(|cloud, vm, now| drop(cloud.restore_kubelet(vm, &[], now).unwrap().id.clone()));
    }

    /// Advances time, deadline by deadline.
    pub(super) fn until(&mut self, seconds: i64) {
        let end = at(seconds);
        loop {
            self.settle();
            let next = [self.cloud.next_deadline(), self.fleet.next_deadline()]
                .into_iter()
                .flatten()
                .min();
            match next {
                Some(next) if next <= end => self.now = next,
                _ => break,
            }
        }
        self.now = end;
        self.settle();
    }

    /// Performs what is due now, including calls.
    pub(super) fn settle(&mut self) {
        for _ in 0..1000 {
            self.cloud.advance(self.now);
            for vm in self.cloud.vms() {
                let machine_type = self.cloud.settings().machine_types.get(&vm.machine_type);
                self.fleet.vm(vm, |vm| Host::of(vm, machine_type), self.now);
            }
            self.fleet.advance(self.now);
            let effects = self.fleet.take_effects();
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::Joined { vm } => self.cloud.kubelet_joined(&vm, self.now),
                    Effect::Report { operation, message, .. } => self.say(format!("{operation}: {message}")),
                    Effect::Call(run, request) => {
                        let outcome = self.answer(&request);
                        self.fleet.done(run, &request, outcome, self.now);
                        self.show();
                    }
                }
            }
        }
        panic!("it does not settle: {:?}", self.narrative);
    }

    fn answer(&mut self, request: &Request) -> Outcome {
        let text = match request {
            Request::ReadSecret { name } => format!("read {name}"),
            Request::Register { node } => format!("register {}", node.metadata.name.as_deref().unwrap()),
            Request::DeleteNode { name, .. } => format!("delete {name}"),
            Request::RenewLease(renewal) => format!("lease {}", renewal.node),
            Request::NodeStatus { name, .. } => format!("status {name}"),
            Request::ReadVolumes { pod, .. } => format!("volumes of {}", pod.1),
            Request::PodStatus { pod, patch, .. } => {
                format!(
                    "pod {} {} {}",
                    pod.1, patch["status"]["phase"], patch["status"]["podIP"]
                )
            }
            Request::EndPod { pod, .. } => format!("end pod {}", pod.1),
            Request::RenewMirror { pod, .. } => format!("renew mirror {}", pod.1),
        };
        self.say(text);
        if self.failing {
            return Outcome::Failed("unavailable".to_owned());
        }
        match request {
            Request::ReadSecret { .. } => Outcome::Secret(self.secret.clone()),
            Request::Register { node } => {
                let name = node.metadata.name.clone().unwrap();
                self.uids += 1;
                let uid = format!("node-{}", self.uids);
                let facts = NodeFacts {
                    uid,
                    ..NodeFacts::of(node)
                };
                let known = self.nodes.entry(name).or_insert(facts);
                Outcome::Node(Box::new(known.clone()))
            }
            Request::DeleteNode { name, uid } => match self.nodes.get(name) {
                Some(node) if node.uid == *uid => {
                    self.nodes.remove(name);
                    self.fleet.node_gone(name, uid, self.now);
                    Outcome::Done
                }
                _ => Outcome::Gone,
            },
            Request::RenewLease(renewal) => {
                self.renewals.push(renewal.time);
                self.last_renewal = Some(self.now);
                Outcome::Done
            }
            Request::NodeStatus { name, patch } => self.node_status(name, patch),
            Request::ReadVolumes { .. } => Outcome::Volumes(self.volumes.clone()),
            Request::PodStatus { pod, patch, .. } => self.pod_status(pod, patch),
            Request::EndPod { pod, uid, .. } => self.end_pod(pod, uid),
            Request::RenewMirror { pod, uid, .. } => {
                let before = self.pods.get(pod).cloned().unwrap();
                self.end_pod(pod, uid);
                self.uids += 1;
                let metadata = json!({
                    "name": pod.1, "namespace": pod.0, "uid": format!("mirror-{}", self.uids),
                    "annotations": before["metadata"]["annotations"],
                });
                self.pods
                    .insert(pod.clone(), json!({"metadata": metadata, "spec": before["spec"]}));
                Outcome::Done
            }
        }
    }

    fn node_status(&mut self, name: &str, patch: &Value) -> Outcome {
        self.statuses.push(patch["status"].clone());
        match self.nodes.get_mut(name) {
            Some(node) if patch["metadata"]["uid"] == node.uid => {
                for condition in patch["status"]["conditions"].as_array().unwrap() {
                    let kind = condition["type"].as_str().unwrap().to_owned();
                    match condition["status"].as_str() {
                        Some(status) => drop(node.conditions.insert(kind, status.to_owned())),
                        None => drop(node.conditions.remove(&kind)),
                    }
                }
                Outcome::Node(Box::new(node.clone()))
            }
            _ => Outcome::Gone,
        }
    }

    fn pod_status(&mut self, key: &PodKey, patch: &Value) -> Outcome {
        self.version += 1;
        let version = self.version;
        let Some(pod) = self
            .pods
            .get_mut(key)
            .filter(|pod| pod["metadata"]["uid"] == patch["metadata"]["uid"])
        else {
            return Outcome::Gone;
        };
        let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        for (field, value) in patch["status"].as_object().unwrap() {
            pod["status"][field] = value.clone();
        }
        for condition in patch["status"]["conditions"].as_array().unwrap() {
            conditions.retain(|known| known["type"] != condition["type"]);
            conditions.push(condition.clone());
        }
        pod["status"]["conditions"] = Value::Array(conditions);
        pod["metadata"]["resourceVersion"] = json!(version.to_string());
        Outcome::Written(version)
    }

    fn end_pod(&mut self, key: &PodKey, uid: &str) -> Outcome {
        match self.pods.get(key) {
            Some(pod) if pod["metadata"]["uid"] != uid => Outcome::Gone,
            Some(pod) if pod["metadata"]["finalizers"].is_array() => Outcome::Done,
            Some(_) => {
                self.pods.remove(key);
                Outcome::Done
            }
            None => Outcome::Gone,
        }
    }

    /// Shows the fleet all pods and the removed ones.
    pub(super) fn show(&mut self) {
        let removed: Vec<PodKey> = self
            .fleet
            .pods
            .keys()
            .filter(|key| !self.pods.contains_key(*key))
            .cloned()
            .collect();
        for key in removed {
            self.fleet.pod_gone(&key, self.now);
        }
        for pod in self.pods.values() {
            let pod: Pod = serde_json::from_value(pod.clone()).unwrap();
            if let Some((key, facts)) = PodFacts::of(&pod) {
                self.fleet.pod_seen(key, facts, self.now);
            }
        }
    }

    pub(super) fn say(&mut self, text: String) {
        let seconds = self.now.duration_since(at(0)).as_secs();
        self.narrative.push(format!("{seconds} {text}"));
    }

    pub(super) fn log(&mut self) -> Vec<String> {
        std::mem::take(&mut self.narrative)
    }

    /// The log of pods; drops the rest.
    pub(super) fn log_of_pods(&mut self) -> Vec<String> {
        let mut log = self.log();
        log.retain(|line| line.contains(" pod ") || line.contains("volumes") || line.contains("mirror"));
        log
    }

    /// Binds a pod with these annotations and one container to Node `a`.
    pub(super) fn pod(&mut self, name: &str, annotations: &[(&str, &str)]) {
        self.pod_of(
            name,
            annotations,
            json!({"containers": [{"name": "main", "image": "image"}]}),
        );
    }

    /// Binds a pod with a spec to Node `a`.
    pub(super) fn pod_of(&mut self, name: &str, annotations: &[(&str, &str)], mut spec: Value) {
        spec["nodeName"] = json!("a");
        let annotations: BTreeMap<String, &str> = annotations
            .iter()
            .map(|(key, value)| {
                let prefix = if key.contains('/') {
                    ""
                } else {
                    "fakecloud.drydock.dev/"
                };
                (format!("{prefix}{key}"), *value)
            })
            .collect();
        // The version grows with each change: a pod with the name of a removed one is another pod.
        let uid = format!("uid-{name}-{}", self.version);
        let metadata = json!({ "name": name, "namespace": "default", "uid": uid, "annotations": annotations });
        self.change_pod(name, |pod| *pod = json!({"metadata": metadata, "spec": spec}));
    }

    /// Changes a pod like any client.
    pub(super) fn change_pod(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        self.version += 1;
        let pod = self.pods.entry(("default".to_owned(), name.to_owned())).or_default();
        change(pod);
        pod["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.show();
        self.settle();
    }

    /// Deletes a pod gracefully, with this deadline for its end.
    pub(super) fn delete_pod(&mut self, name: &str, deadline: i64) {
        let deadline = at(deadline).to_string();
        self.change_pod(name, |pod| pod["metadata"]["deletionTimestamp"] = json!(deadline));
    }

    /// Removes a pod from the API server.
    pub(super) fn remove_pod(&mut self, name: &str) {
        self.pods.remove(&("default".to_owned(), name.to_owned()));
        self.show();
        self.settle();
    }

    pub(super) fn status_of(&self, name: &str) -> &Value {
        &self.pods[&("default".to_owned(), name.to_owned())]["status"]
    }

    /// Whether the pod's Ready condition is True.
    pub(super) fn is_ready(&self, name: &str) -> bool {
        let conditions = self.status_of(name)["conditions"].as_array().into_iter().flatten();
        conditions
            .into_iter()
            .any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    }

    /// Restarts and state of a pod's container in short form: `running`, a waiting reason, or a terminated reason with
    /// its exit code.
    pub(super) fn container(&self, name: &str, list: &str, index: usize) -> (u64, String) {
        let container = &self.status_of(name)[list][index];
        let state = &container["state"];
        let text = match (state.get("running"), state.get("waiting"), state.get("terminated")) {
            (Some(_), ..) => "running".to_owned(),
            (_, Some(waiting), _) => waiting["reason"].as_str().unwrap().to_owned(),
            (.., Some(end)) => format!("{} {}", end["reason"].as_str().unwrap(), end["exitCode"]),
            _ => String::new(),
        };
        (container["restartCount"].as_u64().unwrap_or_default(), text)
    }

    pub(super) fn main(&self, name: &str) -> (u64, String) {
        self.container(name, "containerStatuses", 0)
    }

    /// Attaches exactly these volumes to Node `a`.
    pub(super) fn attach(&mut self, volumes: &[&str]) {
        let node = self.nodes.get_mut("a").unwrap();
        node.attached = volumes.iter().map(|volume| (*volume).to_owned()).collect();
        let facts = node.clone();
        self.fleet.node_seen("a", &facts, self.now);
        self.settle();
    }
}
