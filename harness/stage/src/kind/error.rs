//! What goes wrong with a cluster itself.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kube::config::KubeconfigError;
use kube::runtime::wait;

/// Why a cluster does not come up, cannot be used, or is left.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// kind takes no cluster of that name.
    #[error("--cluster {name:?} is no name of a cluster: use at most 40 lower-case letters, digits and -")]
    Name {
        /// The name.
        name: String,
    },
    /// Another session uses the cluster.
    #[error("the cluster {name} is used by another session of drydock: wait for it, or name another cluster")]
    InUse {
        /// The cluster.
        name: String,
    },
    /// The folder for files of the session is not created.
    #[error("cannot make a temporary folder: {0}")]
    Folder(#[source] io::Error),
    /// A file or folder is not created.
    #[error("cannot make {}: {source}", path.display())]
    Create {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// kind's configuration cannot be read.
    #[error("cannot read --kind-config {}: {source}", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The copy of kind's configuration is not written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The kubeconfig that kind gives makes no configuration of a client.
    #[error("the kubeconfig of cluster {name} is not usable: {source}")]
    Kubeconfig {
        /// The cluster.
        name: String,
        /// Why.
        source: KubeconfigError,
    },
    /// The kubeconfig that kind gives makes no client.
    #[error("the kubeconfig of cluster {name} is not usable: {source}")]
    Client {
        /// The cluster.
        name: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The API server answers with an error.
    #[error("the API server of cluster {name} does not answer: {source}")]
    Version {
        /// The cluster.
        name: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The API server does not answer in time.
    #[error("the API server of cluster {name} does not answer within {limit:?}")]
    NoAnswer {
        /// The cluster.
        name: String,
        /// How long it may take.
        limit: Duration,
    },
    /// The cluster was started for nodes alone, without mcm and fakecloud.
    #[error("cluster {name} was made without images")]
    NoImages {
        /// The cluster.
        name: String,
    },
    /// The pods of the cluster itself are not kept off simulated nodes.
    #[error("cannot keep {object} off simulated nodes: {source}")]
    System {
        /// The workload.
        object: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The namespace of a run is not created.
    #[error("cannot create the namespace {namespace}: {source}")]
    CreateNamespace {
        /// The namespace.
        namespace: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// The namespace of a run is not deleted.
    #[error("cannot delete the namespace {namespace}: {source}")]
    DeleteNamespace {
        /// The namespace.
        namespace: String,
        /// Why.
        source: Box<kube::Error>,
    },
    /// Whether a namespace is gone cannot be watched.
    #[error("the namespace {namespace} cannot be watched: {source}")]
    WatchNamespace {
        /// The namespace.
        namespace: String,
        /// Why.
        source: Box<wait::Error>,
    },
    /// A namespace is not gone in time.
    #[error("the namespace {namespace} is not gone after {limit:?}: {held_by}")]
    NamespaceStays {
        /// The namespace.
        namespace: String,
        /// How long it may take.
        limit: Duration,
        /// Its conditions.
        held_by: String,
    },
    /// A fakecloud writes Nodes again that are deleted.
    #[error(
        "the Nodes {} are written again whenever they are deleted: end the fakecloud that does so, \
         then remove them with: kubectl delete node {}",
        joined(nodes, ", "),
        joined(nodes, " ")
    )]
    NodesComeBack {
        /// Their names.
        nodes: BTreeSet<String>,
    },
    /// The cluster has Nodes of a fakecloud of no session.
    #[error(
        "the Nodes {} of another fakecloud are in the cluster: end it if it still runs, \
         then remove them with: kubectl delete node {}",
        joined(nodes, ", "),
        joined(nodes, " ")
    )]
    OtherNodes {
        /// Their names.
        nodes: BTreeSet<String>,
    },
    /// The cluster is not deleted.
    #[error("the cluster {name} is left; remove it with: kind delete cluster --name {name} ({source})")]
    Left {
        /// The cluster.
        name: String,
        /// Why.
        source: DeleteError,
    },
    /// The cluster is not deleted in time.
    #[error(
        "the cluster {name} is left; remove it with: kind delete cluster --name {name} \
         (it was not deleted within {limit:?})"
    )]
    SlowDeletion {
        /// The cluster.
        name: String,
        /// How long it may take.
        limit: Duration,
    },
    /// The thread that deletes the cluster ends too early.
    #[error(transparent)]
    Deletion(#[from] tokio::task::JoinError),
}

fn joined(names: &BTreeSet<String>, separator: &str) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.join(separator)
}

/// Why a program that deletes a cluster fails.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// It cannot be started.
    #[error(transparent)]
    Start(#[from] io::Error),
    /// It ends without success.
    #[error("{words}")]
    Failed {
        /// The last lines that it wrote.
        words: String,
    },
}
