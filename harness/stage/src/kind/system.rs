//! Keeps the system pods of a kind cluster on real nodes.

use fakecloud::SIMULATED;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::error::ClusterError;

/// The namespaces of system pods.
const NAMESPACES: [&str; 2] = ["kube-system", "local-path-storage"];

/// Adds a node affinity to CoreDNS, kube-proxy and the other system workloads: on a simulated node they would appear to
/// run but not work.
///
/// # Errors
/// [`ClusterError::System`].
pub(super) async fn keep_off_simulated_nodes(client: &kube::Client) -> Result<(), ClusterError> {
    let parameters = PatchParams::default();
    let patch = Patch::Strategic(affinity());
    for namespace in NAMESPACES {
        let cannot = |name: &str, source| ClusterError::System {
            object: format!("{namespace}/{name}"),
            source,
        };
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
        let listed = deployments.list(&ListParams::default()).await;
        for deployment in listed.map_err(|error| cannot("", Box::new(error)))?.items {
            let name = deployment.metadata.name.unwrap_or_default();
            let patched = deployments.patch(&name, &parameters, &patch).await;
            patched.map_err(|error| cannot(&name, Box::new(error)))?;
        }
        let daemons: Api<DaemonSet> = Api::namespaced(client.clone(), namespace);
        let listed = daemons.list(&ListParams::default()).await;
        for daemon in listed.map_err(|error| cannot("", Box::new(error)))?.items {
            let name = daemon.metadata.name.unwrap_or_default();
            let patched = daemons.patch(&name, &parameters, &patch).await;
            patched.map_err(|error| cannot(&name, Box::new(error)))?;
        }
    }
    Ok(())
}

/// The patch of a workload.
pub(super) fn affinity() -> Value {
    let term = json!({ "matchExpressions": [{ "key": SIMULATED, "operator": "DoesNotExist" }] });
    let node = json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [term] } });
    json!({ "spec": { "template": { "spec": { "affinity": { "nodeAffinity": node } } } } })
}
