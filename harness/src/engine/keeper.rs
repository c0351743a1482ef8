//! The keeper: keeps a number of machines, as a machine set would. It creates one replacement for each machine that is
//! Failed, being deleted or removed, and deletes Failed machines.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Clock;
use futures::stream::{BoxStream, StreamExt, unfold};
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::runtime::watcher;
use mcm_api::keys;
use runtime::error::brief;
use scenario::fixtures;
use scenario::keeper::Keeper;
use scenario::kinds::{self, UnknownKind};
use serde_json::{Value, json};
use stage::kind_api::KindApi;
use tokio::sync::watch;

use super::observe::Raw;

/// Delay after a failed request.
const RETRY: Duration = Duration::from_secs(1);

type Events = BoxStream<'static, Result<watcher::Event<DynamicObject>, watcher::Error>>;

/// An action of the keeper.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Create(u32),
    Delete(String),
}

/// The last observed state of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    failed: bool,
    deleting: bool,
}

/// The state of the keeper.
#[derive(Debug, Default)]
struct Known {
    machines: BTreeMap<String, Kept>,
    /// Machines whose creation the watch has not delivered yet.
    created: BTreeSet<String>,
    /// Machines whose deletion the watch has not delivered yet.
    deleted: BTreeSet<String>,
    /// The highest number that a machine ever had.
    last: u32,
}

/// The next action; `None`: the desired state is reached.
fn decide(known: &Known, replicas: usize) -> Option<Action> {
    let is_deleting = |name: &String, machine: &Kept| machine.deleting || known.deleted.contains(name);
    let failed = known
        .machines
        .iter()
        .find(|(name, machine)| machine.failed && !is_deleting(name, machine));
    if let Some((name, _)) = failed {
        return Some(Action::Delete(name.clone()));
    }
    let mut live: BTreeSet<&String> = known
        .machines
        .iter()
        .filter(|(name, machine)| !is_deleting(name, machine))
        .map(|(name, _)| name)
        .collect();
    live.extend(&known.created);
    if live.len() < replicas {
        return Some(Action::Create(known.last + 1));
    }
    // The youngest machine is deleted first: it has the highest number.
    let youngest = live.into_iter().max_by_key(|name| (number(name), (*name).clone()));
    let count = known.created.len()
        + known
            .machines
            .iter()
            .filter(|(name, machine)| !is_deleting(name, machine))
            .count();
    (count > replicas)
        .then(|| youngest.cloned())
        .flatten()
        .map(Action::Delete)
}

/// The number at the end of a name.
fn number(name: &str) -> u32 {
    name.rsplit('-')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

impl Known {
    fn observe(&mut self, event: watcher::Event<DynamicObject>) {
        match event {
            watcher::Event::Apply(object) | watcher::Event::InitApply(object) => {
                let name = object.metadata.name.clone().unwrap_or_default();
                let phase = object
                    .data
                    .pointer("/status/currentStatus/phase")
                    .and_then(Value::as_str);
                let kept = Kept {
                    failed: phase == Some("Failed"),
                    deleting: object.metadata.deletion_timestamp.is_some(),
                };
                self.last = self.last.max(number(&name));
                self.created.remove(&name);
                self.machines.insert(name, kept);
            }
            watcher::Event::Delete(object) => {
                let name = object.metadata.name.unwrap_or_default();
                self.machines.remove(&name);
                self.deleted.remove(&name);
            }
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
    }
}

/// The keeper's loop.
struct Actor {
    clock: Clock,
    api: Api<DynamicObject>,
    namespace: String,
    keeper: Keeper,
    replicas: watch::Receiver<u32>,
    events: Events,
    known: Known,
    listed: bool,
}

/// Keeps `replicas` machines in `namespace` while the returned stream is polled. The stream contains notes about its
/// actions.
pub(super) fn run(
    client: kube::Client,
    clock: Clock,
    namespace: &str,
    keeper: Keeper,
    replicas: watch::Receiver<u32>,
) -> Result<BoxStream<'static, Raw>, UnknownKind> {
    let api = kinds::find("Machine")?.api(&client, namespace);
    let own = watcher::Config::default().labels(&format!("{}={}", keys::DEPLOYMENT_LABEL, keeper.label));
    let actor = Actor {
        clock,
        events: watcher(api.clone(), own).boxed(),
        api,
        namespace: namespace.to_owned(),
        keeper,
        replicas,
        known: Known::default(),
        listed: false,
    };
    Ok(unfold(actor, Actor::next).boxed())
}

impl Actor {
    async fn next(mut self) -> Option<(Raw, Self)> {
        loop {
            let replicas = *self.replicas.borrow_and_update() as usize;
            if let Some(action) = decide(&self.known, replicas).filter(|_| self.listed) {
                let note = self.perform(&action).await;
                return Some((Raw::Note(note), self));
            }
            tokio::select! {
                biased;
                Ok(()) = self.replicas.changed() => {}
                event = self.events.next() => match event? {
                    Ok(event) => {
                        self.listed |= matches!(event, watcher::Event::InitDone);
                        self.known.observe(event);
                    }
                    Err(_) => self.clock.sleep(RETRY).await,
                },
            }
        }
    }

    async fn perform(&mut self, action: &Action) -> String {
        let (done, note) = match action {
            Action::Create(number) => {
                let name = format!("{}-{number}", self.keeper.label);
                let done = match serde_json::from_value(self.machine(&name)) {
                    Ok(machine) => self
                        .api
                        .create(&PostParams::default(), &machine)
                        .await
                        .map(drop)
                        .map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                };
                if done.is_ok() {
                    self.known.created.insert(name.clone());
                    self.known.last = *number;
                }
                (done, format!("the keeper creates {name}"))
            }
            Action::Delete(name) => {
                let done = self.api.delete(name, &DeleteParams::default()).await;
                if done.is_ok() {
                    self.known.deleted.insert(name.clone());
                }
                (
                    done.map(drop).map_err(|error| brief(&error)),
                    format!("the keeper deletes {name}"),
                )
            }
        };
        match done {
            Ok(()) => note,
            Err(error) => {
                self.clock.sleep(RETRY).await;
                format!("{note}, but the request fails: {error}")
            }
        }
    }

    fn machine(&self, name: &str) -> Value {
        let mut machine = fixtures::machine(name, &self.namespace);
        machine["metadata"]["labels"] = json!({ keys::DEPLOYMENT_LABEL: self.keeper.label });
        if let Value::Object(fields) = &self.keeper.spec {
            for (field, value) in fields {
                machine["spec"][field] = value.clone();
            }
        }
        machine
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn known(machines: &[(&str, bool, bool)], created: &[&str]) -> Known {
        let kept = |(name, failed, deleting): &(&str, bool, bool)| {
            let kept = Kept {
                failed: *failed,
                deleting: *deleting,
            };
            ((*name).to_owned(), kept)
        };
        Known {
            machines: machines.iter().map(kept).collect(),
            created: created.iter().map(|name| (*name).to_owned()).collect(),
            last: 10,
            ..Known::default()
        }
    }

    #[rstest]
    #[case::enough(known(&[("w-1", false, false)], &[]), 1, None)]
    #[case::none(known(&[], &[]), 1, Some(Action::Create(11)))]
    #[case::one_is_created(known(&[], &["w-11"]), 1, None)]
    #[case::one_is_being_deleted(known(&[("w-1", false, true)], &[]), 1, Some(Action::Create(11)))]
    #[case::one_has_failed(known(&[("w-1", true, false)], &[]), 1, Some(Action::Delete("w-1".to_owned())))]
    #[case::a_failed_one_is_being_deleted(known(&[("w-1", true, true)], &[]), 1, Some(Action::Create(11)))]
    #[case::too_many(known(&[("w-2", false, false), ("w-10", false, false)], &[]), 1, Some(Action::Delete("w-10".to_owned())))]
    fn the_number_of_machines_is_kept(#[case] known: Known, #[case] replicas: usize, #[case] action: Option<Action>) {
        assert_eq!(decide(&known, replicas), action);
    }
}
