//! The objects that every world has, and the default machine of scenarios.

use serde_json::{Value, json};

/// The class of every fixture machine.
pub const CLASS: &str = "class-a";
/// Its Secret.
pub const SECRET: &str = "class-a-secret";

/// The zone of the class.
pub const ZONE: &str = "z1";

/// The provider of the class.
pub const PROVIDER: &str = "fakecloud";

/// The credential in the Secret, which no report may contain.
pub const API_TOKEN: &str = "fixture-cloud-credential";

/// A machine of class `class-a`.
pub fn machine(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "Machine",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "class": { "kind": "MachineClass", "name": CLASS } },
    })
}

/// The class: a small VM in [`ZONE`].
pub fn class(namespace: &str) -> Value {
    json!({
        "apiVersion": "machine.sapcloud.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": { "name": CLASS, "namespace": namespace },
        "provider": PROVIDER,
        "providerSpec": { "machineType": "small", "image": "linux-1", "zone": ZONE, "tags": fixture_tags() },
        "secretRef": { "name": SECRET, "namespace": namespace },
    })
}

/// Its Secret, with user data that the controller fills in.
pub fn secret(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": SECRET, "namespace": namespace },
        "stringData": {
            "apiToken": API_TOKEN,
            "userData": "#!/bin/sh\njoin --token <<BOOTSTRAP_TOKEN>> --name <<MACHINE_NAME>>\n",
        },
    })
}

/// The tags that mark the VMs of this cluster.
fn fixture_tags() -> Value {
    json!({ "kubernetes.io/cluster/drydock": "1", "kubernetes.io/role/node": "1" })
}
