//! What planted defects do in the place of actions.

use std::cell::RefCell;
use std::collections::BTreeMap;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use mcm_api::{Code, DriverError, Machine, MachineStatus};
use mcm_core::machine::{CallKind, CloudCall};
use mcm_driver::MachineRequest;
use serde_json::json;

use super::ActionExecutor;

/// What is remembered of the creation of a machine.
#[derive(Clone, Copy, Default)]
struct Creation {
    /// How often it was tried.
    tries: u32,
    /// Whether the VM was missed since.
    missed: bool,
}

thread_local! {
    /// By the machine's name.
    static CREATIONS: RefCell<BTreeMap<String, Creation>> = const { RefCell::new(BTreeMap::new()) };
}

/// Gives a repeated creation another machine name.
pub(super) fn as_another(call: &CloudCall, mut request: MachineRequest) -> MachineRequest {
    if call.kind == CallKind::Create {
        let name = call.machine.name_any();
        let tries = of_creation(&name, |creation| {
            creation.tries += 1;
            creation.tries
        });
        if defect!(RepeatedCreationIsAnother) && tries > 1 {
            request.machine.metadata.name = Some(format!("{name}-{tries}"));
        }
    }
    request
}

/// Reports NotFound once the VM of a machine was missing after its creation.
pub(super) fn first_record<T>(call: &CloudCall, found: Result<T, DriverError>) -> Result<T, DriverError> {
    let missed = of_creation(&call.machine.name_any(), |creation| {
        creation.missed |= creation.tries > 0 && matches!(&found, Err(error) if error.code == Code::NotFound);
        creation.missed
    });
    if missed {
        return Err(DriverError::new(Code::NotFound, "the VM of the machine has ended"));
    }
    found
}

fn of_creation<T>(name: &str, look: impl FnOnce(&mut Creation) -> T) -> T {
    CREATIONS.with_borrow_mut(|creations| look(creations.entry(name.to_owned()).or_default()))
}

impl ActionExecutor {
    /// Removes the provider ID of a machine younger than a minute when its preservation begins, and writes the status without
    /// its resourceVersion.
    pub(super) async fn with_old_copy(
        &self,
        machine: &Machine,
        status: &MachineStatus,
        mut patch: serde_json::Value,
    ) -> kube::Result<serde_json::Value> {
        let begins = machine.status.preservation.is_none() && status.preservation.is_some();
        let created = machine.metadata.creation_timestamp.as_ref();
        let age = created.map(|created| self.clock.now().duration_since(created.0));
        let young = age.is_some_and(|age| age < jiff::SignedDuration::from_mins(1));
        if begins && young {
            let before = Patch::Merge(json!({ "spec": { "providerID": null } }));
            self.machines()
                .patch(&machine.name_any(), &PatchParams::default(), &before)
                .await?;
            patch["metadata"] = json!({});
        }
        Ok(patch)
    }
}
