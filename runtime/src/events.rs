//! Events of the core group: a repeated one is counted in one object instead of being written again.

use std::collections::BTreeMap;

use clock::{Clock, Stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::{Value, json};

/// Beyond this many different events the one that was repeated least recently is forgotten, and begins anew.
const REMEMBERED: usize = 4096;
/// The API server refuses longer messages.
const LONGEST_MESSAGE: usize = 1024;

/// How events are named, counted and signed.
#[derive(Clone, Debug)]
pub struct Settings {
    /// For how long after an event its repetition is counted; `None`: for as long as it is remembered.
    pub repetition: Option<SignedDuration>,
    /// Whether the same event about another version of the object begins anew.
    pub per_version: bool,
    /// Draws what follows the object's name in the event's name.
    pub suffix: fn(&mut Stream) -> String,
    /// The host of `source`, and `reportingInstance`; `None`: none.
    pub host: Option<String>,
}

/// What happened.
#[derive(Clone, Debug)]
pub struct Occurrence {
    /// Which component reports it.
    pub component: String,
    /// The object.
    pub about: ObjectReference,
    /// `Normal` or `Warning`.
    pub type_: &'static str,
    /// One word.
    pub reason: String,
    /// For people; longer than 1024 characters it is cut.
    pub message: String,
}

/// The request that records an event.
#[derive(Clone, Debug)]
pub enum Record {
    /// Creates it.
    Create(Box<Event>),
    /// Counts one more.
    Count {
        /// The event's namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The merge patch.
        patch: Value,
    },
}

/// Remembers which events were recorded.
#[derive(Debug)]
pub struct Recorder {
    clock: Clock,
    names: Stream,
    settings: Settings,
    seen: BTreeMap<Sameness, Seen>,
}

/// What makes two events the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sameness {
    component: String,
    /// API version, kind, namespace, name, uid and, where it counts, version.
    object: [Option<String>; 6],
    type_: &'static str,
    reason: String,
    message: String,
}

#[derive(Clone, Debug)]
struct Seen {
    name: String,
    count: i32,
    last: Timestamp,
}

impl Recorder {
    /// A recorder that draws the events' names from `names`.
    pub fn new(clock: Clock, names: Stream, settings: Settings) -> Self {
        Self {
            clock,
            names,
            settings,
            seen: BTreeMap::new(),
        }
    }

    /// What to [`send`].
    pub fn record(&mut self, mut occurrence: Occurrence) -> Record {
        occurrence.message = cut(occurrence.message);
        let (now, repetition) = (self.clock.now(), self.settings.repetition);
        let sameness = self.sameness(&occurrence);
        if let Some(seen) = self.seen.get_mut(&sameness)
            && counts(seen, now, repetition)
        {
            seen.count = seen.count.saturating_add(1);
            seen.last = now;
            return Record::Count {
                namespace: namespace(&occurrence.about),
                name: seen.name.clone(),
                patch: json!({ "count": seen.count, "lastTimestamp": Time(now) }),
            };
        }
        self.begin(occurrence, sameness, now)
    }

    /// As [`Self::record`], where the server has the event no more that was to be counted.
    pub fn record_anew(&mut self, mut occurrence: Occurrence) -> Record {
        occurrence.message = cut(occurrence.message);
        let sameness = self.sameness(&occurrence);
        let now = self.clock.now();
        self.begin(occurrence, sameness, now)
    }

    fn begin(&mut self, occurrence: Occurrence, sameness: Sameness, now: Timestamp) -> Record {
        if !self.seen.contains_key(&sameness) {
            self.make_room(now);
        }
        let suffix = (self.settings.suffix)(&mut self.names);
        let name = format!("{}.{suffix}", occurrence.about.name.as_deref().unwrap_or_default());
        let seen = Seen {
            name: name.clone(),
            count: 1,
            last: now,
        };
        self.seen.insert(sameness, seen);
        Record::Create(Box::new(self.event(name, occurrence, now)))
    }

    fn sameness(&self, occurrence: &Occurrence) -> Sameness {
        let about = &occurrence.about;
        let version = about.resource_version.clone().filter(|_| self.settings.per_version);
        Sameness {
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
        if self.seen.len() >= REMEMBERED {
            self.seen.retain(|_, seen| counts(seen, now, repetition));
        }
        if self.seen.len() >= REMEMBERED {
            let oldest = self.seen.iter().min_by_key(|(_, seen)| seen.last);
            let oldest = oldest.map(|(sameness, _)| sameness.clone());
            oldest.map(|oldest| self.seen.remove(&oldest));
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

/// Whether one more of `seen` is a repetition.
fn counts(seen: &Seen, now: Timestamp, repetition: Option<SignedDuration>) -> bool {
    repetition.is_none_or(|repetition| now.duration_since(seen.last) < repetition)
}

fn cut(message: String) -> String {
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

/// The reference to an object in its present version.
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
/// The API's; that the event which is to be counted is not there is one of them.
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

    /// The count that a record stands for.
    fn count(record: Record) -> i64 {
        match record {
            Record::Create(event) => event.count.unwrap().into(),
            Record::Count { patch, .. } => patch["count"].as_i64().unwrap(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_repetition_is_counted_while_it_follows_soon() {
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
    async fn another_version_is_the_same_event_unless_versions_count() {
        for (per_version, expected) in [(false, [1, 2]), (true, [1, 1])] {
            let mut recorder = recorder(None, per_version);
            let counted = ["1", "2"].map(|version| count(recorder.record(occurrence(version, "again"))));
            assert_eq!(counted, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_event_is_forgotten_first() {
        let mut recorder = recorder(None, false);
        for number in 0..=REMEMBERED {
            recorder.record(occurrence("1", &number.to_string()));
            recorder.clock.sleep(std::time::Duration::from_secs(1)).await;
        }
        assert_eq!(count(recorder.record(occurrence("1", "1"))), 2);
        assert_eq!(count(recorder.record(occurrence("1", "0"))), 1);
        assert_eq!(recorder.seen.len(), REMEMBERED);
    }
}
