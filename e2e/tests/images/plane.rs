//! The embedded API server on the host, with the machine API and the objects of one machine.

use std::time::Duration;

use apiserver::serve::Serving;
use apiserver::{Identity, Options, Server};
use clock::{Clock, Seed};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use mcm_api::{Machine, MachineClass, Phase};
use serde_json::json;

/// How long each step of the machine's life may take.
const LIMIT: Duration = Duration::from_secs(60);
/// In the class's Secret; no log may contain it.
pub const CREDENTIAL: &str = "planted-cloud-credential";

/// A control plane. It ends with the test's runtime.
pub struct Plane {
    pub client: kube::Client,
    pub kubeconfig: String,
    _serving: Serving,
}

impl Plane {
    pub async fn start() -> Self {
        let server = Server::new(Options::new(Clock::wall(), Seed::new(1))).unwrap();
        let serving = server.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let kubeconfig = serving.kubeconfig(&Identity::admin()).unwrap();
        let client = kube::Client::new(server.service(Identity::admin()), "default");
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in mcm_api::crd::all() {
            let created = definitions.create(&PostParams::default(), &definition).await.unwrap();
            let name = created.metadata.name.unwrap();
            let served = await_condition(definitions.clone(), &name, conditions::is_crd_established());
            tokio::time::timeout(LIMIT, served).await.unwrap().unwrap();
        }
        Self {
            client,
            kubeconfig,
            _serving: serving,
        }
    }

    /// Creates a machine with its class and waits until it is Running.
    pub async fn run_machine(&self, name: &str) {
        let secret = json!({
            "metadata": { "name": "cloud" },
            "stringData": { "apiToken": CREDENTIAL, "userData": "join --token <<BOOTSTRAP_TOKEN>>" },
        });
        let class = json!({
            "metadata": { "name": "small" },
            "provider": "fakecloud",
            "providerSpec": { "machineType": "small", "image": "linux-1", "zone": "z1" },
            "secretRef": { "name": "cloud", "namespace": "default" },
        });
        let machine = json!({
            "metadata": { "name": name },
            "spec": { "class": { "kind": "MachineClass", "name": "small" } },
        });
        self.create::<Secret>(secret).await;
        self.create::<MachineClass>(class).await;
        self.create::<Machine>(machine).await;
        let running = |machine: Option<&Machine>| {
            machine.is_some_and(|machine| machine.status.current_status.phase == Some(Phase::Running))
        };
        let machines: Api<Machine> = Api::default_namespaced(self.client.clone());
        let waiting = tokio::time::timeout(LIMIT, await_condition(machines.clone(), name, running)).await;
        if waiting.is_err() {
            panic!("not Running within {LIMIT:?}: {:?}", machines.get(name).await);
        }
        waiting.unwrap().unwrap();
    }

    async fn create<K>(&self, object: serde_json::Value)
    where
        K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let api: Api<K> = Api::default_namespaced(self.client.clone());
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// The holder of mcm's Lease; empty if none.
    pub async fn leader(&self) -> String {
        let leases: Api<Lease> = Api::default_namespaced(self.client.clone());
        let lease = leases.get("machine-controller-manager").await.unwrap();
        lease.spec.unwrap().holder_identity.unwrap_or_default()
    }
}
