//! Stalled and registering drivers, and controllers without a target cluster.

use mcm_driver::call::{Call, Handler, Outcome};
use mcm_driver::registration::{Registrant, Registry};

use super::*;

/// The cloud as the driver of a separate process.
#[derive(Debug)]
struct Shared(Arc<Cloud>);

#[async_trait]
impl Handler for Shared {
    async fn handle(&self, call: Call) -> Result<Outcome, DriverError> {
        call.send_to(&*self.0).await
    }
}

impl Stage {
    /// Creates a class of another provider, with its own Secret.
    fn put_class_of(&self, provider: &str) {
        let data = json!({ "userData": ByteString(b"join".to_vec()) });
        let secret = format!("/api/v1/namespaces/default/secrets/{provider}");
        self.server
            .put(&secret, object(provider, "Secret", json!({ "data": data })));
        let class = json!({
            "providerSpec": {"zone": "z1"}, "provider": provider,
            "secretRef": {"name": provider, "namespace": "default"},
        });
        let path = format!("/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machineclasses/{provider}");
        self.server.put(&path, object(provider, "MachineClass", class));
    }

    fn status_of(&self, name: &str) -> Value {
        self.server.get(&format!("{MACHINES}/{name}")).unwrap()["status"].clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_stalled_driver_blocks_only_its_own_machines() {
    let stage = Stage::new();
    stage.put_class_of("stalled");
    stage.cloud.0.lock().stalled = Some("stalled");
    for number in 0..20 {
        let name = format!("a-{number:05}");
        let machine = stage.machine_of_class(&name, "stalled");
        stage.server.put(&format!("{MACHINES}/{name}"), machine);
    }
    let options = Options {
        concurrent_syncs: 4,
        ..Options::default()
    };
    let story = async {
        stage.wait(10).await;
        stage.create_machine();
        stage.wait(10).await;
        assert_eq!(stage.phase(), "Pending", "four calls and sixteen machines are waiting");
        stage.cloud.0.lock().stalled = None;
        stage.wait(3600).await;
        assert_eq!(
            stage.cloud.vms(),
            21,
            "the other VMs are created once their driver responds"
        );
    };
    stage.run_with(options, stage.environment(), story).await;
}

#[tokio::test(start_paused = true)]
async fn a_registered_driver_serves_its_classes_also_after_a_restart() {
    let stage = Stage::new();
    stage.put_class_of("other");
    let mut sessions = Seed::new(3).stream("sessions");
    let registry = Registry::new(move || sessions.uuid());
    let environment = Environment {
        driver: Arc::new(registry.clone()),
        ..stage.environment()
    };
    let story = async {
        stage.create_machine();
        stage.wait(5).await;
        let status = stage.status_of("m-12345");
        let description = status["lastOperation"]["description"].as_str().unwrap_or_default();
        assert!(
            description.contains("no driver has registered for the provider \"fake\""),
            "{status}"
        );
        let registrant = Registrant::new(Shared(Arc::clone(&stage.cloud)), "fake", "the first");
        let life = registrant.run(registry.clone().into_server(), |_| {});
        // The driver dies during a call.
        stage.cloud.0.lock().stalled = Some("fake");
        let died = tokio::time::timeout(Duration::from_secs(30), life).await;
        assert!(died.is_err());
        stage.cloud.0.lock().stalled = None;
        let registrant = Registrant::new(Shared(Arc::clone(&stage.cloud)), "fake", "the second");
        let life = registrant.run(registry.clone().into_server(), |_| {});
        assert!(tokio::time::timeout(Duration::from_secs(60), life).await.is_err());
        assert_eq!(stage.phase(), "Pending");
        assert_eq!(stage.cloud.vms(), 1);
        assert!(
            stage.cloud.user_data().starts_with("join m-12345 by "),
            "{}",
            stage.cloud.user_data()
        );
    };
    stage.run_with(Options::default(), environment, story).await;
}

#[tokio::test(start_paused = true)]
async fn without_a_target_cluster_a_machine_becomes_available_with_two_calls_and_is_deleted() {
    let stage = Stage::new();
    let environment = Environment {
        target: None,
        ..stage.environment()
    };
    let story = async {
        stage.create_machine();
        stage.wait(3600).await;
        assert_eq!(stage.phase(), "Available");
        assert_eq!(stage.cloud.calls(), ["status", "create", "initialize"]);
        let requests = stage.server.requests();
        assert!(
            !requests.iter().any(|request| request.contains("/nodes")),
            "{requests:?}"
        );
        assert!(stage.server.all(TOKENS).is_empty());
    };
    stage.run_with(Options::default(), environment, story).await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_class_is_reported_in_the_status_and_does_not_affect_others() {
    let stage = Stage::new();
    stage.put_class_of("no-user-data");
    let path = "/api/v1/namespaces/default/secrets/no-user-data";
    stage
        .server
        .put(path, object("no-user-data", "Secret", json!({ "data": {} })));
    for (name, class) in [("m-nowhere", "nowhere"), ("m-no-user-data", "no-user-data")] {
        stage
            .server
            .put(&format!("{MACHINES}/{name}"), stage.machine_of_class(name, class));
    }
    stage.create_machine();
    stage
        .run(async {
            stage.wait(10).await;
            assert_eq!(stage.phase(), "Pending");
            for (name, parts) in [
                ("m-nowhere", ["nowhere", "create it"]),
                ("m-no-user-data", ["userData", "add the key"]),
            ] {
                let status = stage.status_of(name);
                let description = status["lastOperation"]["description"].as_str().unwrap_or_default();
                assert!(parts.iter().all(|part| description.contains(part)), "{status}");
            }
        })
        .await;
}
