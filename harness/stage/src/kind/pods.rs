//! The pods of mcm and fakecloud in one namespace: waiting for them, ending them, and noticing when one ends by itself.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Clock;
use futures::future::{join_all, try_join_all};
use futures::stream::{BoxStream, StreamExt};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watch_object, watcher};
use parking_lot::Mutex;
use scenario::step::ProcessAction;
use serde_json::json;

use super::KindError;
use super::docker::{Engine, EngineError};
use crate::{LeaderError, holder_among, leader};

/// The Deployment of mcm, and the label of its pods.
pub(super) const MCM: &str = "machine-controller-manager";
/// The Deployment of fakecloud, and the label of its pods.
pub(super) const FAKECLOUD: &str = "fakecloud";

/// How long pods may take to be ready.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// With how many seconds of grace a pod is deleted. A pod deleted with none is gone from the API before its kubelet
/// knows that it is to go, and until then a kubelet starts a killed container once more.
const GRACE: u32 = 1;
/// How long pods that were deleted may take to be gone.
const GONE_LIMIT: Duration = Duration::from_secs(60);
/// The label that tells which Deployment a pod is of.
const APP: &str = "app.kubernetes.io/name";

/// Why pods do not do what a step asks for.
#[derive(Debug, thiserror::Error)]
pub enum PodError {
    /// They are not ready in time.
    #[error("{wanted} of {app} are not ready after {READY_LIMIT:?}: {states}")]
    NotReady {
        /// How many there should be.
        wanted: u32,
        /// The program.
        app: String,
        /// What each pod waits for.
        states: String,
    },
    /// The program has no replicas of which one leads.
    #[error("{app} has no leader: kill it")]
    NoLeader {
        /// The program.
        app: String,
    },
    /// The pods of a program are not listed.
    #[error("cannot list the pods of {app}: {source}")]
    List {
        /// The program.
        app: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The Deployment of a program is not changed.
    #[error("cannot change the Deployment {app}: {source}")]
    Change {
        /// The program.
        app: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The ReplicaSet controller does not see in time that a program is to have no pods.
    #[error("the ReplicaSets of {app} still create pods {GONE_LIMIT:?} after it was scaled to 0")]
    NotScaled {
        /// The program.
        app: String,
    },
    /// A pod is not deleted.
    #[error("cannot delete the pod {pod}: {source}")]
    Delete {
        /// The pod.
        pod: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// Pods are not gone in time.
    #[error("pods are not gone {GONE_LIMIT:?} after they were deleted: {pods}")]
    NotGone {
        /// The pods.
        pods: String,
    },
    /// The containers of a pod are not killed.
    #[error(transparent)]
    Kill(#[from] EngineError),
}

/// Pods of both programs in one namespace.
pub(super) struct Pods {
    api: Api<Pod>,
    deployments: Api<Deployment>,
    client: kube::Client,
    engine: Engine,
    namespace: String,
    clock: Clock,
    replicas: u32,
    /// The uids of pods that this session ended, and of ReplicaSets of which it ended all.
    ended: BTreeSet<String>,
    events: BoxStream<'static, watcher::Result<Event<Pod>>>,
}

impl Pods {
    pub(super) fn new(client: kube::Client, engine: Engine, namespace: &str, replicas: u32) -> Self {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let ours = watcher::Config::default().labels(&of_both());
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

    /// Waits until as many pods of a program are ready as there are to be, those not counted that were ended.
    ///
    /// # Errors
    /// After a minute, with what each pod waits for.
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
        if tokio::time::timeout(READY_LIMIT, waiting).await.is_ok() {
            return Ok(());
        }
        let states: Vec<String> = pods.values().map(state).collect();
        Err(PodError::NotReady {
            wanted,
            app: app.to_owned(),
            states: match states.is_empty() {
                true => "no pod was created".to_owned(),
                false => states.join("; "),
            },
        })
    }

    /// Performs a step on a program.
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

    /// Returns, with a sentence, when a container ends by itself.
    pub(super) async fn trouble(&mut self) -> String {
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
                return format!("the pod {name} was removed, and not by the scenario");
            }
            if let Some(ended) = statuses(&pod).find_map(ended) {
                let words = self.last_words(name).await;
                return format!("{name} {ended}; its last words: {words}");
            }
        }
    }

    /// Whether this session ended a pod, or all pods of its ReplicaSet.
    fn has_ended(&self, pod: &Pod) -> bool {
        let owners = pod.metadata.owner_references.iter().flatten();
        self.ended.contains(&uid(pod)) || owners.into_iter().any(|owner| self.ended.contains(&owner.uid))
    }

    /// The pods of a program, those that this session ended not counted.
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

    /// Ends the processes of pods without notice: SIGKILL to each, on its node.
    async fn kill(&mut self, pods: &[Pod]) -> Result<(), EngineError> {
        self.ended.extend(pods.iter().map(uid));
        kill(&self.engine, pods).await
    }

    /// Has as many pods of a program as there are to be.
    async fn start(&self, app: &str) -> Result<(), PodError> {
        self.scale(app, self.wanted(app)).await?;
        self.ready(app).await
    }

    /// Has the Deployment begin a new ReplicaSet, as `kubectl rollout restart` does.
    async fn renew_template(&self, app: &str) -> Result<(), PodError> {
        let restarted = json!({ "kubectl.kubernetes.io/restartedAt": self.clock.now().to_string() });
        let template = json!({ "metadata": { "annotations": restarted } });
        self.patch(app, &json!({ "spec": { "template": template } })).await
    }

    /// Ends all pods of a program without notice, and lets it have none: also those with which a ReplicaSet replaces a killed
    /// pod before its controller sees that it is to have none. The next start gets a ReplicaSet of its own, so that
    /// [`Self::trouble`] can ignore all pods of the ended ones.
    async fn end(&mut self, app: &str) -> Result<(), PodError> {
        let pods = self.list(app).await?;
        self.kill(&pods).await?;
        self.scale(app, 0).await?;
        remove(&self.api, &pods).await?;
        let sets = self.without_pods(app).await?;
        let replacements = self.list(app).await?;
        self.ended.extend(sets);
        remove(&self.api, &replacements).await?;
        self.renew_template(app).await
    }

    /// Waits until the ReplicaSet controller has seen that a program is to have no pods, and so creates no more. Returns the
    /// uids of its ReplicaSets.
    async fn without_pods(&self, app: &str) -> Result<BTreeSet<String>, PodError> {
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
        let waited = tokio::time::timeout(GONE_LIMIT, waiting).await;
        waited.map_err(|_| PodError::NotScaled { app: app.to_owned() })?;
        Ok(sets.into_keys().collect())
    }

    /// How many pods a program is to have.
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

    /// The end of the log of a container that ended.
    async fn last_words(&self, pod: &str) -> String {
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

/// Selects the pods of both programs.
pub(super) fn of_both() -> String {
    format!("{APP} in ({MCM}, {FAKECLOUD})")
}

/// Deletes pods and waits until the last container of each has ended. Those that are gone are fine.
///
/// # Errors
/// A refusal, or after a minute the pods whose containers may still run.
pub(super) async fn remove(api: &Api<Pod>, pods: &[Pod]) -> Result<(), PodError> {
    let soon = DeleteParams::default().grace_period(GRACE);
    for pod in pods {
        let name = pod.name_any();
        match api.delete(&name, &soon).await {
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
    let gone = pods.iter().map(async |pod| {
        gone(api, pod).await;
        left.lock().remove(&pod.name_any());
    });
    if tokio::time::timeout(GONE_LIMIT, join_all(gone)).await.is_ok() {
        return Ok(());
    }
    let left = left.into_inner();
    Err(PodError::NotGone {
        pods: left.into_iter().collect::<Vec<_>>().join(", "),
    })
}

/// Waits until a pod is gone.
async fn gone(api: &Api<Pod>, pod: &Pod) {
    let mut states = watch_object(api.clone(), &pod.name_any()).default_backoff().boxed();
    while let Some(state) = states.next().await {
        // A watch that breaks is begun again.
        if state.is_ok_and(|now| now.is_none_or(|now| uid(&now) != uid(pod))) {
            return;
        }
    }
}

/// Sends SIGKILL to all containers of `pods`. One that has ended is fine.
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

/// Whether a container was not killed because it does not run any more.
fn has_ended_already(error: &EngineError) -> bool {
    let error = error.to_string();
    error.contains("not found") || error.contains("already finished")
}

/// Whether a ReplicaSet is to have pods, or its controller may not have seen yet that it is to have none.
fn may_create(set: &ReplicaSet) -> bool {
    let wanted = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let seen = set.status.as_ref().and_then(|status| status.observed_generation);
    wanted > 0 || seen < set.metadata.generation
}

/// Whether a pod is to stay and its containers are ready.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    ready && pod.metadata.deletion_timestamp.is_none()
}

fn uid(object: &impl ResourceExt) -> String {
    object.uid().unwrap_or_default()
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.iter();
    status.flat_map(|status| status.container_statuses.iter().flatten())
}

/// How a container ended, if it did.
fn ended(status: &ContainerStatus) -> Option<String> {
    let terminated = |state: &Option<k8s_openapi::api::core::v1::ContainerState>| state.as_ref()?.terminated.clone();
    let ended = terminated(&status.state).or_else(|| terminated(&status.last_state))?;
    let reason = ended.reason.unwrap_or_default();
    Some(format!("ended by itself (exit code {}, {reason})", ended.exit_code))
}

/// What a pod waits for, in a few words.
fn state(pod: &Pod) -> String {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    if is_ready(pod) {
        return format!("{name} is ready");
    }
    let waits = statuses(pod).find_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let text = [waiting.reason.as_deref(), waiting.message.as_deref()];
        Some(text.into_iter().flatten().collect::<Vec<_>>().join(": "))
    });
    let condition = || {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut lacking = conditions.filter(|condition| condition.status != "True");
        lacking.find_map(|condition| condition.message.clone())
    };
    let why = waits.or_else(condition).unwrap_or_else(|| "is not ready".to_owned());
    format!("{name}: {why}")
}

#[cfg(test)]
mod tests {
    use apiserver::{Identity, Options, Server};
    use clock::Seed;
    use kube::api::PostParams;
    use rstest::rstest;

    use super::*;

    /// Pods of a node whose kubelet is the test.
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

    /// What a kubelet does when the containers of a pod that is to go have ended.
    async fn let_go(api: &Api<Pod>, name: &str) {
        let mut states = watch_object(api.clone(), name).boxed();
        loop {
            let pod = states.next().await.unwrap().unwrap().unwrap();
            if pod.metadata.deletion_timestamp.is_some() {
                assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(GRACE.into()));
                let at_once = DeleteParams::default().grace_period(0);
                api.delete(name, &at_once).await.unwrap();
                return;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pods_are_removed_when_their_kubelet_lets_them_go() {
        let (api, pods) = bound(&["a", "b"]).await;
        let (removed, (), ()) = tokio::join!(remove(&api, &pods), let_go(&api, "a"), let_go(&api, "b"));
        removed.unwrap();
        assert_eq!(api.list(&ListParams::default()).await.unwrap().items.len(), 0);
        remove(&api, &pods).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_whose_kubelet_keeps_it_is_named_after_the_limit() {
        let (api, pods) = bound(&["a", "b"]).await;
        let (removed, ()) = tokio::join!(remove(&api, &pods), let_go(&api, "a"));
        assert_eq!(
            removed.unwrap_err().to_string(),
            "pods are not gone 60s after they were deleted: b"
        );
    }

    #[rstest]
    #[case::has_pods(1, 2, Some(2), true)]
    #[case::is_to_have_none(0, 3, Some(2), true)]
    #[case::is_to_have_none_from_the_start(0, 1, None, true)]
    #[case::has_none(0, 3, Some(3), false)]
    fn a_replica_set_creates_no_pods_once_its_controller_has_seen_that_it_is_to_have_none(
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

    fn pod(status: serde_json::Value) -> Pod {
        serde_json::from_value(json!({ "metadata": { "name": "p", "uid": "1" }, "status": status })).unwrap()
    }

    #[test]
    fn a_container_that_ran_before_has_ended_by_itself() {
        let container = |more: serde_json::Value| {
            let mut status = json!({ "name": "c", "image": "i", "imageID": "", "ready": true, "restartCount": 1 });
            status
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            pod(json!({ "containerStatuses": [status] }))
        };
        let crashed = container(json!({ "lastState": { "terminated": { "exitCode": 3, "reason": "Error" } } }));
        let told = statuses(&crashed).find_map(ended).unwrap();
        assert!(told.contains('3') && told.contains("Error"), "{told}");
        let healthy = container(json!({ "state": { "running": {} } }));
        assert_eq!(statuses(&healthy).find_map(ended), None);
    }

    #[test]
    fn a_pod_that_waits_says_for_what() {
        let waiting = json!({ "reason": "ErrImageNeverPull", "message": "no such image" });
        let waits = pod(json!({ "containerStatuses": [
            { "name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0, "state": { "waiting": waiting } },
        ] }));
        assert_eq!(state(&waits), "p: ErrImageNeverPull: no such image");
        let unscheduled = pod(json!({ "conditions": [
            { "type": "PodScheduled", "status": "False", "message": "0/1 nodes are available" },
        ] }));
        assert_eq!(state(&unscheduled), "p: 0/1 nodes are available");
    }
}
