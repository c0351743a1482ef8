//! Replacements of actions by planted defects.

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use mcm_api::{Machine, MachineStatus};
use serde_json::json;

use super::ActionExecutor;

impl ActionExecutor {
    /// Removes the provider ID of a machine younger than a minute when its preservation begins, and writes the status
    /// without its resourceVersion.
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
