//! Creates the nodes and pods of `drydock up --nodes N --pods-per-node P`, and waits until they are ready.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::time::Duration;

use clap::Args;
use clock::Clock;
use fakecloud::proto::CreateNodesRequest;
use futures::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher as watch;
use kube::runtime::watcher::{self, Event};
use runtime::error::brief;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::Stop;
use super::output::say;
use super::running_world::World;

/// The label of these nodes and of their pods.
const POOL: &str = "drydock.dev/pool";
/// The value of the label, and the name prefix of the nodes.
const NAME: &str = "node";
/// The Deployment's name.
const DEPLOYMENT: &str = "pause";
/// Maximum of pods for each node: a node accepts 110 pods, some of which belong to DaemonSets of a real cluster.
const MOST_PODS: u32 = 100;
/// Timeout until all nodes, or all pods, are ready, without the time for each of them.
const LIMIT: Duration = Duration::from_mins(5);
/// Additional time for each node.
const LIMIT_OF_NODE: Duration = Duration::from_millis(20);
/// Additional time for each pod.
const LIMIT_OF_POD: Duration = Duration::from_millis(50);

/// The machine types of a cloud without configuration.
const MACHINE_TYPES: [&str; 3] = ["small", "medium", "large"];

fn zone(text: &str) -> Result<String, &'static str> {
    match fakecloud::is_zone(text) {
        true => Ok(text.to_owned()),
        false => Err("write lower-case letters, digits and dashes"),
    }
}

/// The nodes and pods to create.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Nodes and pods")]
pub(super) struct Population {
    /// Number of nodes without a machine, named node-0, node-1, ...
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=10_000))]
    nodes: u32,

    /// Number of pods on each of them, in the Deployment pause
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=i64::from(MOST_PODS)))]
    pods_per_node: u32,

    /// The zones among which the nodes are distributed [default: local-1]
    #[arg(long, value_name = "ZONE", value_delimiter = ',', value_parser = zone)]
    zones: Vec<String>,

    /// The nodes' machine type
    #[arg(long, value_name = "TYPE", default_value = "medium", value_parser = MACHINE_TYPES)]
    machine_type: String,
}

impl Population {
    /// Number of nodes.
    pub(super) fn nodes(&self) -> u32 {
        self.nodes
    }

    /// Refuses arguments that need nodes, without nodes.
    pub(super) fn check(&self) -> Result<(), Stop> {
        let stray = [
            ("--pods-per-node", self.pods_per_node > 0),
            ("--zones", !self.zones.is_empty()),
        ];
        match stray.into_iter().find(|(_, given)| *given && self.nodes == 0) {
            Some((flag, _)) => Err(Stop::Usage(format!("{flag} needs nodes: add --nodes COUNT"))),
            None => Ok(()),
        }
    }

    /// Creates nodes and pods, and waits until they are ready.
    ///
    /// # Errors
    /// When a creation fails, or nodes or pods are not ready in time.
    pub(super) async fn settle(&self, world: &World, namespace: &str) -> Result<(), Stop> {
        if self.nodes == 0 {
            return Ok(());
        }
        let client = world
            .client()
            .await?
            .ok_or_else(|| Stop::Usage("the API server is unknown".to_owned()))?;
        let clock = Clock::wall();
        let names = self.create_nodes(world, &clock, &client).await?;
        if self.pods_per_node > 0 {
            self.create_pods(&client, namespace, &clock, names.len()).await?;
        }
        Ok(())
    }

    /// Creates the nodes that a world with kept data does not have yet; returns the names of all.
    async fn create_nodes(&self, world: &World, clock: &Clock, client: &kube::Client) -> Result<Vec<String>, Stop> {
        let nodes = Api::<Node>::all(client.clone());
        let present = nodes.list(&ListParams::default().labels(&selector())).await;
        let present = present.map_err(|error| Stop::Usage(format!("cannot list nodes: {}", brief(&error))))?;
        let mut names: Vec<String> = present.items.iter().map(ResourceExt::name_any).collect();
        let missing = self
            .nodes
            .saturating_sub(u32::try_from(names.len()).unwrap_or(u32::MAX));
        if missing > 0 {
            names.extend(self.request_nodes(world, missing).await?);
        }
        let mut count = Count::new("nodes Ready", names.len(), clock);
        let wanted: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let ready = |node: &Node| is_ready(node) && wanted.contains(node.name_any().as_str());
        count
            .wait_for_all(changes(nodes), ready, LIMIT + LIMIT_OF_NODE * self.nodes)
            .await?;
        Ok(names)
    }

    /// Lets the cloud create this number of nodes; returns their names.
    async fn request_nodes(&self, world: &World, count: u32) -> Result<Vec<String>, Stop> {
        let request = CreateNodesRequest {
            count,
            name_prefix: NAME.to_owned(),
            zones: self.zones.clone(),
            machine_type: self.machine_type.clone(),
            labels: BTreeMap::from([(POOL.to_owned(), NAME.to_owned())]),
            taints: Vec::new(),
        };
        let created = world.controls()?.create_nodes(request).await;
        let created =
            created.map_err(|status| Stop::Usage(format!("cannot create nodes: {}", world.describe_error(&status))))?;
        Ok(created.into_inner().nodes)
    }

    async fn create_pods(
        &self,
        client: &kube::Client,
        namespace: &str,
        clock: &Clock,
        nodes: usize,
    ) -> Result<(), Stop> {
        let pods = nodes * self.pods_per_node as usize;
        let mut count = Count::new("pods Running", pods, clock);
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
        let cannot = |reason: String| {
            Stop::Usage(format!(
                "cannot create the Deployment {namespace}/{DEPLOYMENT}: {reason}"
            ))
        };
        let deployment = deployment(pods).map_err(|error| cannot(error.to_string()))?;
        match deployments.create(&PostParams::default(), &deployment).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => {
                let replicas = json!({ "spec": { "replicas": pods } });
                let (parameters, patch) = (PatchParams::default(), Patch::Merge(replicas));
                let scaled = deployments.patch(DEPLOYMENT, &parameters, &patch).await;
                scaled.map_err(|error| cannot(brief(&error)))?;
            }
            created => drop(created.map_err(|error| cannot(brief(&error)))?),
        }
        let limit = LIMIT + LIMIT_OF_POD * u32::try_from(pods).unwrap_or(u32::MAX);
        let pods = changes(Api::<Pod>::namespaced(client.clone(), namespace));
        count.wait_for_all(pods, is_running, limit).await
    }
}

/// The Deployment of the pods: they are spread evenly over the available nodes, and small enough for the maximum
/// number.
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

/// Watches all objects with the pool's label.
fn changes<K>(api: Api<K>) -> impl Stream<Item = watcher::Result<Event<K>>>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    watch(api, watcher::Config::default().labels(&selector())).default_backoff()
}

/// Selects the pool's nodes and pods.
fn selector() -> String {
    format!("{POOL}={NAME}")
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

/// Counts ready objects until all are ready, and prints a line at each quarter.
struct Count<'a> {
    what: &'static str,
    total: usize,
    clock: &'a Clock,
    since: jiff::Timestamp,
    /// The last quarter that was printed.
    printed_quarter: usize,
    /// Names of the ready objects.
    ready: BTreeSet<String>,
    /// The last error of the watch.
    last_error: Option<String>,
}

impl<'a> Count<'a> {
    /// Starts the count; times are relative to now.
    fn new(what: &'static str, total: usize, clock: &'a Clock) -> Self {
        Self {
            what,
            total,
            clock,
            since: clock.now(),
            printed_quarter: 0,
            ready: BTreeSet::new(),
            last_error: None,
        }
    }

    /// Waits until all objects are ready at the same time.
    ///
    /// # Errors
    /// When they are not ready within `limit`.
    async fn wait_for_all<K: kube::Resource>(
        &mut self,
        changes: impl Stream<Item = watcher::Result<Event<K>>>,
        is_ready: impl Fn(&K) -> bool,
        limit: Duration,
    ) -> Result<(), Stop> {
        let counting = async {
            let mut changes = std::pin::pin!(changes);
            while let Some(change) = changes.next().await {
                self.apply(change, &is_ready);
                if let Some(line) = self.line() {
                    say!("{line}");
                }
                if self.ready.len() >= self.total {
                    break;
                }
            }
        };
        let counted = tokio::time::timeout(limit, counting).await;
        counted.map_err(|_| {
            let last_error = self.last_error.take().map(|error| format!(" ({error})"));
            Stop::Usage(format!(
                "only {} of {} {} after {:.0} s{}; see `drydock nodes list --broken` and `kubectl get events`",
                self.ready.len(),
                self.total,
                self.what,
                limit.as_secs_f64(),
                last_error.unwrap_or_default()
            ))
        })
    }

    fn apply<K: kube::Resource>(&mut self, change: watcher::Result<Event<K>>, is_ready: &impl Fn(&K) -> bool) {
        match change {
            Ok(Event::Init) => self.ready.clear(),
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let name = object.meta().name.clone().unwrap_or_default();
                if is_ready(&object) {
                    self.ready.insert(name);
                } else {
                    self.ready.remove(&name);
                }
            }
            Ok(Event::Delete(object)) => {
                self.ready.remove(object.meta().name.as_deref().unwrap_or_default());
            }
            Ok(Event::InitDone) => {}
            Err(error) => self.last_error = Some(error.to_string()),
        }
    }

    /// The line to print if another quarter of the objects is ready.
    fn line(&mut self) -> Option<String> {
        let quarter = (self.ready.len().min(self.total) * 4)
            .checked_div(self.total)
            .unwrap_or(4);
        // Small numbers have only one line at the end.
        let is_printed = quarter == 4 || self.total >= 100;
        if quarter <= self.printed_quarter || !is_printed {
            return None;
        }
        self.printed_quarter = quarter;
        let took = self.clock.now().duration_since(self.since).as_secs_f64();
        Some(format!(
            "{} of {} {} in {took:.1} s",
            self.ready.len(),
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

    #[test]
    fn the_machine_types_are_those_of_a_cloud_without_configuration() {
        let config = fakecloud::Config::default();
        let types: BTreeSet<&str> = config.machine_types.keys().map(String::as_str).collect();
        assert_eq!(types, MACHINE_TYPES.into());
    }

    /// The lines that are printed while nodes become ready one after another.
    fn printed_lines(total: usize) -> Vec<String> {
        let clock = clock();
        let mut count = Count::new("nodes Ready", total, &clock);
        let mut apply = |number| {
            count.apply(Ok(Event::Apply(node(number))), &|_: &Node| true);
            count.line()
        };
        (0..total).filter_map(&mut apply).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_printed_in_quarters_or_only_at_the_end() {
        let quarters = [
            "250 of 1000 nodes Ready in 0.0 s",
            "500 of 1000 nodes Ready in 0.0 s",
            "750 of 1000 nodes Ready in 0.0 s",
            "1000 of 1000 nodes Ready in 0.0 s",
        ];
        assert_eq!(printed_lines(1_000), quarters);
        assert_eq!(printed_lines(20), ["20 of 20 nodes Ready in 0.0 s"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_is_deleted_or_no_longer_ready_does_not_count() {
        let clock = clock();
        let mut count = Count::new("nodes Ready", 2, &clock);
        let mut apply = |event, ready: bool| {
            count.apply(Ok(event), &|_: &Node| ready);
            count.ready.len()
        };
        assert_eq!(apply(Event::Apply(node(0)), true), 1);
        assert_eq!(apply(Event::Apply(node(1)), true), 2);
        assert_eq!(apply(Event::Apply(node(1)), false), 1);
        assert_eq!(apply(Event::Delete(node(0)), true), 0);
        assert_eq!(apply(Event::InitApply(node(0)), true), 1);
        assert_eq!(apply(Event::Init, true), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_timeout_error_contains_the_last_error_of_the_watch() {
        let clock = clock();
        let mut count = Count::new("pods Running", 2, &clock);
        let one: watcher::Result<Event<Node>> = Ok(Event::Apply(node(0)));
        let lost = Err(watcher::Error::NoResourceVersion);
        let changes = futures::stream::iter([one, lost]).chain(futures::stream::pending());
        let error = count
            .wait_for_all(changes, |_| true, Duration::from_secs(61))
            .await
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("only 1 of 2 pods Running after 61 s ("), "{error}");
    }

    #[test]
    fn the_deployment_is_valid() {
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
        #[case] expected: Option<&str>,
    ) {
        let population = Population {
            nodes,
            pods_per_node,
            zones: zones.iter().map(|&zone| zone.to_owned()).collect(),
            machine_type: "medium".to_owned(),
        };
        let error = population.check().err().map(|error| error.to_string());
        assert_eq!(error.is_some(), expected.is_some(), "{error:?}");
        assert!(error.unwrap_or_default().starts_with(expected.unwrap_or_default()));
    }
}
