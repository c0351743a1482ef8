//! The contract: what a cluster does by itself once something has been written.
//!
//! Each case writes objects, waits on watches for what must follow, and asserts. It runs against our
//! controllers beside the embedded server, in virtual time. When `DRYDOCK_CONTRACT_KUBECONFIG` names
//! a kubeconfig, it runs against that control plane too (a kube-apiserver with
//! kube-controller-manager and kube-scheduler, no kubelet), which is the judge. Nodes and pods are
//! objects that the case writes, their statuses too.
//!
//! Cases share a real cluster: names of cluster-scoped objects must contain `{ns}`, which stands for
//! the case's namespace.

mod disruption;
mod garbage_collector;
mod namespaces;
mod nodes;
mod pods;
mod scheduler;
mod site;
mod volumes;
mod whole_cluster;
mod workloads;
mod zones;

pub(crate) use site::{Site, run};

/// Runs a case, named after the test function, against every control plane there is.
macro_rules! contract {
    ($case:expr) => {{
        fn here() {}
        let name = std::any::type_name_of_val(&here).trim_end_matches("::here");
        let name = name.split("contract::").last().unwrap_or(name);
        crate::contract::run(name, $case)
    }};
}
pub(crate) use contract;
