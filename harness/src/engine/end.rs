//! What is left at the end of a run, without what differs between two clean runs: for comparing the
//! ends of disturbed runs with that of an undisturbed one.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use mcm_api::GoDuration;
use serde_json::Value;

use super::world::WorldState;
use crate::stage::cloud::VmState;

/// Fields that every run fills in its own way: ids, counters, and what is made from the name of a VM.
const VOLATILE: [&str; 10] = [
    "uid",
    "resourceVersion",
    "generation",
    "observedGeneration",
    "managedFields",
    "providerID",
    "addresses",
    "machineID",
    "systemUUID",
    "bootID",
];

/// Objects (less Events, whose number tells how a run went and not how it ended) and VMs, by name.
pub fn of_world(world: &WorldState) -> BTreeMap<String, String> {
    let mut end = BTreeMap::new();
    for ((kind, namespace, name), object) in &world.objects {
        if *kind != "Event" {
            let mut object = object.clone();
            settle(&mut object);
            end.insert(format!("{kind} {namespace}/{name}"), object.to_string());
        }
    }
    for name in world.machines.keys() {
        let made = world.vms.values().filter(|vm| vm.machine == *name);
        let left: Vec<VmState> = world.vms_of(name).map(|vm| vm.state).collect();
        end.insert(
            format!("VMs of {name}"),
            format!("{} made, left: {left:?}", made.count()),
        );
    }
    end
}

/// The names of the Secrets in a scenario's namespace; bootstrap tokens, which have random names, are counted.
///
/// # Errors
/// One sentence, when they cannot be listed.
pub async fn secrets(client: &kube::Client, namespace: &str) -> Result<BTreeMap<String, String>, String> {
    let (mut end, mut tokens) = (BTreeMap::new(), 0_u32);
    let mut secrets = Vec::new();
    for namespace in [namespace, "kube-system"] {
        let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let listed = api.list_metadata(&ListParams::default()).await;
        secrets.extend(
            listed
                .map_err(|error| format!("cannot list Secrets in {namespace}: {error}"))?
                .items,
        );
    }
    for secret in secrets {
        let name = secret.metadata.name.unwrap_or_default();
        if name.starts_with("bootstrap-token-") {
            tokens += 1;
        } else {
            let namespace = secret.metadata.namespace.unwrap_or_default();
            end.insert(format!("Secret {namespace}/{name}"), "there".to_owned());
        }
    }
    end.insert("bootstrap tokens".to_owned(), tokens.to_string());
    Ok(end)
}

/// Takes away what is volatile, every moment in time and how long things took.
fn settle(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !VOLATILE.contains(&name.as_str()));
            fields.values_mut().for_each(settle);
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        Value::String(text) if text.parse::<Timestamp>().is_ok() => "a time".clone_into(text),
        Value::String(text) => {
            let took = |word: &str| word.parse::<GoDuration>().is_ok_and(|time| !time.0.is_zero());
            let words = text.split(' ').map(|word| if took(word) { "a while" } else { word });
            *text = words.collect::<Vec<_>>().join(" ");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn how_long_something_took_is_no_difference() {
        let mut said = json!("it joined in 15m9s with 3 cores");
        settle(&mut said);
        assert_eq!(said, json!("it joined in a while with 3 cores"));
    }

    #[test]
    fn two_clean_runs_end_alike_and_another_taint_shows() {
        let node = |uid: &str, time: &str, taints: Value| {
            let mut node = json!({
                "metadata": { "name": "m-1", "uid": uid, "creationTimestamp": time },
                "spec": { "providerID": format!("fakecloud:///z1/{uid}"), "taints": taints },
                "status": { "conditions": [{ "type": "Ready", "status": "True", "lastHeartbeatTime": time }] },
            });
            settle(&mut node);
            node
        };
        let first = node("a", "2026-01-01T00:00:00Z", json!([]));
        assert_eq!(first, node("b", "2026-01-01T00:00:07Z", json!([])));
        assert_ne!(
            first,
            node("a", "2026-01-01T00:00:00Z", json!([{ "key": "not-ready" }]))
        );
    }
}
