//! The providers whose drivers do not implement UpdateMachine, as far as this process has observed.
//!
//! Machines from another controller are updated once, because the provider spec of their VMs is unknown; without this
//! state every pass would call a driver without UpdateMachine again for each of them.

use std::collections::BTreeSet;

use mcm_api::{Code, DriverError};
use parking_lot::Mutex;

/// The providers without UpdateMachine.
#[derive(Debug, Default)]
pub(crate) struct UpdateSupport(Mutex<BTreeSet<String>>);

impl UpdateSupport {
    /// Whether the provider's driver is known not to implement the call.
    pub(crate) fn is_missing(&self, provider: &str) -> bool {
        self.0.lock().contains(provider)
    }

    /// Records the result of an UpdateMachine call.
    pub(crate) fn answered(&self, provider: &str, error: Option<&DriverError>) {
        let mut missing = self.0.lock();
        if error.is_some_and(|error| error.code == Code::Unimplemented) {
            missing.insert(provider.to_owned());
        } else {
            missing.remove(provider);
        }
    }
}
