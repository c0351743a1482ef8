//! The initial objects of a cluster, and the API services of definitions.

use std::collections::BTreeSet;

use clock::Stream;
use serde_json::Value;

use super::{DeleteOptions, Entry, Registry, metadata};
use crate::kinds;
use crate::seeds;
use crate::status::ApiError;
use crate::store::{Key, Scope};

/// The revision of the first initial object; those of roles and bindings are below.
const FIRST_REVISION: u64 = 500;
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// The priorities that upstream gives to the API services of definitions.
const PRIORITIES: (u32, u32) = (1000, 100);

impl Registry {
    /// Creates the initial objects of a cluster, as kube-apiserver does at its start. In a new store they have revisions
    /// below the first one, and uids from `ids`, so that later objects do not depend on them. A restored store gets those
    /// that are missing.
    ///
    /// # Errors
    /// 500, which indicates a bug, or a write that the log refuses.
    pub(crate) fn seed_cluster(&self, ids: &mut Stream, restored: bool) -> Result<(), ApiError> {
        let catalog = self.catalog();
        let now = self.now_text();
        let built_in = catalog.resources().iter().map(AsRef::as_ref);
        let built_in = built_in.filter(|resource| !resource.is_custom());
        let authority = &self.settings.certificate_authority;
        let objects = seeds::all(built_in, authority, &now).map_err(ApiError::internal)?;
        for (number, mut object) in (FIRST_REVISION..).zip(objects) {
            let (kind, version) = (object["kind"].clone(), object["apiVersion"].clone());
            let of_kind = |entry: &&Entry| entry.resource.kind == kind && *entry.stored_version == version;
            let Some(entry) = catalog.entries().find(of_kind) else {
                continue;
            };
            object["metadata"]["uid"] = ids.uuid().into();
            object["metadata"]["creationTimestamp"] = now.as_str().into();
            let draft = self.draft(entry, &mut object)?;
            if !restored {
                self.store.seed(&entry.table, draft, number);
            } else if self.store.get(&entry.table, draft.key()).is_none() {
                let created = self.store.put(&entry.table, None, draft, None);
                created.map_err(ApiError::internal)?;
            }
        }
        Ok(())
    }

    /// Creates and deletes API services so that there is one for each group version that definitions of the group serve.
    pub(super) fn sync_api_services(&self, group: &str) -> Result<(), ApiError> {
        if !self.settings.api_services || group.is_empty() {
            return Ok(());
        }
        let catalog = self.catalog();
        let Some(entry) = catalog.any_version("apiregistration.k8s.io", "apiservices") else {
            return Ok(());
        };
        let of_group = catalog.resources().iter().filter(|resource| resource.group == group);
        let served: BTreeSet<&str> = of_group.clone().map(|resource| resource.version.as_str()).collect();
        for version in of_group
            .filter(|resource| resource.is_custom())
            .map(|resource| resource.version.as_str())
            .collect::<BTreeSet<&str>>()
        {
            let key = Key::new("", &format!("{version}.{group}"));
            if self.store.get(&entry.table, &key).is_none() {
                let service = kinds::local_api_service(group, version, PRIORITIES, "true");
                self.create_missing(entry, "", service)?;
            }
        }
        let listing = self.store.list(&entry.table, &Scope::default(), None);
        for object in listing.map(|listing| listing.objects).unwrap_or_default() {
            let managed = object.meta.labels.get(MANAGED).is_some_and(|value| value == "true");
            let Some((version, _)) = object.key.name.split_once('.').filter(|(_, found)| *found == group) else {
                continue;
            };
            if managed && !served.contains(version) {
                match self.delete(entry, &object.key, &DeleteOptions::default()) {
                    Err(error) if error.code != 404 => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Sets the times of conditions that the server itself writes or completes: those of certificate requests, and the
    /// availability of a new API service, and the phases of volumes.
    pub(super) fn stamp(&self, entry: &Entry, new: &mut Value, old: Option<&Value>) {
        match (entry.resource.group.as_str(), entry.resource.plural.as_str()) {
            ("certificates.k8s.io", _) => kinds::stamp_conditions(new, old, &self.now_text()),
            ("", "persistentvolumes") if old.is_none_or(|old| phase(old) != phase(new)) => {
                let status = metadata::member_object(new, "status");
                status.insert("lastPhaseTransitionTime".to_owned(), self.now_text().into());
            }
            ("apiregistration.k8s.io", _) if old.is_none() => kinds::mark_available(new, &self.now_text()),
            _ => {}
        }
    }
}

fn phase(object: &Value) -> Option<&Value> {
    object.pointer("/status/phase")
}
