//! What the safety controllers and the others tell each other: the health of the API servers, and what may leave orphan VMs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcm_api::{Code, Machine, MachineStatus};
use mcm_core::safety::api_health::ApiHealth;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cache::Change;

/// What the safety controllers and the others tell each other. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    health: Mutex<ApiHealth>,
    /// The caches are filled.
    filled: Notify,
    /// A machine went, or has several VMs.
    suspicion: Notify,
    /// Nothing is frozen any more.
    thawed: Notify,
    /// A VM is being collected at this moment.
    collecting: AtomicBool,
}

impl Guard {
    /// What is known of the API servers.
    pub(crate) fn health(&self) -> ApiHealth {
        *self.0.health.lock()
    }

    /// Whether no VM may be touched.
    pub(crate) fn is_frozen(&self) -> bool {
        self.health().is_frozen()
    }

    /// Tells that the caches are filled.
    pub(crate) fn filled(&self) {
        self.0.filled.notify_one();
    }

    /// Returns when nothing is frozen any more.
    pub(crate) async fn thawed(&self) {
        self.0.thawed.notified().await;
    }

    /// Tells that nothing is frozen any more.
    pub(crate) fn thaw(&self) {
        self.0.thawed.notify_one();
    }

    /// Tells that there may be orphan VMs.
    pub(crate) fn suspect(&self) {
        self.0.suspicion.notify_one();
    }

    /// Returns when there may be orphan VMs.
    pub(crate) async fn suspected(&self) {
        self.0.suspicion.notified().await;
    }

    /// Returns when the caches are filled.
    pub(crate) async fn caches_filled(&self) {
        self.0.filled.notified().await;
    }

    /// Tells whether a VM is being collected at this moment.
    pub(crate) fn set_collecting(&self, collecting: bool) {
        self.0.collecting.store(collecting, Ordering::Relaxed);
    }

    /// Whether the collection is in the middle of a deletion.
    pub(crate) fn is_collecting(&self) -> bool {
        self.0.collecting.load(Ordering::Relaxed)
    }

    /// A change of a machine: one that went, or whose cloud says that it has several VMs, may have left some.
    pub(crate) fn machine_changed(&self, change: &Change<Machine>) {
        let status = |machine: &Option<Arc<Machine>>| machine.as_ref().map(|machine| machine.status.clone());
        match (status(&change.old), status(&change.new)) {
            (_, None) => self.0.suspicion.notify_one(),
            (old, Some(new)) => self.status_changed(&old.unwrap_or_default(), &new),
        }
    }

    /// A change of a machine's status, by others or by this process: of what it wrote itself no watch tells it.
    pub(crate) fn status_changed(&self, old: &MachineStatus, new: &MachineStatus) {
        let several = |status: &MachineStatus| {
            let operation = status.last_operation.as_ref();
            operation.is_some_and(|operation| operation.error_code == Code::OutOfRange.name())
        };
        if several(new) && !several(old) {
            self.0.suspicion.notify_one();
        }
    }

    pub(crate) fn set(&self, health: ApiHealth) {
        *self.0.health.lock() = health;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use mcm_api::machine::LastOperation;
    use rstest::rstest;

    use super::*;

    /// A machine whose last operation ended with that code.
    fn machine(code: Code) -> Machine {
        let operation = LastOperation {
            error_code: code.name().to_owned(),
            ..LastOperation::default()
        };
        let mut machine = Machine::default();
        machine.status.last_operation = Some(operation);
        machine
    }

    fn is_suspicious(guard: &Guard) -> bool {
        guard.0.suspicion.notified().now_or_never().is_some()
    }

    const SEVERAL: Option<Code> = Some(Code::OutOfRange);
    const OTHER: Option<Code> = Some(Code::Internal);

    #[rstest]
    #[case::deleted(OTHER, None, true)]
    #[case::deleted_with_the_code(SEVERAL, None, true)]
    #[case::updated_without_the_code(OTHER, OTHER, false)]
    #[case::updated_with_the_code(OTHER, SEVERAL, true)]
    #[case::old_only(SEVERAL, OTHER, false)]
    #[case::known(SEVERAL, SEVERAL, false)]
    #[case::added_without_the_code(None, OTHER, false)]
    #[case::added_with_the_code(None, SEVERAL, true)]
    fn orphans_are_looked_for_when_a_machine_goes_or_has_several_vms(
        #[case] old: Option<Code>,
        #[case] new: Option<Code>,
        #[case] suspicious: bool,
    ) {
        let guard = Guard::default();
        let side = |code: Option<Code>| code.map(|code| Arc::new(machine(code)));
        guard.machine_changed(&Change {
            old: side(old),
            new: side(new),
            first_list: false,
        });
        assert_eq!(is_suspicious(&guard), suspicious);
        assert!(!is_suspicious(&guard), "one pass for each suspicion");
    }

    /// Of what this process wrote itself no watch tells it.
    #[rstest]
    #[case::without_the_code(OTHER, OTHER, false)]
    #[case::with_the_code(OTHER, SEVERAL, true)]
    #[case::old_only(SEVERAL, OTHER, false)]
    fn orphans_are_looked_for_when_this_process_writes_that_a_machine_has_several_vms(
        #[case] old: Option<Code>,
        #[case] new: Option<Code>,
        #[case] suspicious: bool,
    ) {
        let guard = Guard::default();
        let status = |code: Option<Code>| code.map(machine).unwrap_or_default().status;
        guard.status_changed(&status(old), &status(new));
        assert_eq!(is_suspicious(&guard), suspicious);
    }
}
