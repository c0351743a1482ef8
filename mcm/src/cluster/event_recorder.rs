//! Kubernetes events (core/v1) as this process records them: repeated ones are counted in one object.

use std::collections::BTreeMap;

use clock::{Clock, Stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use mcm_core::event::EventType;
use parking_lot::Mutex;
use serde_json::json;

use crate::error::is_not_found;

const COMPONENT: &str = "machine-controller-manager";
/// Beyond this many different events the one that is longest ago is forgotten, and would start anew.
const REMEMBERED: usize = 4096;
/// The API server refuses longer messages.
const LONGEST_MESSAGE: usize = 1024;

/// Records events on objects of the control cluster.
#[derive(Debug)]
pub(crate) struct EventRecorder {
    clock: Clock,
    host: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    names: Stream,
    seen: BTreeMap<Sameness, Seen>,
}

/// What makes two events the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Sameness {
    uid: String,
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

impl EventRecorder {
    /// A recorder that draws the events' names from `names`.
    pub(crate) fn new(clock: Clock, host: String, names: Stream) -> Self {
        Self {
            clock,
            host,
            state: Mutex::new(State {
                names,
                seen: BTreeMap::new(),
            }),
        }
    }

    /// Records an event about `object`, or counts one more of the same.
    pub(crate) async fn record<K: Resource<DynamicType = ()>>(
        &self,
        client: &Client,
        object: &K,
        type_: EventType,
        reason: &str,
        message: &str,
    ) -> kube::Result<()> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
        let message: String = message.chars().take(LONGEST_MESSAGE).collect();
        let sameness = Sameness {
            uid: object.uid().unwrap_or_default(),
            type_: type_.as_str(),
            reason: reason.to_owned(),
            message,
        };
        let now = self.clock.now();
        if let Some(seen) = self.again(&sameness, now) {
            let patch = json!({ "count": seen.count, "lastTimestamp": Time(now) });
            match api
                .patch(&seen.name, &PatchParams::default(), &Patch::Merge(patch))
                .await
            {
                Ok(_) => return Ok(()),
                Err(error) if is_not_found(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let name = self.first(&sameness, &object.name_any(), now);
        let event = self.event(
            object,
            ObjectMeta {
                name: Some(name),
                namespace: Some(namespace),
                ..ObjectMeta::default()
            },
            sameness,
            now,
        );
        api.create(&PostParams::default(), &event).await.map(|_| ())
    }

    fn event<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        metadata: ObjectMeta,
        same: Sameness,
        now: Timestamp,
    ) -> Event {
        Event {
            metadata,
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            involved_object: ObjectReference {
                api_version: Some(K::api_version(&()).into_owned()),
                kind: Some(K::kind(&()).into_owned()),
                name: object.meta().name.clone(),
                namespace: object.namespace(),
                uid: object.uid(),
                resource_version: object.resource_version(),
                ..ObjectReference::default()
            },
            type_: Some(same.type_.to_owned()),
            reason: Some(same.reason),
            message: Some(same.message),
            source: Some(EventSource {
                component: Some(COMPONENT.to_owned()),
                host: Some(self.host.clone()),
            }),
            reporting_component: Some(COMPONENT.to_owned()),
            reporting_instance: Some(self.host.clone()),
            ..Event::default()
        }
    }

    fn again(&self, sameness: &Sameness, now: Timestamp) -> Option<Seen> {
        let mut state = self.state.lock();
        let seen = state.seen.get_mut(sameness)?;
        seen.count = seen.count.saturating_add(1);
        seen.last = now;
        Some(seen.clone())
    }

    fn first(&self, sameness: &Sameness, object: &str, now: Timestamp) -> String {
        let mut state = self.state.lock();
        let name = format!("{object}.{:016x}", state.names.bits());
        state.seen.insert(
            sameness.clone(),
            Seen {
                name: name.clone(),
                count: 1,
                last: now,
            },
        );
        if state.seen.len() > REMEMBERED {
            let oldest = state
                .seen
                .iter()
                .min_by_key(|(_, seen)| seen.last)
                .map(|(same, _)| same.clone());
            oldest.map(|oldest| state.seen.remove(&oldest));
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use clock::Seed;
    use mcm_api::Machine;
    use serde_json::Value;

    use super::*;
    use crate::testing::TestServer;

    const EVENTS: &str = "/api/v1/namespaces/default/events";

    fn machine() -> Machine {
        let mut machine = Machine::default();
        machine.metadata.name = Some("m1".into());
        machine.metadata.namespace = Some("default".into());
        machine.metadata.uid = Some("u1".into());
        machine
    }

    fn recorder() -> EventRecorder {
        let clock = Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap());
        EventRecorder::new(clock, "host-1".into(), Seed::new(1).stream("events"))
    }

    async fn fail(recorder: &EventRecorder, server: &TestServer, message: &str) {
        let client = server.client();
        recorder
            .record(&client, &machine(), EventType::Warning, "CreationFailed", message)
            .await
            .unwrap();
    }

    fn counts(server: &TestServer) -> Vec<Value> {
        let mut counts: Vec<_> = server.all(EVENTS).iter().map(|event| event["count"].clone()).collect();
        counts.sort_by_key(Value::as_i64);
        counts
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_event_again_is_counted_and_another_is_another() {
        let (server, recorder) = (TestServer::default(), recorder());
        for message in ["no quota", "no quota", "no quota", "no network"] {
            fail(&recorder, &server, message).await;
            recorder.clock.sleep(std::time::Duration::from_secs(60)).await;
        }
        assert_eq!(counts(&server), [1, 3]);
        let event = server
            .all(EVENTS)
            .into_iter()
            .find(|event| event["count"] == 3)
            .unwrap();
        assert_eq!(event["involvedObject"]["kind"], "Machine");
        assert_eq!(event["involvedObject"]["apiVersion"], "machine.sapcloud.io/v1alpha1");
        assert_eq!(event["firstTimestamp"], "2027-01-15T08:00:00Z");
        assert_eq!(event["lastTimestamp"], "2027-01-15T08:02:00Z");
        assert_eq!(event["source"]["component"], "machine-controller-manager");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_that_expired_on_the_server_starts_anew() {
        let (server, recorder) = (TestServer::default(), recorder());
        fail(&recorder, &server, "no quota").await;
        let name = server.all(EVENTS)[0]["metadata"]["name"].as_str().unwrap().to_owned();
        server.remove(&format!("{EVENTS}/{name}"));
        fail(&recorder, &server, "no quota").await;
        assert_eq!(counts(&server), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_message_is_cut_to_what_the_server_takes() {
        let (server, recorder) = (TestServer::default(), recorder());
        fail(&recorder, &server, &"ä".repeat(2000)).await;
        assert_eq!(server.all(EVENTS)[0]["message"].as_str().unwrap().chars().count(), 1024);
    }
}
