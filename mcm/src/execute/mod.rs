//! Performs decisions: the actions of a machine's plan and the steps of a set's or deployment's plan, one by one. Each
//! is idempotent.
//!
//! It maps actions and steps to requests and driver calls. It must neither choose them nor wait before a retry.

mod bootstrap_tokens;
mod class_migration;
mod defects;
mod driver_calls;
mod nodes;
mod pods;
mod preservation_list;
mod remediation_requests;
mod steps;

use std::collections::BTreeMap;
use std::sync::Arc;

use clock::{Clock, Stream};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::storage::v1::VolumeAttachment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::core::Status;
use kube::{Client, ResourceExt};
use mcm_api::{Machine, MachineStatus, keys};
use mcm_core::machine::{Action, Answer, CallKind, Claimed, View};
use mcm_core::merge::merge_patch;
use mcm_driver::Driver;
use parking_lot::Mutex;
use runtime::election::Tenure;
use serde::de::DeserializeOwned;
use serde_json::json;

pub(crate) use self::remediation_requests::{RemediationRequests, Resources};
pub(crate) use self::steps::{Ended, Owner};
use crate::Metrics;
use crate::cache::{Cache, Indexed, Key};
use crate::cluster::{EventRecorder, LeanApi};
use crate::error::{is_conflict, is_not_found};
use crate::memory::Guard;
use crate::view::ClusterState;

/// The clients and state with which actions are performed.
pub(crate) struct ActionExecutor {
    pub(crate) control: Client,
    pub(crate) target: Option<Client>,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Metrics,
    pub(crate) recorder: EventRecorder,
    pub(crate) tokens: Mutex<Stream>,
    /// The bootstrap tokens that this process created and did not delete yet, by the names of their Secrets.
    pub(crate) created_tokens: Mutex<BTreeMap<String, Preconditions>>,
    pub(crate) state: ClusterState,
    pub(crate) tenure: Tenure,
    pub(crate) guard: Guard,
    /// Serializes changes of lists of preserved machines, so that simultaneous failures cause no conflicts.
    pub(crate) claiming: tokio::sync::Mutex<()>,
}

/// The result of an action.
pub(crate) enum Done {
    Nothing,
    Answer(Answer),
    Token(String),
    /// The pods on a node, listed from the API server.
    Pods(Vec<Pod>),
    /// Whether the machine is in its owner's list of preserved machines now; if not, why.
    Claim(Claimed),
}

impl ActionExecutor {
    /// Whether this process still leads and is not frozen. A process that was paused detects the loss of leadership
    /// here, before it performs an outdated decision.
    pub(crate) fn may_act(&self) -> bool {
        self.tenure.holds(self.clock.now()) && !self.guard.is_frozen()
    }

    /// Performs one action on behalf of `view.machine`, and updates it with the result of a write.
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
                // Deletes only the version that was decided on: a later edit is considered first.
                let preconditions = Preconditions {
                    uid: view.machine.uid(),
                    resource_version: view.machine.resource_version(),
                };
                delete(&self.machines(), &name, preconditions, None).await?;
            }
            Action::Call(call) => {
                if call.kind == CallKind::Stop {
                    self.confirm_unready(view).await?;
                }
                return Ok(Done::Answer(self.call(call).await));
            }
            Action::AskVolumeIds(volumes) => {
                return Ok(Done::Answer(Answer::VolumeIds(self.volume_ids(volumes).await)));
            }
            Action::ListPods { node } => return self.list_pods(node).await.map(Done::Pods),
            Action::EnsureBootstrapToken(token) => return self.ensure_token(token).await.map(Done::Token),
            Action::DeleteBootstrapToken(owner) => self.delete_token(owner).await?,
            Action::PatchNode { .. } => self.patch_decided_node(action, view).await?,
            Action::CordonNode { node } | Action::RemoveNodeFinalizer { node } => {
                let known = self.known_node(&LeanApi::all(self.target()?), node).await?;
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
                let admission = self.claim(&view.machine, by, *again).await?;
                let answer = admission.map_or(Ok(()), Err);
                return Ok(Done::Claim(Claimed { again: *again, answer }));
            }
            Action::LeaveOwnersList => self.leave_owners_list(&view.machine).await?,
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
            Action::DeletePod {
                namespace,
                name,
                uid,
                grace,
            } => self.delete_pod(namespace, name, uid, *grace).await?,
            Action::DeleteVolumeAttachment(attachment) => {
                let api: LeanApi<VolumeAttachment> = LeanApi::all(self.target()?);
                delete(&api, attachment, Preconditions::default(), None).await?;
            }
            Action::RecordEvent { type_, reason, message } => {
                self.recorder
                    .record(&self.control, &view.machine, *type_, reason, message)
                    .await?;
            }
            // Counted once the whole plan is performed.
            Action::Observe(_) => {}
        }
        Ok(Done::Nothing)
    }

    /// Replaces the status of `machine`; fails with a conflict if the machine changed meanwhile.
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
        self.store_result(&api, &name, &self.state.machines, written).await?;
        if defect!(DuplicateVmsStartNoCollection) {
            return Ok(());
        }
        self.guard.status_changed(&machine.status, status);
        Ok(())
    }

    fn machines(&self) -> LeanApi<Machine> {
        LeanApi::namespaced(self.control.clone(), &self.state.namespace)
    }

    /// The client of the target cluster.
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
            // The written object becomes visible only with its watch event.
            return written.map(drop);
        }
        view.machine = Machine::clone(&*self.store_result(&api, &name, &self.state.machines, written).await?);
        Ok(())
    }

    /// Stores the object that a write returned.
    pub(crate) fn wrote<K: Indexed>(&self, cache: &Cache<K>, object: K) -> Arc<K> {
        if is_removed(object.meta()) {
            cache.removed(&object);
            return Arc::new(object);
        }
        cache.wrote(object)
    }

    /// Stores the object that a write returned; after a conflict, the server's current version.
    pub(crate) async fn store_result<K>(
        &self,
        api: &LeanApi<K>,
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
                    cache.read(newer);
                }
                Err(error)
            }
        }
    }
}

/// Whether the write that returned this metadata removed the object.
fn is_removed(metadata: &ObjectMeta) -> bool {
    metadata.deletion_timestamp.is_some() && metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}

/// Deletes an object; succeeds if it is absent.
async fn delete<K>(api: &LeanApi<K>, name: &str, preconditions: Preconditions, grace: Option<u32>) -> kube::Result<()>
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

/// A local error in the form of an API error.
pub(crate) fn refused(message: &str) -> kube::Error {
    kube::Error::Api(Status::failure(message, "Invalid").with_code(422).boxed())
}

/// A decision based on an outdated object, in the form of an API error.
fn outdated(message: &str) -> kube::Error {
    kube::Error::Api(Status::failure(message, "Conflict").with_code(409).boxed())
}
