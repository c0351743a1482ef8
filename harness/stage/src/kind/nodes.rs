//! Removes fakecloud's Nodes from a cluster with their pods and volume attachments, and checks that a cluster has none.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use super::KindError;
use super::error::ClusterError;
use crate::objects::{ObjectError, cannot_read, is_of_our_cloud, remove_node};

/// The maximum number of lists of Nodes. The fakecloud that wrote them has ended, so the second list is usually empty.
const MAX_LISTS: usize = 5;

/// Removes fakecloud's Nodes with their pods and volume attachments until a list contains none.
///
/// # Errors
/// When an object cannot be removed, or each list contains Nodes.
pub(super) async fn sweep(client: &kube::Client) -> Result<(), KindError> {
    let mut swept = BTreeSet::new();
    for _ in 0..MAX_LISTS {
        let found = nodes_of_fakecloud(client).await?;
        if found.is_empty() {
            return Ok(());
        }
        for node in found {
            Box::pin(remove_node(client, &node)).await?;
            swept.insert(node.name_any());
        }
    }
    Err(ClusterError::NodesComeBack { nodes: swept }.into())
}

/// Rejects a cluster that has a Node of fakecloud, which a machine might mistake for its own Node.
///
/// # Errors
/// The Nodes, and the command that deletes them.
pub(super) async fn ensure_none(client: &kube::Client) -> Result<(), KindError> {
    let found: BTreeSet<String> = nodes_of_fakecloud(client)
        .await?
        .iter()
        .map(ResourceExt::name_any)
        .collect();
    if found.is_empty() {
        return Ok(());
    }
    Err(ClusterError::OtherNodes { nodes: found }.into())
}

async fn nodes_of_fakecloud(client: &kube::Client) -> Result<Vec<Node>, ObjectError> {
    let listed = Api::<Node>::all(client.clone()).list(&ListParams::default()).await;
    let listed = listed.map_err(cannot_read("nodes"))?;
    Ok(listed.into_iter().filter(is_of_our_cloud).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use apiserver::{Identity, Options, Server};
    use clock::{Clock, Seed};
    use http::{Method, Request};
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::api::storage::v1::VolumeAttachment;
    use kube::api::PostParams;
    use kube::client::Body;
    use serde::Serialize;
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};
    use tower::ServiceExt as _;
    use tower::service_fn;

    use super::*;

    fn server() -> (Arc<Server>, kube::Client) {
        let server = Server::new(Options::new(Clock::wall(), Seed::new(1))).unwrap();
        let client = kube::Client::new(server.service(Identity::admin()), "default");
        (Arc::new(server), client)
    }

    async fn create<K>(api: &Api<K>, object: Value)
    where
        K: Clone + DeserializeOwned + Serialize + std::fmt::Debug,
    {
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    async fn create_node(client: &kube::Client, name: &str, provider: &str) {
        let node = json!({ "metadata": { "name": name }, "spec": { "providerID": format!("{provider}{name}") } });
        create(&Api::<Node>::all(client.clone()), node).await;
    }

    /// A client of a cluster in which a fakecloud writes a Node before each of the first `times` lists.
    fn beside_a_fakecloud(server: Arc<Server>, client: kube::Client, times: usize) -> kube::Client {
        let lists = Arc::new(AtomicUsize::new(0));
        let service = service_fn(move |request: Request<Body>| {
            let (server, client, lists) = (Arc::clone(&server), client.clone(), Arc::clone(&lists));
            async move {
                let is_list = request.method() == Method::GET && request.uri().path() == "/api/v1/nodes";
                if is_list && lists.fetch_add(1, Ordering::SeqCst) < times {
                    create_node(&client, "back", "fakecloud://local/vm-").await;
                }
                server.service(Identity::admin()).oneshot(request).await
            }
        });
        kube::Client::new(service, "default")
    }

    #[tokio::test]
    async fn only_nodes_of_fakecloud_are_removed_with_their_pods_and_attachments() {
        let (_server, client) = server();
        create_node(&client, "ours", "fakecloud://local/vm-").await;
        create_node(&client, "theirs", "kind://docker/").await;
        let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
        let attachments: Api<VolumeAttachment> = Api::all(client.clone());
        for node in ["ours", "theirs"] {
            let containers = json!([{ "name": "c", "image": "i" }]);
            let pod = json!({ "metadata": { "name": format!("on-{node}") }, "spec": { "nodeName": node, "containers": containers } });
            create(&pods, pod).await;
            let source = json!({ "persistentVolumeName": "v" });
            let attachment = json!({ "metadata": { "name": format!("to-{node}"), "finalizers": ["example.com/attacher"] },
                "spec": { "attacher": "a", "nodeName": node, "source": source } });
            create(&attachments, attachment).await;
        }
        sweep(&client).await.unwrap();
        let all = ListParams::default();
        let left = (
            Api::<Node>::all(client.clone()).list(&all).await.unwrap(),
            pods.list(&all).await.unwrap(),
            attachments.list(&all).await.unwrap(),
        );
        let names = |names: Vec<String>| names.join(" ");
        assert_eq!(names(left.0.iter().map(ResourceExt::name_any).collect()), "theirs");
        assert_eq!(names(left.1.iter().map(ResourceExt::name_any).collect()), "on-theirs");
        assert_eq!(names(left.2.iter().map(ResourceExt::name_any).collect()), "to-theirs");
    }

    #[tokio::test]
    async fn a_node_that_is_written_again_is_removed_too() {
        let (server, client) = server();
        sweep(&beside_a_fakecloud(server, client.clone(), 2)).await.unwrap();
        ensure_none(&client).await.unwrap();
    }

    #[tokio::test]
    async fn a_node_that_always_reappears_is_reported_with_a_fix() {
        let (server, client) = server();
        let error = sweep(&beside_a_fakecloud(server, client, usize::MAX))
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the Nodes back reappear after they are deleted: stop the fakecloud that writes them, \
             then remove them with: kubectl delete node back"
        );
    }

    #[tokio::test]
    async fn a_node_of_another_fakecloud_is_reported_with_a_fix() {
        let (_server, client) = server();
        create_node(&client, "theirs", "kind://docker/").await;
        ensure_none(&client).await.unwrap();
        for name in ["md-a-2", "md-a-1"] {
            create_node(&client, name, "fakecloud://local/vm-").await;
        }
        assert_eq!(
            ensure_none(&client).await.unwrap_err().to_string(),
            "the Nodes md-a-1, md-a-2 of another fakecloud are in the cluster: stop it if it still runs, \
             then remove them with: kubectl delete node md-a-1 md-a-2"
        );
    }
}
