//! Migration of classes of former, provider-specific kinds.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::*;

const OLD: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/awsmachineclasses/former";
const NEW: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machineclasses/former";
const SET: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machinesets/pool-1";
const POOL: &str = "/apis/machine.sapcloud.io/v1alpha1/namespaces/default/machinedeployments/pool";

fn former_class() -> Value {
    let spec = json!({ "zone": "z1", "secretRef": { "name": "cloud", "namespace": "default" } });
    let mut class = object("former", "AWSMachineClass", json!({ "spec": spec }));
    class["apiVersion"] = json!("machine.sapcloud.io/v1alpha1");
    class["metadata"]["finalizers"] = json!(["machine.sapcloud.io/machine-controller-manager", "other/finalizer"]);
    class
}

fn former_definition() -> CustomResourceDefinition {
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

fn spec_with_former_class() -> Value {
    json!({ "class": { "kind": "AWSMachineClass", "name": "former" } })
}

#[tokio::test(start_paused = true)]
async fn a_former_class_is_migrated_with_all_its_references() {
    let stage = Stage::new();
    stage.server.define(&former_definition());
    stage.server.put(OLD, former_class());
    let spec = |name: &str| {
        let labels = json!({ "name": name });
        let template = json!({ "metadata": { "labels": labels }, "spec": spec_with_former_class() });
        json!({ "spec": { "replicas": 0, "selector": { "matchLabels": labels }, "template": template } })
    };
    stage.server.put(SET, object("pool-1", "MachineSet", spec("pool-1")));
    stage
        .server
        .put(POOL, object("pool", "MachineDeployment", spec("pool")));
    stage
        .run(async {
            let machine = object("m-12345", "Machine", json!({ "spec": spec_with_former_class() }));
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
                "the VM is created"
            );
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_absent_former_class_is_reported_in_the_status() {
    let stage = Stage::new();
    stage
        .run(async {
            stage.server.put(
                MACHINE,
                object("m-12345", "Machine", json!({ "spec": spec_with_former_class() })),
            );
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
