//! Performs actions: one patch each, with the resource version that the decision was made on, so
//! that a change in between makes it fail instead of overwriting.

use std::time::Duration;

use clock::Clock;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use thiserror::Error;

use super::{Action, Silence};

/// How long one API call may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);

/// Why an action was not carried out; each is tried again at the next look.
#[derive(Debug, Error)]
pub(super) enum Error {
    #[error("{what} of node {node}: {source}")]
    Api {
        what: &'static str,
        node: String,
        source: kube::Error,
    },
    #[error("{what} of node {node}: the API server did not answer within {CALL_TIMEOUT:?}")]
    Timeout { what: &'static str, node: String },
}

/// Carries out `action` on `node`; returns the Node as written, if it was.
pub(super) async fn act(client: &Client, clock: &Clock, node: &Node, action: &Action) -> Result<Option<Node>, Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let name = node.name_any();
    match action {
        Action::SetConditions { conditions, silence } => {
            tracing::info!(
                node = name,
                ?silence,
                "turning the conditions of a silent kubelet to Unknown"
            );
            let patch = Patch::Strategic(versioned(node, json!({ "status": { "conditions": conditions } })));
            let what = match silence {
                Silence::StoppedPosting => "turning the conditions Unknown",
                Silence::NeverPosted => "making up the conditions",
            };
            call(what, &name, nodes.patch_status(&name, &PatchParams::default(), &patch))
                .await
                .map(Some)
        }
        Action::SetTaints(taints) => {
            let keys: Vec<_> = taints
                .iter()
                .map(|taint| format!("{}:{}", taint.key, taint.effect))
                .collect();
            tracing::info!(node = name, taints = keys.join(" "), "setting taints");
            let patch = Patch::Merge(versioned(node, json!({ "spec": { "taints": taints } })));
            call(
                "setting the taints",
                &name,
                nodes.patch(&name, &PatchParams::default(), &patch),
            )
            .await
            .map(Some)
        }
        Action::MarkPodsNotReady { .. } => {
            mark_pods_not_ready(client, clock, &name).await?;
            Ok(None)
        }
    }
}

async fn mark_pods_not_ready(client: &Client, clock: &Clock, node: &str) -> Result<(), Error> {
    let what = "marking the pods";
    let everywhere: Api<Pod> = Api::all(client.clone());
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = call(what, node, everywhere.list(&on_node)).await?;
    for pod in pods.items.iter().filter(|pod| is_ready(pod)) {
        let api: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        let ready = json!({ "type": "Ready", "status": "False", "lastTransitionTime": Time(clock.now()) });
        let patch = json!({
            "metadata": { "resourceVersion": pod.resource_version() },
            "status": { "conditions": [ready] },
        });
        let patched = call(
            what,
            node,
            api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)),
        )
        .await;
        match patched {
            Err(Error::Api { source, .. }) if is_not_found(&source) => {}
            other => drop(other?),
        }
    }
    Ok(())
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    conditions
        .iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_not_found())
}

fn versioned(node: &Node, mut patch: Value) -> Value {
    patch["metadata"] = json!({ "resourceVersion": node.resource_version() });
    patch
}

async fn call<T>(what: &'static str, node: &str, call: impl Future<Output = kube::Result<T>>) -> Result<T, Error> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(source)) => Err(Error::Api {
            what,
            node: node.to_owned(),
            source,
        }),
        Err(_) => Err(Error::Timeout {
            what,
            node: node.to_owned(),
        }),
    }
}
