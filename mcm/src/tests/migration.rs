//! Classes of a provider's own kind, from the time before there was one kind for all.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

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

fn definition_of_former_times() -> CustomResourceDefinition {
    let schema = json!({ "type": "object", "properties": {}, "x-kubernetes-preserve-unknown-fields": true });
    let version = json!({
        "name": "v1alpha1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
    });
    let definition = json!({
        "metadata": { "name": "awsmachineclasses.machine.sapcloud.io" },
        "spec": {
            "group": "machine.sapcloud.io", "scope": "Namespaced", "versions": [version],
            "names": { "kind": "AWSMachineClass", "plural": "awsmachineclasses" },
        },
    });
    serde_json::from_value(definition).unwrap()
}

fn refers_to_it() -> Value {
    json!({ "class": { "kind": "AWSMachineClass", "name": "former" } })
}

#[tokio::test(start_paused = true)]
async fn a_class_of_former_times_is_migrated_with_all_that_refers_to_it() {
    let stage = Stage::new();
    stage.server.define(&definition_of_former_times());
    stage.server.put(OLD, class_of_former_times());
    let spec = |name: &str| {
        let labels = json!({ "name": name });
        let template = json!({ "metadata": { "labels": labels }, "spec": refers_to_it() });
        json!({ "spec": { "replicas": 0, "selector": { "matchLabels": labels }, "template": template } })
    };
    stage.server.put(SET, object("pool-1", "MachineSet", spec("pool-1")));
    stage
        .server
        .put(POOL, object("pool", "MachineDeployment", spec("pool")));
    stage
        .run(async {
            let machine = object("m-12345", "Machine", json!({ "spec": refers_to_it() }));
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
