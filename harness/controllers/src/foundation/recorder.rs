//! Writes core events, on the given clock. A repetition within ten minutes increments the count of the first
//! event, as client-go's recorder does.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Clock, Stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams, Request};
use runtime::time::whole_seconds;
use serde_json::{Value, json};

use super::action::{Action, Severity};

const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// The period in which a repetition increments the count.
const REPETITION: SignedDuration = SignedDuration::from_mins(10);
/// The maximum number of remembered events.
const REMEMBERED: usize = 4096;

/// Recent events, for aggregation.
pub(super) struct Recorder {
    clock: Clock,
    names: Stream,
    recent: BTreeMap<String, Recent>,
}

#[derive(Clone)]
struct Recent {
    name: String,
    count: u32,
    at: Timestamp,
}

/// A request that records an event.
pub(super) struct Record {
    what: String,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
}

impl Recorder {
    pub(super) fn new(clock: Clock, names: Stream) -> Self {
        Self {
            clock,
            names,
            recent: BTreeMap::new(),
        }
    }

    /// The request for an event; `None` for any other action.
    pub(super) fn record(&mut self, component: &str, action: &Action) -> Option<Record> {
        let Action::Event {
            about,
            severity,
            reason,
            message,
        } = action
        else {
            return None;
        };
        let now = self.clock.now();
        let namespace = about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let key = format!("{component}\n{about:?}\n{severity:?}\n{reason}\n{message}");
        let what = format!("event {reason} about {}", about.name.as_deref().unwrap_or_default());
        let collection = Request::new(format!("/api/v1/namespaces/{namespace}/events"));
        if let Some(recent) = self.recent.get_mut(&key)
            && now.duration_since(recent.at) < REPETITION
        {
            recent.count += 1;
            recent.at = now;
            let patch = json!({ "count": recent.count, "lastTimestamp": Time(whole_seconds(now)) });
            let request = collection.patch(&recent.name, &PatchParams::default(), &Patch::Merge(patch));
            return Some(Record { what, request });
        }
        self.forget(now);
        let suffix = self.names.text(16, b"0123456789abcdef");
        let name = format!("{}.{suffix}", about.name.as_deref().unwrap_or_default());
        let event = event(&name, &namespace, component, (about, *severity, reason, message), now);
        self.recent.insert(
            key,
            Recent {
                name,
                count: 1,
                at: now,
            },
        );
        let request = collection.create(&PostParams::default(), event.to_string().into_bytes());
        Some(Record { what, request })
    }

    fn forget(&mut self, now: Timestamp) {
        if self.recent.len() >= REMEMBERED {
            self.recent
                .retain(|_, recent| now.duration_since(recent.at) < REPETITION);
        }
        if self.recent.len() >= REMEMBERED {
            self.recent.clear();
        }
    }
}

fn event(
    name: &str,
    namespace: &str,
    component: &str,
    (about, severity, reason, message): (&ObjectReference, Severity, &str, &str),
    now: Timestamp,
) -> Value {
    let kind = match severity {
        Severity::Normal => "Normal",
        Severity::Warning => "Warning",
    };
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": name, "namespace": namespace },
        "involvedObject": about,
        "type": kind, "reason": reason, "message": message,
        "source": { "component": component }, "reportingComponent": component, "reportingInstance": "",
        "count": 1, "firstTimestamp": Time(whole_seconds(now)), "lastTimestamp": Time(whole_seconds(now)), "eventTime": null,
    })
}

/// Sends a record. Losing an event is harmless, so failures are only logged.
pub(super) async fn send(client: &Client, record: Record) {
    let Record { what, request } = record;
    let request = match request {
        Ok(request) => request,
        Err(error) => {
            tracing::warn!(%error, "{what} cannot be recorded");
            return;
        }
    };
    match tokio::time::timeout(CALL_TIMEOUT, client.request::<Value>(request)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => tracing::debug!(%error, "{what} was not recorded"),
        Err(_) => tracing::debug!("{what} was not recorded: timed out"),
    }
}
