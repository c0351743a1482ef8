//! Events of the core group: a repetition increases the count of the existing event.

mod similar;

use std::num::NonZeroUsize;

use clock::{Clock, Stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use lru::LruCache;
use serde_json::{Value, json};

use self::similar::{COMBINED, SimilarEvents};

/// The time between two writes of a combined event.
const WRITE_PERIOD: SignedDuration = SignedDuration::from_secs(1);
/// The maximum number of remembered events; beyond it the least recently repeated one is forgotten.
const MAX_REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// The API server refuses longer messages.
const LONGEST_MESSAGE: usize = 1024;

/// How events are named and counted, and their source.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long after an event its repetition is counted; `None`: as long as the event is remembered.
    pub repetition: Option<SignedDuration>,
    /// Whether the same event about another version of the object is a new event.
    pub per_version: bool,
    /// Whether many events of one object that differ only in their message are combined.
    pub combine_similar: bool,
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
    /// No request: a later one contains the count.
    Postponed,
}

/// Remembers recorded events and counts repetitions.
#[derive(Debug)]
pub struct Recorder {
    clock: Clock,
    names: Stream,
    settings: Settings,
    recorded: LruCache<EventKey, RecordedEvent>,
    similar: SimilarEvents,
}

/// The fields that identify repetitions of an event.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct EventKey {
    component: String,
    /// API version, kind, namespace, name, uid and, if versions are distinguished, resourceVersion.
    object: [Option<String>; 6],
    type_: &'static str,
    reason: String,
    message: String,
}

impl EventKey {
    /// The key with an empty message, and the message.
    fn without_message(&self) -> (Self, String) {
        let mut key = self.clone();
        let message = std::mem::take(&mut key.message);
        (key, message)
    }
}

#[derive(Clone, Debug)]
struct RecordedEvent {
    name: String,
    count: i32,
    last: Timestamp,
    written: Timestamp,
}

impl Recorder {
    /// A recorder that generates the events' names from `names`.
    pub fn new(clock: Clock, names: Stream, settings: Settings) -> Self {
        Self {
            clock,
            names,
            settings,
            recorded: LruCache::new(MAX_REMEMBERED),
            similar: SimilarEvents::default(),
        }
    }

    /// Returns the request to [`send`] for an occurrence.
    pub fn record(&mut self, mut occurrence: Occurrence) -> Record {
        let now = self.clock.now();
        occurrence.message = truncated(occurrence.message);
        let mut key = self.key(&occurrence);
        let is_combined = self.settings.combine_similar && self.similar.is_combined(&key, now);
        if is_combined {
            occurrence.message = truncated(format!("{COMBINED}{}", occurrence.message));
            COMBINED.clone_into(&mut key.message);
        }
        let repetition = self.settings.repetition;
        let Some(event) = self
            .recorded
            .get_mut(&key)
            .filter(|event| is_repetition(event, now, repetition))
        else {
            return self.create(occurrence, key, now);
        };
        event.count = event.count.saturating_add(1);
        event.last = now;
        if is_combined && now.duration_since(event.written) < WRITE_PERIOD {
            return Record::Postponed;
        }
        event.written = now;
        let mut patch = json!({ "count": event.count, "lastTimestamp": Time(now) });
        if is_combined {
            patch["message"] = json!(occurrence.message);
        }
        Record::Count {
            namespace: namespace(&occurrence.about),
            name: event.name.clone(),
            patch,
        }
    }

    /// Returns the request to [`send`] if the event to count does not exist any more: always creates an event.
    pub fn record_new(&mut self, mut occurrence: Occurrence) -> Record {
        occurrence.message = truncated(occurrence.message);
        let key = self.key(&occurrence);
        let now = self.clock.now();
        self.create(occurrence, key, now)
    }

    fn create(&mut self, occurrence: Occurrence, key: EventKey, now: Timestamp) -> Record {
        let suffix = (self.settings.suffix)(&mut self.names);
        let name = format!("{}.{suffix}", occurrence.about.name.as_deref().unwrap_or_default());
        let event = RecordedEvent {
            name: name.clone(),
            count: 1,
            last: now,
            written: now,
        };
        self.recorded.put(key, event);
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
        Record::Postponed => Ok(()),
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
            combine_similar: false,
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
            Record::Postponed => 0,
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
        for number in 0..=MAX_REMEMBERED.get() {
            recorder.record(occurrence("1", &number.to_string()));
            recorder.clock.sleep(std::time::Duration::from_secs(1)).await;
        }
        assert_eq!(count(recorder.record(occurrence("1", "1"))), 2);
        assert_eq!(count(recorder.record(occurrence("1", "0"))), 1);
        assert_eq!(recorder.recorded.len(), MAX_REMEMBERED.get());
    }

    /// The message and the count after a record; `None`: no request.
    fn sent(record: Record) -> Option<(String, i64)> {
        let message = match &record {
            Record::Create(event) => event.message.clone().unwrap(),
            Record::Count { patch, .. } => patch["message"].as_str().unwrap_or_default().to_owned(),
            Record::Postponed => return None,
        };
        Some((message, count(record)))
    }

    #[tokio::test(start_paused = true)]
    async fn many_similar_events_become_one_that_is_written_once_a_second() {
        let mut recorder = recorder(None, false);
        recorder.settings.combine_similar = true;
        let clock = recorder.clock.clone();
        let mut record = |number: usize| sent(recorder.record(occurrence("1", &number.to_string())));
        for number in 0..10 {
            assert_eq!(record(number), Some((number.to_string(), 1)));
        }
        assert_eq!(record(10), Some((format!("{COMBINED}10"), 1)));
        assert_eq!(record(11), None);
        assert_eq!(
            record(3),
            Some((String::new(), 2)),
            "a repetition of one of the first events"
        );
        clock.sleep(std::time::Duration::from_secs(1)).await;
        assert_eq!(
            record(12),
            Some((format!("{COMBINED}12"), 3)),
            "the postponed one is counted"
        );
        clock.sleep(std::time::Duration::from_secs(601)).await;
        assert_eq!(record(13), Some(("13".to_owned(), 1)), "a later one is separate");
    }

    #[tokio::test(start_paused = true)]
    async fn events_of_different_objects_and_reasons_are_not_combined() {
        let mut recorder = recorder(None, false);
        recorder.settings.combine_similar = true;
        for number in 0..20 {
            let mut other = occurrence("1", &number.to_string());
            other.about.name = Some(format!("n{number}"));
            assert_eq!(sent(recorder.record(other)), Some((number.to_string(), 1)));
            let mut other = occurrence("1", &number.to_string());
            other.reason = format!("Ready{number}");
            assert_eq!(sent(recorder.record(other)), Some((number.to_string(), 1)));
        }
    }
}
