//! The infrastructure provider `drydock` of Cluster API: machines are VMs of fakecloud. It implements the contract v1beta2 for
//! DrydockCluster, DrydockControlPlane and DrydockMachine, whose definitions are in `crds.yaml`. The rules are in `decide`; this
//! module holds the loop that lists objects, passes them to the decision and performs the result.

mod decide;

use std::collections::BTreeMap;
use std::time::Duration;

use clock::Clock;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use mcm_api::{Code, DriverError, VmIdentity};
use mcm_driver::{Driver, MachineRequest};
use runtime::error::brief;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::decide::{Action, Vm};
use crate::kinds;

/// The time between two looks at the objects.
const PERIOD: Duration = Duration::from_millis(500);

/// Errors of a pass, which the next one repeats.
#[derive(Debug, thiserror::Error)]
enum PassError {
    /// The API server rejects a request.
    #[error("{}", brief(.0))]
    Api(#[from] kube::Error),
    /// The cloud rejects a call.
    #[error(transparent)]
    Cloud(#[from] DriverError),
    /// An object that the provider needs is incomplete.
    #[error("{0}")]
    Incomplete(String),
    /// An object cannot be encoded.
    #[error(transparent)]
    Encoding(#[from] serde_json::Error),
}

/// Operates the objects of a namespace until `token` is cancelled.
pub async fn run(client: Client, namespace: &str, driver: impl Driver, clock: Clock, token: CancellationToken) {
    let provider = Provider {
        client,
        namespace: namespace.to_owned(),
        driver,
    };
    loop {
        tokio::select! {
            () = token.cancelled() => return,
            () = provider.pass() => clock.sleep(PERIOD).await,
        }
    }
}

struct Provider<D> {
    client: Client,
    namespace: String,
    driver: D,
}

impl<D: Driver> Provider<D> {
    async fn pass(&self) {
        for kind in [kinds::CLUSTER, kinds::CONTROL_PLANE, kinds::MACHINE] {
            if let Err(error) = self.all_of(kind).await {
                tracing::info!(kind = kind.kind, %error, "the objects cannot be listed");
            }
        }
    }

    async fn all_of(&self, kind: kinds::Kind) -> Result<(), PassError> {
        let api: Api<DynamicObject> = kind.of(&self.client, &self.namespace);
        for object in api.list(&ListParams::default()).await?.items {
            let name = object.name_any();
            let value = serde_json::to_value(&object)?;
            let done = match kind {
                kinds::CLUSTER => self.perform(&api, &value, decide::cluster(&value)).await,
                kinds::CONTROL_PLANE => self.perform(&api, &value, decide::control_plane(&value)).await,
                _ => self.machine(&api, &value).await,
            };
            if let Err(error) = done {
                tracing::info!(kind = kind.kind, name, %error, "repeated");
            }
        }
        Ok(())
    }

    async fn machine(&self, api: &Api<DynamicObject>, object: &Value) -> Result<(), PassError> {
        let vm = match self.driver.get_machine_status(request(object, BTreeMap::new())?).await {
            Ok(vm) => Some(seen(vm)),
            Err(error) if error.code == Code::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        self.perform(api, object, decide::machine(object, vm.as_ref())).await
    }

    async fn perform(&self, api: &Api<DynamicObject>, object: &Value, actions: Vec<Action>) -> Result<(), PassError> {
        let name = object
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let version = object.pointer("/metadata/resourceVersion");
        let by = PatchParams::default();
        for action in actions {
            match action {
                Action::Finalizers(finalizers) => {
                    let patch = json!({ "metadata": { "resourceVersion": version, "finalizers": finalizers } });
                    api.patch(name, &by, &Patch::Merge(patch)).await?;
                }
                Action::Spec(fields) => {
                    api.patch(name, &by, &Patch::Merge(json!({ "spec": fields }))).await?;
                }
                Action::Status(fields) => {
                    let patch = Patch::Merge(json!({ "status": fields }));
                    api.patch_status(name, &by, &patch).await?;
                }
                Action::CreateVm => {
                    let secret = self.join_data(object).await?;
                    self.driver.create_machine(request(object, secret)?).await?;
                }
                Action::DeleteVm => {
                    self.driver.delete_machine(request(object, BTreeMap::new())?).await?;
                }
            }
        }
        Ok(())
    }

    /// The user data of the machine: the Secret that its Machine names.
    async fn join_data(&self, object: &Value) -> Result<BTreeMap<String, ByteString>, PassError> {
        let owner = decide::owner(object).unwrap_or_default();
        let machines: Api<DynamicObject> = kinds::CAPI_MACHINE.of(&self.client, &self.namespace);
        let machine = machines.get(owner).await?;
        let name = machine
            .data
            .pointer("/spec/bootstrap/dataSecretName")
            .and_then(Value::as_str);
        let missing = || PassError::Incomplete(format!("the Machine {owner} has no spec.bootstrap.dataSecretName"));
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &self.namespace);
        let secret = secrets.get(name.ok_or_else(missing)?).await?;
        let data = secret.data.unwrap_or_default().remove("value").unwrap_or_default();
        Ok(BTreeMap::from([("userData".to_owned(), data)]))
    }
}

fn seen(vm: VmIdentity) -> Vm {
    Vm {
        provider_id: vm.provider_id.map(|id| id.to_string()).unwrap_or_default(),
        node: vm.node_name.map(|name| name.to_string()).unwrap_or_default(),
    }
}

/// The call about the VM of an object: the driver's contract names machines and classes of MCM.
fn request(object: &Value, secret: BTreeMap<String, ByteString>) -> Result<MachineRequest, PassError> {
    let metadata = |field: &str| object.pointer(&format!("/metadata/{field}"));
    let spec = |field: &str| object.pointer(&format!("/spec/{field}"));
    let mut secret = secret;
    secret.insert("apiToken".to_owned(), ByteString(b"capi".to_vec()));
    Ok(MachineRequest {
        machine: serde_json::from_value(json!({
            "metadata": { "name": metadata("name"), "namespace": metadata("namespace"), "uid": metadata("uid") },
        }))?,
        class: serde_json::from_value(json!({
            "metadata": { "name": "capi", "namespace": metadata("namespace") },
            "provider": "fakecloud",
            "providerSpec": {
                "machineType": spec("machineType"), "image": spec("image"), "zone": spec("zone"),
                "tags": { "kubernetes.io/cluster/capi": "1", "kubernetes.io/role/node": "1" },
            },
        }))?,
        secret,
    })
}
