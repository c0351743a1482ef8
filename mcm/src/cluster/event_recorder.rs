//! Records events on objects of the control cluster. Repetitions increase the count of the first event.

use clock::{Clock, Stream};
use kube::{Client, Resource};
use mcm_core::event::EventType;
use parking_lot::Mutex;
use runtime::events::{Occurrence, Record, Recorder, Settings, reference, send};

use crate::error::is_not_found;

const COMPONENT: &str = "machine-controller-manager";

/// Records events on objects of the control cluster.
#[derive(Debug)]
pub(crate) struct EventRecorder(Mutex<Recorder>);

impl EventRecorder {
    /// A recorder that generates the events' names from `names`.
    pub(crate) fn new(clock: Clock, host: String, names: Stream) -> Self {
        let settings = Settings {
            repetition: None,
            per_version: false,
            combine_similar: true,
            suffix: |names| format!("{:016x}", names.bits()),
            host: Some(host),
        };
        Self(Mutex::new(Recorder::new(clock, names, settings)))
    }

    /// Records an event about `object`, or increases the count of the same event.
    pub(crate) async fn record<K: Resource<DynamicType = ()>>(
        &self,
        client: &Client,
        object: &K,
        type_: EventType,
        reason: &str,
        message: &str,
    ) -> kube::Result<()> {
        let occurrence = Occurrence {
            component: COMPONENT.to_owned(),
            about: reference(object),
            type_: type_.as_str(),
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let record = self.0.lock().record(occurrence.clone());
        match send(client, &record).await {
            Err(error) if matches!(record, Record::Count { .. }) && is_not_found(&error) => {
                let create = self.0.lock().record_new(occurrence);
                send(client, &create).await
            }
            sent => sent,
        }
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

    fn clock() -> Clock {
        Clock::simulated(jiff::Timestamp::from_second(1_800_000_000).unwrap())
    }

    fn recorder(clock: Clock) -> EventRecorder {
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
    async fn repeated_events_are_counted_and_different_events_are_separate() {
        let (server, clock) = (TestServer::default(), clock());
        let recorder = recorder(clock.clone());
        for message in ["no quota", "no quota", "no quota", "no network"] {
            fail(&recorder, &server, message).await;
            clock.sleep(std::time::Duration::from_secs(60)).await;
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
    async fn an_event_that_expired_on_the_server_is_created_again() {
        let (server, recorder) = (TestServer::default(), recorder(clock()));
        fail(&recorder, &server, "no quota").await;
        let name = server.all(EVENTS)[0]["metadata"]["name"].as_str().unwrap().to_owned();
        server.remove(&format!("{EVENTS}/{name}"));
        fail(&recorder, &server, "no quota").await;
        assert_eq!(counts(&server), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_message_is_truncated() {
        let (server, recorder) = (TestServer::default(), recorder(clock()));
        fail(&recorder, &server, &"ä".repeat(2000)).await;
        assert_eq!(server.all(EVENTS)[0]["message"].as_str().unwrap().chars().count(), 1024);
    }
}
