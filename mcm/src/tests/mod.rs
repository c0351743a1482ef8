//! Tests of the whole controller (flags, watches, decisions and actions) with the embedded API server
//! and an in-process cloud, on virtual time.

mod classes;
mod damaged;
mod drivers;
mod election;
mod health_checks;
mod migration;
mod preservation;
mod processes;
mod safety;
mod sets;
mod tokens;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use clock::{Clock, Seed};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::PersistentVolumeSpec;
use mcm_api::{Code, DriverError, Machine, MachineClass, MachineName, NodeName, ProviderId, VmIdentity};
use mcm_driver::{Driver, MachineRequest};
use parking_lot::Mutex;
use rstest::rstest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::testing::TestServer;
use crate::{Environment, LeaderElectionOptions, Metrics, Options};

const MACHINES: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machines";
const MACHINE: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machines/m-12345";
const CLASS: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machineclasses/small";
const SECRET: &str = "/api/v1/namespaces/default/secrets/cloud";
const NODE: &str = "/api/v1/nodes/m-12345";
const POD: &str = "/api/v1/namespaces/shop/pods/web";
const TOKENS: &str = "/api/v1/namespaces/kube-system/secrets/";
const PLANTED: &str = "planted-credential";

/// A simulated cloud with configurable failures and delays.
#[derive(Debug, Default)]
struct Cloud(Mutex<CloudState>);

#[derive(Debug, Default)]
struct CloudState {
    vms: BTreeMap<String, VmIdentity>,
    user_data: String,
    failures: Vec<Code>,
    list_failure: Option<Code>,
    calls: Vec<&'static str>,
    /// Whether a status call reports several VMs as OutOfRange.
    reports_several: bool,
    /// How long a status call takes.
    delay: Duration,
    /// The provider whose calls hang.
    stalled: Option<&'static str>,
    /// Status calls in progress, and their maximum.
    in_progress: usize,
    max_in_progress: usize,
}

impl Cloud {
    fn vms(&self) -> usize {
        self.0.lock().vms.len()
    }

    fn fail_with(&self, codes: &[Code]) {
        self.0.lock().failures = codes.iter().rev().copied().collect();
    }

    async fn delay(&self) {
        let delay = {
            let mut state = self.0.lock();
            if state.delay.is_zero() {
                return;
            }
            state.in_progress += 1;
            state.max_in_progress = state.max_in_progress.max(state.in_progress);
            state.delay
        };
        tokio::time::sleep(delay).await;
        self.0.lock().in_progress -= 1;
    }

    fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().calls)
    }

    fn user_data(&self) -> String {
        self.0.lock().user_data.clone()
    }
}

fn name(request: &MachineRequest) -> String {
    request.machine.metadata.name.clone().unwrap_or_default()
}

#[async_trait]
impl Driver for Cloud {
    /// Not idempotent: a second creation for the same machine creates another VM.
    async fn create_machine(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        let mut state = self.0.lock();
        state.calls.push("create");
        if let Some(code) = state.failures.pop() {
            return Err(DriverError::new(code, "simulated failure"));
        }
        let name = name(&request);
        state.user_data = String::from_utf8_lossy(&request.secret["userData"].0).into_owned();
        let vm = VmIdentity {
            provider_id: ProviderId::new(format!("fake:///{name}")),
            node_name: NodeName::new(name.as_str()),
            ..VmIdentity::default()
        };
        let key = format!("{name}#{}", state.vms.len());
        state.vms.insert(key, vm.clone());
        Ok(vm)
    }

    async fn initialize_machine(&self, _: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.0.lock().calls.push("initialize");
        Err(DriverError::new(Code::Unimplemented, "no such call"))
    }

    async fn stop_machine(&self, _: MachineRequest) -> Result<VmIdentity, DriverError> {
        self.0.lock().calls.push("stop");
        Err(DriverError::new(Code::Unimplemented, "no such call"))
    }

    async fn delete_machine(&self, request: MachineRequest) -> Result<Option<String>, DriverError> {
        let mut state = self.0.lock();
        state.calls.push("delete");
        let name = name(&request);
        let one = request
            .machine
            .metadata
            .uid
            .is_none()
            .then(|| ProviderId::new(request.machine.spec.provider_id));
        state.vms.retain(|_, vm| {
            vm.node_name.as_deref() != Some(&*name) || one.as_ref().is_some_and(|one| vm.provider_id != *one)
        });
        Ok(None)
    }

    async fn get_machine_status(&self, request: MachineRequest) -> Result<VmIdentity, DriverError> {
        let stalled = self.0.lock().stalled;
        if stalled.is_some() && stalled == request.class.provider.as_deref() {
            std::future::pending::<()>().await;
        }
        self.delay().await;
        let mut state = self.0.lock();
        state.calls.push("status");
        let name = name(&request);
        let mut of_machine = state.vms.values().filter(|vm| vm.node_name.as_deref() == Some(&*name));
        let vm = of_machine.next().cloned();
        if state.reports_several && of_machine.next().is_some() {
            return Err(DriverError::new(Code::OutOfRange, "several VMs"));
        }
        vm.ok_or_else(|| DriverError::new(Code::NotFound, "no VM"))
    }

    async fn list_machines(
        &self,
        _: MachineClass,
        _: BTreeMap<String, ByteString>,
    ) -> Result<BTreeMap<ProviderId, MachineName>, DriverError> {
        let state = self.0.lock();
        if let Some(code) = state.list_failure {
            return Err(DriverError::new(code, "simulated failure"));
        }
        let vms = state.vms.values();
        let names = |vm: &VmIdentity| {
            let name = vm.node_name.as_deref().and_then(MachineName::new);
            vm.provider_id.clone().zip(name)
        };
        Ok(vms.filter_map(names).collect())
    }

    async fn generate_machine_class(&self, old: Value, class: MachineClass) -> Result<MachineClass, DriverError> {
        Ok(migrated(&old, class))
    }

    async fn get_volume_ids(&self, _: Vec<PersistentVolumeSpec>) -> Result<Vec<String>, DriverError> {
        Ok(Vec::new())
    }
}

/// Uses the spec of a former class as the provider spec of the MachineClass.
fn migrated(old: &Value, mut class: MachineClass) -> MachineClass {
    class.provider_spec = old["spec"].clone();
    class.provider = Some("fake".to_owned());
    class.secret_ref = serde_json::from_value(old["spec"]["secretRef"].clone()).unwrap();
    class
}

struct Stage {
    server: TestServer,
    cloud: Arc<Cloud>,
    clock: Clock,
}

impl Stage {
    fn new() -> Self {
        Self::on(TestServer::default())
    }

    fn on(server: TestServer) -> Self {
        let clock = Clock::simulated(Timestamp::from_second(1_800_000_000).unwrap());
        let stage = Self {
            server,
            cloud: Arc::new(Cloud::default()),
            clock,
        };
        let user_data = ByteString(b"join <<MACHINE_NAME>> by <<BOOTSTRAP_TOKEN>>".to_vec());
        let credential = ByteString(PLANTED.as_bytes().to_vec());
        let data = json!({ "userData": user_data, "credential": credential });
        stage
            .server
            .put(SECRET, object("cloud", "Secret", json!({ "data": data })));
        let class = json!({
            "providerSpec": {"zone": "z1"}, "provider": "fake",
            "secretRef": {"name": "cloud", "namespace": "default"},
        });
        stage.server.put(CLASS, object("small", "MachineClass", class));
        stage
    }

    fn create_machine(&self) {
        self.create_machine_named("m-12345");
    }

    fn create_machine_named(&self, name: &str) {
        let spec = json!({ "spec": { "class": { "kind": "MachineClass", "name": "small" } } });
        let mut machine = object(name, "Machine", spec);
        machine["futureField"] = json!("kept");
        self.server.put(&format!("{MACHINES}/{name}"), machine);
    }

    fn machine_of_class(&self, name: &str, class: &str) -> Value {
        let spec = json!({ "spec": { "class": { "kind": "MachineClass", "name": class } } });
        object(name, "Machine", spec)
    }

    /// A machine of the deployment `pool` that has been Unknown for longer than its health timeout.
    fn create_unknown_machine(&self, name: &str) {
        let mut machine = self.machine_of_class(name, "small");
        machine["metadata"]["labels"] = json!({ "name": "pool", "node": name });
        machine["metadata"]["finalizers"] = json!(["machine.sapcloud.io/machine-controller-manager"]);
        machine["spec"]["providerID"] = json!(format!("fake:///{name}"));
        machine["status"] = json!({
            "conditions": [{ "type": "Ready", "status": "Unknown" }],
            "currentStatus": { "phase": "Unknown", "lastUpdateTime": "2027-01-15T07:00:00Z" },
        });
        self.server.put(&format!("{MACHINES}/{name}"), machine);
    }

    fn phases(&self) -> Vec<String> {
        let machines = self.server.all(&format!("{MACHINES}/")).into_iter();
        machines
            .map(|machine| {
                machine["status"]["currentStatus"]["phase"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned()
            })
            .collect()
    }

    /// Creates or updates the Node, as the kubelet of the VM.
    fn register_node(&self, ready: &str) {
        let conditions = json!([{ "type": "Ready", "status": ready, "reason": "Kubelet" }]);
        let mut node = self
            .server
            .get(NODE)
            .unwrap_or_else(|| object("m-12345", "Node", json!({})));
        node["metadata"].as_object_mut().unwrap().remove("namespace");
        node["spec"]["providerID"] = json!("fake:///m-12345");
        node["status"]["conditions"] = conditions;
        self.server.put(NODE, node);
    }

    fn environment(&self) -> Environment {
        Environment {
            control: self.server.client(),
            target: Some(self.server.client()),
            driver: Arc::clone(&self.cloud) as Arc<dyn Driver>,
            clock: self.clock.clone(),
            seed: Seed::new(7),
            identity: "me".to_owned(),
            metrics: Metrics::new(),
            pulses: None,
        }
    }

    /// Runs the controller concurrently with `story`, and stops it at the end of the story.
    async fn run(&self, story: impl Future<Output = ()>) {
        self.run_with(Options::default(), self.environment(), story).await;
    }

    async fn run_with(&self, options: Options, environment: Environment, story: impl Future<Output = ()>) {
        let cancel = CancellationToken::new();
        let controller = crate::run(options, environment, cancel.clone());
        let story = async {
            story.await;
            cancel.cancel();
        };
        let (result, ()) = tokio::join!(Box::pin(controller), story);
        result.unwrap();
    }

    async fn wait(&self, seconds: u64) {
        self.clock.sleep(Duration::from_secs(seconds)).await;
    }

    fn phase(&self) -> Value {
        self.server.get(MACHINE).unwrap()["status"]["currentStatus"]["phase"].clone()
    }

    fn finalizers(&self, path: &str) -> usize {
        self.server.get(path).unwrap()["metadata"]["finalizers"]
            .as_array()
            .map_or(0, Vec::len)
    }

    /// The writes to Machines and Nodes since the last call.
    fn object_writes(&self) -> Vec<String> {
        let mut writes = self.writes();
        writes.retain(|write| write.contains("/machines/") || write.contains("/nodes/"));
        writes
    }

    /// The writes since the last call, without leader election's.
    fn writes(&self) -> Vec<String> {
        let requests = self.server.requests().into_iter();
        requests
            .filter(|request| !request.contains("GET ") && !request.contains("/leases"))
            .collect()
    }
}

fn object(name: &str, kind: &str, rest: Value) -> Value {
    let mut object = rest;
    let version = if kind.starts_with("Machine") {
        "machine.sapcloud.io/v1alpha1"
    } else {
        "v1"
    };
    object["apiVersion"] = json!(version);
    object["kind"] = json!(kind);
    object["metadata"] = json!({ "name": name, "namespace": "default" });
    object
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_created_joins_and_is_deleted_without_leftovers() {
    let stage = Stage::new();
    stage
        .run(async {
            stage.wait(5).await;
            stage.create_machine();
            stage.wait(30).await;
            assert_eq!(stage.phase(), "Pending");
            assert_eq!(stage.cloud.vms(), 1);
            assert_eq!(
                (
                    stage.finalizers(CLASS),
                    stage.finalizers(SECRET),
                    stage.finalizers(MACHINE)
                ),
                (1, 1, 1)
            );
            let token = &stage.server.all(TOKENS)[0];
            assert_eq!(token["type"], "bootstrap.kubernetes.io/token");
            let name = token["metadata"]["name"].as_str().unwrap();
            let id = name.strip_prefix("bootstrap-token-").unwrap();
            let user_data = stage.cloud.user_data();
            assert!(user_data.starts_with(&format!("join m-12345 by {id}.")), "{user_data}");

            stage.register_node("True");
            stage.wait(30).await;
            assert_eq!(stage.phase(), "Running");
            let machine = stage.server.get(MACHINE).unwrap();
            assert_eq!(machine["spec"]["providerID"], "fake:///m-12345");
            assert_eq!(machine["metadata"]["labels"]["node"], "m-12345");
            assert_eq!(
                machine["futureField"], "kept",
                "fields of another version are preserved"
            );
            let node = stage.server.get(NODE).unwrap();
            assert_eq!(
                node["metadata"]["labels"]["node.gardener.cloud/machine-name"],
                "m-12345"
            );
            assert!(
                stage.server.all(TOKENS).is_empty(),
                "the token is deleted after the join"
            );

            kube::Api::<Machine>::namespaced(stage.server.client(), "default")
                .delete("m-12345", &kube::api::DeleteParams::default())
                .await
                .unwrap();
            stage.wait(60).await;
            assert!(
                stage.server.all(MACHINES).is_empty(),
                "{:#?}",
                stage.server.get(MACHINE)
            );
            assert_eq!(stage.cloud.vms(), 0);
            assert_eq!(stage.server.get(NODE), None);
            assert_eq!(stage.finalizers(CLASS), 0);
        })
        .await;
    let events = format!("{:?}", stage.server.all("/api/v1/namespaces/default/events"));
    assert!(events.contains("m-12345") && !events.contains(PLANTED), "{events}");
    assert!(!events.contains("Warning"), "{events}");
}

#[tokio::test(start_paused = true)]
async fn a_failed_creation_is_retried_after_the_period_of_its_code() {
    let stage = Stage::new();
    stage
        .cloud
        .fail_with(&[Code::ResourceExhausted, Code::Unavailable, Code::Internal]);
    stage
        .run(async {
            stage.create_machine();
            stage.wait(60).await;
            assert_eq!(stage.phase(), "CrashLoopBackOff");
            let machine = stage.server.get(MACHINE).unwrap();
            assert_eq!(machine["status"]["lastOperation"]["errorCode"], "ResourceExhausted");
            assert_eq!(stage.cloud.calls(), ["status", "create"]);
            stage.wait(10 * 60).await;
            assert_eq!(stage.cloud.calls(), ["status", "create", "status", "create"]);
            stage.wait(3 * 60).await;
            assert_eq!(stage.phase(), "Pending");
            assert_eq!(stage.cloud.vms(), 1);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn corrected_credentials_end_the_wait_for_the_next_attempt() {
    let stage = Stage::new();
    stage.cloud.fail_with(&[Code::Unauthenticated]);
    stage
        .run(async {
            stage.create_machine();
            stage.wait(30).await;
            assert_eq!(stage.phase(), "CrashLoopBackOff");
            let mut secret = stage.server.get(SECRET).unwrap();
            secret["data"]["credential"] = json!(ByteString(b"another".to_vec()));
            stage.server.put(SECRET, secret);
            stage.wait(10).await;
            assert_eq!(stage.phase(), "Pending");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_unhealthy_node_makes_the_machine_unknown_and_a_recovery_running() {
    let stage = Stage::new();
    stage
        .run(async {
            stage.create_machine();
            stage.wait(30).await;
            stage.register_node("True");
            stage.wait(30).await;
            stage.register_node("Unknown");
            stage.wait(30).await;
            assert_eq!(stage.phase(), "Unknown");
            stage.register_node("True");
            stage.wait(30).await;
            assert_eq!(stage.phase(), "Running");
            stage.register_node("Unknown");
            stage.wait(9 * 60 + 50).await;
            assert_eq!(stage.phase(), "Unknown");
            stage.wait(30).await;
            assert_eq!(stage.phase(), "Failed");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn pods_are_evicted_before_the_vm_is_deleted() {
    let stage = Stage::new();
    let container = json!({ "name": "web", "image": "web" });
    let spec =
        json!({ "spec": { "nodeName": "m-12345", "containers": [container], "terminationGracePeriodSeconds": 0 } });
    let mut pod = object("web", "Pod", spec);
    pod["metadata"]["namespace"] = json!("shop");
    stage.server.put(POD, pod);
    stage
        .run(async {
            stage.create_machine();
            stage.wait(30).await;
            stage.register_node("True");
            stage.wait(30).await;
            stage.server.requests();
            kube::Api::<Machine>::namespaced(stage.server.client(), "default")
                .delete("m-12345", &kube::api::DeleteParams::default())
                .await
                .unwrap();
            stage.wait(120).await;
            assert_eq!(stage.server.get(POD), None);
            assert!(
                stage.server.all(MACHINES).is_empty(),
                "{:#?}",
                stage.server.get(MACHINE)
            );
            assert!(stage.writes().iter().any(|write| write.ends_with("/pods/web/eviction")));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn of_two_machines_with_the_same_health_deadline_one_fails() {
    let stage = Stage::new();
    for name in ["m-00001", "m-00002"] {
        stage.create_unknown_machine(name);
    }
    stage
        .run(async {
            stage.wait(20).await;
            let mut phases = stage.phases();
            phases.sort();
            assert_eq!(phases, ["Failed", "Unknown"]);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_class_gets_its_finalizer_when_a_machine_is_edited_to_use_it() {
    let stage = Stage::new();
    stage.server.put(MACHINE, stage.machine_of_class("m-12345", "absent"));
    stage
        .run(async {
            stage.wait(30).await;
            assert_eq!(stage.finalizers(CLASS), 0);
            let mut machine = stage.server.get(MACHINE).unwrap();
            machine["spec"]["class"]["name"] = json!("small");
            stage.server.put(MACHINE, machine);
            stage.wait(30).await;
            assert_eq!((stage.finalizers(CLASS), stage.phase()), (1, json!("Pending")));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn machines_do_not_contend_for_a_node_that_a_user_assigned_to_both() {
    let stage = Stage::new();
    stage
        .run(async {
            stage.create_machine();
            stage.wait(30).await;
            stage.register_node("True");
            stage.wait(30).await;
            stage.create_unknown_machine("m-99999");
            let path = format!("{MACHINES}/m-99999");
            let mut other = stage.server.get(&path).unwrap();
            other["metadata"]["labels"]["node"] = json!("m-12345");
            stage.server.put(&path, other);
            stage.writes();
            stage.wait(60).await;
            let claims = stage
                .writes()
                .into_iter()
                .filter(|write| write.contains("/nodes/"))
                .count();
            assert_eq!(claims, 0, "the Node keeps its machine");
            kube::Api::<Machine>::namespaced(stage.server.client(), "default")
                .delete("m-99999", &kube::api::DeleteParams::default())
                .await
                .unwrap();
            stage.wait(60).await;
            assert_eq!(stage.server.all(MACHINES).len(), 1);
            assert!(stage.server.get(NODE).is_some());
            assert_eq!(stage.phase(), "Running");
        })
        .await;
}
