//! An in-memory world for sequences of decisions: objects by kind and name, changed by plans as by an API
//! server, and pods that run, finish or disappear at random.

use std::collections::BTreeMap;
use std::sync::Arc;

use clock::Stream;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde_json::{Value, json};

use super::plan::{Action, Object, Plan};
use super::{meta, pods};
use crate::Kind;

/// The objects and the current time.
pub struct World {
    pub now: Timestamp,
    pub chance: Stream,
    objects: BTreeMap<(Kind, String), Object>,
    written: u64,
}

/// The [`Object`] variant of a type.
pub trait Stored: Sized {
    const KIND: Kind;
    fn of(object: &Object) -> Option<&Self>;
}

macro_rules! stored {
    ($($type:path => $kind:ident as $variant:ident),* $(,)?) => {
        $(impl Stored for $type {
            const KIND: Kind = Kind::$kind;
            fn of(object: &Object) -> Option<&Self> {
                match object {
                    Object::$variant(object) => Some(object),
                    _ => None,
                }
            }
        })*
    };
}

stored! {
    Pod => Pod as Pod,
    k8s_openapi::api::apps::v1::ReplicaSet => ReplicaSet as ReplicaSet,
    k8s_openapi::api::apps::v1::Deployment => Deployment as Deployment,
    k8s_openapi::api::apps::v1::DaemonSet => DaemonSet as DaemonSet,
    k8s_openapi::api::apps::v1::StatefulSet => StatefulSet as StatefulSet,
    k8s_openapi::api::apps::v1::ControllerRevision => ControllerRevision as Revision,
    k8s_openapi::api::core::v1::PersistentVolumeClaim => PersistentVolumeClaim as Claim,
    k8s_openapi::api::batch::v1::Job => Job as Job,
    k8s_openapi::api::discovery::v1::EndpointSlice => EndpointSlice as EndpointSlice,
}

fn metadata_of(object: &mut Object) -> &mut ObjectMeta {
    match object {
        Object::Pod(object) => &mut object.metadata,
        Object::Claim(object) => &mut object.metadata,
        Object::ReplicaSet(object) => &mut object.metadata,
        Object::Deployment(object) => &mut object.metadata,
        Object::DaemonSet(object) => &mut object.metadata,
        Object::StatefulSet(object) => &mut object.metadata,
        Object::Revision(object) => &mut object.metadata,
        Object::Job(object) => &mut object.metadata,
        Object::EndpointSlice(object) => &mut object.metadata,
    }
}

/// The fields whose change increments the generation.
fn spec_of(object: &Object) -> Value {
    let spec = |value: Result<Value, serde_json::Error>| value.unwrap()["spec"].take();
    match object {
        Object::ReplicaSet(object) => spec(serde_json::to_value(object)),
        Object::Deployment(object) => spec(serde_json::to_value(object)),
        Object::DaemonSet(object) => spec(serde_json::to_value(object)),
        Object::StatefulSet(object) => spec(serde_json::to_value(object)),
        Object::Job(object) => spec(serde_json::to_value(object)),
        _ => Value::Null,
    }
}

impl World {
    pub fn new(seed: u64) -> Self {
        Self {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            chance: clock::Seed::new(seed).stream("world"),
            objects: BTreeMap::new(),
            written: 0,
        }
    }

    /// Creates an object as the API server does.
    pub fn create(&mut self, object: impl Into<Object>) {
        let mut object = object.into();
        self.written += 1;
        let (number, now) = (self.written, self.now);
        let metadata = metadata_of(&mut object);
        let prefix = metadata.generate_name.clone().unwrap_or_default();
        let name = metadata.name.get_or_insert_with(|| format!("{prefix}{number}")).clone();
        metadata.namespace = Some("n".to_owned());
        metadata.uid = Some(format!("u{number}"));
        metadata.resource_version = Some(number.to_string());
        metadata.generation = Some(1);
        metadata.creation_timestamp = Some(Time(now));
        if let Object::Pod(pod) = &mut object {
            pod.status.get_or_insert_default().phase = Some("Pending".to_owned());
        }
        let before = self.objects.insert((object.kind(), name.clone()), object);
        assert!(before.is_none(), "{name} already exists");
    }

    /// Replaces an object; a changed spec increments the generation.
    pub fn update(&mut self, object: impl Into<Object>) {
        let mut object = object.into();
        self.written += 1;
        let number = self.written;
        let spec = spec_of(&object);
        let key = (object.kind(), metadata_of(&mut object).name.clone().unwrap());
        let before = self.objects.get(&key).expect("what is updated exists");
        let moved = i64::from(spec_of(before) != spec);
        let metadata = metadata_of(&mut object);
        metadata.resource_version = Some(number.to_string());
        metadata.generation = metadata.generation.map(|generation| generation + moved);
        self.objects.insert(key, object);
    }

    /// All objects of a kind, ordered by name.
    pub fn all<K: Stored + Clone>(&self) -> Vec<Arc<K>> {
        let of_kind = self.objects.iter().filter(|((kind, _), _)| *kind == K::KIND);
        of_kind
            .filter_map(|(_, object)| K::of(object))
            .cloned()
            .map(Arc::new)
            .collect()
    }

    pub fn get<K: Stored + Clone>(&self, name: &str) -> Arc<K> {
        let object = self.objects.get(&(K::KIND, name.to_owned())).expect("the object");
        Arc::new(K::of(object).expect("of its kind").clone())
    }

    /// Performs a plan. Deleted pods disappear immediately, unless they have a finalizer.
    pub fn perform(&mut self, plan: &Plan) {
        for action in &plan.actions {
            match action {
                Action::Create { object, .. } => self.create(object.clone()),
                Action::Update { object } | Action::UpdateStatus { object } => self.update(object.clone()),
                Action::Patch { target, patch } => self.patch(target.kind, &target.name, patch),
                Action::Delete { target, .. } => self.delete(target.kind, &target.name),
                Action::Record(_) => {}
            }
        }
    }

    fn patch(&mut self, kind: Kind, name: &str, patch: &Value) {
        let key = (kind, name.to_owned());
        let Some(object) = self.objects.get_mut(&key) else {
            return;
        };
        let metadata = metadata_of(object);
        let mut value = serde_json::to_value(&*metadata).unwrap();
        for (field, change) in patch["metadata"].as_object().unwrap() {
            value[field] = change.clone();
        }
        *metadata = serde_json::from_value(value).unwrap();
        let held = metadata
            .finalizers
            .as_ref()
            .is_some_and(|finalizers| !finalizers.is_empty());
        if meta::is_deleting(metadata) && !held {
            self.objects.remove(&key);
        }
    }

    pub fn delete(&mut self, kind: Kind, name: &str) {
        let (key, now) = ((kind, name.to_owned()), self.now);
        let Some(object) = self.objects.get_mut(&key) else {
            return;
        };
        let metadata = metadata_of(object);
        if metadata
            .finalizers
            .as_ref()
            .is_some_and(|finalizers| !finalizers.is_empty())
        {
            metadata.deletion_timestamp.get_or_insert(Time(now));
        } else {
            self.objects.remove(&key);
        }
    }

    /// Sets a pod running, ready or not.
    pub fn run(&mut self, name: &str, ready: bool) {
        let status = if ready { "True" } else { "False" };
        let condition = json!({ "type": "Ready", "status": status, "lastTransitionTime": Time(self.now) });
        let condition: PodCondition = serde_json::from_value(condition).unwrap();
        self.set_pod(name, "Running", vec![condition]);
    }

    /// Finishes a pod with this phase.
    pub fn end(&mut self, name: &str, phase: &str) {
        self.set_pod(name, phase, Vec::new());
    }

    fn set_pod(&mut self, name: &str, phase: &str, conditions: Vec<PodCondition>) {
        let mut pod = Pod::clone(&self.get::<Pod>(name));
        pod.status = Some(PodStatus {
            phase: Some(phase.to_owned()),
            conditions: Some(conditions),
            ..PodStatus::default()
        });
        self.update(pod);
    }

    /// A random active pod for which `holds` is true.
    pub fn any_pod(&mut self, holds: impl Fn(&Pod) -> bool) -> Option<String> {
        let found: Vec<Arc<Pod>> = self
            .all()
            .into_iter()
            .filter(|pod| pods::is_active(pod) && holds(pod))
            .collect();
        let index = self.chance.below(found.len() as u64);
        let pod = found.get(usize::try_from(index).unwrap())?;
        Some(meta::name(&pod.metadata).to_owned())
    }

    /// Advances the time.
    pub fn pass(&mut self, seconds: i64) {
        self.now = meta::later(self.now, seconds);
    }
}
