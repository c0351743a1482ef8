//! Performing the actions of a plan, one by one, each so that it can be repeated.
//!
//! What lives here: from action to request or driver call. What must not: choosing actions, and
//! waiting before a repetition.

mod defects;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Stream};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Node, NodeCondition, PersistentVolumeSpec, Pod, Secret};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Status;
use kube::{Api, Client, Resource, ResourceExt};
use mcm_api::{Code, DriverError, Machine, MachineClass, MachineStatus, keys};
use mcm_core::machine::{Action, Answer, BootstrapToken, CallKind, Claimed, CloudCall, NodeView, TokenOwner, View};
use mcm_driver::{Driver, MachineRequest};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::Metrics;
use crate::cache::{Cache, Key};
use crate::election::Tenure;
use crate::error::{is_already_exists, is_conflict, is_not_found};
use crate::recorder::Recorder;
use crate::safety::Guard;
use crate::world::World;
use mcm_core::merge::merge_patch;

/// How long a driver call may take before it counts as failed with DeadlineExceeded.
const DRIVER_TIMEOUT: Duration = Duration::from_secs(120);
/// The same of CreateMachine. Some clouds take minutes; and while nobody knows what became of a creation, a deletion
/// cannot know whether there is a VM to delete, so it waits for the answer.
const CREATE_TIMEOUT: Duration = Duration::from_mins(10);
const TOKEN_NAMESPACE: &str = "kube-system";
const TOKEN_ALPHABET: &[u8] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const TOKEN_LENGTH: usize = 16;

/// What actions are performed with.
pub(crate) struct ActionExecutor {
    pub(crate) control: Client,
    pub(crate) target: Option<Client>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) recorder: Recorder,
    pub(crate) tokens: Mutex<Stream>,
    pub(crate) world: World,
    pub(crate) tenure: Tenure,
    pub(crate) guard: Guard,
    /// Whoever changes a list of preserved machines: one at a time, so that those who fail together do not meet conflicts.
    pub(crate) claiming: tokio::sync::Mutex<()>,
}

/// What an action gave.
pub(crate) enum Done {
    Nothing,
    Answer(Answer),
    Token(String),
    /// The pods on a node, as the API server has them.
    Pods(Vec<Pod>),
    /// Whether the machine is in its owner's list of preserved ones now; if not, why.
    Claim(Claimed),
}

impl ActionExecutor {
    /// Whether this process still leads, and sees the world. One that was stopped for a while finds out here, before it
    /// acts on what it decided before.
    pub(crate) fn may_act(&self) -> bool {
        self.tenure.holds(self.clock.now()) && !self.guard.is_frozen()
    }

    /// Performs one action on behalf of `view.machine`, which is replaced by what a write returned.
    pub(crate) async fn perform(&self, action: &Action, view: &mut View) -> kube::Result<Done> {
        let name = view.machine.name_any();
        match action {
            Action::AddFinalizer | Action::RemoveFinalizer | Action::PatchMachine(_) => {
                self.patch_machine(action, view).await?;
            }
            Action::MigrateClass { kind, name } => {
                self.migrate(kind, name).await?;
                if let Some(machine) = self.world.machines.get(&Key::of(&view.machine)) {
                    view.machine = Machine::clone(&machine);
                }
            }
            Action::DeleteMachine => {
                // As it was decided on: what somebody asks for meanwhile is heard first.
                let preconditions = Preconditions {
                    uid: view.machine.uid(),
                    resource_version: view.machine.resource_version(),
                };
                delete(&self.machines(), &name, preconditions, None).await?;
            }
            Action::Call(call) => return Ok(Done::Answer(self.call(call).await)),
            Action::AskVolumeIds(volumes) => {
                return Ok(Done::Answer(Answer::VolumeIds(self.volume_ids(volumes).await)));
            }
            Action::ListPods { node } => return self.list_pods(node).await.map(Done::Pods),
            Action::EnsureBootstrapToken(token) => return self.ensure_token(token).await.map(Done::Token),
            Action::DeleteBootstrapToken(owner) => self.delete_token(owner).await?,
            Action::PatchNode { .. } => self.patch_decided_node(action, view).await?,
            Action::CordonNode { node } | Action::RemoveNodeFinalizer { node } => {
                let known = self.known_node(&Api::all(self.target()?), node).await?;
                self.patch_node(action, &known, &name).await?;
            }
            Action::SetPreservedCondition {
                node,
                status,
                reason,
                message,
            } => {
                self.put_condition(node, keys::PRESERVED_CONDITION, *status, reason, message)
                    .await?
            }
            Action::Claim { by, again } => {
                let answer = self.claim(&view.machine, by, *again).await?;
                return Ok(Done::Claim(Claimed { again: *again, answer }));
            }
            Action::LeaveLedger => self.leave_ledger(&view.machine).await?,
            Action::SetTerminatingCondition { node, reason, message } => {
                self.set_terminating(node, reason, message).await?;
            }
            Action::SetNodeCapacity { node, capacity } => self.set_capacity(node, capacity).await?,
            Action::SetNodeCondition {
                node,
                type_,
                reason,
                message,
            } => self.set_condition(node, type_, reason, message).await?,
            Action::DeleteNode { node } => self.delete_node(node).await?,
            Action::EvictPod { namespace, name, uid } => self.evict(namespace, name, uid).await?,
            Action::DeletePod { namespace, name, uid } => {
                let api: Api<Pod> = Api::namespaced(self.target()?, namespace);
                let preconditions = Preconditions {
                    uid: Some(uid.clone()),
                    resource_version: None,
                };
                gone_is_fine(delete(&api, name, preconditions, Some(0)).await)?;
            }
            Action::DeleteVolumeAttachment(attachment) => {
                let api: Api<VolumeAttachment> = Api::all(self.target()?);
                delete(&api, attachment, Preconditions::default(), None).await?;
            }
            Action::RecordEvent { type_, reason, message } => {
                self.recorder
                    .record(&self.control, &view.machine, *type_, reason, message)
                    .await?;
            }
            Action::Observe(metric) => self.metrics.observe(*metric, &view.machine, view.class.as_ref()),
        }
        Ok(Done::Nothing)
    }

    /// Writes a status over that of `machine`, on the condition that nobody wrote the machine since.
    pub(crate) async fn write_status(&self, machine: &Machine, status: &MachineStatus) -> kube::Result<()> {
        let (old, new) = (serde_json::to_value(&machine.status), serde_json::to_value(status));
        let (old, new) = (
            old.map_err(kube::Error::SerdeError)?,
            new.map_err(kube::Error::SerdeError)?,
        );
        let patch = json!({
            "metadata": { "resourceVersion": machine.metadata.resource_version },
            "status": merge_patch(&old, &new),
        });
        let name = machine.name_any();
        let api = self.machines();
        let patch = if defect!(PreservationRestoresOldCopy) {
            self.with_old_copy(machine, status, patch).await?
        } else {
            patch
        };
        let written = api
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        self.learn(&api, &name, &self.world.machines, written).await?;
        if defect!(DuplicateVmsStartNoCollection) {
            return Ok(());
        }
        self.guard.status_changed(&machine.status, status);
        Ok(())
    }

    fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.control.clone(), &self.world.namespace)
    }

    /// The client of the cluster that nodes join.
    fn target(&self) -> kube::Result<Client> {
        self.target.clone().ok_or_else(|| refused("there is no target cluster"))
    }

    async fn patch_machine(&self, action: &Action, view: &mut View) -> kube::Result<()> {
        let Some(patch) = action.machine_patch(&view.machine) else {
            return Ok(());
        };
        let name = view.machine.name_any();
        let api = self.machines();
        let written = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        if defect!(AddedFinalizerIsError) && *action == Action::AddFinalizer {
            // What was written is seen when the watch brings it.
            return written.map(drop);
        }
        view.machine = Machine::clone(&*self.learn(&api, &name, &self.world.machines, written).await?);
        Ok(())
    }

    /// Patches the Node as it was decided on: taints are written as a whole, and a person's word is taken away only where
    /// it was seen. A newer one is a conflict, also where this process wrote its status since and knows it therefore.
    async fn patch_decided_node(&self, action: &Action, view: &mut View) -> kube::Result<()> {
        let Some(node) = view.node.present() else {
            return Ok(());
        };
        if let Some(written) = self.patch_node(action, node, &view.machine.name_any()).await? {
            view.node = NodeView::Present(Box::new(Node::clone(&written)));
        }
        Ok(())
    }

    /// Patches that version of the Node; `None`: nothing was to be written.
    async fn patch_node(&self, action: &Action, node: &Node, machine: &str) -> kube::Result<Option<Arc<Node>>> {
        let Some(patch) = action.node_patch(node, machine) else {
            return Ok(None);
        };
        let api: Api<Node> = Api::all(self.target()?);
        let name = node.name_any();
        let written = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        self.learn_node(&api, &name, written).await.map(Some)
    }

    /// What the condition said before stays.
    async fn set_terminating(&self, node: &str, reason: &str, message: &str) -> kube::Result<()> {
        let api: Api<Node> = Api::all(self.target()?);
        let known = self.known_node(&api, node).await?;
        let conditions = known.status.as_ref().and_then(|status| status.conditions.as_ref());
        let present = conditions
            .into_iter()
            .flatten()
            .find(|condition| condition.type_ == "Terminating");
        if present.is_some_and(|condition| condition.status == "True") {
            return Ok(());
        }
        let told = |said: Option<&String>, otherwise: &str| said.cloned().unwrap_or_else(|| otherwise.to_owned());
        let reason = told(present.and_then(|condition| condition.reason.as_ref()), reason);
        let message = told(present.and_then(|condition| condition.message.as_ref()), message);
        self.set_condition(node, "Terminating", &reason, &message).await
    }

    /// Sets a condition, now: each of its reasons is a step with a time of its own. A strategic merge patch:
    /// other writers of conditions are not disturbed.
    async fn set_condition(&self, node: &str, type_: &str, reason: &str, message: &str) -> kube::Result<()> {
        self.put_condition(node, type_, true, reason, message).await
    }

    async fn put_condition(
        &self,
        node: &str,
        type_: &str,
        status: bool,
        reason: &str,
        message: &str,
    ) -> kube::Result<()> {
        let api: Api<Node> = Api::all(self.target()?);
        let now = Time(self.clock.now());
        let value = if status { "True" } else { "False" };
        let known = self
            .world
            .target
            .as_ref()
            .and_then(|target| target.nodes.get(&Key::new("", node)));
        let conditions = known
            .as_ref()
            .and_then(|node| node.status.as_ref()?.conditions.as_ref());
        let same = conditions
            .into_iter()
            .flatten()
            .find(|one| one.type_ == type_ && one.status == value);
        let since = same.and_then(|same| same.last_transition_time.clone());
        let condition = NodeCondition {
            type_: type_.to_owned(),
            status: value.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            last_heartbeat_time: Some(now.clone()),
            last_transition_time: Some(since.unwrap_or(now)),
        };
        let patch = json!({ "status": { "conditions": [condition] } });
        let written = api
            .patch_status(node, &PatchParams::default(), &Patch::Strategic(patch))
            .await;
        self.learn_node(&api, node, written).await.map(drop)
    }

    async fn set_capacity(&self, node: &str, capacity: &BTreeMap<String, Option<Quantity>>) -> kube::Result<()> {
        let api: Api<Node> = Api::all(self.target()?);
        let patch = json!({ "status": { "capacity": capacity } });
        let written = api
            .patch_status(node, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        self.learn_node(&api, node, written).await.map(drop)
    }

    async fn delete_node(&self, node: &str) -> kube::Result<()> {
        let api: Api<Node> = Api::all(self.target()?);
        let known = self.known_node(&api, node).await?;
        let preconditions = Preconditions {
            uid: known.uid(),
            resource_version: None,
        };
        let parameters = DeleteParams {
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let held = api
            .delete(node, &parameters)
            .await?
            .left()
            .filter(|node| !ended(&node.metadata));
        if let Some(target) = &self.world.target {
            match held {
                // Finalizers hold it: the next write of this process has to name this version.
                Some(held) => drop(target.nodes.wrote(held)),
                None => target.nodes.removed(&known),
            }
        }
        Ok(())
    }

    /// Evicts this pod and no other of its name. A pod that is not there any more is fine.
    async fn evict(&self, namespace: &str, name: &str, uid: &str) -> kube::Result<()> {
        let api: Api<Pod> = Api::namespaced(self.target()?, namespace);
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": name, "namespace": namespace },
            "deleteOptions": { "preconditions": { "uid": uid } },
        });
        let evicted = api
            .create_subresource::<_, serde_json::Value>("eviction", name, &PostParams::default(), &eviction)
            .await;
        gone_is_fine(evicted.map(|_| ()))
    }

    /// The cloud's names of volumes; empty where it knows none. Of a volume that the driver cannot tell, a drain waits
    /// for nothing.
    async fn volume_ids(&self, volumes: &BTreeMap<String, PersistentVolumeSpec>) -> BTreeMap<String, String> {
        let calls = volumes.iter().map(|(name, spec)| async move {
            let call = self.driver.get_volume_ids(vec![spec.clone()]);
            let ids = match tokio::time::timeout(DRIVER_TIMEOUT, call).await {
                Ok(Ok(ids)) => ids,
                Ok(Err(error)) => {
                    tracing::info!(volume = name, %error, "the driver did not name the volume");
                    Vec::new()
                }
                Err(_) => {
                    tracing::info!(volume = name, "the driver did not name the volume in time");
                    Vec::new()
                }
            };
            (name.clone(), ids.into_iter().next().unwrap_or_default())
        });
        futures::future::join_all(calls).await.into_iter().collect()
    }

    /// Whether a token ends before its machine must have joined, as one does whose machine got a longer creation
    /// timeout later. One without a readable end never does.
    fn ends_too_early(&self, secret: &Secret, token: &BootstrapToken) -> bool {
        if defect!(ExpiredTokenUsedAgain) {
            return false;
        }
        let ends = secret.data.as_ref().and_then(|data| data.get("expiration"));
        let ends = ends.and_then(|ends| std::str::from_utf8(&ends.0).ok()?.parse::<Timestamp>().ok());
        ends.is_some_and(|ends| ends < token.needed_until)
    }

    /// The secret part of the token: that of the Secret that is there, else a fresh one.
    async fn ensure_token(&self, token: &BootstrapToken) -> kube::Result<String> {
        let api: Api<Secret> = Api::namespaced(self.target()?, TOKEN_NAMESPACE);
        let name = token.owner.secret_name();
        if let Some(secret) = api.get_opt(&name).await? {
            let part = secret_part(&secret, &token.owner)?;
            if !self.ends_too_early(&secret, token) {
                return Ok(part);
            }
            let preconditions = Preconditions {
                uid: secret.uid(),
                resource_version: None,
            };
            delete(&api, &name, preconditions, None).await?;
        }
        let drawn = self.tokens.lock().text(TOKEN_LENGTH, TOKEN_ALPHABET);
        match api
            .create(&PostParams::default(), &token_secret(&name, token, &drawn))
            .await
        {
            Ok(_) => Ok(drawn),
            Err(error) if is_already_exists(&error) => secret_part(&api.get(&name).await?, &token.owner),
            Err(error) => Err(error),
        }
    }

    /// Deletes the Secret of that machine's token, if it has one.
    async fn delete_token(&self, owner: &TokenOwner) -> kube::Result<()> {
        let api: Api<Secret> = Api::namespaced(self.target()?, TOKEN_NAMESPACE);
        let name = owner.secret_name();
        let Some(secret) = api.get_opt(&name).await?.filter(|secret| belongs_to(secret, owner)) else {
            return Ok(());
        };
        let preconditions = Preconditions {
            uid: secret.uid(),
            resource_version: None,
        };
        delete(&api, &name, preconditions, None).await
    }

    async fn call(&self, call: &CloudCall) -> Answer {
        let request = MachineRequest {
            machine: call.machine.clone(),
            class: call.class.clone(),
            secret: call.secret.0.clone(),
        };
        let request = if defect!(RepeatedCreationIsAnother | EndedVmHidesLaterOnes) {
            defects::as_another(call, request)
        } else {
            request
        };
        let driver = &self.driver;
        match call.kind {
            CallKind::Status if defect!(EndedVmHidesLaterOnes) => {
                let found = self.timed(call, driver.get_machine_status(request)).await;
                Answer::Status(defects::first_record(call, found))
            }
            CallKind::Status => Answer::Status(self.timed(call, driver.get_machine_status(request)).await),
            CallKind::Create => Answer::Create(self.timed(call, driver.create_machine(request)).await),
            CallKind::Initialize => Answer::Initialize(self.timed(call, driver.initialize_machine(request)).await),
            CallKind::Delete => Answer::Delete(self.timed(call, driver.delete_machine(request)).await),
            CallKind::DeleteStale => Answer::DeleteStale(self.timed(call, driver.delete_machine(request)).await),
            CallKind::Update => Answer::Update {
                spec: call.class.provider_spec.to_string(),
                result: self
                    .timed(call, driver.update_machine(request, call.last_applied.clone()))
                    .await,
            },
        }
    }

    /// The call's result, measured and within its time.
    async fn timed<T>(
        &self,
        call: &CloudCall,
        answer: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, DriverError> {
        let limit = match call.kind {
            CallKind::Create => CREATE_TIMEOUT,
            _ => DRIVER_TIMEOUT,
        };
        self.limited_call(
            &call.class,
            operation(call.kind),
            &call.machine.name_any(),
            limit,
            answer,
        )
        .await
    }

    /// The result of a call that concerns a class rather than one of the machines that there are, measured and within
    /// its time.
    pub(crate) async fn timed_call<T>(
        &self,
        class: &MachineClass,
        operation: &'static str,
        answer: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, DriverError> {
        self.limited_call(class, operation, "", DRIVER_TIMEOUT, answer).await
    }

    async fn limited_call<T>(
        &self,
        class: &MachineClass,
        operation: &'static str,
        machine: &str,
        limit: Duration,
        answer: impl Future<Output = Result<T, DriverError>>,
    ) -> Result<T, DriverError> {
        let started = self.clock.now();
        let answer = tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| {
            let text = format!("the driver did not answer {operation} within {} s", limit.as_secs());
            Err(DriverError::new(Code::DeadlineExceeded, text))
        });
        let took = Duration::try_from(self.clock.now().duration_since(started)).unwrap_or_default();
        let failure = answer.as_ref().err();
        let provider = class.provider.as_deref().unwrap_or_default();
        self.metrics
            .observe_call(provider, operation, took, failure.map(|error| error.code));
        match failure {
            None => tracing::info!(machine, operation, "the driver succeeded"),
            Some(error) => tracing::info!(machine, operation, %error, "the driver failed"),
        }
        answer
    }

    /// The Node as it is known here, else as the server has it.
    async fn known_node(&self, api: &Api<Node>, name: &str) -> kube::Result<Arc<Node>> {
        let known = self
            .world
            .target
            .as_ref()
            .and_then(|target| target.nodes.get(&Key::new("", name)));
        match known {
            Some(node) => Ok(node),
            None => api.get(name).await.map(Arc::new),
        }
    }

    async fn list_pods(&self, node: &str) -> kube::Result<Vec<Pod>> {
        let api: Api<Pod> = Api::all(self.target()?);
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        api.list(&on_node).await.map(|list| list.items)
    }

    async fn learn_node(&self, api: &Api<Node>, name: &str, written: kube::Result<Node>) -> kube::Result<Arc<Node>> {
        match &self.world.target {
            Some(target) => self.learn(api, name, &target.nodes, written).await,
            None => written.map(Arc::new),
        }
    }

    /// Takes over what a write returned.
    pub(crate) fn wrote<K: Resource + 'static>(&self, cache: &Cache<K>, object: K) -> Arc<K> {
        if ended(object.meta()) {
            cache.removed(&object);
            return Arc::new(object);
        }
        cache.wrote(object)
    }

    /// Takes over what a write returned; after a conflict, what the server has instead.
    pub(crate) async fn learn<K>(
        &self,
        api: &Api<K>,
        name: &str,
        cache: &Cache<K>,
        written: kube::Result<K>,
    ) -> kube::Result<Arc<K>>
    where
        K: Resource + Clone + std::fmt::Debug + DeserializeOwned + 'static,
    {
        match written {
            Ok(object) => Ok(self.wrote(cache, object)),
            Err(error) => {
                if is_conflict(&error)
                    && let Ok(Some(newer)) = api.get_opt(name).await
                {
                    cache.wrote(newer);
                }
                Err(error)
            }
        }
    }
}

/// Whether the write that returned this removed the object.
fn ended(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}

/// A pod that is not there is fine, and so is another one under its name (409: the uid is not the one that was meant).
fn gone_is_fine(result: kube::Result<()>) -> kube::Result<()> {
    match result {
        Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(()),
        result => result,
    }
}

/// Deletes; an object that is not there is fine.
async fn delete<K>(api: &Api<K>, name: &str, preconditions: Preconditions, grace: Option<u32>) -> kube::Result<()>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let preconditions = (preconditions.uid.is_some()).then_some(preconditions);
    let parameters = DeleteParams {
        preconditions,
        grace_period_seconds: grace,
        ..DeleteParams::default()
    };
    match api.delete(name, &parameters).await {
        Err(error) if is_not_found(&error) => Ok(()),
        result => result.map(|_| ()),
    }
}

fn operation(kind: CallKind) -> &'static str {
    match kind {
        CallKind::Status => "GetMachineStatus",
        CallKind::Create => "CreateMachine",
        CallKind::Initialize => "InitializeMachine",
        CallKind::Delete | CallKind::DeleteStale => "DeleteMachine",
        CallKind::Update => "UpdateMachine",
    }
}

/// Whether a token's Secret says of itself that it is that machine's.
fn belongs_to(secret: &Secret, owner: &TokenOwner) -> bool {
    let description = secret.data.as_ref().and_then(|data| data.get("description"));
    description.is_some_and(|description| description.0 == owner.description.as_bytes())
}

fn secret_part(secret: &Secret, owner: &TokenOwner) -> kube::Result<String> {
    if !belongs_to(secret, owner) {
        return Err(refused(&format!(
            "the Secret {TOKEN_NAMESPACE}/{} is another machine's bootstrap token; this machine goes on when that one \
             has joined or is deleted, or when you delete a Secret that no machine needs",
            secret.name_any()
        )));
    }
    let part = secret.data.as_ref().and_then(|data| data.get("token-secret"));
    part.and_then(|part| String::from_utf8(part.0.clone()).ok())
        .ok_or_else(|| {
            refused(&format!(
                "the Secret {TOKEN_NAMESPACE}/{} has no token-secret",
                secret.name_any()
            ))
        })
}

fn token_secret(name: &str, token: &BootstrapToken, drawn: &str) -> Secret {
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let data = [
        ("description", token.owner.description.clone()),
        ("token-id", token.owner.id.clone()),
        ("token-secret", drawn.to_owned()),
        (
            "expiration",
            token.expiration.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        ),
        ("usage-bootstrap-authentication", "true".to_owned()),
        ("usage-bootstrap-signing", "true".to_owned()),
        ("auth-extra-groups", token.extra_groups.clone()),
    ];
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(TOKEN_NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        type_: Some("bootstrap.kubernetes.io/token".to_owned()),
        data: Some(
            data.iter()
                .map(|(key, value)| ((*key).to_owned(), bytes(value)))
                .collect(),
        ),
        ..Secret::default()
    }
}

/// An error of our own in the shape of the API's.
pub(crate) fn refused(message: &str) -> kube::Error {
    kube::Error::Api(Status::failure(message, "Invalid").with_code(422).boxed())
}
