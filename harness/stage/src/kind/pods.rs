//! The pods of mcm, fakecloud, the process of health checks and the remediation controller in one namespace: waits until they are ready, stops them, and detects unexpected ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Clock;
use futures::future::{join_all, try_join_all};
use futures::stream::{BoxStream, StreamExt};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watch_object, watcher};
use parking_lot::Mutex;
use runtime::error::brief;
use scenario::step::ProcessAction;
use serde_json::json;

use super::KindError;
use super::docker::{Engine, EngineError};
use super::limit::within;
use super::pod_state::{ended, is_ready, state, statuses, without_pods};
use crate::{LeaderError, holder_among, leader};

/// The Deployment of mcm, and the label of its pods.
pub(super) const MCM: &str = "machine-controller-manager";
/// The Deployment of fakecloud, and the label of its pods.
pub(super) const FAKECLOUD: &str = "fakecloud";
/// The Deployment of the process of health checks, and the label of its pods.
pub(super) const HEALTH_CHECK: &str = "machine-health-check";
/// The Deployment of the example remediation controller, and the label of its pods.
pub(super) const REMEDIATION: &str = "fakecloud-remediation";

/// How long pods may take to become ready.
const READY_LIMIT: Duration = Duration::from_mins(2);
/// The grace period of pod deletions in seconds. Without a grace period, a pod disappears from the API before its
/// kubelet observes the deletion, and until then the kubelet restarts a killed container.
const GRACE: u32 = 1;
/// How long deleted pods may continue to exist.
const GONE_LIMIT: Duration = Duration::from_secs(60);
/// The pod label with the name of the Deployment.
const APP: &str = "app.kubernetes.io/name";

/// Errors of steps on pods.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// Pods do not become ready in time.
    #[error("{wanted} of {app} are not ready after {READY_LIMIT:?}: {states}")]
    NotReady {
        /// The desired number of pods.
        wanted: u32,
        /// The program.
        app: String,
        /// The state of each pod.
        states: String,
    },
    /// The program has no leader election.
    #[error("{app} has no leader: kill it")]
    NoLeader {
        /// The program.
        app: String,
    },
    /// The pods of a program cannot be listed.
    #[error("cannot list the pods of {app}: {}", brief(source))]
    List {
        /// The program.
        app: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The Deployment of a program cannot be changed.
    #[error("cannot change the Deployment {app}: {}", brief(source))]
    Change {
        /// The program.
        app: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The ReplicaSet controller does not observe in time that a program was scaled to 0.
    #[error("the ReplicaSets of {app} still create pods {GONE_LIMIT:?} after it was scaled to 0")]
    NotScaled {
        /// The program.
        app: String,
    },
    /// A pod cannot be deleted.
    #[error("cannot delete the pod {pod}: {}", brief(source))]
    Delete {
        /// The pod.
        pod: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// Pods are not deleted in time.
    #[error("pods still exist {GONE_LIMIT:?} after their deletion: {pods}")]
    NotGone {
        /// The pods.
        pods: String,
    },
    /// The containers of a pod cannot be killed.
    #[error(transparent)]
    Kill(#[from] EngineError),
}

/// The pods of the programs in one namespace.
pub(super) struct Pods {
    api: Api<Pod>,
    deployments: Api<Deployment>,
    client: kube::Client,
    engine: Engine,
    namespace: String,
    clock: Clock,
    replicas: u32,
    /// The UIDs of pods that this session ended, and of ReplicaSets whose pods it ended.
    ended: BTreeSet<String>,
    events: BoxStream<'static, watcher::Result<Event<Pod>>>,
}

impl Pods {
    pub(super) fn new(client: kube::Client, engine: Engine, namespace: &str, replicas: u32) -> Self {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let ours = watcher::Config::default().labels(&of_all());
        Self {
            events: watcher(api.clone(), ours).default_backoff().boxed(),
            api,
            deployments: Api::namespaced(client.clone(), namespace),
            client,
            engine,
            namespace: namespace.to_owned(),
            clock: Clock::wall(),
            replicas,
            ended: BTreeSet::new(),
        }
    }

    /// Waits until the desired number of pods of a program is ready. Ignores pods that this session ended.
    ///
    /// # Errors
    /// When they are not ready after two minutes, with the state of each pod.
    pub(super) async fn ready(&self, app: &str) -> Result<(), PodError> {
        let wanted = self.wanted(app);
        let config = watcher::Config::default().labels(&format!("{APP}={app}"));
        let mut events = watcher(self.api.clone(), config).default_backoff().boxed();
        let mut pods = BTreeMap::new();
        let waiting = async {
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(pod) | Event::InitApply(pod)) => drop(pods.insert(uid(&pod), pod)),
                    Ok(Event::Delete(pod)) => drop(pods.remove(&uid(&pod))),
                    Ok(Event::Init) => pods.clear(),
                    Ok(Event::InitDone) | Err(_) => {}
                }
                let current = pods.values().filter(|pod| !self.has_ended(pod));
                let ready = current.filter(|pod| is_ready(pod)).count();
                if u32::try_from(ready).is_ok_and(|ready| ready >= wanted) {
                    return;
                }
            }
        };
        if within(READY_LIMIT, waiting).await.is_some() {
            return Ok(());
        }
        let states: Vec<String> = pods.values().map(state).collect();
        Err(PodError::NotReady {
            wanted,
            app: app.to_owned(),
            states: match states.is_empty() {
                true => self.why_no_pod(app).await,
                false => states.join("; "),
            },
        })
    }

    /// Describes why a program has no pods.
    async fn why_no_pod(&self, app: &str) -> String {
        match self.deployments.get(app).await {
            Ok(deployment) => without_pods(&deployment),
            Err(error) => format!("no pod was created, and the Deployment cannot be read: {error}"),
        }
    }

    /// Performs an action on a program.
    pub(super) async fn perform(&mut self, app: &str, action: ProcessAction) -> Result<(), KindError> {
        match action {
            ProcessAction::Start => self.start(app).await?,
            ProcessAction::Kill => self.end(app).await?,
            ProcessAction::Restart => {
                self.end(app).await?;
                self.start(app).await?;
            }
            ProcessAction::KillLeader if app != MCM => return Err(PodError::NoLeader { app: app.to_owned() }.into()),
            ProcessAction::KillLeader => {
                let holder = leader(&self.client, &self.namespace, &self.clock).await?;
                let pods = self.list(app).await?;
                let names = pods.iter().filter_map(|pod| pod.metadata.name.as_deref());
                let pod = holder_among(&holder, names).and_then(|index| pods.get(index));
                let pod = pod.ok_or_else(|| LeaderError::NoPod {
                    namespace: self.namespace.clone(),
                    holder: holder.clone(),
                })?;
                self.kill(std::slice::from_ref(pod)).await?;
                remove(&self.api, std::slice::from_ref(pod)).await?;
            }
            ProcessAction::RollingRestart => {
                let pods = self.list(app).await?;
                self.ended.extend(pods.iter().map(uid));
                self.renew_template(app).await?;
                self.ready(app).await?;
            }
        }
        Ok(())
    }

    /// Returns a message when a container or pod ends unexpectedly.
    pub(super) async fn failure(&mut self) -> String {
        loop {
            let Some(event) = self.events.next().await else {
                return "the watch of mcm's and fakecloud's pods ended".to_owned();
            };
            let (pod, gone) = match event {
                Ok(Event::Apply(pod) | Event::InitApply(pod)) => (pod, false),
                Ok(Event::Delete(pod)) => (pod, true),
                Ok(Event::Init | Event::InitDone) | Err(_) => continue,
            };
            if self.has_ended(&pod) {
                continue;
            }
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            if gone || pod.metadata.deletion_timestamp.is_some() {
                return format!("the pod {name} was removed, but not by the scenario");
            }
            if let Some(ended) = statuses(&pod).find_map(ended) {
                let lines = self.last_log_lines(name).await;
                return format!("{name} {ended}; last log lines: {lines}");
            }
        }
    }

    /// Whether this session ended a pod, or its ReplicaSet's pods.
    fn has_ended(&self, pod: &Pod) -> bool {
        let owners = pod.metadata.owner_references.iter().flatten();
        self.ended.contains(&uid(pod)) || owners.into_iter().any(|owner| self.ended.contains(&owner.uid))
    }

    /// The pods of a program, except for those that this session ended.
    async fn list(&self, app: &str) -> Result<Vec<Pod>, PodError> {
        let listed = self
            .api
            .list(&ListParams::default().labels(&format!("{APP}={app}")))
            .await;
        let listed = listed.map_err(|source| PodError::List {
            app: app.to_owned(),
            source: Box::new(source),
        })?;
        Ok(listed.items.into_iter().filter(|pod| !self.has_ended(pod)).collect())
    }

    /// Kills the containers of pods with SIGKILL, on their nodes.
    async fn kill(&mut self, pods: &[Pod]) -> Result<(), EngineError> {
        self.ended.extend(pods.iter().map(uid));
        kill(&self.engine, pods).await
    }

    /// Scales a program to the desired number of pods, and waits until they are ready.
    async fn start(&self, app: &str) -> Result<(), PodError> {
        self.scale(app, self.wanted(app)).await?;
        self.ready(app).await
    }

    /// Makes the Deployment create a new ReplicaSet, as `kubectl rollout restart` does.
    async fn renew_template(&self, app: &str) -> Result<(), PodError> {
        let restarted = json!({ "kubectl.kubernetes.io/restartedAt": self.clock.now().to_string() });
        let template = json!({ "metadata": { "annotations": restarted } });
        self.patch(app, &json!({ "spec": { "template": template } })).await
    }

    /// Kills all pods of a program and scales it to 0. Also removes the replacements that the ReplicaSet controller
    /// creates before it observes the scaling. The next start gets a new ReplicaSet, so that [Self::failure`] can
    /// ignore all pods of the old ones.
    async fn end(&mut self, app: &str) -> Result<(), PodError> {
        let pods = self.list(app).await?;
        self.kill(&pods).await?;
        self.scale(app, 0).await?;
        remove(&self.api, &pods).await?;
        let sets = self.scaled_down_sets(app).await?;
        let replacements = self.list(app).await?;
        self.ended.extend(sets);
        remove(&self.api, &replacements).await?;
        self.renew_template(app).await
    }

    /// Waits until the ReplicaSet controller has observed that a program is scaled to 0, and so creates no more pods.
    /// Returns the UIDs of the program's ReplicaSets.
    async fn scaled_down_sets(&self, app: &str) -> Result<BTreeSet<String>, PodError> {
        let api: Api<ReplicaSet> = Api::namespaced(self.client.clone(), &self.namespace);
        let config = watcher::Config::default().labels(&format!("{APP}={app}"));
        let mut events = watcher(api, config).default_backoff().boxed();
        let mut sets = BTreeMap::new();
        let waiting = async {
            let mut is_complete = false;
            while let Some(event) = events.next().await {
                match event {
                    Ok(Event::Apply(set) | Event::InitApply(set)) => drop(sets.insert(uid(&set), may_create(&set))),
                    Ok(Event::Delete(set)) => drop(sets.insert(uid(&set), false)),
                    Ok(Event::Init) => {
                        is_complete = false;
                        sets.values_mut().for_each(|may_create| *may_create = false);
                    }
                    Ok(Event::InitDone) => is_complete = true,
                    Err(_) => {}
                }
                if is_complete && !sets.values().any(|may_create| *may_create) {
                    return;
                }
            }
        };
        let waited = within(GONE_LIMIT, waiting).await;
        waited.ok_or_else(|| PodError::NotScaled { app: app.to_owned() })?;
        Ok(sets.into_keys().collect())
    }

    /// The desired number of pods of a program.
    fn wanted(&self, app: &str) -> u32 {
        if app == MCM { self.replicas } else { 1 }
    }

    async fn scale(&self, app: &str, replicas: u32) -> Result<(), PodError> {
        self.patch(app, &json!({ "spec": { "replicas": replicas } })).await
    }

    async fn patch(&self, app: &str, change: &serde_json::Value) -> Result<(), PodError> {
        let patched = self
            .deployments
            .patch(app, &PatchParams::default(), &Patch::Merge(change))
            .await;
        patched.map(drop).map_err(|source| PodError::Change {
            app: app.to_owned(),
            source: Box::new(source),
        })
    }

    /// The last lines of the log of an ended container.
    async fn last_log_lines(&self, pod: &str) -> String {
        for previous in [true, false] {
            let parameters = LogParams {
                previous,
                tail_lines: Some(3),
                ..LogParams::default()
            };
            if let Ok(log) = self.api.logs(pod, &parameters).await
                && !log.trim().is_empty()
            {
                return log.lines().map(str::trim).collect::<Vec<_>>().join(" / ");
            }
        }
        "none".to_owned()
    }
}

/// A selector of the pods of all programs.
pub(super) fn of_all() -> String {
    format!("{APP} in ({MCM}, {FAKECLOUD}, {HEALTH_CHECK}, {REMEDIATION})")
}

/// Deletes pods and waits until the last container of each has ended. Ignores absent pods.
///
/// # Errors
/// When the API server rejects a deletion, or after a minute, with the pods whose containers may still run.
pub(super) async fn remove(api: &Api<Pod>, pods: &[Pod]) -> Result<(), PodError> {
    let parameters = DeleteParams::default().grace_period(GRACE);
    for pod in pods {
        let name = pod.name_any();
        match api.delete(&name, &parameters).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(source) => {
                return Err(PodError::Delete {
                    pod: name,
                    source: Box::new(source),
                });
            }
        }
    }
    let left = Mutex::new(pods.iter().map(ResourceExt::name_any).collect::<BTreeSet<_>>());
    let deletions = pods.iter().map(async |pod| {
        wait_until_deleted(api, pod).await;
        left.lock().remove(&pod.name_any());
    });
    if within(GONE_LIMIT, join_all(deletions)).await.is_some() {
        return Ok(());
    }
    let left = left.into_inner();
    Err(PodError::NotGone {
        pods: left.into_iter().collect::<Vec<_>>().join(", "),
    })
}

/// Waits until a pod is deleted.
async fn wait_until_deleted(api: &Api<Pod>, pod: &Pod) {
    let mut states = watch_object(api.clone(), &pod.name_any()).default_backoff().boxed();
    while let Some(state) = states.next().await {
        // The watcher restarts after an error.
        if state.is_ok_and(|current| current.is_none_or(|current| uid(&current) != uid(pod))) {
            return;
        }
    }
}

/// Sends SIGKILL to all containers of `pods`. Ignores ended containers.
async fn kill(engine: &Engine, pods: &[Pod]) -> Result<(), EngineError> {
    let containers = pods.iter().flat_map(|pod| {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        statuses(pod).filter_map(move |status| {
            let running = status.state.as_ref()?.running.is_some();
            let id = status.container_id.as_deref()?.strip_prefix("containerd://")?;
            Some((node.clone()?, id.to_owned())).filter(|_| running)
        })
    });
    try_join_all(containers.map(|(node, id)| async move {
        let command = [
            "ctr",
            "--namespace",
            "k8s.io",
            "tasks",
            "kill",
            "--signal",
            "SIGKILL",
            &id,
        ];
        match engine.execute(&node, &command).await {
            Err(error) if !has_ended_already(&error) => Err(error),
            _ => Ok(()),
        }
    }))
    .await
    .map(drop)
}

/// Whether the kill failed because the container has already ended.
fn has_ended_already(error: &EngineError) -> bool {
    let error = error.to_string();
    error.contains("not found") || error.contains("already finished")
}

/// Whether a ReplicaSet has desired replicas, or its controller may not have observed yet that it has none.
fn may_create(set: &ReplicaSet) -> bool {
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let observed = set.status.as_ref().and_then(|status| status.observed_generation);
    wanted > 0 || observed < set.metadata.generation
}

fn uid(object: &impl ResourceExt) -> String {
    object.uid().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use apiserver::{Identity, Options, Server};
    use clock::Seed;
    use kube::api::PostParams;
    use rstest::rstest;

    use super::*;

    /// Creates pods on a node whose kubelet the test simulates.
    async fn bound(names: &[&str]) -> (Api<Pod>, Vec<Pod>) {
        let server = Server::new(Options::new(Clock::wall(), Seed::new(1))).unwrap();
        let client = kube::Client::new(server.service(Identity::admin()), "default");
        let api: Api<Pod> = Api::default_namespaced(client);
        let mut pods = Vec::new();
        for name in names {
            let spec = json!({ "nodeName": "node", "containers": [{ "name": "c", "image": "i" }] });
            let pod = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec })).unwrap();
            pods.push(api.create(&PostParams::default(), &pod).await.unwrap());
        }
        (api, pods)
    }

    /// Simulates a kubelet that finishes the deletion of a pod after its containers have ended.
    async fn finish_deletion(api: &Api<Pod>, name: &str) {
        let mut states = watch_object(api.clone(), name).boxed();
        loop {
            let pod = states.next().await.unwrap().unwrap().unwrap();
            if pod.metadata.deletion_timestamp.is_some() {
                assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(GRACE.into()));
                let immediately = DeleteParams::default().grace_period(0);
                api.delete(name, &immediately).await.unwrap();
                return;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pods_are_removed_when_their_kubelet_finishes_the_deletion() {
        let (api, pods) = bound(&["a", "b"]).await;
        let (removed, (), ()) = tokio::join!(
            remove(&api, &pods),
            finish_deletion(&api, "a"),
            finish_deletion(&api, "b")
        );
        removed.unwrap();
        assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 0);
        remove(&api, &pods).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_its_kubelet_keeps_is_reported_after_the_limit() {
        let (api, pods) = bound(&["a", "b"]).await;
        let (removed, ()) = tokio::join!(remove(&api, &pods), finish_deletion(&api, "a"));
        assert_eq!(
            removed.unwrap_err().to_string(),
            "pods still exist 60s after their deletion: b"
        );
    }

    #[rstest]
    #[case::has_replicas(1, 2, Some(2), true)]
    #[case::scaled_to_0_and_not_observed(0, 3, Some(2), true)]
    #[case::created_without_replicas_and_not_observed(0, 1, None, true)]
    #[case::scaled_to_0_and_observed(0, 3, Some(3), false)]
    fn a_replica_set_may_create_pods_until_its_controller_observes_the_scaling_to_0(
        #[case] replicas: i32,
        #[case] generation: i64,
        #[case] observed: Option<i64>,
        #[case] expected: bool,
    ) {
        let set = json!({
            "metadata": { "name": "s", "generation": generation },
            "spec": { "replicas": replicas, "selector": {} },
            "status": { "replicas": 1, "observedGeneration": observed },
        });
        assert_eq!(may_create(&serde_json::from_value(set).unwrap()), expected);
    }
}
