//! Collects information about a failed run: logs and objects of its namespace, and logs of the control plane and
//! kubelets.
//!
//! It does not read Secrets.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, LogParams};

use super::cluster::Cluster;

/// The maximum number of lines of a container log.
const LINES: i64 = 5000;
/// The maximum number of lines of a kubelet log.
const KUBELET_LINES: &str = "1000";
/// The collected kinds, as group, version and kind.
const DUMPED: [(&str, &str, &str); 13] = [
    ("machine.sapcloud.io", "v1alpha1", "Machine"),
    ("machine.sapcloud.io", "v1alpha1", "MachineSet"),
    ("machine.sapcloud.io", "v1alpha1", "MachineDeployment"),
    ("machine.sapcloud.io", "v1alpha1", "MachineClass"),
    ("", "v1", "Pod"),
    ("", "v1", "Event"),
    ("", "v1", "Node"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "ReplicaSet"),
    ("policy", "v1", "PodDisruptionBudget"),
    ("coordination.k8s.io", "v1", "Lease"),
    ("storage.k8s.io", "v1", "VolumeAttachment"),
    ("", "v1", "PersistentVolume"),
];
/// The collected kinds that are cluster-wide.
const CLUSTER_WIDE: [&str; 3] = ["Node", "VolumeAttachment", "PersistentVolume"];

/// All files by name. A file that cannot be collected contains the error.
pub(super) async fn collect(cluster: &Cluster, namespace: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    logs(&cluster.client, namespace, "", &mut files).await;
    logs(&cluster.client, "kube-system", "kube-controller-manager", &mut files).await;
    logs(&cluster.client, "kube-system", "kube-scheduler", &mut files).await;
    for (group, version, kind) in DUMPED {
        let text = dump(&cluster.client, namespace, group, version, kind).await;
        files.insert(format!("cluster/{}.yaml", kind.to_lowercase()), text.into_bytes());
    }
    match cluster.engine.nodes(Some(&cluster.name)).await {
        Ok(nodes) => {
            for (_, node) in nodes {
                let command = [
                    "journalctl",
                    "--unit",
                    "kubelet",
                    "--no-pager",
                    "--lines",
                    KUBELET_LINES,
                ];
                let text = cluster
                    .engine
                    .execute(&node, &command)
                    .await
                    .unwrap_or_else(|error| error.to_string());
                files.insert(format!("cluster/kubelet-{node}.log"), text.into_bytes());
            }
        }
        Err(error) => drop(files.insert("cluster/nodes.txt".to_owned(), error.to_string().into_bytes())),
    }
    files
}

/// Adds the logs of all containers of the pods whose names begin with `prefix`, including logs from before a restart.
async fn logs(client: &kube::Client, namespace: &str, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let pods = match api.list(&ListParams::default()).await {
        Ok(pods) => pods,
        Err(error) => {
            files.insert(format!("logs/{namespace}.txt"), error.to_string().into_bytes());
            return;
        }
    };
    for pod in pods.iter().filter(|pod| pod.name_any().starts_with(prefix)) {
        let statuses = pod
            .status
            .iter()
            .flat_map(|status| status.container_statuses.iter().flatten());
        // A pod on a simulated node has no logs.
        for status in statuses.filter(|status| {
            status
                .container_id
                .as_deref()
                .is_none_or(|id| !id.starts_with("fakecloud"))
        }) {
            for previous in [false, true] {
                if previous && status.restart_count == 0 {
                    continue;
                }
                let parameters = LogParams {
                    container: Some(status.name.clone()),
                    previous,
                    tail_lines: Some(LINES),
                    timestamps: true,
                    ..LogParams::default()
                };
                let text = api
                    .logs(&pod.name_any(), &parameters)
                    .await
                    .unwrap_or_else(|error| error.to_string());
                let suffix = if previous { ".previous" } else { "" };
                files.insert(format!("logs/{}{suffix}.log", pod.name_any()), text.into_bytes());
            }
        }
    }
}

async fn dump(client: &kube::Client, namespace: &str, group: &str, version: &str, kind: &str) -> String {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = if CLUSTER_WIDE.contains(&kind) {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    };
    match api.list(&ListParams::default()).await {
        Ok(list) => serde_saphyr::to_string(&list.items).unwrap_or_else(|error| error.to_string()),
        Err(error) => error.to_string(),
    }
}
