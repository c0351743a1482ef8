//! Conversion between the phase in the API, which may have the sub-phase Preserved, and the phase that rules use.
//!
//! All other rules use phases without the sub-phase: it is removed from views, and added to status writes.

use std::sync::Arc;

use mcm_api::{Machine, MachineStatus, Phase, PreservationStage};

use super::Dialect;

/// The phase as it is written: with the sub-phase while there is an expiry, except during the drain of a Failed
/// machine.
pub fn shown(status: &MachineStatus, dialect: Dialect) -> Option<Phase> {
    let phase = status.current_status.base()?;
    let kept = status.current_status.preserve_expiry_time.is_some();
    let draining = status
        .preservation
        .as_ref()
        .is_some_and(|record| record.stage == PreservationStage::Draining);
    Some(if kept && !draining && dialect.shows_sub_phase() {
        phase.preserved()
    } else {
        phase.clone()
    })
}

/// The machine without the sub-phase; `None`: it has none.
pub(crate) fn without_sub_phase(machine: &Machine) -> Option<Machine> {
    let phase = machine.status.current_status.phase.as_ref()?;
    (phase.base() != phase).then(|| {
        let mut plain = machine.clone();
        plain.status.current_status.phase = Some(phase.base().clone());
        plain
    })
}

/// The machines without the sub-phase; `None`: none has it.
pub(crate) fn without_sub_phases(machines: &[Arc<Machine>]) -> Option<Vec<Arc<Machine>>> {
    if machines.iter().all(|machine| without_sub_phase(machine).is_none()) {
        return None;
    }
    let plain = |machine: &Arc<Machine>| without_sub_phase(machine).map_or_else(|| Arc::clone(machine), Arc::new);
    Some(machines.iter().map(plain).collect())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use mcm_api::Preservation;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::not_preserved(Phase::Failed, false, None, "Failed")]
    #[case::draining(Phase::Failed, false, Some(PreservationStage::Draining), "Failed")]
    #[case::draining_again(Phase::Failed, true, Some(PreservationStage::Draining), "Failed")]
    #[case::failed(Phase::Failed, true, Some(PreservationStage::Preserved), "Failed:Preserved")]
    #[case::running(Phase::Running, true, Some(PreservationStage::Preserved), "Running:Preserved")]
    #[case::unknown(Phase::Unknown, true, Some(PreservationStage::Preserved), "Unknown")]
    #[case::pending(Phase::Pending, true, Some(PreservationStage::Preserved), "Pending")]
    #[case::over(Phase::FailedPreserved, false, Some(PreservationStage::Releasing), "Failed")]
    fn the_sub_phase_follows_expiry_and_stage(
        #[case] phase: Phase,
        #[case] expiry: bool,
        #[case] stage: Option<PreservationStage>,
        #[case] expected: &str,
    ) {
        let mut status = MachineStatus::default();
        status.current_status.phase = Some(phase.clone());
        status.current_status.preserve_expiry_time = expiry.then_some(Time(jiff::Timestamp::UNIX_EPOCH));
        status.preservation = stage.map(|stage| Preservation {
            stage,
            ..Preservation::default()
        });
        assert_eq!(shown(&status, Dialect::V2).unwrap().as_str(), expected);
        assert_eq!(shown(&status, Dialect::Upstream).unwrap(), *phase.base());
    }
}
