//! The controller: updates the graph and enqueues the objects that a change affects.

use std::collections::BTreeSet;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::decide::{Knowledge, Reason, decide};
use super::graph::{Graph, Node};
use crate::foundation::served;
use crate::{Action, Change, Controller, Kind, Outcome, Plan, Queue, View};

/// The garbage collector.
#[derive(Debug, Default)]
pub struct GarbageCollector {
    graph: Graph,
    knowledge: Knowledge,
    /// Objects with an owner whose kind is not served.
    unresolved: BTreeSet<String>,
}

impl GarbageCollector {
    fn learn_types(&mut self, view: View<'_>, queue: &mut Queue<String>) {
        self.knowledge.types = served(view.caches)
            .into_iter()
            .map(|served| {
                (
                    (served.resource.group.to_string(), served.resource.kind.to_string()),
                    served.resource,
                )
            })
            .collect();
        for uid in std::mem::take(&mut self.unresolved) {
            queue.add(uid);
        }
    }

    fn appeared(&mut self, uid: &str, node: Node, queue: &mut Queue<String>) {
        let has_unknown_owner_kind = node.owners.iter().any(|owner| {
            let known = self.graph.get(&owner.uid);
            known.is_none_or(|known| !known.matches_reference(owner, &node) || known.waits_for_dependents())
        });
        let before = self.graph.put(uid, node.clone());
        if has_unknown_owner_kind || node.waits_for_dependents() || node.orphans_dependents() {
            queue.add(uid.to_owned());
        }
        let waited = before.as_ref().is_some_and(Node::waits_for_dependents);
        if node.waits_for_dependents() && !waited {
            self.enqueue_dependents(uid, queue);
        }
        // The changed references may unblock a foreground deletion of the owner.
        if let Some(before) = before.filter(|before| before.owners != node.owners) {
            for owner in before.owners {
                queue.add(owner.uid);
            }
        }
    }

    fn disappeared(&mut self, uid: &str, queue: &mut Queue<String>) {
        self.knowledge.reported.remove(uid);
        self.unresolved.remove(uid);
        if let Some(node) = self.graph.remove(uid) {
            for owner in node.owners {
                // An existence check of this object may have completed late.
                self.knowledge.answers.remove(&owner.uid);
                queue.add(owner.uid);
            }
        }
        self.enqueue_dependents(uid, queue);
    }

    fn enqueue_dependents(&self, uid: &str, queue: &mut Queue<String>) {
        for (dependent, _) in self.graph.dependents(uid) {
            queue.add(dependent.clone());
        }
    }
}

impl Controller for GarbageCollector {
    /// An object's uid.
    type Key = String;
    type Reason = Reason;

    fn name(&self) -> &'static str {
        "garbage-collector-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([Kind::CustomResourceDefinition])
    }

    fn needs_all_metadata(&self) -> bool {
        true
    }

    fn synced(&mut self, view: View<'_>, queue: &mut Queue<String>) {
        self.learn_types(view, queue);
    }

    fn observe(&mut self, change: &Change, view: View<'_>, queue: &mut Queue<String>) {
        if let Some(before) = change.before()
            && change.after().is_none_or(|after| after.uid() != before.uid())
        {
            self.disappeared(before.uid(), queue);
        }
        if let Some(after) = change.after() {
            self.appeared(after.uid(), Node::new(&change.resource, after), queue);
        }
        if change.of::<CustomResourceDefinition>().is_some() {
            self.learn_types(view, queue);
        }
    }

    fn decide(&mut self, uid: &String, view: View<'_>) -> Plan<Reason> {
        let mut plan = decide(uid, &self.graph, &self.knowledge);
        let owners = self.graph.get(uid).map(|node| node.owners.clone()).unwrap_or_default();
        for owner in &owners {
            self.knowledge.answers.remove(&owner.uid);
            let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            let kind = (group.to_owned(), owner.kind.clone());
            if !self.knowledge.types.contains_key(&kind) {
                self.unresolved.insert(uid.clone());
            }
        }
        if plan.reasons.contains(&Reason::OwnerElsewhere) {
            self.knowledge.reported.insert(uid.clone());
        }
        if plan.reasons.contains(&Reason::OwnerUnknown) {
            plan.deadline = Some(view.now);
        }
        plan
    }

    fn performed(&mut self, uid: &String, action: &Action, outcome: &Outcome, _: View<'_>, _: &mut Queue<String>) {
        let (Action::Read { target, .. }, Ok(answer)) = (action, outcome) else {
            return;
        };
        let found = answer.as_ref().and_then(|answer| answer["metadata"]["uid"].as_str());
        let owners = self.graph.get(uid).map(|node| node.owners.clone()).unwrap_or_default();
        let absent_or_unknown = owners
            .into_iter()
            .filter(|owner| owner.name == target.key.name && target.resource.kind == owner.kind.as_str());
        for owner in absent_or_unknown {
            self.knowledge
                .answers
                .insert(owner.uid.clone(), found == Some(owner.uid.as_str()));
        }
    }
}
