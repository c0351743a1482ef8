//! Which providers' drivers have no UpdateMachine, as this process has learnt.
//!
//! Machines that came from another controller are updated once, since nobody knows what their VMs have; without this
//! memory a driver that cannot do it would be asked again for each of them in every pass.

use std::collections::BTreeSet;

use mcm_api::{Code, DriverError};
use parking_lot::Mutex;

/// By provider.
#[derive(Debug, Default)]
pub(crate) struct UpdateSupport(Mutex<BTreeSet<String>>);

impl UpdateSupport {
    /// Whether the provider's driver is known to lack the call.
    pub(crate) fn is_missing(&self, provider: &str) -> bool {
        self.0.lock().contains(provider)
    }

    /// The provider's driver answered.
    pub(crate) fn answered(&self, provider: &str, error: Option<&DriverError>) {
        let mut missing = self.0.lock();
        if error.is_some_and(|error| error.code == Code::Unimplemented) {
            missing.insert(provider.to_owned());
        } else {
            missing.remove(provider);
        }
    }
}
