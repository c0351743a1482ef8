//! State shared by the safety controllers and the other controllers: the health of the API servers, and notifications
//! of possible orphan VMs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcm_api::{Code, Machine, MachineStatus};
use mcm_core::safety::api_health::ApiHealth;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::cache::Change;

/// State shared by the safety controllers and the other controllers. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Guard(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    health: Mutex<ApiHealth>,
    /// Notified when the caches are filled.
    filled: Notify,
    /// Notified when there may be orphan VMs.
    suspicion: Notify,
    /// Notified at the end of a freeze.
    thawed: Notify,
    /// Whether a VM is being collected at this moment.
    collecting: AtomicBool,
}

impl Guard {
    /// The health of the API servers.
    pub(crate) fn health(&self) -> ApiHealth {
        *self.0.health.lock()
    }

    /// Whether `mcm` is frozen: it must not create or delete VMs.
    pub(crate) fn is_frozen(&self) -> bool {
        self.health().is_frozen()
    }

    /// Notifies that the caches are filled.
    pub(crate) fn filled(&self) {
        self.0.filled.notify_one();
    }

    /// Waits for the end of a freeze.
    pub(crate) async fn thawed(&self) {
        self.0.thawed.notified().await;
    }

    /// Notifies of the end of a freeze.
    pub(crate) fn thaw(&self) {
        self.0.thawed.notify_one();
    }

    /// Notifies that there may be orphan VMs.
    pub(crate) fn suspect(&self) {
        self.0.suspicion.notify_one();
    }

    /// Waits until there may be orphan VMs.
    pub(crate) async fn suspected(&self) {
        self.0.suspicion.notified().await;
    }

    /// Waits until the caches are filled.
    pub(crate) async fn caches_filled(&self) {
        self.0.filled.notified().await;
    }

    /// Sets whether a VM is being collected at this moment.
    pub(crate) fn set_collecting(&self, collecting: bool) {
        self.0.collecting.store(collecting, Ordering::Relaxed);
    }

    /// Whether a VM is being collected at this moment.
    pub(crate) fn is_collecting(&self) -> bool {
        self.0.collecting.load(Ordering::Relaxed)
    }

    /// Handles a change of a machine: its deletion, or several VMs in the cloud, may leave orphan VMs.
    pub(crate) fn machine_changed(&self, change: &Change<Machine>) {
        let status = |machine: &Option<Arc<Machine>>| machine.as_ref().map(|machine| machine.status.clone());
        match (status(&change.old), status(&change.new)) {
            (_, None) => self.0.suspicion.notify_one(),
            (old, Some(new)) => self.status_changed(&old.unwrap_or_default(), &new),
        }
    }

    /// Handles a change of a machine's status. Called for own writes too, which the watch does not report.
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

    /// A machine whose last operation failed with this code.
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
    fn a_deleted_machine_or_one_with_several_vms_triggers_the_orphan_search(
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
        assert!(!is_suspicious(&guard), "each notification triggers one pass");
    }

    #[rstest]
    #[case::without_the_code(OTHER, OTHER, false)]
    #[case::with_the_code(OTHER, SEVERAL, true)]
    #[case::old_only(SEVERAL, OTHER, false)]
    fn an_own_status_write_about_several_vms_triggers_the_orphan_search(
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
