//! Migrates a class of a former, provider-specific kind to a MachineClass, as upstream did until 2023.
//!
//! Each step checks the current state, so that the migration can be repeated after a failure of any step.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Resource, ResourceExt};
use mcm_api::machine::ClassSpec;
use mcm_api::{MachineClass, MachineDeployment, MachineSet, keys};
use mcm_core::finalizer::finalizer_patch;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{ActionExecutor, refused};

const GROUP: &str = "machine.sapcloud.io";
const VERSION: &str = "v1alpha1";
const MIGRATED: &str = "machine.sapcloud.io/migrated";

impl ActionExecutor {
    /// Creates a MachineClass from the class, updates all references to it, and marks the old class.
    pub(crate) async fn migrate(&self, kind: &str, name: &str) -> kube::Result<()> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, VERSION, kind));
        let olds: Api<DynamicObject> = Api::namespaced_with(self.control.clone(), &self.state.namespace, &resource);
        let classes: Api<MachineClass> = self.of_namespace();
        // For a kind without a definition the answer is a text, not a Status, which `get_opt` does not expect.
        let old = match olds.get(name).await {
            Ok(old) => Some(old),
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => return Err(error),
        };
        let new = classes.get_opt(name).await?;
        match (&old, new) {
            (None, None) => {
                let text =
                    format!("there is neither a {kind} nor a MachineClass of the name {name}: create the MachineClass");
                return Err(refused(&text));
            }
            (Some(old), new) => self.generate(&classes, kind, old, new).await?,
            (None, Some(_)) => {}
        }
        // Owners first: they copy the kind to the objects that they own.
        self.update_references::<MachineDeployment>(kind, name, |deployment| &deployment.spec.template.spec.class)
            .await?;
        self.update_references::<MachineSet>(kind, name, |set| &set.spec.template.spec.class)
            .await?;
        if let Some(old) = old {
            let mut patch = finalizer_patch(&old.metadata, keys::MACHINE_FINALIZER, false);
            patch["metadata"]["annotations"] = json!({ MIGRATED: format!("machine-controller-{kind}") });
            olds.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        // Last: after a restart, a machine that references the old class triggers the migration again.
        self.update_machines(kind, name).await
    }

    /// Lets the driver fill the class, and writes the result.
    async fn generate(
        &self,
        classes: &Api<MachineClass>,
        kind: &str,
        old: &DynamicObject,
        known: Option<MachineClass>,
    ) -> kube::Result<()> {
        let name = old.name_any();
        let class = known.clone().unwrap_or_else(|| MachineClass {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: Some(self.state.namespace.clone()),
                ..ObjectMeta::default()
            },
            provider_spec: json!({}),
            ..MachineClass::default()
        });
        let old = serde_json::to_value(old).map_err(kube::Error::SerdeError)?;
        let filling = self.driver.generate_machine_class(old, class.clone());
        let filled = self
            .timed_call(&class, "GenerateMachineClassForMigration", filling)
            .await;
        let mut filled = filled.map_err(|error| {
            refused(&format!(
                "the driver cannot create a MachineClass from the {kind}: {error}"
            ))
        })?;
        filled.metadata = class.metadata;
        match known {
            None => {
                classes.create(&PostParams::default(), &filled).await?;
            }
            Some(known) if known != filled => {
                classes.replace(&name, &PostParams::default(), &filled).await?;
            }
            Some(_) => {}
        }
        Ok(())
    }

    async fn update_machines(&self, kind: &str, name: &str) -> kube::Result<()> {
        let refers = |class: &ClassSpec| class.kind == kind && class.name == name;
        let machines = self.state.machines_of_class(name).into_iter();
        for machine in machines.filter(|machine| refers(&machine.spec.class)) {
            let patch = json!({ "spec": { "class": { "kind": "MachineClass" } } });
            let api = self.of_namespace();
            let written = api
                .patch(&machine.name_any(), &PatchParams::default(), &Patch::Merge(patch))
                .await?;
            self.wrote(&self.state.machines, written);
        }
        Ok(())
    }

    /// Lists sets and deployments from the API server, because a class is migrated only once.
    async fn update_references<K>(&self, kind: &str, name: &str, class: fn(&K) -> &ClassSpec) -> kube::Result<()>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + 'static,
    {
        let api: Api<K> = self.of_namespace();
        for object in api.list(&ListParams::default()).await? {
            let reference = class(&object);
            if reference.kind == kind && reference.name == name {
                let patch = json!({ "spec": { "template": { "spec": { "class": { "kind": "MachineClass" } } } } });
                api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(patch))
                    .await?;
            }
        }
        Ok(())
    }

    fn of_namespace<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.control.clone(), &self.state.namespace)
    }
}
