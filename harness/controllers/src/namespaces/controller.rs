//! The controller: repeats rounds of deleting and listing until a round finds no content.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use serde_json::json;

use super::conditions::{Remains, wanted};
use crate::foundation::served;
use crate::{Action, Change, Controller, Kind, ObjectKey, Outcome, Plan, Queue, ResourceType, View};

/// The entry of `spec.finalizers` that protects the content.
const CONTENTS: &str = "kubernetes";
/// When to list remaining content again that cannot be watched.
const UNWATCHED: Duration = Duration::from_secs(15);

/// Why the controller acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The namespace is being deleted and may have content.
    Empties,
    /// The conditions do not match the remaining content.
    Reports,
    /// No content is left.
    Finished,
}

/// The namespace controller.
#[derive(Debug, Default)]
pub struct Namespaces {
    rounds: BTreeMap<String, Round>,
}

/// The results of the current round.
#[derive(Debug, Default)]
struct Round {
    /// The current stage.
    stage: Stage,
    remains: Remains,
    /// Whether an object was deleted since the round began.
    stale: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Begun,
    Pods,
    Everything,
}

impl Namespaces {
    fn begin_round(&mut self, name: &str, types: Vec<ResourceType>, stage: Stage, now: Timestamp) -> Plan<Reason> {
        let round = Round {
            stage,
            ..Round::default()
        };
        self.rounds.insert(name.to_owned(), round);
        let mut plan = Plan::nothing();
        for resource in types {
            let namespace = name.to_owned();
            let delete = Action::DeleteAll {
                resource: resource.clone(),
                namespace: namespace.clone(),
            };
            plan.push(Reason::Empties, delete);
            plan.actions.push(Action::List { resource, namespace });
        }
        plan.requeue_by(now);
        plan
    }

    fn conclude(&mut self, namespace: &Namespace, view: View<'_>) -> Plan<Reason> {
        let name = namespace.metadata.name.clone().unwrap_or_default();
        let Some(round) = self.rounds.get_mut(&name) else {
            return Plan::nothing();
        };
        let mut plan = Plan::nothing();
        if let Some(conditions) = wanted(namespace, &round.remains, view.now) {
            let status = json!({ "conditions": conditions, "phase": "Terminating" });
            plan.push(Reason::Reports, Action::patch_status(namespace, status));
        }
        if round.remains.is_empty() {
            plan.push(Reason::Finished, finalize(namespace));
            return plan;
        }
        if round.stale {
            round.stage = Stage::Begun;
            if plan.actions.is_empty() {
                return self.next(namespace, view);
            }
            plan.requeue_by(view.now);
            return plan;
        }
        let watched = |resource: &String| view.caches.watches(resource);
        if !round.remains.counts.keys().all(watched) {
            let period = SignedDuration::try_from(UNWATCHED).unwrap_or_default();
            round.stale = true;
            plan.requeue_by(view.now.saturating_add(period).unwrap_or(Timestamp::MAX));
        }
        plan
    }

    fn next(&mut self, namespace: &Namespace, view: View<'_>) -> Plan<Reason> {
        let name = namespace.metadata.name.clone().unwrap_or_default();
        let (pods, others): (Vec<_>, Vec<_>) = served(view.caches)
            .into_iter()
            .filter(|served| served.resource.namespaced && served.can("deletecollection") && served.can("list"))
            .map(|served| served.resource)
            .partition(|resource| resource.group.is_empty() && resource.plural == "pods");
        match self
            .rounds
            .get(&name)
            .map(|round| (round.stage, round.remains.is_empty()))
        {
            None | Some((Stage::Begun, _)) => self.begin_round(&name, pods, Stage::Pods, view.now),
            Some((Stage::Pods, true)) => self.begin_round(&name, others, Stage::Everything, view.now),
            Some((Stage::Pods, false) | (Stage::Everything, _)) => self.conclude(namespace, view),
        }
    }
}

impl Controller for Namespaces {
    type Key = String;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "namespace-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([Kind::Namespace])
    }

    fn needs_all_metadata(&self) -> bool {
        true
    }

    fn observe(&mut self, change: &Change, _: View<'_>, queue: &mut Queue<String>) {
        if let Some(namespace) = change.of::<Namespace>() {
            match namespace.after {
                Some(_) => queue.add(change.key.name.clone()),
                None => drop(self.rounds.remove(&change.key.name)),
            }
        } else if change.after().is_none()
            && let Some(round) = self.rounds.get_mut(&change.key.namespace)
        {
            round.stale = true;
            queue.add(change.key.namespace.clone());
        }
    }

    fn decide(&mut self, name: &String, view: View<'_>) -> Plan<Reason> {
        let namespace = view.caches.namespaces.get(&ObjectKey::cluster(name));
        let ending = namespace.filter(|namespace| namespace.metadata.deletion_timestamp.is_some() && holds(namespace));
        match ending {
            Some(namespace) => self.next(namespace, view),
            None => {
                self.rounds.remove(name);
                Plan::nothing()
            }
        }
    }

    fn performed(&mut self, name: &String, action: &Action, outcome: &Outcome, _: View<'_>, _: &mut Queue<String>) {
        match (action, outcome) {
            (_, Err(_)) => {
                self.rounds.remove(name);
            }
            (Action::List { resource, .. }, Ok(Some(list))) => {
                if let Some(round) = self.rounds.get_mut(name) {
                    round.remains.add(&resource.to_string(), list);
                }
            }
            _ => {}
        }
    }
}

fn holds(namespace: &Namespace) -> bool {
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    finalizers.is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == CONTENTS))
}

/// Removes the finalizer, without a resource version: the conditions have just been written.
fn finalize(namespace: &Namespace) -> Action {
    let mut namespace = namespace.clone();
    namespace.metadata.resource_version = None;
    if let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        finalizers.retain(|finalizer| finalizer != CONTENTS);
    }
    match Action::replace(&namespace) {
        Action::Replace { target, object, .. } => Action::Replace {
            target,
            subresource: Some("finalize"),
            object,
        },
        other => other,
    }
}
