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

use std::time::Duration;

use clock::Clock;
use kube::api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use mcm_api::Machine;
use runtime::error::{brief, is_not_found};
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub use self::command::RemediateCommand;
use self::decide::{Action, decide};
pub use self::objects::{FINALIZER, GROUP, KIND, VERSION};
pub use self::objects::{Phase, Recorded, Strategy};
use self::objects::{Request, resource};
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
        for object in listed.items {
            let name = object.name_any();
            if let Err(error) = self.repair(&object).await {
                tracing::info!(machine = name, %error, "the remediation failed; it is repeated");
            }
        }
    }

    async fn repair(&self, object: &DynamicObject) -> Result<(), PassError> {
        let request = Request::of(object);
        let vm = self.vms.state(&self.namespace, &request.machine).await?;
        let plan = decide(&request, vm, self.clock.now());
        if let Some(status) = plan.status {
            let patch = json!({ "metadata": { "resourceVersion": object.resource_version() }, "status": status });
            let (name, patch) = (object.name_any(), Patch::Merge(patch));
            self.requests
                .patch_status(&name, &PatchParams::default(), &patch)
                .await?;
        }
        for action in plan.actions {
            self.perform(object, action).await?;
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
            Action::Perform(Recorded::Reboot) => self.vms.reboot(&self.namespace, &name).await?,
            Action::Start | Action::Perform(Recorded::Start) => self.vms.start(&self.namespace, &name).await?,
            Action::Perform(Recorded::Rebuild) => self.vms.rebuild(&self.namespace, &name).await?,
            Action::Perform(Recorded::DeleteMachine) => {
                match self.machines.delete(&name, &DeleteParams::default()).await {
                    Err(error) if is_not_found(&error) => {}
                    deleted => drop(deleted?),
                }
            }
            Action::Forget => {
                let patch = Patch::Merge(json!({ "status": { "action": null } }));
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
