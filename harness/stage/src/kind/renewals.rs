//! Measures how late the kubelets of a cluster renew their Leases. A cluster on a machine with a busy disk stops for seconds
//! without a thread that waits for a core; its kubelets, API server and etcd are then late together.

use std::collections::BTreeMap;
use std::time::Duration;

use clock::{Clock, LostTime, Recorder};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use tokio::task::JoinSet;

use super::KindError;
use crate::objects::{cannot_read, is_of_our_cloud};

/// The namespace of the Leases of kubelets.
const NAMESPACE: &str = "kube-node-lease";
/// How often the Leases are read, and how long a read may take.
const POLL: Duration = Duration::from_millis(500);
/// A kubelet renews its Lease four times per duration of the Lease (kubelet, `nodeLeaseRenewIntervalFraction`).
const RENEWALS: u32 = 4;
/// The duration of a Lease that has none (the default of `nodeLeaseDurationSeconds`), in seconds.
const DURATION: i32 = 40;

/// Starts to measure the kubelets of the nodes that the cluster has now, except those of fakecloud. Dropping the task ends
/// the measurement.
///
/// # Errors
/// When the nodes cannot be read.
pub(super) async fn measure(client: &kube::Client) -> Result<(LostTime, JoinSet<()>), KindError> {
    let listed = Api::<Node>::all(client.clone()).list(&ListParams::default()).await;
    let listed = listed.map_err(cannot_read("nodes"))?;
    let nodes: Vec<String> = listed
        .iter()
        .filter(|node| !is_of_our_cloud(node))
        .map(ResourceExt::name_any)
        .collect();
    let (lost, recorder) = LostTime::recorded();
    let mut task = JoinSet::new();
    task.spawn(poll(Api::namespaced(client.clone(), NAMESPACE), nodes, recorder));
    Ok((lost, task))
}

async fn poll(leases: Api<Lease>, nodes: Vec<String>, recorder: Recorder) {
    let clock = Clock::wall();
    let mut renewals: BTreeMap<String, Renewals> = BTreeMap::new();
    loop {
        for node in &nodes {
            // A read that fails or takes too long is a sign of the same trouble: the last known renewal counts.
            let read = tokio::time::timeout(POLL, leases.get(node)).await;
            if let Some((renewed, duration)) = read.ok().and_then(Result::ok).as_ref().and_then(renewal) {
                let known = renewals.entry(node.clone());
                known.or_insert_with(|| Renewals::new(renewed, duration)).renew(renewed);
            }
        }
        let now = clock.now();
        let late = renewals.values_mut().map(|renewals| renewals.new_loss(now)).max();
        recorder.add(now, late.unwrap_or_default());
        tokio::time::sleep(POLL).await;
    }
}

/// When the Lease was last renewed, and its duration.
fn renewal(lease: &Lease) -> Option<(Timestamp, Duration)> {
    let spec = lease.spec.as_ref()?;
    let duration = spec.lease_duration_seconds.unwrap_or(DURATION);
    let duration = Duration::from_secs(u64::try_from(duration).ok()?);
    Some((spec.renew_time.as_ref()?.0, duration))
}

/// The renewals of one Lease.
#[derive(Debug)]
struct Renewals {
    last: Timestamp,
    /// The usual time between two renewals, and half of it again.
    usual: Duration,
    /// The loss since the last renewal that is recorded.
    recorded: Duration,
    /// The loss before the last renewal that is not recorded.
    unrecorded: Duration,
}

impl Renewals {
    fn new(last: Timestamp, duration: Duration) -> Self {
        Self {
            last,
            usual: duration / RENEWALS * 3 / 2,
            recorded: Duration::ZERO,
            unrecorded: Duration::ZERO,
        }
    }

    /// By how much a renewal at `moment` is late.
    fn late(&self, moment: Timestamp) -> Duration {
        let gap = Duration::try_from(moment.duration_since(self.last)).unwrap_or_default();
        gap.saturating_sub(self.usual)
    }

    /// Takes note of the newest renewal.
    fn renew(&mut self, renewed: Timestamp) {
        if renewed > self.last {
            self.unrecorded += self.late(renewed).saturating_sub(self.recorded);
            self.recorded = Duration::ZERO;
            self.last = renewed;
        }
    }

    /// The loss until `now` that no earlier call returned.
    fn new_loss(&mut self, now: Timestamp) -> Duration {
        let late = self.late(now);
        let new = late.saturating_sub(self.recorded);
        self.recorded = self.recorded.max(late);
        std::mem::take(&mut self.unrecorded) + new
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    /// Renewals of a Lease of 8 s, which are late after 3 s: each read has a moment and the renewal that it returns.
    #[rstest]
    #[case::in_time(&[(1, 0), (2, 2), (3, 2), (4, 4), (6, 6)], 0)]
    #[case::late_while_it_lasts(&[(1, 0), (4, 0), (5, 0), (10, 0)], 7)]
    #[case::late_and_renewed(&[(1, 0), (10, 0), (12, 12), (14, 14)], 9)]
    #[case::late_between_two_reads(&[(1, 0), (12, 12), (13, 12)], 9)]
    #[case::late_twice(&[(1, 0), (5, 5), (10, 10), (11, 10)], 4)]
    #[case::a_renewal_of_the_past(&[(1, 0), (4, 4), (5, 0)], 1)]
    fn losses_are_late_renewals(#[case] reads: &[(i64, i64)], #[case] lost: u64) {
        let mut renewals = Renewals::new(at(0), Duration::from_secs(8));
        let mut sum = Duration::ZERO;
        for (now, renewed) in reads {
            renewals.renew(at(*renewed));
            sum += renewals.new_loss(at(*now));
        }
        assert_eq!(sum, Duration::from_secs(lost));
    }
}
