//! A driver to start from: its VMs are entries of a map in memory. Replace the map by calls of your cloud's API; what
//! the comments say about each call stays true. `drydock driver test` checks it.

use std::collections::BTreeMap;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::{Machine, MachineClass, MachineName, NodeName, ProviderId};
use mcm_driver::{Code, Driver, DriverError, MachineRequest, VmIdentity};
use parking_lot::Mutex;
use serde::Deserialize;

/// The `provider` of the classes that this driver serves.
pub const PROVIDER: &str = "skeleton";

/// The name of the cloud's CSI driver, whose volumes are this cloud's.
const CSI_DRIVER: &str = "csi.skeleton.example";

/// Prefixes of the tags that say which cluster owns a VM.
const OWNERSHIP_TAGS: [&str; 2] = ["kubernetes.io/cluster/", "kubernetes.io/role/"];

/// The provider spec of a class.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProviderSpec {
    zone: String,
    size: String,
    #[serde(default)]
    tags: BTreeMap<String, String>,
}

/// A VM. Its key in the map is its machine, as `NAMESPACE/NAME`.
#[derive(Debug)]
struct Vm {
    provider_id: String,
    machine: String,
    tags: BTreeMap<String, String>,
}

impl Vm {
    /// The node name is the one under which the VM's kubelet registers.
    fn identity(&self) -> VmIdentity {
        VmIdentity {
            provider_id: ProviderId::new(self.provider_id.as_str()),
            node_name: NodeName::new(self.machine.as_str()),
            ..VmIdentity::default()
        }
    }
}

/// The driver.
#[derive(Debug, Default)]
pub struct Skeleton {
    vms: Mutex<BTreeMap<String, Vm>>,
}

#[async_trait]
impl Driver for Skeleton {
    /// Repeated after every crash and lost response: an existing VM of the machine is the answer. In a real cloud, look
    /// for the VM by a tag or a name that derives from the machine, and let the cloud reject a second one (a client
    /// token, a unique name).
    async fn create_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        check_credentials(&request.secret)?;
        let spec = provider_spec(&request.class)?;
        let (key, machine) = key_and_name(&request.machine)?;
        let mut vms = self.vms.lock();
        let provider_id = format!("{PROVIDER}:///{}/{key}", spec.zone);
        let vm = vms.entry(key).or_insert_with(|| Vm {
            provider_id,
            machine,
            tags: spec.tags,
        });
        Ok(vm.identity())
    }

    /// This cloud's VMs need no second step.
    async fn initialize_machine(&self, _: MachineRequest) -> Result<VmIdentity, DriverError> {
        Err(DriverError::new(Code::Unimplemented, "VMs need no initialization"))
    }

    /// Without a uid the request means the one VM of its provider id: an orphan. No VM is a success.
    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError> {
        check_credentials(&request.secret)?;
        let (key, _) = key_and_name(&request.machine)?;
        let provider_id = &request.machine.spec.provider_id;
        let mut vms = self.vms.lock();
        if request.machine.metadata.uid.is_none() && !provider_id.is_empty() {
            vms.retain(|_, vm| vm.provider_id != *provider_id);
        } else {
            vms.remove(&key);
        }
        Ok(None)
    }

    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        check_credentials(&request.secret)?;
        let (key, _) = key_and_name(&request.machine)?;
        let vms = self.vms.lock();
        let vm = vms.get(&key).map(Vm::identity);
        vm.ok_or_else(|| DriverError::new(Code::NotFound, format!("machine {key} has no VM")))
    }

    /// Only VMs with all ownership tags of the class: the controller deletes a listed VM that has no machine.
    async fn list_machines(
        &self,
        class: MachineClass,
        secret: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
        check_credentials(&secret)?;
        let mut tags = provider_spec(&class)?.tags;
        tags.retain(|key, _| OWNERSHIP_TAGS.iter().any(|prefix| key.starts_with(prefix)));
        if tags.is_empty() {
            let text = "providerSpec.tags has no ownership tag kubernetes.io/cluster/…: add one";
            return Err(DriverError::new(Code::InvalidArgument, text));
        }
        let vms = self.vms.lock();
        let own = vms
            .values()
            .filter(|vm| tags.iter().all(|(key, value)| vm.tags.get(key) == Some(value)));
        Ok(own
            .filter_map(|vm| {
                Some((
                    ProviderId::new(vm.provider_id.as_str())?,
                    MachineName::new(vm.machine.as_str())?,
                ))
            })
            .collect())
    }

    async fn get_volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        let volumes = specs.into_iter().filter_map(|spec| spec.csi);
        let own = volumes.filter(|csi| csi.driver == CSI_DRIVER);
        Ok(own.map(|csi| csi.volume_handle).collect())
    }
}

/// Errors name the key, never the value: the machine's status shows them.
fn check_credentials(secret: &BTreeMap<String, ByteString>) -> Result<(), DriverError> {
    match secret.get("token") {
        Some(token) if !token.0.is_empty() => Ok(()),
        _ => {
            let text = "the key token of the class's Secret is missing or empty: enter the cloud's API token";
            Err(DriverError::new(Code::InvalidArgument, text))
        }
    }
}

/// An invalid class is InvalidArgument, so that the controller does not repeat the call every few seconds.
fn provider_spec(class: &MachineClass) -> Result<ProviderSpec, DriverError> {
    let invalid = |text: String| DriverError::new(Code::InvalidArgument, format!("providerSpec: {text}"));
    let spec: ProviderSpec =
        serde_json::from_value(class.provider_spec.clone()).map_err(|error| invalid(error.to_string()))?;
    match spec.size.as_str() {
        "small" | "large" => Ok(spec),
        other => Err(invalid(format!("size {other:?} is unknown: use small or large"))),
    }
}

fn key_and_name(machine: &Machine) -> Result<(String, String), DriverError> {
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    match machine.metadata.name.as_deref() {
        Some(name) if !name.is_empty() => Ok((format!("{namespace}/{name}"), name.to_owned())),
        _ => Err(DriverError::new(Code::InvalidArgument, "the machine has no name")),
    }
}
