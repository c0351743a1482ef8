//! The keeper: an actor that keeps so many machines, as a machine set would. It makes one replacement for each machine
//! that is Failed, being deleted or gone, and deletes Failed ones.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Clock;
use futures::stream::{BoxStream, StreamExt, unfold};
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::runtime::watcher;
use mcm_api::keys;
use scenario::fixtures;
use scenario::keeper::Keeper;
use scenario::kinds::{self, UnknownKind};
use serde_json::{Value, json};
use stage::kind_api::KindApi;
use tokio::sync::watch;

use super::observe::Raw;

/// How long it waits after something failed.
const RETRY: Duration = Duration::from_secs(1);

type Events = BoxStream<'static, Result<watcher::Event<DynamicObject>, watcher::Error>>;

/// What it does.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Make(u32),
    Delete(String),
}

/// A machine as it knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Kept {
    failed: bool,
    deleting: bool,
}

/// What it knows.
#[derive(Debug, Default)]
struct Known {
    machines: BTreeMap<String, Kept>,
    /// Made or deleted by it, and not seen yet.
    made: BTreeSet<String>,
    deleted: BTreeSet<String>,
    /// The highest number that a machine ever had.
    last: u32,
}

/// The next thing to do; `None`: all is as it should be.
fn decide(known: &Known, replicas: usize) -> Option<Action> {
    let goes = |name: &String, machine: &Kept| machine.deleting || known.deleted.contains(name);
    let failed = known
        .machines
        .iter()
        .find(|(name, machine)| machine.failed && !goes(name, machine));
    if let Some((name, _)) = failed {
        return Some(Action::Delete(name.clone()));
    }
    let mut live: BTreeSet<&String> = known
        .machines
        .iter()
        .filter(|(name, machine)| !goes(name, machine))
        .map(|(name, _)| name)
        .collect();
    live.extend(&known.made);
    if live.len() < replicas {
        return Some(Action::Make(known.last + 1));
    }
    // The youngest goes first: it has the highest number.
    let youngest = live.into_iter().max_by_key(|name| (number(name), (*name).clone()));
    let count = known.made.len()
        + known
            .machines
            .iter()
            .filter(|(name, machine)| !goes(name, machine))
            .count();
    (count > replicas)
        .then(|| youngest.cloned())
        .flatten()
        .map(Action::Delete)
}

/// The number at a name's end.
fn number(name: &str) -> u32 {
    name.rsplit('-')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or_default()
}

impl Known {
    fn see(&mut self, event: watcher::Event<DynamicObject>) {
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
                self.made.remove(&name);
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

/// The loop.
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

/// Keeps machines in `namespace` for as long as the stream is polled; it tells what it does. `replicas` says how many.
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
                let told = self.carry_out(&action).await;
                return Some((Raw::Note(told), self));
            }
            tokio::select! {
                biased;
                Ok(()) = self.replicas.changed() => {}
                event = self.events.next() => match event? {
                    Ok(event) => {
                        self.listed |= matches!(event, watcher::Event::InitDone);
                        self.known.see(event);
                    }
                    Err(_) => self.clock.sleep(RETRY).await,
                },
            }
        }
    }

    async fn carry_out(&mut self, action: &Action) -> String {
        let (done, told) = match action {
            Action::Make(number) => {
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
                    self.known.made.insert(name.clone());
                    self.known.last = *number;
                }
                (done, format!("the keeper makes {name}"))
            }
            Action::Delete(name) => {
                let done = self.api.delete(name, &DeleteParams::default()).await;
                if done.is_ok() {
                    self.known.deleted.insert(name.clone());
                }
                (
                    done.map(drop).map_err(|error| error.to_string()),
                    format!("the keeper deletes {name}"),
                )
            }
        };
        match done {
            Ok(()) => told,
            Err(error) => {
                self.clock.sleep(RETRY).await;
                format!("{told}, in vain: {error}")
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

    fn known(machines: &[(&str, bool, bool)], made: &[&str]) -> Known {
        let kept = |(name, failed, deleting): &(&str, bool, bool)| {
            let kept = Kept {
                failed: *failed,
                deleting: *deleting,
            };
            ((*name).to_owned(), kept)
        };
        Known {
            machines: machines.iter().map(kept).collect(),
            made: made.iter().map(|name| (*name).to_owned()).collect(),
            last: 10,
            ..Known::default()
        }
    }

    #[rstest]
    #[case::enough(known(&[("w-1", false, false)], &[]), 1, None)]
    #[case::none(known(&[], &[]), 1, Some(Action::Make(11)))]
    #[case::one_is_on_its_way(known(&[], &["w-11"]), 1, None)]
    #[case::one_is_going(known(&[("w-1", false, true)], &[]), 1, Some(Action::Make(11)))]
    #[case::one_has_failed(known(&[("w-1", true, false)], &[]), 1, Some(Action::Delete("w-1".to_owned())))]
    #[case::a_failed_one_is_going(known(&[("w-1", true, true)], &[]), 1, Some(Action::Make(11)))]
    #[case::too_many(known(&[("w-2", false, false), ("w-10", false, false)], &[]), 1, Some(Action::Delete("w-10".to_owned())))]
    fn so_many_machines_are_kept(#[case] known: Known, #[case] replicas: usize, #[case] action: Option<Action>) {
        assert_eq!(decide(&known, replicas), action);
    }
}
