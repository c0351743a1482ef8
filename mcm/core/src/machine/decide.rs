//! The order in which a machine's affairs are looked at.

use jiff::Timestamp;
use mcm_api::keys;

use super::{Action, Plan, Reason, Settings, View};

/// What is to be done about a machine now.
///
/// Nothing is remembered from one call to the next: a process that dies between any two actions
/// leaves just another view.
pub fn decide(view: &View, settings: &Settings, _now: Timestamp) -> Plan {
    let finalizers = view.machine.metadata.finalizers.iter().flatten();
    if view.machine.metadata.deletion_timestamp.is_none()
        && !finalizers.clone().any(|name| name == keys::MACHINE_FINALIZER)
    {
        return Plan {
            actions: vec![Action::AddFinalizer],
            status: None,
            wake: Some(settings.retry.short),
            reason: Reason::FinalizerMissing,
        };
    }
    Plan {
        actions: Vec::new(),
        status: None,
        wake: Some(settings.retry.long),
        reason: Reason::Nothing,
    }
}
