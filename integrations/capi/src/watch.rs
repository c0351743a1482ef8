//! Watches the machines of a world and the requests about them, so that no state between two looks is missed.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use kube::ResourceExt;
use kube::api::DynamicObject;
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::Value;

use crate::kinds;
use crate::observe::State;
use crate::side::NAMESPACE;
use crate::world::World;

/// The machines and requests of a world.
pub struct Watch {
    machines: BTreeMap<String, Value>,
    requests: BTreeSet<String>,
    changes: BoxStream<'static, Result<Change, watcher::Error>>,
}

enum Change {
    Machine(Event<DynamicObject>),
    Request(Event<DynamicObject>),
}

impl Watch {
    /// A watch from now on.
    pub fn new(world: &World) -> Self {
        let of = |kind: kinds::Kind| watcher(kind.of(&world.client, NAMESPACE), watcher::Config::default());
        let machines = of(world.side.machine()).map_ok(Change::Machine);
        let requests = of(kinds::REMEDIATION).map_ok(Change::Request);
        Self {
            machines: BTreeMap::new(),
            requests: BTreeSet::new(),
            changes: stream::select(machines, requests).boxed(),
        }
    }

    /// The states of all machines after the next change.
    ///
    /// # Errors
    /// If the API server does not respond, or ends the watch.
    pub async fn next(&mut self) -> anyhow::Result<BTreeMap<String, State>> {
        let change = self.changes.next().await.transpose()?;
        match change {
            Some(Change::Machine(Event::Apply(object) | Event::InitApply(object))) => {
                let name = object.name_any();
                self.machines.insert(name, serde_json::to_value(object)?);
            }
            Some(Change::Machine(Event::Delete(object))) => {
                self.machines.remove(&object.name_any());
            }
            Some(Change::Request(Event::Apply(object) | Event::InitApply(object))) => {
                self.requests.insert(object.name_any());
            }
            Some(Change::Request(Event::Delete(object))) => {
                self.requests.remove(&object.name_any());
            }
            Some(Change::Machine(Event::Init | Event::InitDone) | Change::Request(Event::Init | Event::InitDone)) => {}
            None => anyhow::bail!("the watch of the machines ended"),
        }
        let state =
            |(name, machine): (&String, &Value)| (name.clone(), State::of(machine, self.requests.contains(name)));
        Ok(self.machines.iter().map(state).collect())
    }
}
