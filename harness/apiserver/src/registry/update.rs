//! Updates: the part of an object that an endpoint can change, conflicts, generation, and updates without changes.

use std::sync::Arc;

use serde_json::Value;

use super::attempt::{Attempt, refusal};
use super::owners::{Owners, Sent, keep_times};
use super::{Entry, Part, Payload, Registry, WriteOptions, Written, addresses, create, delete, metadata, review, tree};
use crate::apply::FieldSet;
use crate::kinds;
use crate::resource::{Generation, Resource};
use crate::status::{ApiError, FieldError};
use crate::store::{Key, Object};

/// A prepared change of an object.
#[derive(Clone)]
pub(super) struct Change {
    /// The changed object in its stored form, admitted.
    pub(super) value: Value,
    /// The `apiVersion` of the request.
    pub(super) version: String,
    /// Where its managers come from.
    pub(super) owners: Owners,
    /// The warnings so far.
    pub(super) warnings: Vec<String>,
}

impl Change {
    /// A change of which the writer becomes the manager; `entry` is that of the request.
    pub(super) fn by_writer(entry: &Entry, value: Value, warnings: Vec<String>) -> Self {
        Self {
            value,
            version: entry.resource.api_version(),
            owners: Owners::Writer,
            warnings,
        }
    }
}

impl Registry {
    /// Replaces an object (PUT).
    ///
    /// # Errors
    /// 400, 404, 409 and 422 as in upstream.
    pub fn update(
        &self,
        entry: &Entry,
        key: &Key,
        part: Part,
        mut value: Value,
        options: &WriteOptions,
    ) -> Result<Written, ApiError> {
        let warnings = self.admit(entry, &mut value, options)?;
        entry.convert_to_stored(&mut value);
        let (requested, entry) = (entry, &entry.storage());
        let resource = &entry.resource;
        let name = metadata::text(&value, "name");
        if name.is_empty() && part == Part::Main {
            let error = FieldError::required("metadata.name", "name or generateName is required");
            return Err(ApiError::invalid(&resource.group, &resource.kind, "", &[error]));
        }
        if !name.is_empty() {
            metadata::check_name(&value, &key.name)?;
        }
        create::check_namespace(resource, &key.namespace, &value)?;
        loop {
            let current = self.get(entry, key)?;
            check_uid(resource, &current, &value)?;
            let old = entry.decoded(&current)?;
            let change = Change::by_writer(requested, value.clone(), warnings.clone());
            // After a concurrent write, the update is checked against the new state: the object may be gone.
            match self.attempt(entry, (&current, &old), part, change, options)? {
                Attempt::Done(written) => return Ok(written),
                Attempt::Raced => {}
            }
        }
    }

    /// Prepares `new`, an admitted object, as the successor of `current` with the tree `old`, by the rules of `part`.
    pub(super) fn attempt(
        &self,
        entry: &Entry,
        (current, old): (&Arc<Object>, &Value),
        part: Part,
        change: Change,
        options: &WriteOptions,
    ) -> Result<Attempt, ApiError> {
        let resource = &entry.resource;
        let mut change = change;
        if resource.is_custom() {
            let found = metadata::finalizer_warnings(&change.value, Some(old));
            change.warnings.extend(found);
        }
        check_revision(resource, current, &change.value)?;
        if options.reviewer.is_some() {
            let key = &current.key;
            let place = (key.namespace.as_str(), key.name.as_str());
            let found = self.let_mutate(entry, place, (&mut change.value, Some(old)), options)?;
            change.warnings.extend(found);
            let shown = self.successor(entry, old, part, change.clone(), options)?;
            let found = review::let_validate((&key.namespace, &shown), Some(old), options)?;
            change.warnings.extend(found);
        }
        let _names = super::definitions::is_definition(resource).then(|| self.naming.lock());
        let is_service = addresses::is_service(resource);
        let _allocations = is_service.then(|| self.allocations.lock());
        let warnings = std::mem::take(&mut change.warnings);
        let mut new = self.successor(entry, old, part, change, options)?;
        if is_service {
            self.allocate(entry, &mut new, Some(old))?;
        }
        let consumption = self.consume(entry, &new, Some((old, part)))?;
        let attempt = self.replace(entry, current, new, options.dry_run, warnings)?;
        if matches!(attempt, Attempt::Done(_)) && !options.dry_run {
            self.record_consumption(consumption)?;
        }
        Ok(attempt)
    }

    /// The changed object, completed and checked.
    fn successor(
        &self,
        entry: &Entry,
        old: &Value,
        part: Part,
        change: Change,
        options: &WriteOptions,
    ) -> Result<Value, ApiError> {
        let Change {
            value: mut new,
            version,
            owners,
            warnings: _,
        } = change;
        let resource = &entry.resource;
        if let Some(guard) = &options.guard {
            guard.check(&new, Some(old))?;
        }
        merge(resource, part, &mut new, old);
        self.stamp(entry, &mut new, Some(old));
        let changed = metadata::immutable_changes(&new, old);
        let sent = Sent {
            managers: metadata::carry_over(&mut new, old),
            by_server: FieldSet::default(),
            version,
        };
        self.complete(entry, &mut new, Some(old))?;
        if generation_changes(resource, &new, old) {
            let next = metadata::generation(old).saturating_add(1);
            metadata::of_mut(&mut new).insert("generation".to_owned(), next.into());
        }
        match owners {
            Owners::Writer => self.own(entry, part, (Some(old), &mut new), &sent, options),
            Owners::Given(managers) => {
                metadata::put(metadata::of_mut(&mut new), "managedFields", managers);
                keep_times(&mut new, old);
            }
        }
        self.validate(&part.checks(entry), &new, Some(old), changed)?;
        self.admit_expansion(entry, &new, old)?;
        if part == Part::Resize || (part == Part::Main && entry.resource.plural == "persistentvolumeclaims") {
            self.check_limits(entry, &new, old)?;
        }
        Ok(new)
    }

    /// Commits a prepared successor of `current`: writes nothing without changes, and removes the object if the
    /// update removed its last finalizer.
    pub(super) fn replace(
        &self,
        entry: &Entry,
        current: &Arc<Object>,
        mut new: Value,
        dry_run: bool,
        warnings: Vec<String>,
    ) -> Result<Attempt, ApiError> {
        let resource = &entry.resource;
        let draft = self.draft(entry, &mut new)?;
        let done = |object| {
            Ok(Attempt::Done(Written {
                code: 200,
                payload: Payload::Object(object),
                warnings,
            }))
        };
        let removal = delete::is_finished(resource, &new);
        if !removal && draft.same_content(current) {
            return done(Arc::clone(current));
        }
        if dry_run {
            return done(Arc::new(draft.finish(current.revision)));
        }
        if removal {
            // The update itself is not stored: watches see the last stored state.
            return match self.take(entry, current, dry_run)? {
                Some(_) => done(Arc::new(draft.finish(current.revision))),
                None => Ok(Attempt::Raced),
            };
        }
        match self.store.put(&entry.table, Some(current.revision), draft, None) {
            Ok(object) => {
                if addresses::is_service(resource) {
                    self.sync_addresses(&object.key, Some(&new), Some(&tree(current)?))?;
                }
                self.updated(entry, &object)?;
                done(object)
            }
            Err(refused) => refusal(refused, entry, &current.key.name).map_or(Ok(Attempt::Raced), Err),
        }
    }

    /// The side effects of an update.
    fn updated(&self, entry: &Entry, object: &Object) -> Result<(), ApiError> {
        if super::definitions::is_definition(&entry.resource) {
            return self.definition_changed(entry, &object.key.name);
        }
        if super::namespaces::is_namespace(&entry.resource) && object.meta.deleting {
            return self.finish_namespace(&object.key.name);
        }
        if super::roles::is_cluster_role(&entry.resource) {
            return self.aggregate_roles();
        }
        if super::expiry::is_event(&entry.resource) {
            return self.event_written(entry, object);
        }
        Ok(())
    }
}

/// An update with a uid must not replace a newer object of the same name.
fn check_uid(resource: &Resource, current: &Object, new: &Value) -> Result<(), ApiError> {
    let uid = metadata::text(new, "uid");
    if uid.is_empty() || uid == current.meta.uid {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
        resource.plural,
        current.key.path(),
        current.meta.uid
    );
    Err(ApiError::conflict(resource, &current.key.name, &why))
}

fn check_revision(resource: &Resource, current: &Object, new: &Value) -> Result<(), ApiError> {
    let name = &current.key.name;
    let revision = metadata::text(new, "resourceVersion");
    let invalid = |value: Value, detail: &str| {
        let error = FieldError::invalid("metadata.resourceVersion", value, detail);
        // Upstream's error contains the resource instead of the kind.
        let kind = &resource.plural;
        ApiError::invalid(&resource.group, kind, name, &[error])
    };
    if revision.is_empty() || revision == "0" {
        if resource.unconditional_update {
            return Ok(());
        }
        return Err(invalid(0.into(), "must be specified for an update"));
    }
    match revision.parse::<u64>() {
        Ok(revision) if revision == current.revision => Ok(()),
        Ok(_) => Err(ApiError::modified(resource, name)),
        Err(_) => Err(invalid(
            revision.into(),
            "must be a resource version that the server gave out",
        )),
    }
}

/// Restores all fields that this endpoint does not write.
fn merge(resource: &Resource, part: Part, new: &mut Value, old: &Value) {
    match part {
        Part::Main => {
            if resource.has_status() {
                copy_member(new, old, "status");
            }
            if super::namespaces::is_namespace(resource) {
                let finalizers = old.pointer("/spec/finalizers").cloned();
                metadata::put(metadata::member_object(new, "spec"), "finalizers", finalizers);
            }
        }
        Part::Status if resource.is_custom() => {
            let status = new.get("status").cloned();
            *new = old.clone();
            if let Some(object) = new.as_object_mut() {
                metadata::put(object, "status", status);
            }
        }
        Part::Status => {
            let names: Vec<String> = [&*new, old]
                .into_iter()
                .filter_map(Value::as_object)
                .flat_map(|object| object.keys().cloned())
                .filter(|name| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata" | "status"))
                .collect();
            for name in names {
                copy_member(new, old, &name);
            }
            for field in super::owners::kept_by_status(resource) {
                let kept = old.get("metadata").and_then(|metadata| metadata.get(field)).cloned();
                metadata::put(metadata::of_mut(new), field, kept);
            }
        }
        Part::Approval => {
            let conditions = new.pointer("/status/conditions").cloned();
            *new = old.clone();
            metadata::put(metadata::member_object(new, "status"), "conditions", conditions);
        }
        Part::EphemeralContainers => {
            let containers = new.pointer("/spec/ephemeralContainers").cloned();
            *new = old.clone();
            metadata::put(metadata::member_object(new, "spec"), "ephemeralContainers", containers);
        }
        Part::Resize => kinds::keep_only_resize(new, old),
        Part::Finalize => {
            let finalizers = new.pointer("/spec/finalizers").cloned();
            *new = old.clone();
            metadata::put(metadata::member_object(new, "spec"), "finalizers", finalizers);
        }
    }
}

fn copy_member(new: &mut Value, old: &Value, name: &str) {
    if let Some(object) = new.as_object_mut() {
        metadata::put(object, name, old.get(name).cloned());
    }
}

fn generation_changes(resource: &Resource, new: &Value, old: &Value) -> bool {
    match resource.generation {
        Generation::Never => false,
        Generation::Spec => new.get("spec") != old.get("spec"),
        Generation::Content => {
            let labels = |object: &Value| object.pointer("/metadata/labels").cloned();
            if resource.group == "discovery.k8s.io" && labels(new) != labels(old) {
                return true;
            }
            let has_status = resource.has_status();
            let counts = |name: &str| match name {
                "apiVersion" | "kind" | "metadata" => false,
                "status" => !has_status,
                _ => true,
            };
            let content = |value| members(value).filter(|(name, _)| counts(name));
            !content(new).eq(content(old))
        }
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}
