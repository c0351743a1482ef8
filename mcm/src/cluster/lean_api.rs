//! Requests for single objects, whose answers are decoded without managed fields.

use std::fmt::Debug;

use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, Result};
use runtime::lean::Lean;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// As [`Api`], for the objects of a kind without their managed fields.
#[derive(Clone, Debug)]
pub(crate) struct LeanApi<K>(Api<Lean<K>>);

impl<K: Resource<DynamicType = ()>> LeanApi<K> {
    /// The objects of a kind without namespaces.
    pub(crate) fn all(client: Client) -> Self
    where
        K: Resource<Scope = ClusterResourceScope>,
    {
        Self(Api::all(client))
    }

    /// The objects in a namespace.
    pub(crate) fn namespaced(client: Client, namespace: &str) -> Self
    where
        K: Resource<Scope = NamespaceResourceScope>,
    {
        Self(Api::namespaced(client, namespace))
    }
}

impl<K: Clone + Debug + DeserializeOwned> LeanApi<K> {
    pub(crate) async fn get(&self, name: &str) -> Result<K> {
        self.0.get(name).await.map(|Lean(object)| object)
    }

    pub(crate) async fn get_opt(&self, name: &str) -> Result<Option<K>> {
        let found = self.0.get_opt(name).await?;
        Ok(found.map(|Lean(object)| object))
    }

    pub(crate) async fn create(&self, parameters: &PostParams, object: &K) -> Result<K>
    where
        K: Serialize,
    {
        let created = self.0.create(parameters, &Lean(object.clone())).await;
        created.map(|Lean(object)| object)
    }

    pub(crate) async fn patch<P: Serialize + Debug>(
        &self,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        let patched = self.0.patch(name, parameters, patch).await;
        patched.map(|Lean(object)| object)
    }

    pub(crate) async fn patch_status<P: Serialize + Debug>(
        &self,
        name: &str,
        parameters: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        let patched = self.0.patch_status(name, parameters, patch).await;
        patched.map(|Lean(object)| object)
    }

    /// Deletes an object; returns it if it still exists, because of its finalizers.
    pub(crate) async fn delete(&self, name: &str, parameters: &DeleteParams) -> Result<Option<K>> {
        let deleted = self.0.delete(name, parameters).await?;
        Ok(deleted.left().map(|Lean(object)| object))
    }
}
