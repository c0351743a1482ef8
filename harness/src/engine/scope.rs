//! Selects the objects of a scenario in a cluster that may contain other objects.

use std::collections::BTreeSet;

use judge::interest::is_ours;
use judge::object::text;
use judge::world::WorldState;
use scenario::kinds::Kind;
use scenario::{Scenario, Step};
use serde_json::Value;

/// The namespaces of a scenario.
#[derive(Debug)]
pub(super) struct Scope(BTreeSet<String>);

impl Scope {
    /// The scenario's own namespace, and those of the objects that it applies.
    pub(super) fn of(scenario: &Scenario, own: &str) -> Self {
        let named = scenario.steps.iter().filter_map(|step| match step {
            Step::Apply(fixture) => fixture.namespace().map(str::to_owned),
            _ => None,
        });
        Self(named.chain([own.to_owned()]).collect())
    }

    /// Whether an object belongs to the scenario. Cluster-scoped objects do, except namespaces and volumes outside the
    /// scope; so do Events about nodes of the simulated cloud.
    pub(super) fn has(&self, kind: &Kind, object: &Value, world: &WorldState) -> bool {
        let about_our_node = || {
            let about = |pointer| text(object, pointer);
            let node = world.object("Node", about("/involvedObject/name"));
            about("/involvedObject/kind") == "Node"
                && node.is_some_and(|node| is_ours(Some(text(node, "/spec/providerID"))))
        };
        let named = |pointer| self.0.contains(text(object, pointer));
        match kind.key {
            "Namespace" => return named("/metadata/name"),
            "PersistentVolume" => return named("/spec/claimRef/namespace"),
            _ => {}
        }
        !kind.namespaced
            || self.0.contains(text(object, "/metadata/namespace"))
            || (kind.key == "Event" && about_our_node())
    }
}

#[cfg(test)]
mod tests {
    use scenario::builder::apply;
    use scenario::kinds;
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_in_other_namespaces_are_out_of_scope() {
        let pod = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "p", "namespace": "named" } });
        let scope = Scope::of(&Scenario::new("story", "A story.").step(apply(pod)), "own");
        let has = |kind: &str, namespace: &str| {
            let object = json!({ "metadata": { "name": "o", "namespace": namespace } });
            scope.has(kinds::find(kind).unwrap(), &object, &WorldState::default())
        };
        assert!(has("Pod", "own") && has("Pod", "named") && has("Node", ""));
        let volume = |namespace: &str| {
            let volume = json!({ "spec": { "claimRef": { "namespace": namespace } } });
            scope.has(
                kinds::find("PersistentVolume").unwrap(),
                &volume,
                &WorldState::default(),
            )
        };
        assert!(volume("named") && !volume("other"));
        assert!(!has("Pod", "other") && !has("Event", "default"));
    }
}
