//! A machine without a preservation is reconciled exactly as with preservation disabled.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use mcm_api::{Phase, PreservationEntry, keys};
use mcm_core::machine::{Action, Claimed, Metric, Plan, Settings, View, decide};
use mcm_core::ownership::reference;
use mcm_core::preservation::{Admission, Dialect, ListView};
use rstest::rstest;

use crate::fixtures::*;

fn decided_by(view: &View, dialect: Dialect, minutes: i64) -> Plan {
    let settings = Settings {
        preservation: dialect,
        ..Settings::default()
    };
    decide(
        view,
        &settings,
        start().checked_add(SignedDuration::from_mins(minutes)).unwrap(),
    )
}

/// The machine of a set whose list of preserved machines has this maximum and entry.
fn owned(mut view: View, maximum: usize, entry: Option<PreservationEntry>) -> View {
    view.machine.metadata.owner_references = Some(vec![reference("MachineSet", &<_>::default())]);
    view.owners_list = ListView::Known {
        maximum,
        rolling: false,
        deployed: true,
        entry,
        others: BTreeSet::new(),
    };
    view
}

fn failed() -> View {
    with_conditions(with_vm(Phase::Failed), &unhealthy())
}

#[rstest]
#[case::new(new_machine())]
#[case::pending(with_vm(Phase::Pending))]
#[case::crash_loop(with_vm(Phase::CrashLoopBackOff))]
#[case::running(running())]
#[case::running_without_node(with_vm(Phase::Running))]
#[case::unhealthy(with_conditions(with_vm(Phase::Running), &unhealthy()))]
#[case::unknown(with_conditions(with_vm(Phase::Unknown), &unhealthy()))]
#[case::recovered(with_conditions(with_vm(Phase::Unknown), &healthy()))]
#[case::failed(failed())]
#[case::failed_and_healthy(with_conditions(with_vm(Phase::Failed), &healthy()))]
#[case::updated_in_place(with_conditions(with_vm(Phase::InPlaceUpdating), &unhealthy()))]
#[case::being_deleted(deleting("Initiate node drain"))]
fn without_a_request_and_a_maximum_every_plan_equals_the_plan_of_dialect_off(#[case] view: View) {
    let every = [view.clone(), owned(view, 0, None)];
    for view in &every {
        for minutes in [1, 11, 21, 60 * 24 * 4] {
            let off = decided_by(view, Dialect::Off, minutes);
            for dialect in [Dialect::V2, Dialect::Upstream] {
                assert_eq!(decided_by(view, dialect, minutes), off, "{dialect} after {minutes} min");
            }
        }
    }
}

#[test]
fn a_machine_rejected_by_a_full_list_fails_as_in_dialect_off() {
    let view = owned(with_conditions(with_vm(Phase::Unknown), &unhealthy()), 1, None);
    let claiming = decided_by(&view, Dialect::V2, 11);
    assert_eq!(actions(&claiming), ["claim auto"]);
    assert_eq!(claiming.status, None);
    let refused = View {
        claim: Some(Claimed {
            again: false,
            answer: Err(Admission::Full),
        }),
        ..view.clone()
    };
    let mut plan = decided_by(&refused, Dialect::V2, 11);
    // Only an event, a condition and a metric explain that it is not preserved.
    plan.actions.retain(|action| match action {
        Action::Observe(metric) => !matches!(metric, Metric::PreservationRefused(_)),
        Action::RecordEvent { reason, .. } => reason != "PreservationRefused",
        Action::SetPreservedCondition { status, .. } => *status,
        _ => true,
    });
    assert_eq!(plan, decided_by(&view, Dialect::Off, 11));
}

#[test]
fn a_standalone_machine_is_never_preserved_automatically() {
    let view = with_conditions(with_vm(Phase::Unknown), &unhealthy());
    let plan = decided_by(&view, Dialect::V2, 11);
    assert_eq!((written(&plan).0.as_str(), actions(&plan).len()), ("Failed", 0));
    assert_eq!(plan.status.unwrap().preservation, None);
}

#[test]
fn annotations_have_no_effect_in_dialect_off() {
    let mut view = running();
    let annotations = view.machine.metadata.annotations.get_or_insert_default();
    annotations.insert(keys::PRESERVE_ANNOTATION.to_owned(), "now".to_owned());
    let plan = decided_by(&view, Dialect::Off, 1);
    assert_eq!((actions(&plan).len(), plan.status), (0, None));
}
