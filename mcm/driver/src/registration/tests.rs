//! Drivers that register, perform operations, disconnect and reconnect; in process, except for one on a socket.

mod forms;
mod identity;
mod processes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::SinkExt;
use futures::channel::mpsc;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{PersistentVolumeSpec, SecretReference};
use mcm_api::cloud::{Code, DriverError, Power, VmIdentity};
use mcm_api::{Machine, MachineClass, MachineName, NodeName, ProviderId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::*;
use crate::proto::registry_client::RegistryClient;
use crate::proto::registry_server::RegistryServer;
use crate::{Driver, MachineRequest, proto};

/// A class and a Secret for every kind.
#[derive(Debug)]
struct Garden;

fn class_of(kind: &str) -> MachineClass {
    let mut class = MachineClass::default();
    class.metadata.name = Some(format!("{kind}-class"));
    class.metadata.namespace = Some("garden".into());
    class.metadata.resource_version = Some("7".into());
    class.provider = Some(kind.to_owned());
    class.secret_ref = Some(SecretReference {
        name: Some(format!("{kind}-secret")),
        namespace: None,
    });
    class
}

fn bytes(text: &str) -> ByteString {
    ByteString(text.as_bytes().to_vec())
}

impl Source for Garden {
    fn class(&self, namespace: &str, name: &str) -> Option<MachineClass> {
        let kind = name.strip_suffix("-class").filter(|_| namespace == "garden")?;
        Some(class_of(kind))
    }

    fn secret(&self, namespace: &str, name: &str) -> Option<(BTreeMap<String, ByteString>, String)> {
        let kind = name.strip_suffix("-secret").filter(|_| namespace == "garden")?;
        let data = [("token", kind), ("userData", "raw")].map(|(key, value)| (key.to_owned(), bytes(value)));
        Some((data.into(), "3".to_owned()))
    }

    fn kinds_of_secret(&self, namespace: &str, name: &str) -> BTreeSet<String> {
        let kind = name.strip_suffix("-secret").filter(|_| namespace == "garden");
        kind.into_iter().map(str::to_owned).collect()
    }
}

/// Returns the received values in the VM's identity. If `blocked` is set, creations wait for its notification.
#[derive(Clone, Debug, Default)]
struct Echo {
    blocked: Option<Arc<Notify>>,
    deleted: Arc<Mutex<Vec<String>>>,
    updated: Arc<Mutex<Vec<String>>>,
}

fn text(request: &MachineRequest, key: &str) -> String {
    let value = request.secret.get(key).cloned().unwrap_or_default();
    String::from_utf8(value.0).unwrap()
}

#[async_trait]
impl Driver for Echo {
    async fn create_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        if let Some(blocked) = &self.blocked {
            blocked.notified().await;
        }
        Ok(VmIdentity {
            provider_id: ProviderId::new(format!("{}:///{}", text(&request, "token"), text(&request, "userData"))),
            node_name: NodeName::new(request.machine.metadata.name.unwrap_or_default()),
            ..VmIdentity::default()
        })
    }

    async fn initialize_machine(&self, _: MachineRequest) -> Result<VmIdentity, DriverError> {
        Err(DriverError::new(Code::Unimplemented, "no such call"))
    }

    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError> {
        self.deleted.lock().push(text(&request, "userData"));
        Ok(Some("deleted".to_owned()))
    }

    async fn get_machine_status(&self, _: MachineRequest) -> Result<VmIdentity, DriverError> {
        let vm = VmIdentity {
            provider_id: ProviderId::new("half"),
            ..VmIdentity::default()
        };
        Err(DriverError {
            code: Code::Uninitialized,
            message: "not yet".into(),
            vm: Some(Box::new(vm)),
        })
    }

    async fn stop_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        Ok(VmIdentity {
            provider_id: ProviderId::new(text(&request, "token")),
            power: Some(Power::Stopped),
            ..VmIdentity::default()
        })
    }

    async fn list_machines(
        &self,
        class: MachineClass,
        secret: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
        let provider = class.provider.unwrap_or_default().try_into().unwrap();
        Ok([(provider, secret.len().to_string().try_into().unwrap())].into())
    }

    async fn get_volume_ids(&self, specs: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        Ok(vec![format!("{} volumes", specs.len())])
    }

    async fn update_machine(&self, request: MachineRequest, last_applied: Option<String>) -> Result<(), DriverError> {
        let (spec, version) = (&request.class.provider_spec, &request.class.metadata.resource_version);
        self.updated
            .lock()
            .push(format!("{last_applied:?} to {spec} of version {version:?}"));
        Ok(())
    }

    async fn generate_machine_class(
        &self,
        provider_class: serde_json::Value,
        mut class: MachineClass,
    ) -> Result<MachineClass, DriverError> {
        class.provider = provider_class["spec"]["becomes"].as_str().map(str::to_owned);
        Ok(class)
    }
}

fn registry() -> Registry {
    let mut count = 0;
    let registry = Registry::new(move || {
        count += 1;
        format!("session-{count}")
    });
    registry.attach(Arc::new(Garden));
    registry
}

fn request(kind: &str) -> MachineRequest {
    let mut machine = Machine::default();
    machine.metadata.name = Some("m1".into());
    MachineRequest {
        machine,
        class: class_of(kind),
        secret: [("userData".to_owned(), bytes("filled in"))].into(),
    }
}

/// Registers a driver of `kind`, then runs `story` concurrently with it.
async fn with_driver<T>(registry: &Registry, kind: &str, driver: Echo, story: impl Future<Output = T>) -> T {
    let registrant = Registrant::new(driver, kind, &format!("the {kind} driver"));
    with_registrant(registry, registrant, story).await
}

/// Registers a driver, then runs `story` concurrently with it.
async fn with_registrant<T>(registry: &Registry, registrant: Registrant<Echo>, story: impl Future<Output = T>) -> T {
    let ready = Notify::new();
    let work = registrant.run(registry.clone().into_server(), |_| ready.notify_one());
    let story = async {
        ready.notified().await;
        story.await
    };
    tokio::select! {
        biased;
        result = story => result,
        ended = work => panic!("the driver ended: {ended}"),
    }
}

#[tokio::test(start_paused = true)]
async fn every_call_is_routed_to_the_driver_of_the_class() {
    let registry = registry();
    let driver = Echo::default();
    let deleted = Arc::clone(&driver.deleted);
    with_driver(&registry, "blue", driver, async {
        with_driver(&registry, "red", Echo::default(), async {
            for kind in ["red", "blue", "red"] {
                let vm = registry.create_machine(request(kind)).await.unwrap();
                assert_eq!(
                    vm.provider_id,
                    ProviderId::new(format!("{kind}:///filled in")),
                    "the class's Secret and the filled-in user data"
                );
                assert_eq!(vm.node_name, NodeName::new("m1"));
            }
            let error = registry.initialize_machine(request("red")).await.unwrap_err();
            assert_eq!(error.code, Code::Unimplemented);
            let error = registry.get_machine_status(request("red")).await.unwrap_err();
            assert_eq!(error.code, Code::Uninitialized);
            assert_eq!(error.vm.unwrap().provider_id, ProviderId::new("half"));
            let stopped = registry.stop_machine(request("blue")).await.unwrap();
            assert_eq!(stopped.provider_id, ProviderId::new("blue"));
            assert_eq!(stopped.power, Some(Power::Stopped));
            let last_known_state = registry.delete_machine(request("blue")).await.unwrap();
            assert_eq!(last_known_state.as_deref(), Some("deleted"));
            assert_eq!(*deleted.lock(), ["raw"], "a deletion has the Secret's own user data");
            let vms = registry.list_machines(class_of("red"), BTreeMap::new()).await.unwrap();
            assert_eq!(vms, [("red".try_into().unwrap(), "2".try_into().unwrap())].into());
            let ids = registry
                .get_volume_ids(vec![PersistentVolumeSpec::default()])
                .await
                .unwrap();
            assert_eq!(ids, ["1 volumes", "1 volumes"], "each driver is called");
        })
        .await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_a_driver_is_unavailable_and_the_error_lists_registered_kinds() {
    let registry = registry();
    with_driver(&registry, "red", Echo::default(), async {
        let error = registry.create_machine(request("blue")).await.unwrap_err();
        assert_eq!(error.code, Code::Unavailable);
        assert!(
            error.message.contains("\"blue\"") && error.message.contains("registered: red"),
            "{error}"
        );
        let mut without_provider = request("red");
        without_provider.class.provider = None;
        let error = registry.create_machine(without_provider).await.unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_disconnects_during_a_call_makes_it_unavailable_and_its_successor_serves_the_next() {
    let registry = registry();
    let dying = Echo {
        blocked: Some(Arc::default()),
        ..Echo::default()
    };
    let call = registry.create_machine(request("red"));
    let mut call = std::pin::pin!(call);
    with_driver(&registry, "red", dying, async {
        let waiting = tokio::time::timeout(Duration::from_secs(1), call.as_mut()).await;
        assert!(waiting.is_err());
    })
    .await;
    let error = call.await.unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.contains("disconnected before it answered"), "{error}");
    with_driver(&registry, "red", Echo::default(), async {
        registry.create_machine(request("red")).await.unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_call_blocks_neither_other_drivers_nor_other_calls() {
    let registry = registry();
    let stalled = Echo {
        blocked: Some(Arc::default()),
        ..Echo::default()
    };
    with_driver(&registry, "red", stalled, async {
        with_driver(&registry, "blue", Echo::default(), async {
            let call = registry.create_machine(request("red"));
            assert!(tokio::time::timeout(Duration::from_secs(60), call).await.is_err());
            registry.create_machine(request("blue")).await.unwrap();
            registry.delete_machine(request("red")).await.unwrap();
        })
        .await;
    })
    .await;
}

/// A driver that sends arbitrary messages on its stream.
struct Raw {
    client: RegistryClient<RegistryServer<Registry>>,
    outbox: mpsc::Sender<proto::DriverSide>,
    operations: tonic::Streaming<proto::ControllerSide>,
    session: String,
}

impl Raw {
    async fn register(registry: &Registry, kind: &str, api_version: &str) -> Result<Self, tonic::Status> {
        let mut client = RegistryClient::new(registry.clone().into_server());
        let (mut outbox, messages) = mpsc::channel(8);
        let registration = proto::Registration {
            kind: kind.to_owned(),
            api_version: api_version.to_owned(),
            name: "raw".to_owned(),
            class_kinds: Vec::new(),
        };
        let message = proto::driver_side::Message::Registration(registration);
        outbox.send(proto::DriverSide { message: Some(message) }).await.unwrap();
        let mut operations = client.register(messages).await?.into_inner();
        let first = operations.message().await?.unwrap().message.unwrap();
        let proto::controller_side::Message::Registered(welcome) = first else {
            panic!("no welcome")
        };
        Ok(Self {
            client,
            outbox,
            operations,
            session: welcome.session,
        })
    }

    async fn next(&mut self) -> proto::controller_side::Message {
        self.operations.message().await.unwrap().unwrap().message.unwrap()
    }

    fn request<T>(&self, message: T) -> tonic::Request<T> {
        let mut request = tonic::Request::new(message);
        request.metadata_mut().insert(SESSION, self.session.parse().unwrap());
        request
    }
}

#[tokio::test(start_paused = true)]
async fn a_driver_fetches_only_classes_and_secrets_of_its_kind() {
    let registry = registry();
    let raw = Raw::register(&registry, "red", API_VERSION).await.unwrap();
    let class = |kind: &str| proto::MachineClassMeta {
        namespace: "garden".into(),
        name: format!("{kind}-class"),
        resource_version: String::new(),
    };
    let secret = |kind: &str| proto::SecretMeta {
        namespace: "garden".into(),
        name: format!("{kind}-secret"),
    };
    let mut client = raw.client.clone();
    client.get_machine_class(raw.request(class("red"))).await.unwrap();
    let own = client
        .get_secret(raw.request(secret("red")))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(own.data["token"], b"red");
    for rejected in [
        client.get_machine_class(raw.request(class("blue"))).await.err(),
        client.get_secret(raw.request(secret("blue"))).await.err(),
    ] {
        assert_eq!(rejected.unwrap().code(), tonic::Code::PermissionDenied);
    }
    let unregistered = client.get_secret(secret("red")).await.unwrap_err();
    assert_eq!(unregistered.code(), tonic::Code::Unauthenticated);
}

#[tokio::test(start_paused = true)]
async fn an_invalid_registration_is_rejected_with_the_fix() {
    let registry = registry();
    for (kind, version, part) in [("", API_VERSION, "provider"), ("red", "v0", API_VERSION)] {
        let rejected = Raw::register(&registry, kind, version).await.err().unwrap();
        assert!(rejected.message().contains(part), "{rejected}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unexpected_result_is_an_internal_error_and_an_unknown_id_is_ignored() {
    let registry = registry();
    let mut raw = Raw::register(&registry, "red", API_VERSION).await.unwrap();
    let wrong = proto::answer::Result::Deleted(proto::Deleted::default());
    for result in [Some(wrong), None] {
        let driver = async {
            let proto::controller_side::Message::Operation(operation) = raw.next().await else {
                panic!("no operation")
            };
            for id in [4711, operation.id] {
                let answer = proto::Answer {
                    id,
                    result: result.clone(),
                };
                let message = Some(proto::driver_side::Message::Answer(answer));
                raw.outbox.send(proto::DriverSide { message }).await.unwrap();
            }
            // The stream carries both directions only while it is read.
            let idle = tokio::time::timeout(Duration::from_secs(5), raw.next()).await;
            assert!(idle.is_err());
        };
        let (result, ()) = tokio::join!(registry.create_machine(request("red")), driver);
        let error = result.unwrap_err();
        assert_eq!(error.code, Code::Internal);
        assert!(error.message.contains("contract"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_is_cancelled() {
    let registry = registry();
    let mut raw = Raw::register(&registry, "red", API_VERSION).await.unwrap();
    let call = tokio::time::timeout(Duration::from_secs(1), registry.create_machine(request("red")));
    assert!(call.await.is_err());
    let proto::controller_side::Message::Operation(operation) = raw.next().await else {
        panic!("no operation")
    };
    let proto::controller_side::Message::Cancelled(id) = raw.next().await else {
        panic!("no cancellation")
    };
    assert_eq!(id, operation.id);
}

#[tokio::test]
async fn listening_off_loopback_requires_certificates() {
    let error = Listener::bind("0.0.0.0:0".parse().unwrap(), None).await.unwrap_err();
    assert!(error.to_string().contains("need TLS"), "{error}");
}

#[tokio::test]
async fn a_driver_registers_over_a_socket() {
    let registry = registry();
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), None).await.unwrap();
    let address = format!("grpc://{}", listener.address().unwrap());
    let ready = Notify::new();
    let registrant = Registrant::new(Echo::default(), "red", "remote");
    let work = registrant.run(crate::channel::patient(&address, None).unwrap(), |_| ready.notify_one());
    let story = async {
        ready.notified().await;
        registry.create_machine(request("red")).await.unwrap()
    };
    let vm = tokio::select! {
        vm = story => vm,
        ended = work => panic!("{ended}"),
        served = listener.serve(registry.clone()) => panic!("{served:?}"),
    };
    assert_eq!(vm.provider_id, ProviderId::new("red:///filled in"));
}
