//! Node lifecycle: finds out that a kubelet has fallen silent, says so in the Node's conditions,
//! and keeps the taints that follow from them.
//!
//! A dead kubelet writes nothing. Its silence is measured on this controller's own clock, from the
//! moment at which it last saw the kubelet's Lease or heartbeat change; clocks of nodes do not
//! matter. As in kube-controller-manager, with its [limits by zone](zones). What must not live here:
//! evicting pods from tainted nodes.

mod controller;
mod decide;
mod observe;
mod taints;
mod view;
pub mod zones;

use std::time::Duration;

use clock::{LostTime, Pulses};

pub use controller::{NodeLifecycle, Reason};
pub use decide::{Decision, Plan, Silence, decide};
pub use observe::Observations;
pub use view::NodeView;

/// The periods of the node lifecycle controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How often nodes are looked at. Signs of life and their absence count from one such look, and
    /// what failed is tried again at the next.
    pub monitor_period: Duration,
    /// How long a kubelet may be silent before its node's conditions turn Unknown.
    pub grace: Duration,
    /// The same for a node whose kubelet has never posted a status, from the node's creation.
    pub startup_grace: Duration,
    /// How fast nodes of one zone get the taints that drive their pods away.
    pub limits: zones::Limits,
    /// Where kubelets, by the uids of their Nodes, are said to be alive without renewing their Leases; absent: nowhere.
    pub pulses: Option<Pulses>,
    /// By what graces are extended: the time that the machine kept this process waiting, since kubelets beside it waited too.
    pub lost_time: LostTime,
}

impl Default for Settings {
    /// kube-controller-manager's values since Kubernetes 1.32: 5 s, 50 s and 60 s.
    fn default() -> Self {
        Self {
            monitor_period: Duration::from_secs(5),
            grace: Duration::from_secs(50),
            startup_grace: Duration::from_secs(60),
            limits: zones::Limits::default(),
            pulses: None,
            lost_time: LostTime::none(),
        }
    }
}

#[cfg(test)]
mod tests;
