//! The public state of a kubelet.

use jiff::Timestamp;

use super::fleet::{Fleet, Stage};
use crate::model::Availability;

/// The current state of a kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KubeletView {
    /// Its registration phase.
    pub(crate) stage: &'static str,
    /// Its availability.
    pub(crate) availability: Availability,
    /// Time of the next scheduled change of the availability.
    pub(crate) changes_at: Option<Timestamp>,
    /// Whether it is not ready yet after a start or an outage.
    pub(crate) recovering: bool,
    /// The uid of its Node; empty: none.
    pub(crate) node_uid: String,
    /// Why it was rejected; empty: it was not.
    pub(crate) refused: String,
    /// Number of pods that are bound to its Node.
    pub(crate) pods: usize,
}

impl Fleet {
    /// The kubelet of the VM with an ordinal.
    pub(crate) fn view(&self, vm: u64, now: Timestamp) -> Option<KubeletView> {
        let kubelet = self.kubelets.get(&vm)?;
        let (_, changes_at) = kubelet.faults.availability(now);
        Some(KubeletView {
            stage: match (&kubelet.stage, &kubelet.refused) {
                (Stage::Off, _) => "off",
                (Stage::Joining, Some(_)) => "refused",
                (Stage::Joining | Stage::Calling(_), _) => "joining",
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
