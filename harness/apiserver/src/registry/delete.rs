//! Deletion: grace periods, finalizers, preconditions, and cleanup after the removal of an object.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::Value;

use super::{
    DeleteOptions, Entry, ListOptions, Page, Payload, Propagation, Registry, Written,
    attempt::{Attempt, refusal},
    definitions, metadata, namespaces, review, success, time_text, tree,
};
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::{Key, Object};
use crate::types::time::after;

/// The default grace period of pods in seconds.
const DEFAULT_GRACE: i64 = 30;
const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";
const JOB_WARNING: &str = "child pods are preserved by default when jobs are deleted; set \
    propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

/// The effect of a deletion on an object.
enum Plan {
    Remove,
    /// The object is removed immediately; watches first see it marked like this.
    MarkAndRemove(Value),
    /// The object is kept for now, changed like this.
    Keep(Value),
    /// The object is already being deleted.
    Nothing,
}

impl Registry {
    /// Deletes an object or starts its deletion.
    ///
    /// # Errors
    /// 403, 404 and 409 as in upstream.
    pub fn delete(&self, entry: &Entry, key: &Key, options: &DeleteOptions) -> Result<Written, ApiError> {
        let resource = &entry.resource;
        loop {
            let current = self.get(entry, key)?;
            check_preconditions(resource, &current, options)?;
            namespaces::check_deletable(resource, &key.name)?;
            let old = entry.decoded(&current)?;
            let warnings = review::let_delete(
                (&key.namespace, if options.of_collection { "" } else { &key.name }),
                &old,
                options.reviewer.as_deref(),
            )?;
            if let Some(mut written) = self.attempt_deletion(entry, (current, old), options)? {
                written.warnings.extend(warnings);
                if is_job(resource) && self.settings.garbage_collector && options.propagation.is_none() {
                    written.warnings.push(JOB_WARNING.to_owned());
                }
                return Ok(written);
            }
        }
    }

    /// Deletes an object because its namespace or definition is deleted. An object that cannot be converted stays
    /// until the deletion is repeated: its webhook may need this server, which must not fail because of it.
    ///
    /// # Errors
    /// Those of [`Registry::delete`], except 404 and a failed conversion.
    pub(super) fn delete_dependent(&self, entry: &Entry, key: &Key) -> Result<(), ApiError> {
        match self.delete(entry, key, &DeleteOptions::default()) {
            Err(error) if error.unconverted => {
                let (kind, name) = (&entry.resource.kind, key.path());
                tracing::warn!(kind, name, why = error.message, "an object cannot be deleted");
                Ok(())
            }
            Err(error) if error.code != 404 => Err(error),
            _ => Ok(()),
        }
    }

    /// Deletes the current object or starts its deletion; `None` after a concurrent write.
    fn attempt_deletion(
        &self,
        entry: &Entry,
        (current, old): (Arc<Object>, Value),
        options: &DeleteOptions,
    ) -> Result<Option<Written>, ApiError> {
        let resource = &entry.resource;
        if definitions::is_definition(resource) && !current.meta.deleting {
            return self.end_definition(entry, &current, options.dry_run);
        }
        match self.plan(resource, &old, options) {
            Plan::Nothing => {
                if !options.dry_run {
                    self.continue_deletion(resource, &current.key.name)?;
                }
                Ok(Some(kept(current)))
            }
            Plan::Keep(new) => match self.replace(entry, &current, new, options.dry_run, Vec::new())? {
                Attempt::Done(written) => {
                    if namespaces::is_namespace(resource) && !options.dry_run {
                        self.empty_namespace(&current.key.name)?;
                    }
                    Ok(Some(written))
                }
                Attempt::Raced => Ok(None),
            },
            Plan::MarkAndRemove(marked) if !options.dry_run => match self.mark(entry, &current, marked)? {
                Some(marked) => Ok(Some(removal(resource, self.remove_marked(entry, marked)?))),
                None => Ok(None),
            },
            Plan::Remove | Plan::MarkAndRemove(_) => {
                let last = self.take(entry, &current, options.dry_run)?;
                Ok(last.map(|last| removal(resource, last)))
            }
        }
    }

    /// Deletes what an earlier deletion of a namespace or a definition left, because it could not be converted.
    fn continue_deletion(&self, resource: &Resource, name: &str) -> Result<(), ApiError> {
        if namespaces::is_namespace(resource) {
            self.empty_namespace(name)?;
        } else if definitions::is_definition(resource) {
            self.delete_objects_of(name)?;
        }
        Ok(())
    }

    /// Marks an object that is removed immediately; `None` after a concurrent write.
    fn mark(&self, entry: &Entry, current: &Object, mut marked: Value) -> Result<Option<Arc<Object>>, ApiError> {
        let draft = self.draft(entry, &mut marked)?;
        match self.store.put(&entry.table, Some(current.revision), draft, None) {
            Ok(object) => Ok(Some(object)),
            Err(refused) => refusal(refused, entry, &current.key.name).map_or(Ok(None), Err),
        }
    }

    /// Removes a marked object despite concurrent writes; another request can remove it too.
    fn remove_marked(&self, entry: &Entry, mut marked: Arc<Object>) -> Result<Arc<Object>, ApiError> {
        loop {
            if let Some(last) = self.take(entry, &marked, false)? {
                return Ok(last);
            }
            match self.store.get(&entry.table, &marked.key) {
                Some(newer) if newer.meta.uid == marked.meta.uid => marked = newer,
                _ => return Ok(marked),
            }
        }
    }

    /// Removes the object; `None` after a concurrent write.
    pub(super) fn take(
        &self,
        entry: &Entry,
        current: &Arc<Object>,
        dry_run: bool,
    ) -> Result<Option<Arc<Object>>, ApiError> {
        if dry_run {
            return Ok(Some(Arc::clone(current)));
        }
        let mut last = tree(current)?;
        let draft = match &entry.resource.versions {
            // It keeps the version in which it is stored.
            Some(_) => entry.stored_draft(&last)?,
            None => self.draft(entry, &mut last)?,
        };
        match self.store.remove(&entry.table, current.revision, draft) {
            Ok(object) => {
                self.removed(entry, &object)?;
                Ok(Some(object))
            }
            Err(refused) => refusal(refused, entry, &current.key.name).map_or(Ok(None), Err),
        }
    }

    /// Deletes all objects that a list would return; returns that list, and warnings.
    ///
    /// # Errors
    /// The first error other than 404.
    pub fn delete_collection(
        &self,
        entry: &Entry,
        namespace: Option<&str>,
        list: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(Page, Vec<String>), ApiError> {
        let page = self.list(entry, namespace, list)?;
        let options = &DeleteOptions {
            of_collection: true,
            ..options.clone()
        };
        let mut warnings = Vec::new();
        for object in &page.objects {
            match self.delete(entry, &object.key, options) {
                Ok(written) => warnings.extend(written.warnings),
                Err(error) if error.code != 404 => return Err(error),
                Err(_) => {}
            }
        }
        Ok((page, warnings))
    }

    fn plan(&self, resource: &Resource, old: &Value, options: &DeleteOptions) -> Plan {
        let mut new = old.clone();
        let propagation = options.propagation.or_else(|| self.default_propagation(resource, old));
        self.set_dependents_finalizers(&mut new, propagation);
        let grace = grace_period(resource, old, options);
        let deleting = old.pointer("/metadata/deletionTimestamp").and_then(Value::as_str);
        let pending = has_finalizers(resource, &new);
        let before = old
            .pointer("/metadata/deletionGracePeriodSeconds")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        let has_time = resource.graceful_deletion && (deleting.is_none() || before > 0);
        if grace == 0 && !pending && !has_time {
            return Plan::Remove;
        }
        let now = self.clock.now();
        match deleting {
            // Another propagation policy can replace the earlier one.
            Some(_) if before == 0 && new != *old => return Plan::Keep(new),
            Some(deadline) => {
                if grace >= before {
                    return Plan::Nothing;
                }
                let metadata = metadata::of_mut(&mut new);
                let sooner = SignedDuration::from_secs(grace.saturating_sub(before));
                let deadline = after(deadline.parse().unwrap_or(now), sooner);
                metadata.insert("deletionTimestamp".to_owned(), time_text(deadline).into());
                metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
            }
            None => {
                let metadata = metadata::of_mut(&mut new);
                let deadline = after(now, SignedDuration::from_secs(grace));
                metadata.insert("deletionTimestamp".to_owned(), time_text(deadline).into());
                metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
                let generation = metadata.get("generation").and_then(Value::as_i64).unwrap_or_default();
                if generation > 0 {
                    metadata.insert("generation".to_owned(), generation.saturating_add(1).into());
                }
                namespaces::mark_terminating(resource, &mut new);
            }
        }
        if grace == 0 && !pending {
            Plan::MarkAndRemove(new)
        } else {
            Plan::Keep(new)
        }
    }

    /// The policy of a deletion without one: the dependents of jobs and replication controllers stay, for compatibility
    /// with their first clients.
    fn default_propagation(&self, resource: &Resource, old: &Value) -> Option<Propagation> {
        let decided = metadata::texts(old.pointer("/metadata/finalizers"));
        let decided = decided.iter().any(|finalizer| [FOREGROUND, ORPHAN].contains(finalizer));
        let orphans = !decided && self.settings.garbage_collector && orphans_by_default(resource);
        orphans.then_some(Propagation::Orphan)
    }

    /// Sets the finalizers for the garbage collector according to the propagation policy.
    fn set_dependents_finalizers(&self, value: &mut Value, propagation: Option<Propagation>) {
        let wanted = match propagation {
            Some(Propagation::Foreground) if self.settings.garbage_collector => Some(FOREGROUND),
            Some(Propagation::Orphan) if self.settings.garbage_collector => Some(ORPHAN),
            Some(_) => None,
            None => return,
        };
        let metadata = metadata::of_mut(value);
        let before = metadata::texts(metadata.get("finalizers"));
        let kept = before
            .into_iter()
            .filter(|finalizer| ![FOREGROUND, ORPHAN].contains(finalizer));
        let finalizers: Vec<Value> = kept.chain(wanted).map(Value::from).collect();
        let finalizers = (!finalizers.is_empty()).then(|| finalizers.into());
        metadata::put(metadata, "finalizers", finalizers);
    }

    /// The side effects of a removal.
    pub(super) fn removed(&self, entry: &Entry, object: &Object) -> Result<(), ApiError> {
        if definitions::is_definition(&entry.resource) {
            return self.definition_changed(entry, &object.key.name);
        }
        if entry.resource.is_custom() {
            self.finish_definition(&entry.resource.qualified())?;
        }
        if super::roles::is_cluster_role(&entry.resource) {
            self.aggregate_roles()?;
        }
        if super::addresses::is_service(&entry.resource) {
            self.sync_addresses(&object.key, None, Some(&tree(object)?))?;
        }
        if !object.key.namespace.is_empty() {
            self.finish_namespace(&object.key.namespace)?;
        }
        Ok(())
    }
}

fn is_job(resource: &Resource) -> bool {
    resource.group == "batch" && resource.plural == "jobs"
}

fn orphans_by_default(resource: &Resource) -> bool {
    is_job(resource) || (resource.group.is_empty() && resource.plural == "replicationcontrollers")
}

fn removal(resource: &Resource, last: Arc<Object>) -> Written {
    let payload = if resource.returns_deleted {
        Payload::Object(last)
    } else {
        Payload::Value(success(resource, &last.key.name, &last.meta.uid))
    };
    Written {
        code: 200,
        payload,
        warnings: Vec::new(),
    }
}

fn kept(object: Arc<Object>) -> Written {
    Written {
        code: 200,
        payload: Payload::Object(object),
        warnings: Vec::new(),
    }
}

pub(super) fn check_preconditions(
    resource: &Resource,
    current: &Object,
    options: &DeleteOptions,
) -> Result<(), ApiError> {
    let failed = |what: &str, wanted: &str, found: &str, guess: &str| {
        let (kind, name) = (&resource.kind, &current.key.name);
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: the {what} in the precondition ({wanted}) does not match \
             the {what} in record ({found}). The object might have been {guess}",
            if resource.group.is_empty() {
                kind.clone()
            } else {
                format!("{kind}.{}", resource.group)
            }
        );
        let mut error = ApiError {
            message,
            ..ApiError::conflict(resource, name, "")
        };
        if let Some(details) = &mut error.details {
            details["kind"] = kind.as_str().into();
        }
        Err(error)
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current.meta.uid) {
        return failed("UID", uid, &current.meta.uid, "deleted and then recreated");
    }
    let revision = current.revision.to_string();
    match options.revision.as_deref() {
        Some(wanted) if wanted != revision => failed("ResourceVersion", wanted, &revision, "modified"),
        _ => Ok(()),
    }
}

/// The grace period in seconds; zero for kinds other than pods.
fn grace_period(resource: &Resource, value: &Value, options: &DeleteOptions) -> i64 {
    if !resource.graceful_deletion {
        return 0;
    }
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if text("/spec/nodeName").is_empty() || matches!(text("/status/phase"), "Succeeded" | "Failed") {
        return 0;
    }
    let own = || {
        value
            .pointer("/spec/terminationGracePeriodSeconds")
            .and_then(Value::as_i64)
    };
    let grace = options.grace_period_seconds.or_else(own).unwrap_or(DEFAULT_GRACE);
    if grace < 0 { 1 } else { grace }
}

/// Whether the object has finalizers.
pub(super) fn has_finalizers(resource: &Resource, value: &Value) -> bool {
    let any = |pointer: &str| {
        value
            .pointer(pointer)
            .and_then(Value::as_array)
            .is_some_and(|list| !list.is_empty())
    };
    any("/metadata/finalizers") || (namespaces::is_namespace(resource) && any("/spec/finalizers"))
}

/// Whether an object that is being deleted can be removed now.
pub(super) fn is_finished(resource: &Resource, value: &Value) -> bool {
    let grace = value
        .pointer("/metadata/deletionGracePeriodSeconds")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    value.pointer("/metadata/deletionTimestamp").is_some() && grace == 0 && !has_finalizers(resource, value)
}
