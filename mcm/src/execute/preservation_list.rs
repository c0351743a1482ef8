//! The list of preserved machines in the status of a machine's deployment, or of its set if it has no deployment.
//!
//! A change reads the owner from the API server and writes with its resourceVersion; after a conflict it decides again.

mod defects;

use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use mcm_api::{Machine, MachineDeployment, MachineSet, PreservationEntry, PreservedBy};
use mcm_core::ownership::{controller, is_controlled_by};
use mcm_core::preservation::{Admission, Claim, OwnersList};
use serde_json::Value;

use super::{ActionExecutor, refused};
use crate::cluster::LeanApi;
use crate::error::{is_conflict, is_not_found};

/// How often a change is decided again after a conflict.
const ATTEMPTS: usize = 8;

/// The object with the list, from the API server.
enum Owner {
    Deployment(Box<MachineDeployment>),
    Set(Box<MachineSet>),
}

impl Owner {
    fn owners_list(&self) -> OwnersList<'_> {
        match self {
            Self::Deployment(one) => OwnersList::Deployment(one),
            Self::Set(one) => OwnersList::Set(one),
        }
    }
}

impl ActionExecutor {
    /// Adds the machine to its owner's list; returns the reason why it may not be preserved, if there is one.
    pub(crate) async fn claim(
        &self,
        machine: &Machine,
        by: &PreservedBy,
        again: bool,
    ) -> kube::Result<Option<Admission>> {
        let entry = PreservationEntry {
            uid: machine.uid().unwrap_or_default(),
            name: machine.name_any(),
            by: by.clone(),
            created: machine.metadata.creation_timestamp.clone(),
            released: false,
        };
        let _turn = self.claiming.lock().await;
        for _ in 0..ATTEMPTS {
            let Some(owner) = self.owner(machine).await? else {
                return Ok(Some(Admission::NoList));
            };
            let owner = if defect!(OnlyRollingDeploymentsPreserve | AutomaticPreservationInRollout) {
                match defects::misread(owner) {
                    Ok(owner) => owner,
                    Err(admission) => return Ok(Some(admission)),
                }
            } else {
                owner
            };
            let patch = match owner.owners_list().claim(&entry, again) {
                Claim::Entered => return Ok(None),
                Claim::Refused(admission) => return Ok(Some(admission)),
                Claim::Enter(patch) => patch,
            };
            match self.write_list(&owner, patch).await {
                Ok(()) => return Ok(None),
                Err(error) if is_conflict(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(refused("the list of preserved machines changed during every attempt"))
    }

    /// Removes the machine from its owner's list.
    pub(crate) async fn leave_owners_list(&self, machine: &Machine) -> kube::Result<()> {
        let _turn = self.claiming.lock().await;
        for _ in 0..ATTEMPTS {
            let Some(owner) = self.owner(machine).await? else {
                return Ok(());
            };
            let Some(patch) = owner.owners_list().leave(&machine.uid().unwrap_or_default()) else {
                return Ok(());
            };
            match self.write_list(&owner, patch).await {
                Err(error) if is_conflict(&error) => {}
                written => return written,
            }
        }
        Err(refused("the list of preserved machines changed during every attempt"))
    }

    /// The machine's deployment, or its set if it has no deployment; `None`: the machine has no controller.
    async fn owner(&self, machine: &Machine) -> kube::Result<Option<Owner>> {
        let Some(reference) = controller(&machine.metadata) else {
            return Ok(None);
        };
        let sets: LeanApi<MachineSet> = LeanApi::namespaced(self.control.clone(), &self.state.namespace);
        let set = sets.get_opt(&reference.name).await?;
        let Some(set) = set.filter(|set| is_controlled_by(&machine.metadata, &set.metadata)) else {
            return Ok(None);
        };
        self.state.sets.read(set.clone());
        let Some(reference) = controller(&set.metadata) else {
            return Ok(Some(Owner::Set(Box::new(set))));
        };
        let deployments: LeanApi<MachineDeployment> = LeanApi::namespaced(self.control.clone(), &self.state.namespace);
        let deployment = deployments.get_opt(&reference.name).await?;
        let owner = deployment.filter(|deployment| is_controlled_by(&set.metadata, &deployment.metadata));
        Ok(owner.map(|deployment| {
            self.state.deployments.read(deployment.clone());
            Owner::Deployment(Box::new(deployment))
        }))
    }

    async fn write_list(&self, owner: &Owner, patch: Value) -> kube::Result<()> {
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
        let ignore_absent = |error: kube::Error| if is_not_found(&error) { Ok(()) } else { Err(error) };
        match owner {
            Owner::Deployment(one) => {
                let api: LeanApi<MachineDeployment> = LeanApi::namespaced(self.control.clone(), &self.state.namespace);
                let written = api.patch_status(&one.name_any(), &parameters, &patch).await;
                self.store_result(&api, &one.name_any(), &self.state.deployments, written)
                    .await
                    .map(|_| ())
                    .or_else(ignore_absent)
            }
            Owner::Set(one) => {
                let api: LeanApi<MachineSet> = LeanApi::namespaced(self.control.clone(), &self.state.namespace);
                let written = api.patch_status(&one.name_any(), &parameters, &patch).await;
                self.store_result(&api, &one.name_any(), &self.state.sets, written)
                    .await
                    .map(|_| ())
                    .or_else(ignore_absent)
            }
        }
    }
}
