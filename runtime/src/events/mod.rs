//! Events of the core group: a repetition increases the count of the existing event.

use std::collections::BTreeMap;

use clock::{Clock, Stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

/// The maximum number of remembered events; beyond it the least recently repeated one is forgotten.
const MAX_REMEMBERED: usize = 4096;
/// The API server refuses longer messages.
const LONGEST_MESSAGE: usize = 1024;

/// How events are named and counted, and their source.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long after an event its repetition is counted; `None`: as long as the event is remembered.
    pub repetition: Option<SignedDuration>,
    /// Whether the same event about another version of the object is a new event.
    pub per_version: bool,
    /// Generates the suffix of the event's name.
    pub suffix: fn(&mut Stream) -> String,
    /// The host of `source`, and `reportingInstance`; `None`: none.
    pub host: Option<String>,
}

/// An occurrence to record.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// The reporting component.
    pub component: String,
    /// The object.
    pub about: ObjectReference,
    /// `Normal` or `Warning`.
    pub type_: &'static str,
    /// A CamelCase reason.
    pub reason: String,
    /// A human-readable message; truncated to 1024 characters.
    pub message: String,
}

/// The request that records an event.
#[derive(Clone, Debug)]
pub enum Record {
    /// Creates the event.
    Create(Box<Event>),
    /// Increases the event's count.
    Count {
        /// The event's namespace.
        namespace: String,
        /// The event's name.
        name: String,
        /// The merge patch.
        patch: Value,
    },
}

/// Remembers recorded events and counts repetitions.
#[derive(Debug)]
pub struct Recorder {
    clock: Clock,
    names: Stream,
    settings: Settings,
    recorded: BTreeMap<EventKey, RecordedEvent>,
}

/// The fields that identify repetitions of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct EventKey {
    component: String,
    /// API version, kind, namespace, name, uid and, if versions are distinguished, resourceVersion.
    object: [Option<String>; 6],
    type_: &'static str,
    reason: String,
    message: String,
}

#[derive(Clone, Debug)]
struct RecordedEvent {
    name: String,
    count: i32,
    last: Timestamp,
}

impl Recorder {
    /// A recorder that generates the events' names from `names`.
    pub fn new(clock: Clock, names: Stream, settings: Settings) -> Self {
        Self {
            clock,
            names,
            settings,
            recorded: BTreeMap::new(),
        }
    }

    /// Returns the request to [`send`] for an occurrence.
    pub fn record(&mut self, mut occurrence: Occurrence) -> Record {
        occurrence.message = truncated(occurrence.message);
        let (now, repetition) = (self.clock.now(), self.settings.repetition);
        let key = self.key(&occurrence);
        if let Some(event) = self.recorded.get_mut(&key)
            && is_repetition(event, now, repetition)
        {
            event.count = event.count.saturating_add(1);
            event.last = now;
            return Record::Count {
                namespace: namespace(&occurrence.about),
                name: event.name.clone(),
                patch: json!({ "count": event.count, "lastTimestamp": Time(now) }),
            };
        }
        self.create(occurrence, key, now)
    }

    /// Returns the request to [`send`] if the event to count does not exist any more: always creates an event.
    pub fn record_new(&mut self, mut occurrence: Occurrence) -> Record {
        occurrence.message = truncated(occurrence.message);
        let key = self.key(&occurrence);
        let now = self.clock.now();
        self.create(occurrence, key, now)
    }

    fn create(&mut self, occurrence: Occurrence, key: EventKey, now: Timestamp) -> Record {
        if !self.recorded.contains_key(&key) {
            self.make_room(now);
        }
        let suffix = (self.settings.suffix)(&mut self.names);
        let name = format!("{}.{suffix}", occurrence.about.name.as_deref().unwrap_or_default());
        let event = RecordedEvent {
            name: name.clone(),
            count: 1,
            last: now,
        };
        self.recorded.insert(key, event);
        Record::Create(Box::new(self.event(name, occurrence, now)))
    }

    fn key(&self, occurrence: &Occurrence) -> EventKey {
        let about = &occurrence.about;
        let version = about.resource_version.clone().filter(|_| self.settings.per_version);
        EventKey {
            component: occurrence.component.clone(),
            object: [
                about.api_version.clone(),
                about.kind.clone(),
                about.namespace.clone(),
                about.name.clone(),
                about.uid.clone(),
                version,
            ],
            type_: occurrence.type_,
            reason: occurrence.reason.clone(),
            message: occurrence.message.clone(),
        }
    }

    fn make_room(&mut self, now: Timestamp) {
        let repetition = self.settings.repetition;
        if self.recorded.len() >= MAX_REMEMBERED {
            self.recorded.retain(|_, event| is_repetition(event, now, repetition));
        }
        if self.recorded.len() >= MAX_REMEMBERED {
            let oldest = self.recorded.iter().min_by_key(|(_, event)| event.last);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.map(|oldest| self.recorded.remove(&oldest));
        }
    }

    fn event(&self, name: String, occurrence: Occurrence, now: Timestamp) -> Event {
        let host = &self.settings.host;
        Event {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace(&occurrence.about)),
                ..ObjectMeta::default()
            },
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            involved_object: occurrence.about,
            type_: Some(occurrence.type_.to_owned()),
            reason: Some(occurrence.reason),
            message: Some(occurrence.message),
            source: Some(EventSource {
                component: Some(occurrence.component.clone()),
                host: host.clone(),
            }),
            reporting_component: Some(occurrence.component),
            reporting_instance: Some(host.clone().unwrap_or_default()),
            ..Event::default()
        }
    }
}

/// Whether another occurrence of `event` is a repetition.
fn is_repetition(event: &RecordedEvent, now: Timestamp, repetition: Option<SignedDuration>) -> bool {
    repetition.is_none_or(|repetition| now.duration_since(event.last) < repetition)
}

fn truncated(message: String) -> String {
    match message.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => message[..end].to_owned(),
        None => message,
    }
}

/// Events about cluster-scoped objects are in `default`.
fn namespace(about: &ObjectReference) -> String {
    let namespace = about.namespace.clone().filter(|namespace| !namespace.is_empty());
    namespace.unwrap_or_else(|| "default".to_owned())
}

/// A reference to an object in its current version.
pub fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        name: object.meta().name.clone(),
        namespace: object.namespace(),
        uid: object.uid(),
        resource_version: object.resource_version(),
        ..ObjectReference::default()
    }
}

/// Sends a record.
///
/// # Errors
///
/// Returns the error of the API; NotFound if the event to count does not exist any more.
pub async fn send(client: &Client, record: &Record) -> kube::Result<()> {
    match record {
        Record::Create(event) => {
            let namespace = event.metadata.namespace.as_deref().unwrap_or_default();
            let api: Api<Event> = Api::namespaced(client.clone(), namespace);
            api.create(&PostParams::default(), event).await.map(drop)
        }
        Record::Count { namespace, name, patch } => {
            let api: Api<Event> = Api::namespaced(client.clone(), namespace);
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
            api.patch(name, &parameters, &patch).await.map(drop)
        }
    }
}

#[cfg(test)]
mod tests {
    use clock::Seed;

    use super::*;

    fn recorder(repetition: Option<SignedDuration>, per_version: bool) -> Recorder {
        let clock = Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap());
        let settings = Settings {
            repetition,
            per_version,
            suffix: |names| format!("{:016x}", names.bits()),
            host: None,
        };
        Recorder::new(clock, Seed::new(1).stream("events"), settings)
    }

    fn occurrence(version: &str, message: &str) -> Occurrence {
        Occurrence {
            component: "kubelet".to_owned(),
            about: ObjectReference {
                name: Some("n1".to_owned()),
                resource_version: Some(version.to_owned()),
                ..ObjectReference::default()
            },
            type_: "Normal",
            reason: "Ready".to_owned(),
            message: message.to_owned(),
        }
    }

    /// The event's count after a record.
    fn count(record: Record) -> i64 {
        match record {
            Record::Create(event) => event.count.unwrap().into(),
            Record::Count { patch, .. } => patch["count"].as_i64().unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_repetition_is_counted_within_its_period() {
        let mut recorder = recorder(Some(SignedDuration::from_mins(10)), false);
        let mut counted = Vec::new();
        for minutes in [5, 5, 10] {
            counted.push(count(recorder.record(occurrence("1", "again"))));
            recorder.clock.sleep(std::time::Duration::from_secs(60 * minutes)).await;
        }
        counted.push(count(recorder.record(occurrence("1", "again"))));
        assert_eq!(counted, [1, 2, 3, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn another_version_is_the_same_event_unless_versions_are_distinguished() {
        for (per_version, expected) in [(false, [1, 2]), (true, [1, 1])] {
            let mut recorder = recorder(None, per_version);
            let counted = ["1", "2"].map(|version| count(recorder.record(occurrence(version, "again"))));
            assert_eq!(counted, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_event_is_forgotten_first() {
        let mut recorder = recorder(None, false);
        for number in 0..=MAX_REMEMBERED {
            recorder.record(occurrence("1", &number.to_string()));
            recorder.clock.sleep(std::time::Duration::from_secs(1)).await;
        }
        assert_eq!(count(recorder.record(occurrence("1", "1"))), 2);
        assert_eq!(count(recorder.record(occurrence("1", "0"))), 1);
        assert_eq!(recorder.recorded.len(), MAX_REMEMBERED);
    }
}
