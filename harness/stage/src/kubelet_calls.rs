//! The calls of fakecloud's control API that act on a kubelet.

use fakecloud::proto;
use fakecloud::proto::kubelet_fault::Fault;
use mcm_api::GoDuration;
use scenario::step::{KubeletAction, KubeletFaultKind};

use crate::cloud::{CloudClient, CloudError, by_id, limited};

/// The condition of a node whose disk is full.
const DISK_PRESSURE: &str = "DiskPressure";

/// The call that performs an action.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Call {
    Stop,
    Start,
    FillDisk,
    FreeDisk,
    Break(Fault),
    End(proto::KubeletFaultKind),
}

fn call_of(action: KubeletAction) -> Call {
    const NOTHING: proto::Nothing = proto::Nothing {};
    match action {
        KubeletAction::Stop => Call::Stop,
        KubeletAction::Start => Call::Start,
        KubeletAction::FillDisk => Call::FillDisk,
        KubeletAction::FreeDisk => Call::FreeDisk,
        KubeletAction::Reconnect => Call::End(proto::KubeletFaultKind::Outage),
        KubeletAction::End(kind) => Call::End(kind_of(kind)),
        KubeletAction::Partition => Call::Break(Fault::Partitioned(NOTHING)),
        KubeletAction::Freeze => Call::Break(Fault::Frozen(NOTHING)),
        KubeletAction::Flap(flapping) => Call::Break(Fault::Flapping(proto::Flapping {
            period_nanos: nanos(flapping.every),
            up_percent: flapping.up_percent,
            down: proto::KubeletState::Partitioned.into(),
        })),
        KubeletAction::Slow(by) => Call::Break(Fault::SlowNanos(nanos(by))),
        KubeletAction::SlowRecovery(by) => Call::Break(Fault::SlowRecoveryNanos(nanos(by))),
        KubeletAction::ClockAhead(by) => Call::Break(Fault::ClockSkewNanos(offset(by))),
        KubeletAction::ClockBehind(by) => Call::Break(Fault::ClockSkewNanos(-offset(by))),
        KubeletAction::Zombie => Call::Break(Fault::Zombie(NOTHING)),
        KubeletAction::TakeOver => Call::Break(Fault::TakeOver(NOTHING)),
    }
}

impl CloudClient {
    /// Performs an action on a VM's kubelet.
    ///
    /// # Errors
    /// When there is no such VM.
    pub async fn kubelet_action(&self, id: &str, action: KubeletAction) -> Result<(), CloudError> {
        let mut client = self.control();
        match call_of(action) {
            Call::Stop => limited("stop_kubelet", client.stop_kubelet(by_id(id))).await.map(drop),
            Call::Start => limited("start_kubelet", client.start_kubelet(by_id(id)))
                .await
                .map(drop),
            Call::FillDisk => self.fill_disk(id).await,
            Call::FreeDisk => self.free_disk(id).await,
            Call::End(kind) => self.end_faults(id, kind).await,
            Call::Break(fault) => {
                let request = proto::BreakKubeletRequest {
                    vm: Some(by_id(id)),
                    fault: Some(proto::KubeletFault { fault: Some(fault) }),
                    lasts_nanos: None,
                };
                limited("break_kubelet", client.break_kubelet(request)).await.map(drop)
            }
        }
    }

    async fn end_faults(&self, id: &str, kind: proto::KubeletFaultKind) -> Result<(), CloudError> {
        let request = proto::MendKubeletRequest {
            vm: Some(by_id(id)),
            kinds: vec![kind.into()],
        };
        let mut client = self.control();
        limited("mend_kubelet", client.mend_kubelet(request)).await.map(drop)
    }

    async fn fill_disk(&self, id: &str) -> Result<(), CloudError> {
        let condition = proto::NodeCondition {
            r#type: DISK_PRESSURE.to_owned(),
            status: "True".to_owned(),
            ..proto::NodeCondition::default()
        };
        let request = proto::SetNodeConditionRequest {
            vm: Some(by_id(id)),
            condition: Some(condition),
        };
        let mut client = self.control();
        let set = client.set_node_condition(request);
        limited("set_node_condition", set).await.map(drop)
    }

    async fn free_disk(&self, id: &str) -> Result<(), CloudError> {
        let request = proto::ClearNodeConditionRequest {
            vm: Some(by_id(id)),
            r#type: DISK_PRESSURE.to_owned(),
        };
        let mut client = self.control();
        let cleared = client.clear_node_condition(request);
        limited("clear_node_condition", cleared).await.map(drop)
    }
}

fn kind_of(kind: KubeletFaultKind) -> proto::KubeletFaultKind {
    match kind {
        KubeletFaultKind::Outage => proto::KubeletFaultKind::Outage,
        KubeletFaultKind::Slow => proto::KubeletFaultKind::Slow,
        KubeletFaultKind::SlowRecovery => proto::KubeletFaultKind::SlowRecovery,
        KubeletFaultKind::Clock => proto::KubeletFaultKind::ClockSkew,
        KubeletFaultKind::Zombie => proto::KubeletFaultKind::Zombie,
        KubeletFaultKind::TakeOver => proto::KubeletFaultKind::TakeOver,
    }
}

fn nanos(duration: GoDuration) -> u64 {
    u64::try_from(duration.0.as_nanos()).unwrap_or(u64::MAX)
}

fn offset(duration: GoDuration) -> i64 {
    i64::try_from(duration.0.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;
    use scenario::step::KubeletFlapping;

    use super::*;

    const MINUTE: GoDuration = GoDuration(Duration::from_mins(1));
    const NANOS: u64 = 60_000_000_000;

    #[rstest]
    #[case::slow(KubeletAction::Slow(MINUTE), Fault::SlowNanos(NANOS))]
    #[case::slow_recovery(KubeletAction::SlowRecovery(MINUTE), Fault::SlowRecoveryNanos(NANOS))]
    #[case::clock_ahead(KubeletAction::ClockAhead(MINUTE), Fault::ClockSkewNanos(60_000_000_000))]
    #[case::clock_behind(KubeletAction::ClockBehind(MINUTE), Fault::ClockSkewNanos(-60_000_000_000))]
    #[case::frozen(KubeletAction::Freeze, Fault::Frozen(proto::Nothing {}))]
    #[case::partitioned(KubeletAction::Partition, Fault::Partitioned(proto::Nothing {}))]
    #[case::zombie(KubeletAction::Zombie, Fault::Zombie(proto::Nothing {}))]
    #[case::take_over(KubeletAction::TakeOver, Fault::TakeOver(proto::Nothing {}))]
    #[case::flapping(
        KubeletAction::Flap(KubeletFlapping { every: MINUTE, up_percent: 20 }),
        Fault::Flapping(proto::Flapping { period_nanos: NANOS, up_percent: 20, down: proto::KubeletState::Partitioned.into() })
    )]
    fn an_action_is_a_fault_of_fakecloud(#[case] action: KubeletAction, #[case] fault: Fault) {
        assert_eq!(call_of(action), Call::Break(fault));
    }

    #[rstest]
    #[case::outage(KubeletFaultKind::Outage, proto::KubeletFaultKind::Outage)]
    #[case::slow(KubeletFaultKind::Slow, proto::KubeletFaultKind::Slow)]
    #[case::slow_recovery(KubeletFaultKind::SlowRecovery, proto::KubeletFaultKind::SlowRecovery)]
    #[case::clock(KubeletFaultKind::Clock, proto::KubeletFaultKind::ClockSkew)]
    #[case::zombie(KubeletFaultKind::Zombie, proto::KubeletFaultKind::Zombie)]
    #[case::take_over(KubeletFaultKind::TakeOver, proto::KubeletFaultKind::TakeOver)]
    fn a_fault_ends_by_its_kind(#[case] kind: KubeletFaultKind, #[case] ended: proto::KubeletFaultKind) {
        assert_eq!(call_of(KubeletAction::End(kind)), Call::End(ended));
    }
}
