//! Orphan VMs, outages of API servers, and Nodes without machines, in the whole controller.

use super::*;

const HOUR: u64 = 3600;
const MINUTE: u64 = 60;
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/machine-controller-manager";

impl Cloud {
    /// Adds a VM without a request.
    fn put_vm(&self, provider_id: &str, machine: &str) {
        let vm = VmIdentity {
            provider_id: ProviderId::new(provider_id),
            node_name: NodeName::new(machine),
            ..VmIdentity::default()
        };
        self.0.lock().vms.insert(provider_id.to_owned(), vm);
    }

    fn has_vm(&self, provider_id: &str) -> bool {
        let state = self.0.lock();
        state
            .vms
            .values()
            .any(|vm| vm.provider_id.as_deref() == Some(provider_id))
    }

    fn writes(&self) -> Vec<&'static str> {
        let mut calls = self.calls();
        calls.retain(|call| ["create", "delete", "initialize"].contains(call));
        calls
    }
}

impl Stage {
    /// Creates a Running machine and its Node.
    async fn run_a_machine(&self) {
        self.create_machine();
        self.wait(10).await;
        self.register_node("True");
        self.wait(10).await;
        assert_eq!(self.phase(), "Running");
    }

    fn events(&self, reason: &str) -> usize {
        let events = self.server.all("/api/v1/namespaces/default/events").into_iter();
        events.filter(|event| event["reason"] == reason).count()
    }
}

#[tokio::test(start_paused = true)]
async fn an_orphan_vm_is_collected_with_an_event_and_the_vm_of_a_machine_is_kept() {
    let stage = Stage::new();
    stage
        .run(async {
            stage.run_a_machine().await;
            stage.cloud.put_vm("fake:///left", "left");
            stage.wait(29 * MINUTE).await;
            assert!(stage.cloud.has_vm("fake:///left"), "no collection in the first period");
            stage.wait(HOUR).await;
            assert!(!stage.cloud.has_vm("fake:///left"));
            assert!(stage.cloud.has_vm("fake:///m-12345"));
            assert_eq!(stage.events("OrphanVMCollected"), 1);
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn too_many_orphan_vms_are_kept_with_an_event_until_they_are_fewer() {
    let stage = Stage::new();
    stage
        .run(async {
            stage.run_a_machine().await;
            let name = |n: usize| format!("fake:///left-{n}");
            for n in 0..31 {
                stage.cloud.put_vm(&name(n), &format!("left-{n}"));
            }
            stage.wait(2 * HOUR).await;
            assert_eq!(stage.cloud.vms(), 32);
            assert_eq!(stage.events("TooManyOrphanVMs"), 1);
            stage
                .cloud
                .0
                .lock()
                .vms
                .retain(|_, vm| vm.provider_id.as_deref() != Some(name(30).as_str()));
            stage.wait(HOUR).await;
            let left = stage.cloud.vms();
            assert!((22..=28).contains(&left), "a tenth per period: {left}");
            assert!(stage.cloud.has_vm("fake:///m-12345"));
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn duplicate_vms_are_collected_within_a_minute_of_the_clouds_report() {
    let stage = Stage::new();
    for vm in ["fake:///a", "fake:///b"] {
        stage.cloud.put_vm(vm, "m-12345");
    }
    stage.cloud.0.lock().reports_several = true;
    stage
        .run(async {
            stage.create_machine();
            stage.wait(60).await;
            assert_eq!(stage.cloud.vms(), 1);
            assert!(stage.cloud.has_vm("fake:///a"));
            stage.wait(11 * MINUTE).await;
            let machine = stage.server.get(MACHINE).unwrap();
            assert_eq!(machine["spec"]["providerID"], "fake:///a");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_collected_while_listing_fails_or_the_secret_is_absent() {
    for secret_is_absent in [false, true] {
        let stage = Stage::new();
        stage.cloud.put_vm("fake:///left", "left");
        stage
            .run(async {
                if secret_is_absent {
                    stage.server.remove(SECRET);
                } else {
                    stage.cloud.0.lock().list_failure = Some(Code::Unavailable);
                }
                stage.wait(3 * HOUR).await;
                assert!(stage.cloud.has_vm("fake:///left"));
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_restored_within_the_period_keeps_its_vm() {
    let stage = Stage::new();
    stage.run(stage.run_a_machine()).await;
    let machine = stage.server.get(MACHINE).unwrap();
    stage.server.remove(MACHINE);
    stage.server.remove(LEASE);
    stage.cloud.calls();
    stage
        .run(async {
            stage.wait(25 * MINUTE).await;
            stage.server.put(MACHINE, machine);
            stage.wait(2 * HOUR).await;
            assert_eq!(stage.cloud.writes(), Vec::<&str>::new());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_frozen_controller_neither_creates_nor_deletes_vms_and_continues_afterwards() {
    let stage = Stage::new();
    stage
        .run(async {
            stage.run_a_machine().await;
            stage.cloud.put_vm("fake:///left", "left");
            stage.cloud.calls();
            let target = "/api/v1/nodes/dummy_name";
            stage.server.fail_reads_of(target, Some(503));
            stage.wait(2 * MINUTE).await;
            stage.create_machine_named("m-later");
            stage.server.delete(MACHINE);
            stage.wait(2 * HOUR).await;
            assert_eq!(stage.cloud.writes(), Vec::<&str>::new());
            stage.server.fail_reads_of(target, None);
            stage.wait(2 * MINUTE).await;
            let writes = stage.cloud.writes();
            assert!(writes.contains(&"create") && writes.contains(&"delete"), "{writes:?}");
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_became_unknown_during_an_outage_is_reset() {
    let stage = Stage::new();
    stage
        .run(async {
            stage.run_a_machine().await;
            stage.register_node("Unknown");
            stage.wait(1).await;
            assert_eq!(stage.phase(), "Unknown");
            let machines = format!("{MACHINES}/dummy_name");
            stage.server.fail_reads_of(&machines, Some(503));
            // Longer than its health timeout.
            stage.wait(30 * MINUTE).await;
            assert_eq!(stage.phase(), "Unknown");
            stage.server.fail_reads_of(&machines, None);
            stage.wait(10).await;
            assert_eq!(stage.phase(), "Running");
            assert_eq!(stage.events("Unfrozen"), 1);
            stage.wait(5 * MINUTE).await;
            assert_eq!(
                stage.phase(),
                "Unknown",
                "its node is not healthy, and its health timeout restarted"
            );
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_node_is_not_marked_and_the_mark_of_a_managed_node_is_removed() {
    let stage = Stage::new();
    let mark = "node.machine.sapcloud.io/not-managed-by-mcm";
    let node = |annotations: Value| {
        let mut node = object("n", "Node", json!({}));
        node["metadata"] = json!({ "name": "n", "annotations": annotations });
        node
    };
    stage.server.put("/api/v1/nodes/foreign", {
        let mut foreign = node(json!({}));
        foreign["metadata"]["name"] = json!("foreign");
        foreign
    });
    stage
        .run(async {
            stage.run_a_machine().await;
            let mut own = stage.server.get(NODE).unwrap();
            own["metadata"]["annotations"][mark] = json!("1");
            stage.server.put(NODE, own);
            let marked = |path: &str| stage.server.get(path).unwrap()["metadata"]["annotations"][mark].clone();
            stage.wait(31 * MINUTE).await;
            assert_eq!(
                marked("/api/v1/nodes/foreign"),
                Value::Null,
                "its VM does not have our tags"
            );
            assert_eq!(marked(NODE), Value::Null);
            stage.writes();
            stage.wait(2 * HOUR).await;
            assert_eq!(stage.object_writes(), Vec::<String>::new());
        })
        .await;
}
