//! The calls of fakecloud's control API that act on a kubelet.

use fakecloud::proto;
use fakecloud::proto::kubelet_fault::Fault;
use mcm_api::GoDuration;
use scenario::step::{KubeletAction, KubeletFaultKind};

use crate::cloud::{CloudClient, CloudError, by_id, limited};

/// The condition of a node whose disk is full.
const DISK_PRESSURE: &str = "DiskPressure";

impl CloudClient {
    /// Performs an action on a VM's kubelet.
    ///
    /// # Errors
    /// When there is no such VM.
    pub async fn kubelet_action(&self, id: &str, action: KubeletAction) -> Result<(), CloudError> {
        const NOTHING: proto::Nothing = proto::Nothing {};
        let mut client = self.control();
        let fault = match action {
            KubeletAction::Stop => return limited("stop_kubelet", client.stop_kubelet(by_id(id))).await.map(drop),
            KubeletAction::Start => {
                return limited("start_kubelet", client.start_kubelet(by_id(id)))
                    .await
                    .map(drop);
            }
            KubeletAction::FillDisk => return self.fill_disk(id).await,
            KubeletAction::FreeDisk => return self.free_disk(id).await,
            KubeletAction::Reconnect => return self.end_faults(id, proto::KubeletFaultKind::Outage).await,
            KubeletAction::End(kind) => return self.end_faults(id, kind_of(kind)).await,
            KubeletAction::Partition => Fault::Partitioned(NOTHING),
            KubeletAction::Freeze => Fault::Frozen(NOTHING),
            KubeletAction::Flap(flapping) => Fault::Flapping(proto::Flapping {
                period_nanos: nanos(flapping.every),
                up_percent: flapping.up_percent,
                down: proto::KubeletState::Partitioned.into(),
            }),
            KubeletAction::Slow(by) => Fault::SlowNanos(nanos(by)),
            KubeletAction::SlowRecovery(by) => Fault::SlowRecoveryNanos(nanos(by)),
            KubeletAction::ClockAhead(by) => Fault::ClockSkewNanos(offset(by)),
            KubeletAction::ClockBehind(by) => Fault::ClockSkewNanos(-offset(by)),
            KubeletAction::Zombie => Fault::Zombie(NOTHING),
            KubeletAction::TakeOver => Fault::TakeOver(NOTHING),
        };
        let request = proto::BreakKubeletRequest {
            vm: Some(by_id(id)),
            fault: Some(proto::KubeletFault { fault: Some(fault) }),
            lasts_nanos: None,
        };
        limited("break_kubelet", client.break_kubelet(request)).await.map(drop)
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
