//! Writes the finalizers of MachineClasses and of their Secrets, as `mcm_core::class` decides.

use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource, ResourceExt};
use mcm_api::{MachineClass, keys};
use mcm_core::class::{FinalizerStep, class_step, secret_step, uses};
use mcm_core::finalizer::finalizer_patch;
use serde::de::DeserializeOwned;

use super::{Controllers, Outcome};
use crate::cache::{Cache, Indexed, Key};
use crate::error::{brief, is_conflict};
use crate::memory::RetryCause;
use crate::view::{Trigger, Work};

impl Controllers {
    pub(crate) async fn class(&self, key: &Key) -> Outcome {
        let state = &self.executor.state;
        let Some(class) = state.classes.get(key) else {
            return Outcome::default();
        };
        let machines = state.machines_of_class(&key.name);
        let used = machines.iter().any(|machine| uses(machine, &class));
        let step = class_step(&class, used);
        let mut outcome = self.step(&state.classes, &class, keys::MACHINE_FINALIZER, step).await;
        if step == FinalizerStep::Add
            && outcome.retry.is_none()
            && !defect!(ClassChangeWakesNoMachine | UnusableClassSilencesDeletion)
        {
            // The machines wait for the finalizer.
            let waiting = machines.iter().map(|machine| Work::Machine(Key::of(&**machine)));
            outcome
                .triggers
                .extend(waiting.map(|work| Trigger { work, hurry: false }));
        }
        if defect!(DeletionWakesItsClass) {
            self.executor.clock.sleep(self.settings.retry.short).await;
            outcome.triggers.extend(state.deleted_of_class(&key.name));
        }
        outcome
    }

    pub(crate) async fn secret(&self, key: &Key) -> Outcome {
        let state = &self.executor.state;
        let Some(secret) = state.secrets.get(key) else {
            return Outcome::default();
        };
        let classes = state.classes.all();
        let step = secret_step(&secret, classes.iter().map(|class| -> &MachineClass { class }));
        self.step::<Secret>(&state.secrets, &secret, keys::SECRET_FINALIZER, step)
            .await
    }

    async fn step<K>(&self, cache: &Cache<K>, object: &K, finalizer: &str, step: FinalizerStep) -> Outcome
    where
        K: Indexed
            + Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + 'static,
    {
        let present = match step {
            FinalizerStep::Add => true,
            FinalizerStep::Remove => false,
            FinalizerStep::Keep => return Outcome::default(),
            FinalizerStep::StillNeeded => {
                let (kind, name) = (K::kind(&()), object.name_any());
                tracing::info!(%kind, name, "the object is being deleted but still in use: its finalizer stays");
                return Outcome::default();
            }
        };
        let name = object.name_any();
        let api: Api<K> = Api::namespaced(self.executor.control.clone(), &self.executor.state.namespace);
        let patch = Patch::Merge(finalizer_patch(object.meta(), finalizer, present));
        match api.patch(&name, &PatchParams::default(), &patch).await {
            Ok(written) => {
                self.executor.wrote(cache, written);
                Outcome::default()
            }
            // After a conflict the watch delivers the newer version and the work that results from it.
            Err(error) => {
                tracing::info!(kind = %K::kind(&()), name, error = brief(&error), "writing the finalizer failed");
                Outcome::default().retry_after(RetryCause::of(is_conflict(&error)))
            }
        }
    }
}
