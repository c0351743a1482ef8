//! The machines of the demo, as its API server reports them.

use std::collections::BTreeMap;

use futures::{StreamExt, stream::BoxStream};
use jiff::Timestamp;
use kube::api::Api;
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher as watch};
use serde_json::Value;

use crate::cli::Stop;

/// What the demo shows of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Machine {
    pub(super) phase: String,
    pub(super) node: String,
    pub(super) provider_id: String,
    /// Until when it is preserved.
    pub(super) preserved_until: String,
    pub(super) deleting: bool,
}

impl Machine {
    fn of(object: &DynamicObject) -> Self {
        let text = |pointer: &str| {
            let found = object.data.pointer(pointer).and_then(Value::as_str);
            found.unwrap_or_default().to_owned()
        };
        let labels = object.metadata.labels.as_ref();
        Self {
            phase: text("/status/currentStatus/phase"),
            node: labels
                .and_then(|labels| labels.get("node"))
                .cloned()
                .unwrap_or_default(),
            provider_id: text("/spec/providerID"),
            preserved_until: text("/status/currentStatus/preserveExpiryTime"),
            deleting: object.metadata.deletion_timestamp.is_some(),
        }
    }
}

/// The machines by name, and the stream of their changes.
pub(super) struct Machines {
    pub(super) all: BTreeMap<String, Machine>,
    changes: BoxStream<'static, watcher::Result<Event<DynamicObject>>>,
}

impl Machines {
    pub(super) fn new(api: Api<DynamicObject>) -> Self {
        let changes = watch(api, watcher::Config::default()).default_backoff().boxed();
        Self {
            all: BTreeMap::new(),
            changes,
        }
    }

    /// Waits until the machines are as expected. `print` gets a line for each change of a phase.
    ///
    /// # Errors
    /// When the watch ends.
    pub(super) async fn until(
        &mut self,
        expected: impl Fn(&BTreeMap<String, Machine>) -> bool,
        mut print: impl FnMut(String),
    ) -> Result<(), Stop> {
        while !expected(&self.all) {
            let change = self.changes.next().await;
            let change = change.ok_or_else(|| Stop::Usage("the watch of machines ended".to_owned()))?;
            // The watch reconnects after an error.
            let Ok(change) = change else { continue };
            if let Some(line) = self.apply(change) {
                print(line);
            }
        }
        Ok(())
    }

    /// Applies a change, and describes what is new.
    fn apply(&mut self, change: Event<DynamicObject>) -> Option<String> {
        match change {
            Event::Apply(object) | Event::InitApply(object) => {
                let name = object.metadata.name.clone().unwrap_or_default();
                let machine = Machine::of(&object);
                let before = self.all.insert(name.clone(), machine.clone());
                let line = describe(&name, before.as_ref(), &machine);
                line.map(|line| line + &reason(&object))
            }
            Event::Delete(object) => {
                let name = object.metadata.name.unwrap_or_default();
                self.all.remove(&name);
                Some(format!("machine {name} and its VM are gone"))
            }
            Event::Init | Event::InitDone => None,
        }
    }
}

/// What is new about a machine; `None`: nothing that the demo shows.
fn describe(name: &str, before: Option<&Machine>, now: &Machine) -> Option<String> {
    match before {
        None if now.phase.is_empty() => Some(format!("machine {name} is created")),
        None => Some(format!("machine {name} is {}", now.phase)),
        Some(before) if before.phase != now.phase => Some(match before.phase.as_str() {
            "" => format!("machine {name} is {}", now.phase),
            phase => format!("machine {name}: {phase} → {}", now.phase),
        }),
        Some(_) => None,
    }
}

/// Why a machine is not healthy, without its name and the conditions of its Node, in brackets.
fn reason(object: &DynamicObject) -> String {
    let text = |pointer| object.data.pointer(pointer).and_then(Value::as_str);
    let (phase, description) = (
        text("/status/currentStatus/phase"),
        text("/status/lastOperation/description"),
    );
    let (Some("Unknown" | "Failed"), Some(description)) = (phase, description) else {
        return String::new();
    };
    let start = format!("Machine {} ", object.metadata.name.as_deref().unwrap_or_default());
    let description = description.strip_prefix(&start).unwrap_or(description);
    let end = description.find([':', '.']).unwrap_or(description.len());
    format!(" ({})", &description[..end])
}

/// A time for people, and how long it is from now in hours.
pub(super) fn until(time: &str, now: Timestamp) -> String {
    let Ok(at) = time.parse::<Timestamp>() else {
        return time.to_owned();
    };
    let minutes = (at.duration_since(now).as_secs() + 30) / 60;
    match minutes {
        0..120 => format!("{time} (in {minutes} minutes)"),
        _ => format!("{time} (in {} hours)", minutes / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(phase: &str) -> Machine {
        Machine {
            phase: phase.to_owned(),
            ..Machine::default()
        }
    }

    #[test]
    fn changes_of_the_phase_are_described() {
        assert_eq!(
            describe("m", None, &machine("")),
            Some("machine m is created".to_owned())
        );
        let pending = machine("Pending");
        assert_eq!(
            describe("m", Some(&machine("")), &pending),
            Some("machine m is Pending".to_owned())
        );
        assert_eq!(
            describe("m", Some(&pending), &machine("Running")),
            Some("machine m: Pending → Running".to_owned())
        );
        assert_eq!(describe("m", Some(&pending), &pending), None);
    }

    #[test]
    fn an_expiry_says_how_long_it_is() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(until("2026-01-04T00:00:00Z", now), "2026-01-04T00:00:00Z (in 72 hours)");
        assert_eq!(
            until("2026-01-01T00:30:00Z", now),
            "2026-01-01T00:30:00Z (in 30 minutes)"
        );
        assert_eq!(until("soon", now), "soon");
    }
}
