//! Performing what was decided: the actions of a machine's plan and the steps of a set's or deployment's, one by one, each
//! so that it can be repeated.
//!
//! What lives here: from action or step to request or driver call. What must not: choosing them, and waiting before a
//! repetition.

mod bootstrap_tokens;
mod class_migration;
mod defects;
mod driver_calls;
mod nodes;
mod pods;
mod preservation_list;
mod steps;

use std::sync::Arc;

use clock::{Clock, Stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::Status;
use kube::{Api, Client, ResourceExt};
use mcm_api::{Machine, MachineStatus, keys};
use mcm_core::machine::{Action, Answer, Claimed, View};
use mcm_core::merge::merge_patch;
use mcm_driver::Driver;
use parking_lot::Mutex;
use runtime::election::Tenure;
use serde::de::DeserializeOwned;
use serde_json::json;

pub(crate) use self::steps::{Ended, Owner};
use crate::Metrics;
use crate::cache::{Cache, Indexed, Key};
use crate::cluster::EventRecorder;
use crate::error::{is_conflict, is_not_found};
use crate::memory::Guard;
use crate::view::ClusterState;

/// What actions are performed with.
pub(crate) struct ActionExecutor {
    pub(crate) control: Client,
    pub(crate) target: Option<Client>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) recorder: EventRecorder,
    pub(crate) tokens: Mutex<Stream>,
    pub(crate) state: ClusterState,
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
    /// Whether this process still leads, and sees the clusters. One that was stopped for a while finds out here, before it
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
                if let Some(machine) = self.state.machines.get(&Key::of(&view.machine)) {
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
            Action::DeletePod { namespace, name, uid } => self.delete_pod(namespace, name, uid).await?,
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
        self.learn(&api, &name, &self.state.machines, written).await?;
        if defect!(DuplicateVmsStartNoCollection) {
            return Ok(());
        }
        self.guard.status_changed(&machine.status, status);
        Ok(())
    }

    fn machines(&self) -> Api<Machine> {
        Api::namespaced(self.control.clone(), &self.state.namespace)
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
        view.machine = Machine::clone(&*self.learn(&api, &name, &self.state.machines, written).await?);
        Ok(())
    }

    /// Takes over what a write returned.
    pub(crate) fn wrote<K: Indexed>(&self, cache: &Cache<K>, object: K) -> Arc<K> {
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
        K: Indexed + Clone + std::fmt::Debug + DeserializeOwned,
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

/// An error of our own in the shape of the API's.
pub(crate) fn refused(message: &str) -> kube::Error {
    kube::Error::Api(Status::failure(message, "Invalid").with_code(422).boxed())
}
