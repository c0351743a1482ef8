//! Objects that cannot be decoded completely: they are reported by an event and not reconciled until they are corrected.
//!
//! A schema may accept what a type cannot hold, and an object may be older than the schema. Decisions about the rest of
//! the object could be wrong, so there are none.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use kube::Resource;
use mcm_api::{MachineDeployment, MachineSet};
use mcm_core::event::EventType;
use mcm_core::ownership::controller;
use parking_lot::Mutex;
use runtime::decode::{Decoded, Problems};

use super::{Controllers, Outcome};
use crate::cache::{Cache, Damage, Indexed, Key};
use crate::error::brief;
use crate::memory::RetryCause;
use crate::view::Work;

/// The damage of each object that an event reported.
#[derive(Debug, Default)]
pub(crate) struct ReportedDamage(Mutex<BTreeMap<Work, Damage>>);

impl ReportedDamage {
    fn is_reported(&self, work: &Work, damage: &Damage) -> bool {
        let is_same = |known: &Damage| known.metadata.uid == damage.metadata.uid && known.problems == damage.problems;
        self.0.lock().get(work).is_some_and(is_same)
    }
}

impl Controllers {
    /// Reports an object that cannot be decoded; `None`: it can be reconciled.
    pub(super) async fn damaged(&self, work: &Work) -> Option<Outcome> {
        let state = &self.executor.state;
        match work {
            Work::Machine(key) => self.report(work, &state.machines, key).await,
            Work::Class(key) => self.report(work, &state.classes, key).await,
            Work::Secret(key) => self.report::<Secret>(work, &state.secrets, key).await,
            Work::Set(key) => match self.report(work, &state.sets, key).await {
                None => self.unknown_machine(key),
                damaged => damaged,
            },
            Work::Deployment(key) => match self.report(work, &state.deployments, key).await {
                None => self.damaged_set(key),
                damaged => damaged,
            },
            Work::HealthCheck(key) => self.report(work, &state.health_checks, key).await,
            Work::Overshoot | Work::UncheckedMachines => None,
        }
    }

    async fn report<K>(&self, work: &Work, cache: &Cache<K>, key: &Key) -> Option<Outcome>
    where
        K: Indexed + Resource<DynamicType = ()>,
    {
        let Some(damage) = cache.damage(key) else {
            self.reported_damage.0.lock().remove(work);
            return None;
        };
        if self.reported_damage.is_reported(work, &damage) {
            return Some(Outcome::default());
        }
        let object = Decoded::<K>::Metadata(Box::new(damage.metadata.clone()), Problems::default());
        let message = format!(
            "{}; the {} is not reconciled until this is corrected",
            damage.problems,
            K::kind(&())
        );
        let executor = &self.executor;
        let event = executor
            .recorder
            .record(&executor.control, &object, EventType::Warning, "Undecodable", &message)
            .await;
        Some(match event {
            Ok(()) => {
                self.reported_damage.0.lock().insert(work.clone(), damage);
                Outcome::default()
            }
            Err(error) => {
                tracing::debug!(error = brief(&error), "recording the event failed");
                Outcome::default().retry_after(RetryCause::Failure)
            }
        })
    }

    /// A set whose machine is unknown but for its metadata would create a replacement for it.
    fn unknown_machine(&self, set: &Key) -> Option<Outcome> {
        let state = &self.executor.state;
        let set = state.sets.get(set)?;
        let unknown = state.machines.damaged().into_iter().find(|(machine, damage)| {
            is_controlled::<MachineSet>(damage, &set) && state.machines.get(machine).is_none()
        });
        let (machine, _) = unknown?;
        tracing::warn!(set = %Key::of(&*set), %machine, "the set is not reconciled: its machine cannot be decoded");
        Some(Outcome::default())
    }

    /// A deployment whose set cannot be decoded does not know its size.
    fn damaged_set(&self, deployment: &Key) -> Option<Outcome> {
        let state = &self.executor.state;
        let deployment = state.deployments.get(deployment)?;
        let mut damaged = state.sets.damaged().into_iter();
        let (set, _) = damaged.find(|(_, damage)| is_controlled::<MachineDeployment>(damage, &deployment))?;
        tracing::warn!(
            deployment = %Key::of(&*deployment),
            %set,
            "the deployment is not reconciled: its set cannot be decoded"
        );
        Some(Outcome::default())
    }
}

fn is_controlled<K: Resource>(damage: &Damage, owner: &K) -> bool {
    let reference = controller(&damage.metadata);
    reference.is_some_and(|reference| Some(&reference.uid) == owner.meta().uid.as_ref())
}
