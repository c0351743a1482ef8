//! Node lifecycle: detects silent kubelets, reports them in the node conditions, and maintains the resulting
//! taints.
//!
//! A dead kubelet writes nothing. The controller measures the silence on its own clock, from the moment at
//! which it last saw the kubelet's Lease or heartbeat change; the clocks of nodes do not matter. As in
//! kube-controller-manager, with its [limits by zone](zones). Evicting pods from tainted nodes belongs to
//! `taint_eviction`.

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
    /// The period of the monitor rounds. Signs of life and silence are noticed only in a round, and failed
    /// writes are retried in the next round.
    pub monitor_period: Duration,
    /// How long a kubelet may be silent before its node's conditions turn Unknown.
    pub grace: Duration,
    /// The same limit for a kubelet that has never posted a status, from the creation of its node.
    pub startup_grace: Duration,
    /// How fast nodes of one zone get `NoExecute` taints.
    pub limits: zones::Limits,
    /// Kubelets with a pulse, by the uids of their nodes: alive without renewing their Leases. `None`: all
    /// kubelets renew.
    pub pulses: Option<Pulses>,
    /// Extends grace periods by the time for which the host starved this process, since kubelets on the same
    /// host were starved too.
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
