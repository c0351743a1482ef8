//! Classes of a provider's own kind, from the time before there was one kind for all.

use super::*;

const OLD: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/awsmachineclasses/former";
const NEW: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machineclasses/former";
const SET: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machinesets/pool-1";
const POOL: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machinedeployments/pool";

fn class_of_former_times() -> Value {
    let spec = json!({ "zone": "z1", "secretRef": { "name": "cloud", "namespace": "default" } });
    let mut class = object("former", "AWSMachineClass", json!({ "spec": spec }));
    class["apiVersion"] = json!("machine.sapcloud.io/v1alpha1");
    class["metadata"]["finalizers"] = json!(["machine.sapcloud.io/machine-controller-manager", "other/finalizer"]);
    class
}

fn refers_to_it() -> Value {
    json!({ "class": { "kind": "AWSMachineClass", "name": "former" } })
}

#[tokio::test(start_paused = true)]
async fn a_class_of_former_times_is_migrated_with_all_that_refers_to_it() {
    let stage = Stage::new();
    stage.server.put(OLD, class_of_former_times());
    let template = json!({ "template": { "spec": refers_to_it() } });
    stage
        .server
        .put(SET, object("pool-1", "MachineSet", json!({ "spec": template })));
    stage
        .server
        .put(POOL, object("pool", "MachineDeployment", json!({ "spec": template })));
    stage
        .run(async {
            let mut machine = object("m-12345", "Machine", json!({ "spec": refers_to_it() }));
            machine["metadata"]["creationTimestamp"] = json!("2027-01-15T08:00:00Z");
            stage.server.put(MACHINE, machine);
            stage.wait(30).await;
            let kind = |path: &str, pointer: &str| {
                let object = stage.server.get(path).unwrap();
                object.pointer(&format!("{pointer}/class/kind")).cloned()
            };
            assert_eq!(kind(MACHINE, "/spec"), Some(json!("MachineClass")));
            assert_eq!(kind(SET, "/spec/template/spec"), Some(json!("MachineClass")));
            assert_eq!(kind(POOL, "/spec/template/spec"), Some(json!("MachineClass")));
            let old = stage.server.get(OLD).unwrap();
            assert_eq!(old["metadata"]["finalizers"], json!(["other/finalizer"]));
            assert_eq!(
                old["metadata"]["annotations"]["machine.sapcloud.io/migrated"],
                json!("machine-controller-AWSMachineClass")
            );
            assert_eq!(stage.server.get(NEW).unwrap()["providerSpec"]["zone"], json!("z1"));
            assert_eq!(
                (stage.phase(), stage.cloud.vms()),
                (json!("Pending"), 1),
                "and the machine is made"
            );
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_class_that_is_nowhere_is_told_of_in_the_status() {
    let stage = Stage::new();
    stage
        .run(async {
            stage
                .server
                .put(MACHINE, object("m-12345", "Machine", json!({ "spec": refers_to_it() })));
            stage.wait(30).await;
            let machine = stage.server.get(MACHINE).unwrap();
            let text = machine["status"]["lastOperation"]["description"].as_str().unwrap();
            assert!(
                text.contains("neither a AWSMachineClass nor a MachineClass of the name former"),
                "{text}"
            );
        })
        .await;
}
