//! The nodes and pods of `drydock up --nodes N --pods-per-node P`: made in one go, and watched until they are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use clap::Args;
use clock::Clock;
use fakecloud::proto::CreateNodesRequest;
use futures::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher as watch;
use kube::runtime::watcher::{self, Event};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Usage;
use super::output::say;
use super::running_world::World;

/// The label of these nodes and of their pods.
const POOL: &str = "drydock.dev/pool";
/// Its value, with which the nodes' names begin.
const NAME: &str = "node";
/// The Deployment's name.
const DEPLOYMENT: &str = "pause";
/// A node takes 110 pods; a real cluster's own DaemonSets put some on each.
const MOST_PODS: u32 = 100;
/// How long all nodes, or all pods, may take: so long and so much for each.
const LIMIT: Duration = Duration::from_mins(5);
const LIMIT_OF_NODE: Duration = Duration::from_millis(20);
const LIMIT_OF_POD: Duration = Duration::from_millis(50);

/// What is there when the world is up.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Nodes and pods")]
pub(super) struct Population {
    /// So many nodes that no machine stands behind, named node-0, node-1, ...
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10_000))]
    nodes: u32,

    /// So many pods on each of them: the Deployment pause
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_PODS)))]
    pods_per_node: u32,

    /// The zones of the nodes, in turn [default: local-1]
    #[arg(long, value_name = "ZONE", value_delimiter = ',')]
    zones: Vec<String>,

    /// The nodes' machine type: small, medium or large
    #[arg(long, value_name = "TYPE", default_value = "medium")]
    machine_type: String,
}

impl Population {
    /// How many nodes.
    pub(super) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Refuses what makes no sense together.
    pub(super) fn check(&self) -> Result<(), Usage> {
        let stray = [
            ("--pods-per-node", self.pods_per_node > 0),
            ("--zones", !self.zones.is_empty()),
        ];
        match stray.into_iter().find(|(_, given)| *given && self.nodes == 0) {
            Some((flag, _)) => Err(Usage(format!("{flag} needs nodes: add --nodes COUNT"))),
            None => Ok(()),
        }
    }

    /// Makes nodes and pods, and says when they are there.
    ///
    /// # Errors
    /// What was refused, or was not there in time.
    pub(super) async fn settle(&self, world: &World, namespace: &str) -> Result<(), Usage> {
        if self.nodes == 0 {
            return Ok(());
        }
        let client = world
            .client()
            .await?
            .ok_or_else(|| Usage("the API server is not known".to_owned()))?;
        let clock = Clock::wall();
        let names = self.make_nodes(world, &clock, &client).await?;
        if self.pods_per_node > 0 {
            self.make_pods(&client, namespace, &clock, names.len()).await?;
        }
        Ok(())
    }

    async fn make_nodes(&self, world: &World, clock: &Clock, client: &kube::Client) -> Result<Vec<String>, Usage> {
        let mut count = Count::new("nodes Ready", self.nodes as usize, clock);
        let request = CreateNodesRequest {
            count: self.nodes,
            name_prefix: NAME.to_owned(),
            zones: self.zones.clone(),
            machine_type: self.machine_type.clone(),
            labels: BTreeMap::from([(POOL.to_owned(), NAME.to_owned())]),
            taints: Vec::new(),
        };
        let made = world.controls()?.create_nodes(request).await;
        let made = made.map_err(|status| Usage(format!("no nodes are made: {}", world.refused(&status))))?;
        let names = made.into_inner().nodes;
        let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let ready = |node: &Node| {
            let name = node.metadata.name.as_deref();
            is_ready(node) && name.is_some_and(|name| wanted.contains(name))
        };
        let nodes = changes(Api::<Node>::all(client.clone()));
        count.all(nodes, ready, LIMIT + LIMIT_OF_NODE * self.nodes).await?;
        Ok(names)
    }

    async fn make_pods(
        &self,
        client: &kube::Client,
        namespace: &str,
        clock: &Clock,
        nodes: usize,
    ) -> Result<(), Usage> {
        let pods = nodes * self.pods_per_node as usize;
        let mut count = Count::new("pods Running", pods, clock);
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
        let cannot = |reason: String| {
            Usage(format!(
                "cannot create the Deployment {namespace}/{DEPLOYMENT}: {reason}"
            ))
        };
        let deployment = deployment(pods).map_err(|error| cannot(error.to_string()))?;
        let created = deployments.create(&PostParams::default(), &deployment).await;
        created.map_err(|error| cannot(error.to_string()))?;
        let limit = LIMIT + LIMIT_OF_POD * u32::try_from(pods).unwrap_or(u32::MAX);
        let pods = changes(Api::<Pod>::namespaced(client.clone(), namespace));
        count.all(pods, is_running, limit).await
    }
}

/// The pods: spread evenly over the nodes that can take some, and small enough for as many as there may be.
fn deployment(replicas: usize) -> Result<Deployment, serde_json::Error> {
    let labels = json!({ POOL: NAME });
    serde_json::from_value(json!({
        "metadata": {"name": DEPLOYMENT, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "nodeSelector": labels,
                    "automountServiceAccountToken": false,
                    "terminationGracePeriodSeconds": 5,
                    "containers": [{
                        "name": "pause",
                        "image": "pause",
                        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
                    }],
                    "topologySpreadConstraints": [{
                        "maxSkew": 1,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "nodeTaintsPolicy": "Honor",
                        "labelSelector": {"matchLabels": labels},
                    }],
                },
            },
        },
    }))
}

/// Everything with the pool's label, as it is and as it changes.
fn changes<K>(api: Api<K>) -> impl Stream<Item = watcher::Result<Event<K>>>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let label = format!("{POOL}={NAME}");
    watch(api, watcher::Config::default().labels(&label)).default_backoff()
}

fn is_ready(node: &Node) -> bool {
    let status = node.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_running(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    phase == Some("Running") && pod.metadata.deletion_timestamp.is_none()
}

/// Counts what is as it should be, until all is; says so at each quarter of the way.
struct Count<'a> {
    what: &'static str,
    total: usize,
    clock: &'a Clock,
    since: jiff::Timestamp,
    told: usize,
    good: BTreeSet<String>,
    /// The last that went wrong on the way.
    trouble: Option<String>,
}

impl<'a> Count<'a> {
    /// The time begins now.
    fn new(what: &'static str, total: usize, clock: &'a Clock) -> Self {
        Self {
            what,
            total,
            clock,
            since: clock.now(),
            told: 0,
            good: BTreeSet::new(),
            trouble: None,
        }
    }

    /// Returns when all are good at once.
    ///
    /// # Errors
    /// When they are not within `limit`.
    async fn all<K: kube::Resource>(
        &mut self,
        changes: impl Stream<Item = watcher::Result<Event<K>>>,
        is_good: impl Fn(&K) -> bool,
        limit: Duration,
    ) -> Result<(), Usage> {
        let counting = async {
            let mut changes = std::pin::pin!(changes);
            while let Some(change) = changes.next().await {
                self.take(change, &is_good);
                if let Some(line) = self.line() {
                    say!("{line}");
                }
                if self.good.len() >= self.total {
                    break;
                }
            }
        };
        let counted = tokio::time::timeout(limit, counting).await;
        counted.map_err(|_| {
            let trouble = self.trouble.take().map(|trouble| format!(" ({trouble})"));
            Usage(format!(
                "only {} of {} {} after {:.0} s{}; `drydock nodes list --broken` and `kubectl get events` may say why",
                self.good.len(),
                self.total,
                self.what,
                limit.as_secs_f64(),
                trouble.unwrap_or_default()
            ))
        })
    }

    fn take<K: kube::Resource>(&mut self, change: watcher::Result<Event<K>>, is_good: &impl Fn(&K) -> bool) {
        match change {
            Ok(Event::Init) => self.good.clear(),
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let name = object.meta().name.clone().unwrap_or_default();
                if is_good(&object) {
                    self.good.insert(name);
                } else {
                    self.good.remove(&name);
                }
            }
            Ok(Event::Delete(object)) => {
                self.good.remove(object.meta().name.as_deref().unwrap_or_default());
            }
            Ok(Event::InitDone) => {}
            Err(error) => self.trouble = Some(error.to_string()),
        }
    }

    /// What is to be said now, if a quarter of the way was passed that was not told yet.
    fn line(&mut self) -> Option<String> {
        let quarter = (self.good.len().min(self.total) * 4)
            .checked_div(self.total)
            .unwrap_or(4);
        // A few are not worth a word before the end.
        let worth = quarter == 4 || self.total >= 100;
        if quarter <= self.told || !worth {
            return None;
        }
        self.told = quarter;
        let took = self.clock.now().duration_since(self.since).as_secs_f64();
        Some(format!(
            "{} of {} {} in {took:.1} s",
            self.good.len(),
            self.total,
            self.what
        ))
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kube::api::ObjectMeta;
    use rstest::rstest;

    use super::*;

    fn node(number: usize) -> Node {
        Node {
            metadata: ObjectMeta {
                name: Some(format!("node-{number}")),
                ..ObjectMeta::default()
            },
            ..Node::default()
        }
    }

    fn clock() -> Clock {
        Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap())
    }

    /// What is said while so many become good, one after another.
    fn said(total: usize) -> Vec<String> {
        let clock = clock();
        let mut count = Count::new("nodes Ready", total, &clock);
        let mut take = |number| {
            count.take(Ok(Event::Apply(node(number))), &|_: &Node| true);
            count.line()
        };
        (0..total).filter_map(&mut take).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn many_are_told_in_quarters_and_few_at_the_end() {
        let quarters = [
            "250 of 1000 nodes Ready in 0.0 s",
            "500 of 1000 nodes Ready in 0.0 s",
            "750 of 1000 nodes Ready in 0.0 s",
            "1000 of 1000 nodes Ready in 0.0 s",
        ];
        assert_eq!(said(1_000), quarters);
        assert_eq!(said(20), ["20 of 20 nodes Ready in 0.0 s"]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_longer_good_or_gone_does_not_count() {
        let clock = clock();
        let mut count = Count::new("nodes Ready", 2, &clock);
        let mut take = |event, good: bool| {
            count.take(Ok(event), &|_: &Node| good);
            count.good.len()
        };
        assert_eq!(take(Event::Apply(node(0)), true), 1);
        assert_eq!(take(Event::Apply(node(1)), true), 2);
        assert_eq!(take(Event::Apply(node(1)), false), 1);
        assert_eq!(take(Event::Delete(node(0)), true), 0);
        assert_eq!(take(Event::InitApply(node(0)), true), 1);
        assert_eq!(take(Event::Init, true), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_there_in_time_is_told_with_the_reason() {
        let clock = clock();
        let mut count = Count::new("pods Running", 2, &clock);
        let one: watcher::Result<Event<Node>> = Ok(Event::Apply(node(0)));
        let lost = Err(watcher::Error::NoResourceVersion);
        let changes = futures::stream::iter([one, lost]).chain(futures::stream::pending());
        let Usage(error) = count.all(changes, |_| true, Duration::from_secs(61)).await.unwrap_err();
        assert!(error.starts_with("only 1 of 2 pods Running after 61 s ("), "{error}");
    }

    #[test]
    fn the_deployment_is_one() {
        let deployment = deployment(7).unwrap();
        let spec = deployment.spec.unwrap();
        assert_eq!(spec.replicas, Some(7));
        let pod = spec.template.spec.unwrap();
        assert_eq!(pod.node_selector, spec.selector.match_labels);
        assert_eq!(pod.topology_spread_constraints.unwrap()[0].max_skew, 1);
    }

    #[rstest]
    #[case(0, 1, &[], Some("--pods-per-node needs nodes"))]
    #[case(0, 0, &["a"], Some("--zones needs nodes"))]
    #[case(1, 1, &["a"], None)]
    #[case(0, 0, &[], None)]
    fn pods_and_zones_need_nodes(
        #[case] nodes: u32,
        #[case] pods_per_node: u32,
        #[case] zones: &[&str],
        #[case] said: Option<&str>,
    ) {
        let population = Population {
            nodes,
            pods_per_node,
            zones: zones.iter().map(|&zone| zone.to_owned()).collect(),
            machine_type: "medium".to_owned(),
        };
        let error = population.check().err().map(|error| error.0);
        assert_eq!(error.is_some(), said.is_some(), "{error:?}");
        assert!(error.unwrap_or_default().starts_with(said.unwrap_or_default()));
    }
}
