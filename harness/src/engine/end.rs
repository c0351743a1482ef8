//! What is left at the end of a run: for comparing the ends of disturbed runs with that of an undisturbed one. What of it
//! differs between two clean runs is `campaign::mask`'s.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};

use super::world::WorldState;
use crate::stage::cloud::VmState;

/// Under which name [`secrets`] has the number of bootstrap tokens.
pub const TOKENS: &str = "bootstrap tokens";

/// Objects (less Events, whose number tells how a run went and not how it ended) and VMs, by name.
pub fn of_world(world: &WorldState) -> BTreeMap<String, String> {
    let mut end = BTreeMap::new();
    for ((kind, namespace, name), object) in &world.objects {
        if *kind != "Event" {
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
    end.insert(TOKENS.to_owned(), tokens.to_string());
    Ok(end)
}
