//! Namespaces: initial content, write restrictions, and removal.
//!
//! Upstream controllers create the content of a new namespace and empty a terminating one. Without them the server
//! does both, in the request that creates or deletes the namespace or deletes its last object.

use serde_json::{Value, json};

use super::{Entry, Registry, metadata, tree};
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::{Key, Scope, Unchanged};

const NAMESPACES: &str = "namespaces";
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];
/// The entry of `spec.finalizers` for the contents of a namespace.
const CONTENTS: &str = "kubernetes";

pub(super) fn is_namespace(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == NAMESPACES
}

/// # Errors
/// 403 for the system's namespaces.
pub(super) fn check_deletable(resource: &Resource, name: &str) -> Result<(), ApiError> {
    if is_namespace(resource) && PROTECTED.contains(&name) {
        return Err(ApiError::forbidden(resource, name, "this namespace may not be deleted"));
    }
    Ok(())
}

pub(super) fn mark_terminating(resource: &Resource, value: &mut Value) {
    if is_namespace(resource) {
        metadata::member_object(value, "status").insert("phase".to_owned(), "Terminating".into());
    }
}

impl Registry {
    /// The namespace of a new object, as a condition of the commit.
    ///
    /// # Errors
    /// 404 if it does not exist, 403 with the cause `NamespaceTerminating` if it is being deleted.
    pub(super) fn live_namespace(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
    ) -> Result<Unchanged, ApiError> {
        let key = Key::new("", namespace);
        let object = self.store.get(NAMESPACES, &key).ok_or_else(|| {
            let catalog = self.catalog();
            match catalog.any_version("", NAMESPACES) {
                Some(entry) => ApiError::not_found(&entry.resource, namespace),
                None => ApiError::internal("namespaces are not served"),
            }
        })?;
        if object.meta.deleting {
            let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
            let cause = format!("namespace {namespace} is being terminated");
            return Err(ApiError::forbidden(resource, name, &why).with_cause(
                "NamespaceTerminating",
                &cause,
                "metadata.namespace",
            ));
        }
        Ok(Unchanged {
            table: NAMESPACES.to_owned(),
            key,
            revision: object.revision,
        })
    }

    /// Creates the initial content of a namespace: the default ServiceAccount and the CA certificate.
    pub(super) fn initialize_namespace(&self, namespace: &str) -> Result<(), ApiError> {
        if self.settings.namespace_controllers {
            return Ok(());
        }
        let certificate = self.settings.certificate_authority.as_str();
        let contents = [
            ("serviceaccounts", json!({ "metadata": { "name": "default" } })),
            (
                "configmaps",
                json!({ "metadata": { "name": "kube-root-ca.crt" }, "data": { "ca.crt": certificate } }),
            ),
        ];
        let catalog = self.catalog();
        for (plural, value) in contents {
            let Some(entry) = catalog.any_version("", plural) else {
                continue;
            };
            self.create_missing(entry, namespace, value)?;
        }
        Ok(())
    }

    /// Deletes all objects of a terminating namespace, and the namespace if it is empty.
    pub(super) fn empty_namespace(&self, namespace: &str) -> Result<(), ApiError> {
        if self.settings.namespace_controllers {
            return Ok(());
        }
        let catalog = self.catalog();
        let scope = Scope {
            namespace: Some(namespace.to_owned()),
            after: None,
        };
        for entry in catalog.namespaced() {
            let Ok(listing) = self.store.list(&entry.table, &scope, None) else {
                continue;
            };
            for object in listing.objects.iter().filter(|object| !object.meta.deleting) {
                self.delete_dependent(entry, &object.key)?;
            }
        }
        self.finish_namespace(namespace)
    }

    /// Removes the namespace's own finalizer if it is terminating and empty.
    pub(super) fn finish_namespace(&self, namespace: &str) -> Result<(), ApiError> {
        if self.settings.namespace_controllers {
            return Ok(());
        }
        let catalog = self.catalog();
        let Some(entry) = catalog.any_version("", NAMESPACES) else {
            return Ok(());
        };
        let key = Key::new("", namespace);
        loop {
            let Some(current) = self.store.get(NAMESPACES, &key).filter(|current| current.meta.deleting) else {
                return Ok(());
            };
            let is_empty = |entry: &Entry| self.store.is_empty(&entry.table, Some(namespace));
            if !catalog.namespaced().all(is_empty) {
                return Ok(());
            }
            let mut value = tree(&current)?;
            let finalizers: Vec<Value> = metadata::texts(value.pointer("/spec/finalizers"))
                .into_iter()
                .filter(|finalizer| *finalizer != CONTENTS)
                .map(Value::from)
                .collect();
            let left = (!finalizers.is_empty()).then(|| finalizers.into());
            metadata::put(metadata::member_object(&mut value, "spec"), "finalizers", left);
            match self.replace(entry, &current, value, false, Vec::new())? {
                super::attempt::Attempt::Done(_) => return Ok(()),
                super::attempt::Attempt::Raced => {}
            }
        }
    }
}
