//! The contract: the reactions of a cluster to written objects.
//!
//! Each case writes objects, waits on watches for the expected reactions, and asserts. It runs against our
//! controllers beside the embedded server, in virtual time. When `DRYDOCK_CONTRACT_KUBECONFIG` names a
//! kubeconfig, it also runs against that control plane (kube-apiserver, kube-controller-manager and
//! kube-scheduler, no kubelet), which is the reference. Nodes and pods are objects that the case writes,
//! including their statuses.
//!
//! Cases share a real cluster: names of cluster-scoped objects must contain `{ns}`, which is replaced by the
//! case's namespace.

mod disruption;
mod garbage_collector;
mod namespaces;
mod nodes;
mod pods;
mod quotas;
mod scheduler;
mod site;
mod volumes;
mod whole_cluster;
mod workloads;
mod zones;

pub(crate) use site::{Site, run};

/// Runs a case, named after the test function, against every available control plane.
macro_rules! contract {
    ($case:expr) => {{
        fn here() {}
        let name = std::any::type_name_of_val(&here).trim_end_matches("::here");
        let name = name.split("contract::").last().unwrap_or(name);
        crate::contract::run(name, $case)
    }};
}
pub(crate) use contract;
