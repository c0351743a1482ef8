//! Creates objects: names, server-managed metadata, the first revision.

use std::sync::Arc;

use serde_json::Value;

use super::attempt::refusal;
use super::definitions::is_definition;
use super::owners::{Owners, Sent, set_by_server};
use super::{
    Entry, Part, Payload, Registry, WriteOptions, Written, addresses, metadata, namespaces, review, roles, tree,
};
use crate::resource::{Generation, Resource};
use crate::status::ApiError;
use crate::store::{Key, Object};
use quantity::Saturating as _;

/// How many generated names the server tries.
const NAME_ATTEMPTS: usize = 8;
/// The maximum length of a generated name's prefix, so that the name fits into a label value.
const PREFIX_LENGTH: usize = 58;
const SUFFIX_LENGTH: usize = 5;
/// Without vowels and similar digits, so that suffixes contain no words.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Registry {
    /// Creates an object.
    ///
    /// # Errors
    /// 400, 403, 404, 409 and 422 as in upstream.
    pub fn create(
        &self,
        entry: &Entry,
        namespace: &str,
        value: Value,
        options: &WriteOptions,
    ) -> Result<Written, ApiError> {
        self.create_owned(entry, namespace, value, options, Owners::Writer)
    }

    /// Creates an object with managers.
    pub(super) fn create_owned(
        &self,
        entry: &Entry,
        namespace: &str,
        mut value: Value,
        options: &WriteOptions,
        owners: Owners,
    ) -> Result<Written, ApiError> {
        let mut warnings = self.admit(entry, &mut value, options)?;
        entry.convert_to_stored(&mut value);
        let version = entry.resource.api_version();
        let entry = &entry.storage();
        let resource = &entry.resource;
        if resource.is_custom() {
            warnings.extend(metadata::finalizer_warnings(&value, None));
        }
        check_namespace(resource, namespace, &value)?;
        let given_name = metadata::text(&value, "name").to_owned();
        if options.reviewer.is_some() && resource.namespaced {
            self.live_namespace(resource, namespace, &given_name)?;
        }
        if resource.namespaced {
            metadata::put(metadata::of_mut(&mut value), "namespace", Some(namespace.into()));
        }
        if options.reviewer.is_some() {
            // As in upstream, mutating policies and webhooks see the account of a pod.
            self.admit_account(entry, namespace, &mut value)?;
        }
        warnings.extend(self.let_mutate(entry, (namespace, &given_name), (&mut value, None), options)?);
        let sent = Sent {
            managers: self.begin(resource, namespace, &mut value),
            by_server: set_by_server(resource, &value),
            version,
        };
        self.stamp(entry, &mut value, None);
        let generated = metadata::text(&value, "name").is_empty() && !metadata::text(&value, "generateName").is_empty();
        // Defaults, such as the labels of a job's pods, can depend on the name.
        let nameless = generated.then(|| value.clone());
        let mut attempts = 0;
        loop {
            if let Some(nameless) = &nameless {
                value.clone_from(nameless);
                let name = self.generate(metadata::text(&value, "generateName"));
                metadata::of_mut(&mut value).insert("name".to_owned(), name.into());
            }
            let needs_lock = is_definition(resource) || addresses::is_service(resource);
            if options.reviewer.is_some() {
                let mut shown = value.clone();
                self.prepare_new(entry, namespace, &mut shown, (&owners, &sent), options)?;
                warnings.extend(review::let_validate((namespace, &shown), None, options)?);
                if !needs_lock {
                    value = shown;
                }
            }
            let _names = is_definition(resource).then(|| self.naming.lock());
            let _allocations = addresses::is_service(resource).then(|| self.allocations.lock());
            if needs_lock || options.reviewer.is_none() {
                self.prepare_new(entry, namespace, &mut value, (&owners, &sent), options)?;
            }
            if addresses::is_service(resource) {
                self.allocate(entry, &mut value, None)?;
            }
            if !options.dry_run && !metadata::text(&value, "resourceVersion").is_empty() {
                let message = "resourceVersion should not be set on objects to be created";
                return Err(ApiError::new(500, "", message));
            }
            attempts.raise(1);
            let consumption = self.consume(entry, &value, None)?;
            match self.insert(entry, namespace, &mut value, options.dry_run) {
                Ok(object) => {
                    if !options.dry_run {
                        self.record_consumption(consumption)?;
                        self.created(entry, &object)?;
                    }
                    return Ok(Written {
                        code: 201,
                        payload: Payload::Object(object),
                        warnings,
                    });
                }
                Err(error) if generated && error.reason == "AlreadyExists" => {
                    if attempts == NAME_ATTEMPTS {
                        return Err(error.retry_after(1));
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Completes and checks a new object.
    fn prepare_new(
        &self,
        entry: &Entry,
        namespace: &str,
        value: &mut Value,
        (owners, sent): (&Owners, &Sent),
        options: &WriteOptions,
    ) -> Result<(), ApiError> {
        self.complete(entry, value, None)?;
        if let Some(guard) = &options.guard {
            guard.check(value, None)?;
        }
        match owners {
            Owners::Writer => self.own(entry, Part::Main, (None, value), sent, options),
            Owners::Given(managers) => metadata::put(metadata::of_mut(value), "managedFields", managers.clone()),
        }
        self.admit_account(entry, namespace, value)?;
        self.admit_references(entry, value)?;
        self.admit_limits(entry, value)?;
        self.validate(entry, value, None, Vec::new())
    }

    /// Sets the initial metadata and status of a new object. Returns `managedFields` as the client sent it.
    fn begin(&self, resource: &Resource, namespace: &str, value: &mut Value) -> Option<Value> {
        let uid = self.random(|random| random.uuid());
        let now = self.now_text();
        let metadata = metadata::of_mut(value);
        for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
            metadata.remove(field);
        }
        let managers = metadata.remove("managedFields");
        metadata.insert("uid".to_owned(), uid.into());
        metadata.insert("creationTimestamp".to_owned(), now.into());
        let namespace = resource.namespaced.then(|| namespace.into());
        metadata::put(metadata, "namespace", namespace);
        if resource.generation != Generation::Never {
            metadata.insert("generation".to_owned(), 1.into());
        }
        let drops_status = resource.has_status() && !resource.keeps_status_on_create();
        if let Some(object) = value.as_object_mut().filter(|_| drops_status) {
            object.remove("status");
        }
        managers
    }

    fn generate(&self, prefix: &str) -> String {
        let prefix: String = prefix.chars().take(PREFIX_LENGTH).collect();
        let suffix = self.random(|random| random.text(SUFFIX_LENGTH, SUFFIX_ALPHABET));
        format!("{prefix}{suffix}")
    }

    fn insert(
        &self,
        entry: &Entry,
        namespace: &str,
        value: &mut Value,
        dry_run: bool,
    ) -> Result<Arc<Object>, ApiError> {
        let resource = &entry.resource;
        let name = metadata::text(value, "name").to_owned();
        let draft = self.draft(entry, value)?;
        loop {
            let key = Key::new(if resource.namespaced { namespace } else { "" }, &name);
            let unchanged = if resource.namespaced {
                Some(self.live_namespace(resource, namespace, &name)?)
            } else {
                None
            };
            self.check_definition_is_live(resource)?;
            if self.store.get(&entry.table, &key).is_some() {
                return Err(ApiError::already_exists(resource, &name));
            }
            if dry_run {
                return Ok(Arc::new(draft.finish(0)));
            }
            match self.store.put(&entry.table, None, draft.clone(), unchanged.as_ref()) {
                Ok(object) => return Ok(object),
                Err(refused) => {
                    if let Some(error) = refusal(refused, entry, &name) {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Creates an object unless one of its name exists.
    ///
    /// # Errors
    /// Those of a creation, except 409.
    pub(crate) fn create_missing(&self, entry: &Entry, namespace: &str, value: Value) -> Result<(), ApiError> {
        match self.create(entry, namespace, value, &WriteOptions::default()) {
            Err(error) if error.reason != "AlreadyExists" => Err(error),
            _ => Ok(()),
        }
    }

    /// The side effects of a creation.
    fn created(&self, entry: &Entry, object: &Object) -> Result<(), ApiError> {
        if super::definitions::is_definition(&entry.resource) {
            self.refresh_definition(&object.key.name)?;
            return self.sync_api_services(super::definitions::group_of(&object.key.name));
        }
        if addresses::is_service(&entry.resource) {
            return self.sync_addresses(&object.key, Some(&tree(object)?), None);
        }
        if namespaces::is_namespace(&entry.resource) {
            return self.initialize_namespace(&object.key.name);
        }
        if roles::is_cluster_role(&entry.resource) {
            return self.aggregate_roles();
        }
        if super::expiry::is_event(&entry.resource) {
            return self.event_written(entry, object);
        }
        Ok(())
    }
}

pub(super) fn check_namespace(resource: &Resource, namespace: &str, value: &Value) -> Result<(), ApiError> {
    let found = metadata::text(value, "namespace");
    if resource.namespaced && !found.is_empty() && found != namespace {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}
