//! Evictions, deletions and lists of pods.

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams, Preconditions};
use mcm_api::NodeName;
use serde_json::json;

use super::{ActionExecutor, delete};
use crate::cluster::LeanApi;
use crate::error::{is_conflict, is_not_found};

impl ActionExecutor {
    /// Evicts the pod with this uid; succeeds if it is absent.
    pub(super) async fn evict(&self, namespace: &str, name: &str, uid: &str) -> kube::Result<()> {
        let api: Api<Pod> = Api::namespaced(self.target()?, namespace);
        let eviction = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "name": name, "namespace": namespace },
            "deleteOptions": { "preconditions": { "uid": uid } },
        });
        let evicted = api
            .create_subresource::<_, serde_json::Value>("eviction", name, &PostParams::default(), &eviction)
            .await;
        ignore_absent(evicted.map(|_| ()))
    }

    /// Deletes the pod with this uid with a grace period in seconds, or with its own; succeeds if it is absent.
    pub(super) async fn delete_pod(
        &self,
        namespace: &str,
        name: &str,
        uid: &str,
        grace: Option<u32>,
    ) -> kube::Result<()> {
        let api: LeanApi<Pod> = LeanApi::namespaced(self.target()?, namespace);
        let preconditions = Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        };
        ignore_absent(delete(&api, name, preconditions, grace).await)
    }

    pub(super) async fn list_pods(&self, node: &NodeName) -> kube::Result<Vec<Pod>> {
        let api: Api<Pod> = Api::all(self.target()?);
        let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
        api.list(&on_node).await.map(|list| list.items)
    }
}

/// Treats an absent pod as success, and also a successor with its name (409: the uid differs).
fn ignore_absent(result: kube::Result<()>) -> kube::Result<()> {
    match result {
        Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(()),
        result => result,
    }
}
