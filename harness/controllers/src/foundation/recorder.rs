//! Records the events of plans. A repetition within ten minutes is counted, as in client-go's recorder.

use std::time::Duration;

use clock::{Clock, Stream};
use jiff::SignedDuration;
use kube::Client;
use runtime::events::{self, Occurrence, Record, Settings};

use super::action::{Action, Severity};

const CALL_TIMEOUT: Duration = Duration::from_secs(10);

pub(super) fn recorder(clock: Clock, names: Stream) -> events::Recorder {
    let settings = Settings {
        repetition: Some(SignedDuration::from_mins(10)),
        per_version: true,
        combine_similar: false,
        suffix: |names| names.text(16, b"0123456789abcdef"),
        host: None,
    };
    events::Recorder::new(clock, names, settings)
}

/// What happened, for an event; `None` for any other action.
pub(super) fn occurrence(component: &str, action: &Action) -> Option<Occurrence> {
    let Action::Event {
        about,
        severity,
        reason,
        message,
    } = action
    else {
        return None;
    };
    Some(Occurrence {
        component: component.to_owned(),
        about: (**about).clone(),
        type_: match severity {
            Severity::Normal => "Normal",
            Severity::Warning => "Warning",
        },
        reason: (*reason).to_owned(),
        message: message.clone(),
    })
}

/// Sends a record. A lost event is only logged.
pub(super) async fn send(client: &Client, record: Record) {
    match tokio::time::timeout(CALL_TIMEOUT, events::send(client, &record)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an event was not recorded"),
        Err(_) => tracing::debug!("an event was not recorded: no answer in time"),
    }
}
