//! An example of a remediation controller: it repairs the VMs of machines for which a MachineHealthCheck created a request.
//!
//! A request, of kind `FakeCloudRemediation`, has the name of a machine. Its creation and deletion are the only signals: the
//! controller works until it is deleted, and holds it with a finalizer while a VM is between two states. The rules are in
//! `decide`; this module holds the loop that lists requests, passes them to the decision and performs the result. It is a
//! separate process (`fakecloud remediate`), which reaches the cloud by its control API.

mod command;
mod decide;
mod objects;
mod vms;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clock::Clock;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use mcm_api::Machine;
use parking_lot::Mutex;
use runtime::error::{brief, is_not_found};
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub use self::command::RemediateCommand;
use self::decide::{Action, decide};
pub use self::objects::{FINALIZER, GROUP, KIND, VERSION};
use self::objects::{PendingAction, Request, Status, resource};
pub use self::objects::{Phase, Strategy};
pub use self::vms::{ControlledVms, VmError, VmPower, Vms};

/// The time between two looks at the requests.
pub const PERIOD: Duration = Duration::from_secs(2);

/// Errors of a pass, which the next one repeats.
#[derive(Debug, thiserror::Error)]
enum PassError {
    /// The API server rejects a request.
    #[error("{}", brief(.0))]
    Api(#[from] kube::Error),
    /// The cloud rejects a command.
    #[error(transparent)]
    Vm(#[from] VmError),
}

/// Repairs the VMs of a namespace's machines until `token` is cancelled. `period`: between two looks at the requests.
pub async fn run(
    client: Client,
    namespace: &str,
    vms: impl Vms,
    clock: Clock,
    period: Duration,
    token: CancellationToken,
) {
    let controller = Controller {
        requests: Api::namespaced_with(client.clone(), namespace, &resource()),
        machines: Api::namespaced(client, namespace),
        namespace: namespace.to_owned(),
        vms,
        clock: clock.clone(),
        performed: Mutex::default(),
    };
    loop {
        // Biased: a simulated run must replay.
        tokio::select! {
            biased;
            () = token.cancelled() => return,
            () = controller.pass() => {}
        }
        tokio::select! {
            biased;
            () = token.cancelled() => return,
            () = clock.sleep(period) => {}
        }
    }
}

struct Controller<V> {
    requests: Api<DynamicObject>,
    machines: Api<Machine>,
    namespace: String,
    vms: V,
    clock: Clock,
    /// The last pending action of each request that this process performed, by the request's uid.
    performed: Mutex<BTreeMap<String, Performed>>,
}

/// The time of an attempt, and its action.
type Performed = (Option<Time>, Option<PendingAction>);

fn pending(status: &Status) -> Performed {
    (status.last_attempt.clone(), status.pending_action)
}

impl<V: Vms> Controller<V> {
    async fn pass(&self) {
        let listed = match self.requests.list(&ListParams::default()).await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::info!(error = brief(&error), "the requests cannot be listed");
                return;
            }
        };
        let uids: BTreeSet<String> = listed.iter().filter_map(ResourceExt::uid).collect();
        self.performed.lock().retain(|uid, _| uids.contains(uid));
        for object in listed.items {
            let name = object.name_any();
            if let Err(error) = self.repair(&object).await {
                tracing::info!(machine = name, %error, "the remediation failed; it is repeated");
            }
        }
    }

    async fn repair(&self, object: &DynamicObject) -> Result<(), PassError> {
        let mut request = Request::of(object);
        let uid = object.uid().unwrap_or_default();
        request.performed = self.performed.lock().get(&uid) == Some(&pending(&request.status));
        let vm = self.vms.state(&self.namespace, &request.machine).await?;
        let plan = decide(&request, vm, self.clock.now());
        let performed = pending(plan.status.as_ref().unwrap_or(&request.status));
        if let Some(status) = plan.status {
            let patch = json!({ "metadata": { "resourceVersion": object.resource_version() }, "status": status });
            let (name, patch) = (object.name_any(), Patch::Merge(patch));
            self.requests
                .patch_status(&name, &PatchParams::default(), &patch)
                .await?;
        }
        for action in plan.actions {
            self.perform(object, action).await?;
            if matches!(action, Action::Perform(_)) {
                self.performed.lock().insert(uid.clone(), performed.clone());
            }
        }
        Ok(())
    }

    async fn perform(&self, object: &DynamicObject, action: Action) -> Result<(), PassError> {
        let name = object.name_any();
        tracing::info!(machine = name, ?action, "remediation");
        match action {
            Action::AddFinalizer | Action::RemoveFinalizer => {
                let mut finalizers = object.finalizers().to_vec();
                finalizers.retain(|one| one != FINALIZER);
                if action == Action::AddFinalizer {
                    finalizers.push(FINALIZER.to_owned());
                }
                let version = object.resource_version();
                let patch = json!({ "metadata": { "resourceVersion": version, "finalizers": finalizers } });
                let patch = Patch::Merge(patch);
                self.requests.patch(&name, &PatchParams::default(), &patch).await?;
            }
            Action::Stop => self.vms.stop(&self.namespace, &name).await?,
            Action::Perform(PendingAction::Reboot) => self.vms.reboot(&self.namespace, &name).await?,
            Action::Start | Action::Perform(PendingAction::Start) => self.vms.start(&self.namespace, &name).await?,
            Action::Perform(PendingAction::Rebuild) => self.vms.rebuild(&self.namespace, &name).await?,
            Action::Perform(PendingAction::DeleteMachine) => {
                match self.machines.delete(&name, &DeleteParams::default()).await {
                    Err(error) if is_not_found(&error) => {}
                    deleted => drop(deleted?),
                }
            }
            Action::ClearPending => {
                let patch = Patch::Merge(json!({ "status": { "pendingAction": null } }));
                match self.requests.patch_status(&name, &PatchParams::default(), &patch).await {
                    // It ended with its machine.
                    Err(error) if is_not_found(&error) => {}
                    forgotten => drop(forgotten?),
                }
            }
        }
        Ok(())
    }
}
