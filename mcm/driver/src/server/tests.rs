//! Round trips of every call and every code through the wire form, in process.

use std::collections::BTreeMap;

use async_trait::async_trait;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{NFSVolumeSource, NodeAddress, PersistentVolumeSpec};
use mcm_api::cloud::{Code, DriverError, Power, VmIdentity};
use mcm_api::{Machine, MachineClass, MachineName, NodeName, ProviderId};

use super::*;
use crate::MachineRequest;
use crate::client::GrpcDriver;

/// Returns values from the request, so that a test can check what the driver received.
#[derive(Debug)]
struct Echo;

impl Echo {
    fn vm(request: &MachineRequest) -> VmIdentity {
        VmIdentity {
            provider_id: ProviderId::new(format!(
                "echo:///{}",
                request.class.metadata.name.clone().unwrap_or_default()
            )),
            node_name: NodeName::new(request.machine.metadata.name.clone().unwrap_or_default()),
            addresses: vec![NodeAddress {
                type_: "InternalIP".into(),
                address: "10.0.0.1".into(),
            }],
            last_known_state: request
                .secret
                .get("token")
                .map(|token| String::from_utf8_lossy(&token.0).into_owned()),
            power: None,
        }
    }
}

#[async_trait]
impl Driver for Echo {
    async fn create_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        Ok(Self::vm(&request))
    }

    async fn initialize_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        Ok(Self::vm(&request))
    }

    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError> {
        Ok(Self::vm(&request).last_known_state)
    }

    /// Fails with the code whose name is the machine's name.
    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        let vm = Self::vm(&request);
        let code = Code::from_name(vm.node_name.as_deref().unwrap()).unwrap();
        Err(DriverError {
            code,
            message: "no [luck] – 7 %".into(),
            vm: (code != Code::NotFound).then(|| Box::new(vm)),
        })
    }

    async fn list_machines(
        &self,
        class: MachineClass,
        secret: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
        Ok(secret
            .into_keys()
            .map(|key| {
                let name = class.metadata.name.clone().unwrap_or_default();
                (key.try_into().unwrap(), name.try_into().unwrap())
            })
            .collect())
    }

    async fn update_machine(&self, request: MachineRequest, last_applied: Option<String>) -> Result<(), DriverError> {
        let name = Self::vm(&request).node_name.unwrap();
        Err(DriverError::new(Code::Aborted, format!("{name} had {last_applied:?}")))
    }

    /// The name of the machine selects the power.
    async fn stop_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        let power = match request.machine.metadata.name.as_deref() {
            Some("running") => Some(Power::Running),
            Some("stopped") => Some(Power::Stopped),
            _ => None,
        };
        let vm = Self::vm(&request);
        Ok(VmIdentity { power, ..vm })
    }

    async fn generate_machine_class(
        &self,
        provider_class: serde_json::Value,
        mut class: MachineClass,
    ) -> Result<MachineClass, DriverError> {
        class.provider_spec = provider_class;
        Ok(class)
    }

    async fn get_volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        Ok(specs
            .into_iter()
            .filter_map(|spec| spec.nfs)
            .map(|nfs| nfs.path)
            .collect())
    }
}

fn driver() -> GrpcDriver<DriverServer<DriverService<Echo>>> {
    GrpcDriver::new(DriverService::new(Echo).into_server())
}

fn request(name: &str) -> MachineRequest {
    let mut machine = Machine::default();
    machine.metadata.name = Some(name.into());
    let mut class = MachineClass::default();
    class.metadata.name = Some("small".into());
    let secret = BTreeMap::from([("token".to_owned(), ByteString(b"hush".to_vec()))]);
    MachineRequest { machine, class, secret }
}

#[tokio::test(start_paused = true)]
async fn every_code_is_transmitted_with_its_message_and_vm() {
    for code in Code::ALL {
        let request = request(code.name());
        let expected = Echo.get_machine_status(request.clone()).await.unwrap_err();
        assert_eq!(driver().get_machine_status(request).await.unwrap_err(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn machine_class_secret_and_identity_are_transmitted() {
    let expected = Echo::vm(&request("m1"));
    assert_eq!(driver().create_machine(request("m1")).await.unwrap(), expected);
    assert_eq!(driver().initialize_machine(request("m1")).await.unwrap(), expected);
    assert_eq!(
        driver().delete_machine(request("m1")).await.unwrap().as_deref(),
        Some("hush")
    );
}

#[tokio::test(start_paused = true)]
async fn updates_and_migrations_are_transmitted() {
    let texts = [(Some("{}"), "m1 had Some(\"{}\")"), (None, "m1 had None")];
    for (last_applied, expected) in texts {
        let updated = driver()
            .update_machine(request("m1"), last_applied.map(str::to_owned))
            .await;
        assert_eq!(updated.unwrap_err().message, expected);
    }
    let old = serde_json::json!({ "kind": "AWSMachineClass" });
    let class = request("m1").class;
    let filled = driver().generate_machine_class(old.clone(), class).await.unwrap();
    assert_eq!(filled.provider_spec, old);
}

#[tokio::test(start_paused = true)]
async fn the_power_of_a_stopped_vm_is_transmitted() {
    for (name, power) in [
        ("unknown", None),
        ("running", Some(Power::Running)),
        ("stopped", Some(Power::Stopped)),
    ] {
        let vm = driver().stop_machine(request(name)).await.unwrap();
        assert_eq!((vm.node_name.as_deref(), vm.power), (Some(name), power));
    }
}

#[tokio::test(start_paused = true)]
async fn lists_and_volumes_are_transmitted() {
    let MachineRequest { class, secret, .. } = request("m1");
    let listed = driver().list_machines(class, secret).await.unwrap();
    assert_eq!(
        listed,
        [("token".try_into().unwrap(), "small".try_into().unwrap())].into()
    );

    let nfs = NFSVolumeSource {
        path: "/exports/a".into(),
        ..Default::default()
    };
    let spec = PersistentVolumeSpec {
        nfs: Some(nfs),
        ..Default::default()
    };
    assert_eq!(driver().get_volume_ids(vec![spec]).await.unwrap(), ["/exports/a"]);
}

#[tokio::test(start_paused = true)]
async fn invalid_json_is_an_invalid_argument_that_names_the_field() {
    let request = proto::MachineRequest {
        machine: b"{".to_vec(),
        ..Default::default()
    };
    let service = DriverService::new(Echo);
    let status = driver_server::Driver::create_machine(&service, Request::new(request))
        .await
        .unwrap_err();
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert!(status.message().contains("the field machine"), "{status}");
}

#[test]
fn debug_output_contains_no_secret_value() {
    let text = format!("{:?}", request("m1"));
    assert!(text.contains("token") && !text.contains("hush"), "{text}");
}
