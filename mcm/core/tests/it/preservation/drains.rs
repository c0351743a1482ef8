//! A machine may be drained more than once: each drain starts without the in-memory state of an earlier one.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use mcm_api::{Phase, PreservationStage, keys};
use mcm_core::machine::{Claimed, DrainMemory, EvictionOutcome, Plan, Settings, View, decide};
use mcm_core::ownership::reference;
use mcm_core::preservation::ListView;

use crate::fixtures::*;

/// Adds the refused eviction of an earlier drain.
fn with_drain_state(mut view: View) -> View {
    view.drain.attempted("uid-pod", start(), EvictionOutcome::Refused);
    view
}

fn decided(view: &View) -> Plan {
    let now = start().checked_add(SignedDuration::from_mins(11)).unwrap();
    decide(view, &Settings::default(), now)
}

#[test]
fn a_deletion_resets_the_drain_state_of_a_preservation() {
    let mut view = with_drain_state(running());
    view.machine.metadata.deletion_timestamp = Some(Time(start()));
    assert_eq!(decided(&view).drain, Some(DrainMemory::default()));
    view.drain = DrainMemory::default();
    assert_eq!(decided(&view).drain, None);
}

#[test]
fn a_second_preservation_resets_the_drain_state_of_the_first() {
    let mut view = with_drain_state(with_conditions(with_vm(Phase::Unknown), &unhealthy()));
    let metadata = &mut view.machine.metadata;
    metadata.owner_references = Some(vec![reference("MachineSet", &<_>::default())]);
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(keys::PRESERVE_ANNOTATION.to_owned(), "when-failed".to_owned());
    view.owners_list = ListView::Unknown;
    view.claim = Some(Claimed {
        again: true,
        answer: Ok(()),
    });
    let plan = decided(&view);
    let stage = plan.status.unwrap().preservation.unwrap().stage;
    assert_eq!(
        (stage, plan.drain),
        (PreservationStage::Draining, Some(DrainMemory::default()))
    );
}
