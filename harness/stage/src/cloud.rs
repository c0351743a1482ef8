//! A client of the fake cloud's control API, over any transport.

use std::collections::BTreeMap;
use std::time::Duration;

use fakecloud::proto::cloud_client::CloudClient as Client;
use fakecloud::{FaultRule, proto};
use futures::stream::{BoxStream, StreamExt};
use k8s_openapi::ByteString;
use mcm_api::{Code, Machine, MachineClass};
use mcm_driver::client::GrpcDriver;
use mcm_driver::{Driver as _, DriverError, MachineRequest};
use scenario::cloud::{Call, CloudEvent, Kubelet, Vm, VmState};
use scenario::step::{CloudCall, FailZone, Fault, SlowCreation, VmAction, VmStep, ZoneFailure, resolve};
use scenario::{Timeouts, fixtures};
use tonic::body::Body;
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Transport = BoxCloneSyncService<http::Request<Body>, http::Response<Body>, tonic::Status>;

/// Class of VMs that exist without a Machine.
const MANUAL_CLASS: &str = "by-hand";
/// How long one call may take.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// Errors of calls to fakecloud.
#[derive(Debug, thiserror::Error)]
pub enum CloudError {
    /// The address of a connection cannot be parsed.
    #[error("{address:?} is not an address of a fakecloud: {source}")]
    Address {
        /// The address.
        address: String,
        /// The cause.
        source: tonic::transport::Error,
    },
    /// The configuration of fakecloud cannot be written as YAML.
    #[error("fakecloud's configuration has no YAML form: {0}")]
    Configuration(#[from] serde_saphyr::ser::Error),
    /// fakecloud rejects a call or is unreachable.
    #[error("fakecloud returns {:?}: {}", source.code(), source.message())]
    Call {
        /// The method.
        call: &'static str,
        /// The answer.
        source: Box<tonic::Status>,
    },
    /// A call times out.
    #[error("fakecloud does not answer within {CALL_LIMIT:?}")]
    NoAnswer {
        /// The method.
        call: &'static str,
    },
    /// The event stream fails.
    #[error(transparent)]
    Watch(Box<tonic::Status>),
    /// The fixture Machine or its class does not match the machine API.
    #[error(transparent)]
    Fixture(serde_json::Error),
    /// The driver call that creates a VM without a Machine fails.
    #[error(transparent)]
    Create(DriverError),
    /// The driver call that creates a VM without a Machine times out.
    #[error("fakecloud does not create the VM within {CALL_LIMIT:?}")]
    NoVm,
    /// The cloud offers no machine type for nodes.
    #[error("fakecloud offers no machine type")]
    NoMachineType,
    /// A VM has a state that this client does not support.
    #[error("VM {vm} has no state")]
    NoState {
        /// Its id.
        vm: String,
    },
}

/// A client of the control API; clones share the transport.
#[derive(Clone, Debug)]
pub struct CloudClient(Client<Transport>, GrpcDriver<Transport>);

impl CloudClient {
    /// The client of the control API.
    pub(crate) fn control(&self) -> Client<Transport> {
        self.0.clone()
    }

    /// A client over any gRPC service: a channel, or the server in the same process.
    pub fn new<S>(service: S) -> Self
    where
        S: tower::Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        let transport = transport(service);
        Self(Client::new(transport.clone()), GrpcDriver::new(transport))
    }

    /// Sends the driver calls to another service.
    #[must_use]
    pub fn with_driver<S>(self, service: S) -> Self
    where
        S: tower::Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + Sync + 'static,
        S::Error: Into<BoxError>,
        S::Future: Send + 'static,
    {
        Self(self.0, GrpcDriver::new(transport(service)))
    }

    /// Creates a VM without a Machine through the driver API, with or without the tags of the fixture class.
    ///
    /// # Errors
    /// When the cloud rejects the call.
    pub async fn create_vm(&self, namespace: &str, name: &str, tagged: bool) -> Result<(), CloudError> {
        let mut class = fixtures::class(namespace);
        if !tagged && let Some(spec) = class["providerSpec"].as_object_mut() {
            spec.remove("tags");
        }
        let machine = fixtures::machine(name, namespace);
        let mut machine: Machine = serde_json::from_value(machine).map_err(CloudError::Fixture)?;
        machine.spec.class.name = MANUAL_CLASS.to_owned();
        let mut class: MachineClass = serde_json::from_value(class).map_err(CloudError::Fixture)?;
        class.metadata.name = Some(MANUAL_CLASS.to_owned());
        let secret = [("apiToken", fixtures::API_TOKEN), ("userData", "by hand")];
        let secret = secret.map(|(key, value)| (key.to_owned(), ByteString(value.as_bytes().to_vec())));
        let request = MachineRequest {
            machine,
            class,
            secret: secret.into_iter().collect(),
        };
        match tokio::time::timeout(CALL_LIMIT, self.1.create_machine(request)).await {
            Ok(created) => created.map(drop).map_err(CloudError::Create),
            Err(_) => Err(CloudError::NoVm),
        }
    }

    /// A client of an address such as `http://127.0.0.1:8090`. It connects at the first call.
    ///
    /// # Errors
    /// When the address cannot be parsed.
    pub fn connect(address: &str) -> Result<Self, CloudError> {
        let endpoint =
            tonic::transport::Endpoint::from_shared(address.to_owned()).map_err(|source| CloudError::Address {
                address: address.to_owned(),
                source,
            })?;
        Ok(Self::new(endpoint.connect_lazy()))
    }

    /// Streams the past and future events of the ledger after sequence number `after`, each with its sequence number.
    ///
    /// # Errors
    /// When the stream cannot be opened.
    pub async fn watch(
        &self,
        after: u64,
    ) -> Result<BoxStream<'static, Result<(u64, CloudEvent), CloudError>>, CloudError> {
        let records = limited("watch", self.0.clone().watch(proto::WatchRequest { after })).await?;
        let reader = RecordReader {
            cloud: self.clone(),
            known: BTreeMap::new(),
        };
        let batches = futures::stream::unfold((records, reader), |(mut records, mut reader)| async move {
            let events = match records.message().await {
                Ok(Some(record)) => match reader.events(&record).await {
                    Ok(events) => events.into_iter().map(|event| Ok((record.sequence, event))).collect(),
                    Err(error) => vec![Err(error)],
                },
                Ok(None) => return None,
                Err(status) => vec![Err(CloudError::Watch(Box::new(status)))],
            };
            Some((futures::stream::iter(events), (records, reader)))
        });
        Ok(batches.flatten().boxed())
    }

    /// All VMs, terminated ones included.
    ///
    /// # Errors
    /// When the cloud does not answer.
    pub async fn vms(&self) -> Result<Vec<Vm>, CloudError> {
        Ok(self.list(true).await?.1)
    }

    /// A sequence number, and the VMs that exist as they were after that event or a later one: [`Self::watch`] after this number
    /// returns all changes since then.
    ///
    /// # Errors
    /// When the cloud does not answer.
    pub async fn snapshot(&self) -> Result<(u64, Vec<Vm>), CloudError> {
        self.list(false).await
    }

    async fn list(&self, include_terminated: bool) -> Result<(u64, Vec<Vm>), CloudError> {
        let info = limited("info", self.0.clone().info(proto::InfoRequest {})).await?;
        let list = proto::ListVmsRequest {
            include_terminated,
            ..proto::ListVmsRequest::default()
        };
        let vms = limited("list_vms", self.0.clone().list_vms(list)).await?.vms;
        let vms = vms
            .into_iter()
            .filter_map(|vm| from_proto(vm, info.last_sequence))
            .collect();
        Ok((info.last_sequence, vms))
    }

    /// Adds a fault rule for calls.
    ///
    /// # Errors
    /// When the cloud rejects the call.
    pub async fn inject(&self, fault: &Fault, timeouts: &Timeouts) -> Result<(), CloudError> {
        let rule = fakecloud::message_of_rule(resolve(fault, timeouts));
        limited("add_fault", self.0.clone().add_fault(rule)).await.map(drop)
    }

    /// Delays the effect and the response of the next creation for a machine.
    ///
    /// # Errors
    /// When the cloud rejects the call.
    pub async fn slow_creation(&self, slow: &SlowCreation, timeouts: &Timeouts) -> Result<(), CloudError> {
        let rule = FaultRule::of(&slow.name, CloudCall::CreateMachine)
            .machine(&slow.machine)
            .times(1)
            .effect_delay(slow.by.value(timeouts));
        let rule = fakecloud::message_of_rule(rule);
        limited("add_fault", self.0.clone().add_fault(rule)).await.map(drop)
    }

    /// The number of disks and network interfaces that belong to no VM.
    ///
    /// # Errors
    /// When the cloud does not answer.
    pub async fn lost_parts(&self) -> Result<usize, CloudError> {
        let request = proto::AuditLedgerRequest::default();
        let findings = limited("audit_ledger", self.0.clone().audit_ledger(request))
            .await?
            .findings;
        let lost = |finding: &&proto::Finding| {
            matches!(
                finding.kind(),
                proto::FindingKind::OrphanDisk | proto::FindingKind::OrphanNic
            )
        };
        Ok(findings.iter().filter(lost).count())
    }

    /// The fault rules and their numbers of hits, including calls whose caller ended before the answer.
    ///
    /// # Errors
    /// When the cloud does not answer.
    pub async fn hits(&self) -> Result<BTreeMap<String, u64>, CloudError> {
        let list = limited("list_faults", self.0.clone().list_faults(proto::ListFaultsRequest {})).await?;
        Ok(list.faults.into_iter().map(|fault| (fault.id, fault.hits)).collect())
    }

    /// Removes all fault rules and returns them with their numbers of hits.
    ///
    /// # Errors
    /// When the cloud does not answer.
    pub async fn lift_all(&self) -> Result<BTreeMap<String, u64>, CloudError> {
        let rules = self.hits().await?;
        for name in rules.keys() {
            self.lift(name).await?;
        }
        Ok(rules)
    }

    /// Removes a fault rule and returns its number of hits.
    ///
    /// # Errors
    /// When there is no such rule.
    pub async fn lift(&self, rule: &str) -> Result<u64, CloudError> {
        let request = proto::RemoveFaultRequest { id: rule.to_owned() };
        let removed = limited("remove_fault", self.0.clone().remove_fault(request)).await?;
        Ok(removed.hits)
    }

    /// Fails a zone until [`Self::restore_zone`].
    ///
    /// # Errors
    /// When the cloud rejects the call.
    pub async fn fail_zone(&self, fail: &FailZone, timeouts: &Timeouts) -> Result<(), CloudError> {
        let failure = match fail.failure {
            ZoneFailure::Api => proto::ZoneFailure::Api,
            ZoneFailure::Compute => proto::ZoneFailure::Compute,
            ZoneFailure::Both => proto::ZoneFailure::Both,
            ZoneFailure::BrownOut => proto::ZoneFailure::BrownOut,
        };
        let request = proto::FailZoneRequest {
            zone: fail.zone.clone(),
            failure: failure.into(),
            lasts_nanos: None,
            error_percent: fail.error_percent,
            latency: fail
                .latency
                .as_ref()
                .map(|latency| latency.value(timeouts).to_string())
                .unwrap_or_default(),
        };
        limited("fail_zone", self.0.clone().fail_zone(request)).await.map(drop)
    }

    /// Restores a failed zone.
    ///
    /// # Errors
    /// When the zone has not failed.
    pub async fn restore_zone(&self, zone: &str) -> Result<(), CloudError> {
        let request = proto::MendZoneRequest { zone: zone.to_owned() };
        limited("mend_zone", self.0.clone().mend_zone(request)).await.map(drop)
    }

    /// Creates the nodes `node-0`, `node-1` and so on, without machines.
    ///
    /// # Errors
    /// When the cloud has no machine type.
    pub async fn create_nodes(&self, count: u32) -> Result<(), CloudError> {
        let mut client = self.0.clone();
        let info = limited("info", client.info(proto::InfoRequest::default())).await?;
        let machine_type = info.machine_types.first().cloned();
        let request = proto::CreateNodesRequest {
            count,
            machine_type: machine_type.ok_or(CloudError::NoMachineType)?,
            ..proto::CreateNodesRequest::default()
        };
        limited("create_nodes", client.create_nodes(request)).await.map(drop)
    }

    /// Performs an action on a VM.
    ///
    /// # Errors
    /// When no VM has that id, or the VM is in the wrong state.
    pub async fn vm_action(&self, id: &str, step: &VmStep, timeouts: &Timeouts) -> Result<(), CloudError> {
        let mut client = self.0.clone();
        let hold = proto::HoldRequest { pattern: id.to_owned() };
        match step.action {
            VmAction::Kill => limited("kill_vm", client.kill_vm(by_id(id))).await.map(drop),
            VmAction::Stop => limited("stop_vm", client.stop_vm(by_id(id))).await.map(drop),
            VmAction::Start => limited("start_vm", client.start_vm(by_id(id))).await.map(drop),
            VmAction::Reboot => limited("reboot_vm", client.reboot_vm(by_id(id))).await.map(drop),
            VmAction::Step => limited("step", client.step(by_id(id))).await.map(drop),
            VmAction::Hold => limited("hold", client.hold(hold)).await.map(drop),
            VmAction::Release => limited("release", client.release(hold)).await.map(drop),
            VmAction::Delete => limited("delete_vm", client.delete_vm(by_id(id))).await.map(drop),
            VmAction::Panic => limited("panic_vm", client.panic_vm(by_id(id))).await.map(drop),
            VmAction::Preempt => {
                let notice = step.notice().value(timeouts).as_nanos();
                let request = proto::PreemptVmRequest {
                    vm: Some(by_id(id)),
                    notice_nanos: u64::try_from(notice).unwrap_or(u64::MAX),
                };
                limited("preempt_vm", client.preempt_vm(request)).await.map(drop)
            }
        }
    }
}

/// Turns records into events. It caches each VM, so that it calls `get_vm` once per VM.
struct RecordReader {
    cloud: CloudClient,
    known: BTreeMap<String, Vm>,
}

impl RecordReader {
    /// The events of a record, in which a VM event comes last.
    async fn events(&mut self, record: &proto::Record) -> Result<Vec<CloudEvent>, CloudError> {
        let mut events = Vec::new();
        // Storage operations are not driver calls, but fault rules can hit them too.
        if record.kind() == proto::RecordKind::Call || !record.fault_id.is_empty() {
            events.push(CloudEvent::Call(Call {
                call: record.operation.clone(),
                machine: name(&record.machine).to_owned(),
                code: Code::from_number(record.code)
                    .unwrap_or(Code::Unknown)
                    .name()
                    .to_owned(),
                rule: Some(record.fault_id.clone()).filter(|rule| !rule.is_empty()),
                client: record.client.clone(),
                delay: Duration::from_nanos(record.latency_nanos),
            }));
        }
        if record.kind() == proto::RecordKind::Kubelet {
            events.push(CloudEvent::Kubelet(Kubelet {
                machine: name(&record.machine).to_owned(),
                what: record.operation.clone(),
                message: record.message.clone(),
            }));
        }
        if let Some(state) = vm_state(record.state).filter(|_| !record.vm_id.is_empty()) {
            let vm = self.vm(record).await?;
            events.push(CloudEvent::Vm(Vm {
                state,
                revision: record.sequence,
                ..vm
            }));
        }
        Ok(events)
    }

    async fn vm(&mut self, record: &proto::Record) -> Result<Vm, CloudError> {
        if let Some(vm) = self.known.get(&record.vm_id) {
            return Ok(vm.clone());
        }
        let vm = limited("get_vm", self.cloud.0.clone().get_vm(by_id(&record.vm_id))).await?;
        let vm = from_proto(vm, record.sequence).ok_or_else(|| CloudError::NoState {
            vm: record.vm_id.clone(),
        })?;
        self.known.insert(vm.id.clone(), vm.clone());
        Ok(vm)
    }
}

fn transport<S>(service: S) -> Transport
where
    S: tower::Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + Sync + 'static,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    BoxCloneSyncService::new(service.map_err(|error| tonic::Status::from_error(error.into())))
}

pub(crate) fn by_id(id: &str) -> proto::VmReference {
    proto::VmReference {
        by: Some(proto::vm_reference::By::Id(id.to_owned())),
    }
}

fn from_proto(vm: proto::Vm, revision: u64) -> Option<Vm> {
    Some(Vm {
        state: vm_state(vm.state)?,
        machine: name(&vm.machine).to_owned(),
        id: vm.id,
        machine_uid: vm.machine_uid,
        provider_id: vm.provider_id,
        node: vm.node,
        revision,
    })
}

/// The name in `NAMESPACE/NAME` or `NAME`.
fn name(machine: &str) -> &str {
    machine.rsplit('/').next().unwrap_or(machine)
}

/// The response of `call` within [`CALL_LIMIT`]; `name` is the method in errors.
pub(crate) async fn limited<T>(
    name: &'static str,
    call: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
) -> Result<T, CloudError> {
    match tokio::time::timeout(CALL_LIMIT, call).await {
        Ok(Ok(response)) => Ok(response.into_inner()),
        Ok(Err(status)) => Err(CloudError::Call {
            call: name,
            source: Box::new(status),
        }),
        Err(_) => Err(CloudError::NoAnswer { call: name }),
    }
}

fn vm_state(state: i32) -> Option<VmState> {
    proto::VmState::try_from(state).ok()?.known()
}
