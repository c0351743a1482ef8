//! Simulates the scale-down of empty nodes by cluster-autoscaler.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Clock;
use futures::channel::mpsc::UnboundedSender;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use mcm_api::keys;
use scenario::step::Autoscaler;
use scenario::{Timeouts, kinds};
use serde_json::{Value, json};
use stage::clusters::Clusters;
use stage::kind_api::KindApi;

use super::action_error::{ActionError, cannot};

/// Poll period.
const PERIOD: Duration = Duration::from_secs(10);

/// The simulated cluster-autoscaler.
pub(super) struct Actor {
    pub(super) clusters: Clusters,
    pub(super) clock: Clock,
    pub(super) namespace: String,
    pub(super) notes: UnboundedSender<String>,
}

/// By node name: since when it has been empty.
#[derive(Debug, Default)]
struct Empty(BTreeMap<String, Timestamp>);

impl Empty {
    /// The next node to remove: of those that may be removed and have been empty for at least `idle`, the one that has
    /// been empty longest. `nodes` contains whether each node may be removed.
    fn next(
        &mut self,
        nodes: &BTreeMap<String, bool>,
        busy: &BTreeSet<String>,
        now: Timestamp,
        idle: Duration,
    ) -> Option<String> {
        self.0
            .retain(|name, _| nodes.contains_key(name) && !busy.contains(name));
        for name in nodes.keys().filter(|name| !busy.contains(*name)) {
            self.0.entry(name.clone()).or_insert(now);
        }
        let empty_for = |since: &Timestamp| Duration::try_from(now.duration_since(*since)).unwrap_or_default();
        let removable = self
            .0
            .iter()
            .filter(|(name, since)| empty_for(since) >= idle && nodes.get(*name) == Some(&true));
        removable.min_by_key(|(_, since)| **since).map(|(name, _)| name.clone())
    }
}

impl Actor {
    /// Removes nodes until the end of the step. Returns their number.
    pub(super) async fn run(&self, step: &Autoscaler, timeouts: &Timeouts) -> Result<u64, ActionError> {
        let mut removed = 0;
        let lasts = SignedDuration::try_from(step.lasts.value(timeouts)).unwrap_or(SignedDuration::MAX);
        let end = self.clock.now().saturating_add(lasts).unwrap_or(Timestamp::MAX);
        let idle = step.idle.value(timeouts);
        let mut empty = Empty::default();
        while self.clock.now() < end {
            let machines = self.machines(&step.deployment).await?;
            let nodes = self.nodes(machines.keys()).await?;
            let busy = self.busy().await?;
            let next = empty.next(&nodes, &busy, self.clock.now(), idle);
            if let Some(machine) = next.and_then(|node| machines.get(&node)) {
                self.scale_down(&step.deployment, machine).await?;
                removed += 1;
                let _ = self
                    .notes
                    .unbounded_send(format!("cluster-autoscaler lists {machine}, which is empty"));
            }
            self.clock.sleep(PERIOD).await;
        }
        Ok(removed)
    }

    /// The deployment's machines that are not being deleted, by node name.
    async fn machines(&self, deployment: &str) -> Result<BTreeMap<String, String>, ActionError> {
        let api: Api<DynamicObject> = kinds::find("Machine")?.api(self.clusters.control(), &self.namespace);
        let own = ListParams::default().labels(&format!("{}={deployment}", keys::DEPLOYMENT_LABEL));
        let listed = api.list(&own).await.map_err(cannot("list machines"))?;
        let remaining = listed
            .items
            .into_iter()
            .filter(|machine| machine.metadata.deletion_timestamp.is_none());
        Ok(remaining
            .filter_map(|machine| Some((machine.labels().get(keys::NODE_LABEL)?.clone(), machine.name_any())))
            .collect())
    }

    /// The existing nodes, and whether each may be removed.
    async fn nodes(&self, names: impl Iterator<Item = &String>) -> Result<BTreeMap<String, bool>, ActionError> {
        let api: Api<Node> = Api::all(self.clusters.target().clone());
        let mut nodes = BTreeMap::new();
        for name in names {
            let node = api.get_opt(name).await.map_err(cannot(format!("read node {name}")))?;
            if let Some(node) = node {
                let kept = node.annotations().get(keys::SCALE_DOWN_DISABLED_ANNOTATION);
                nodes.insert(name.clone(), kept.is_none_or(|value| value != "true"));
            }
        }
        Ok(nodes)
    }

    /// Nodes with pods that would have to move to other nodes.
    async fn busy(&self) -> Result<BTreeSet<String>, ActionError> {
        let api: Api<Pod> = Api::all(self.clusters.target().clone());
        let listed = api.list(&ListParams::default()).await;
        let pods = listed.map_err(cannot("list pods"))?.items.into_iter();
        let moves = |pod: &Pod| !pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet");
        Ok(pods.filter(moves).filter_map(|pod| pod.spec?.node_name).collect())
    }

    /// Lists the machine on its deployment and lowers the replicas, in one request.
    async fn scale_down(&self, deployment: &str, machine: &str) -> Result<(), ActionError> {
        let api: Api<DynamicObject> = kinds::find("MachineDeployment")?.api(self.clusters.control(), &self.namespace);
        let failed = |error: kube::Error| cannot(format!("scale {deployment}"))(error);
        let known = api.get(deployment).await.map_err(failed)?;
        let replicas = known
            .data
            .pointer("/spec/replicas")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        let now = Timestamp::from_second(self.clock.now().as_second()).unwrap_or_default();
        let change = json!({
            "metadata": {
                "resourceVersion": known.metadata.resource_version,
                "annotations": {
                    keys::TRIGGER_DELETION_ANNOTATION: format!("{machine}~{now}"),
                    keys::LAST_SCALE_ANNOTATION: now.to_string(),
                },
            },
            "spec": { "replicas": (replicas - 1).max(0) },
        });
        match api
            .patch(deployment, &PatchParams::default(), &Patch::Merge(change))
            .await
        {
            Ok(_) => Ok(()),
            // After a conflict the next poll decides again.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            Err(error) => Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::empty_for_long(true, false, 30, Some("a"))]
    #[case::empty_for_a_moment(true, false, 29, None)]
    #[case::scale_down_is_disabled(false, false, 30, None)]
    #[case::pods_run_there(true, true, 30, None)]
    fn a_node_that_was_empty_for_the_idle_time_is_removed(
        #[case] removable: bool,
        #[case] busy: bool,
        #[case] minutes: i64,
        #[case] removed: Option<&str>,
    ) {
        let nodes = BTreeMap::from([("a".to_owned(), removable)]);
        let busy: BTreeSet<String> = busy.then(|| "a".to_owned()).into_iter().collect();
        let mut empty = Empty::default();
        let idle = Duration::from_mins(30);
        let at = |minute: i64| Timestamp::from_second(60 * minute).unwrap();
        assert_eq!(empty.next(&nodes, &busy, at(0), idle), None);
        assert_eq!(empty.next(&nodes, &busy, at(minutes), idle).as_deref(), removed);
    }

    #[test]
    fn the_idle_time_of_a_node_restarts_after_it_was_used() {
        let nodes = BTreeMap::from([("a".to_owned(), true)]);
        let (none, busy) = (BTreeSet::new(), BTreeSet::from(["a".to_owned()]));
        let mut empty = Empty::default();
        let mut next = |busy, minute: i64| {
            let at = Timestamp::from_second(60 * minute).unwrap();
            empty.next(&nodes, busy, at, Duration::from_mins(30))
        };
        assert_eq!(next(&none, 0), None);
        assert_eq!(next(&busy, 20), None);
        assert_eq!(next(&none, 40), None);
        assert_eq!(next(&none, 70), Some("a".to_owned()));
    }
}
