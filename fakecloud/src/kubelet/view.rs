//! What can be told of a kubelet from outside.

use jiff::Timestamp;

use super::fleet::{Fleet, Stage};
use crate::model::Availability;

/// A kubelet as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubeletView {
    /// How far it is.
    pub(crate) stage: &'static str,
    /// How it is just now.
    pub(crate) availability: Availability,
    /// When an outage begins or ends by itself.
    pub(crate) changes_at: Option<Timestamp>,
    /// It is not ready yet after a start or an outage.
    pub(crate) recovering: bool,
    /// The uid of its Node; empty when it has none.
    pub(crate) node_uid: String,
    /// Why it was not let in; empty when it was.
    pub(crate) refused: String,
    /// How many pods are bound to its Node.
    pub(crate) pods: usize,
}

impl Fleet {
    /// The kubelet of the VM of that number.
    pub(crate) fn view(&self, vm: u64, now: Timestamp) -> Option<KubeletView> {
        let kubelet = self.kubelets.get(&vm)?;
        let (_, changes_at) = kubelet.faults.availability(now);
        Some(KubeletView {
            stage: match (&kubelet.stage, &kubelet.refused) {
                (Stage::Off, _) => "off",
                (Stage::Joining, Some(_)) => "refused",
                (Stage::Joining | Stage::Asking(_), _) => "joining",
                (Stage::Registered(_), _) => "registered",
                (Stage::NodeGone, _) => "node gone",
            },
            availability: kubelet.availability,
            changes_at,
            recovering: kubelet.recovering,
            node_uid: kubelet.registered().map(|known| known.uid.clone()).unwrap_or_default(),
            refused: kubelet.refused.clone().unwrap_or_default(),
            pods: self.pods_on(&kubelet.host.node),
        })
    }
}
