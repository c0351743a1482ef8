//! Errors of a kind cluster itself.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use kube::runtime::wait;
use runtime::error::brief;
use runtime::kube_config::ConfigError;

/// Errors of creating, using and deleting a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The name is not a valid cluster name.
    #[error("--cluster {name:?} is not a valid cluster name: use at most 40 lower-case letters, digits and -")]
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
    /// The folder for files of the session cannot be created.
    #[error("cannot create a temporary folder: {0}")]
    Folder(#[source] io::Error),
    /// A file or folder cannot be created.
    #[error("cannot create {}: {source}", path.display())]
    Create {
        /// Its path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// kind's configuration cannot be read.
    #[error("cannot read --kind-config {}: {source}", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The copy of kind's configuration cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The kubeconfig from kind cannot be loaded.
    #[error("the kubeconfig of cluster {name} is not usable: {source}")]
    Kubeconfig {
        /// The cluster.
        name: String,
        /// The cause.
        source: ConfigError,
    },
    /// No client can be created from the kubeconfig.
    #[error("the kubeconfig of cluster {name} is not usable: {}", brief(source))]
    Client {
        /// The cluster.
        name: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The API server returns an error.
    #[error("the API server of cluster {name} does not answer: {}", brief(source))]
    Version {
        /// The cluster.
        name: String,
        /// The cause.
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
    /// The cluster was created without the images of mcm and fakecloud.
    #[error("cluster {name} was created without images")]
    NoImages {
        /// The cluster.
        name: String,
    },
    /// The node affinity of a system workload cannot be set.
    #[error("cannot keep {object} off simulated nodes: {}", brief(source))]
    System {
        /// The workload.
        object: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The namespace of a run cannot be created.
    #[error("cannot create the namespace {namespace}: {}", brief(source))]
    CreateNamespace {
        /// The namespace.
        namespace: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The namespace of a run cannot be deleted.
    #[error("cannot delete the namespace {namespace}: {}", brief(source))]
    DeleteNamespace {
        /// The namespace.
        namespace: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// The watch for the deletion of a namespace fails.
    #[error("the namespace {namespace} cannot be watched: {source}")]
    WatchNamespace {
        /// The namespace.
        namespace: String,
        /// The cause.
        source: Box<wait::Error>,
    },
    /// A namespace is not deleted in time.
    #[error("the namespace {namespace} is not deleted after {limit:?}: {conditions}")]
    NamespaceStays {
        /// The namespace.
        namespace: String,
        /// How long it may take.
        limit: Duration,
        /// The messages of its conditions.
        conditions: String,
    },
    /// A running fakecloud writes deleted Nodes again.
    #[error(
        "the Nodes {} reappear after they are deleted: stop the fakecloud that writes them, \
         then remove them with: kubectl delete node {}",
        joined(nodes, ", "),
        joined(nodes, " ")
    )]
    NodesComeBack {
        /// Their names.
        nodes: BTreeSet<String>,
    },
    /// The cluster has Nodes of a fakecloud that belongs to no session.
    #[error(
        "the Nodes {} of another fakecloud are in the cluster: stop it if it still runs, \
         then remove them with: kubectl delete node {}",
        joined(nodes, ", "),
        joined(nodes, " ")
    )]
    OtherNodes {
        /// Their names.
        nodes: BTreeSet<String>,
    },
    /// The cluster cannot be deleted.
    #[error("the cluster {name} is not deleted; delete it with: kind delete cluster --name {name} ({source})")]
    Left {
        /// The cluster.
        name: String,
        /// The cause.
        source: DeleteError,
    },
    /// The cluster is not deleted in time.
    #[error(
        "the cluster {name} is not deleted; delete it with: kind delete cluster --name {name} \
         (it was not deleted within {limit:?})"
    )]
    SlowDeletion {
        /// The cluster.
        name: String,
        /// How long it may take.
        limit: Duration,
    },
    /// The task that deletes the cluster fails.
    #[error(transparent)]
    Deletion(#[from] tokio::task::JoinError),
}

fn joined(names: &BTreeSet<String>, separator: &str) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.join(separator)
}

/// Errors of a program that deletes a cluster.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// It cannot be started.
    #[error(transparent)]
    Start(#[from] io::Error),
    /// It fails.
    #[error("{output}")]
    Failed {
        /// Its last lines of output.
        output: String,
    },
}
