//! Field managers of stored objects: `metadata.managedFields`.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock, OnceLock};

use serde_json::{Map, Value};

use super::{Catalog, Entry, Part, Registry, WriteOptions, metadata};
use crate::apply::{self, FieldSet, Managers, Versions, Write};
use crate::conversion::ConversionError;
use crate::resource::{Resource, Shape};
use crate::types;

/// The manager of the server's own writes.
const SERVER: &str = "kube-apiserver";

/// When the server records who wrote which fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldManagers {
    /// From the creation of each object, as upstream.
    #[default]
    Always,
    /// From the first server-side apply of an object, which saves time and memory.
    AfterApply,
}

/// Where the managers of a written object come from.
#[derive(Clone, Debug)]
pub(super) enum Owners {
    /// The writer becomes the manager of what it changes.
    Writer,
    /// The write determines them: `managedFields`, if there are any.
    Given(Option<Value>),
}

/// What a client sent.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    /// The `apiVersion` of the request.
    pub(super) version: String,
    /// `managedFields`.
    pub(super) managers: Option<Value>,
    /// The fields that it did not send and the server sets, which have no manager.
    pub(super) by_server: FieldSet,
}

/// The versions of a resource.
#[derive(Debug)]
pub(super) struct ResourceVersions {
    catalog: Arc<Catalog>,
    resource: Arc<Resource>,
    /// The first conversion that failed.
    failed: OnceLock<ConversionError>,
}

impl ResourceVersions {
    fn find(&self, api_version: &str) -> Option<&Resource> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if group == self.resource.group && version == self.resource.version {
            return Some(&self.resource);
        }
        let entry = self.catalog.find(group, version, &self.resource.plural)?;
        Some(&entry.resource)
    }
}

impl Versions for ResourceVersions {
    fn shape(&self, api_version: &str) -> Option<&Shape> {
        self.find(api_version).map(|resource| &resource.shape)
    }

    fn convert<'v>(&self, object: &'v Value, from: &str, to: &str) -> Cow<'v, Value> {
        if let Some(versions) = &self.resource.versions {
            if from == to {
                return Cow::Borrowed(object);
            }
            return match versions.convert(vec![object.clone()], to) {
                Ok(objects) => objects.into_iter().next().map_or(Cow::Borrowed(object), Cow::Owned),
                Err(error) => {
                    // The result is not used: `with_write` returns the error.
                    let _ = self.failed.set(error);
                    Cow::Borrowed(object)
                }
            };
        }
        let conversion = |version| self.find(version).and_then(|resource| resource.conversion);
        let (from, to) = (
            conversion(from).filter(|_| from != to),
            conversion(to).filter(|_| from != to),
        );
        if from.is_none() && to.is_none() {
            return Cow::Borrowed(object);
        }
        let mut object = object.clone();
        if let Some(from) = from {
            (from.to_stored)(&mut object);
        }
        if let Some(to) = to {
            (to.from_stored)(&mut object);
        }
        Cow::Owned(object)
    }
}

impl Registry {
    /// Sets the managers of a new or changed object.
    pub(super) fn own(
        &self,
        entry: &Entry,
        part: Part,
        (old, new): (Option<&Value>, &mut Value),
        Sent {
            version,
            managers: sent,
            by_server,
        }: &Sent,
        options: &WriteOptions,
    ) {
        let before = match (sent, part) {
            (Some(sent), Part::Main) if apply::is_reset(sent) => Managers::default(),
            (Some(sent), Part::Main) if old.is_none_or(|old| encoded(old) != Some(sent)) => {
                let sent = Managers::decode(sent).unwrap_or_default();
                if sent.is_empty() {
                    old.map(Managers::of).unwrap_or_default()
                } else {
                    sent
                }
            }
            _ => match old {
                // Without changes the managers need not be decoded.
                Some(old) => match encoded(old) {
                    Some(before) => {
                        let change = (old, new);
                        return self.own_changes(entry, part, change, version, before.clone(), options);
                    }
                    None => return,
                },
                None => Managers::default(),
            },
        };
        if before.is_empty() && (old.is_some() || self.settings.field_managers == FieldManagers::AfterApply) {
            return;
        }
        let empty;
        let old = match old {
            Some(old) => old,
            None => {
                empty = empty_object(&entry.resource);
                &empty
            }
        };
        let managers = self.with_write(entry, part, version, options, |write| {
            let changes = apply::compare(old, new, write).without(by_server);
            apply::record(changes, (old, new), before, write)
        });
        match managers {
            Ok(managers) => apply::set_managers(new, &managers),
            Err(error) => disown(new, &error),
        }
    }

    /// Sets the managers of a changed object that had managers before and was sent without others.
    fn own_changes(
        &self,
        entry: &Entry,
        part: Part,
        (old, new): (&Value, &mut Value),
        version: &str,
        before: Value,
        options: &WriteOptions,
    ) {
        let managers = self.with_write(entry, part, version, options, |write| {
            let changes = apply::compare(old, new, write);
            if changes.is_empty() {
                return None;
            }
            let managers = Managers::decode(&before).unwrap_or_default();
            (!managers.is_empty()).then(|| apply::record(changes, (old, new), managers, write))
        });
        match managers {
            Ok(Some(managers)) => apply::set_managers(new, &managers),
            Ok(None) => {
                metadata::of_mut(new).insert("managedFields".to_owned(), before);
            }
            Err(error) => disown(new, &error),
        }
    }

    /// Calls `act` with the description of a write in that version to objects of the entry's version.
    ///
    /// # Errors
    /// The objects cannot be converted to the version of a manager.
    pub(super) fn with_write<T>(
        &self,
        entry: &Entry,
        part: Part,
        version: &str,
        options: &WriteOptions,
        act: impl FnOnce(&Write<'_>) -> T,
    ) -> Result<T, ConversionError> {
        let versions = ResourceVersions {
            catalog: self.catalog(),
            resource: Arc::clone(&entry.resource),
            failed: OnceLock::new(),
        };
        let write = Write {
            manager: options.manager.as_deref().unwrap_or(SERVER),
            api_version: version,
            form: &entry.resource.api_version(),
            subresource: part.subresource(),
            now: &self.now_text(),
            versions: &versions,
            ignored: ignored(&entry.resource, part),
        };
        let result = act(&write);
        versions.failed.into_inner().map_or(Ok(result), Err)
    }
}

/// Removes the managers of an object that cannot be converted to their versions, as upstream: they would be wrong.
fn disown(object: &mut Value, error: &ConversionError) {
    let name = metadata::text(object, "name").to_owned();
    tracing::warn!(name, %error, "an object loses its field managers");
    metadata::of_mut(object).remove("managedFields");
}

/// `managedFields` of an object.
pub(super) fn encoded(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Restores the times of the managers if nothing else has changed, so that nothing is written.
pub(super) fn keep_times(new: &mut Value, old: &Value) {
    let (Some(of_new), Some(of_old)) = (encoded(new), encoded(old)) else {
        return;
    };
    if of_new == of_old || !Managers::of(new).same_except_times(&Managers::of(old)) {
        return;
    }
    let of_old = of_old.clone();
    let mut restored = new.clone();
    metadata::of_mut(&mut restored).insert("managedFields".to_owned(), of_old);
    let revision = old.pointer("/metadata/resourceVersion").cloned();
    metadata::put(metadata::of_mut(&mut restored), "resourceVersion", revision);
    if restored == *old {
        *new = restored;
    }
}

/// The object of a kind in which nothing is set.
pub(super) fn empty_object(resource: &Resource) -> Value {
    match &resource.shape {
        Shape::BuiltIn(name) => types::zero(name),
        Shape::Custom(_) => {
            let type_ = [("apiVersion", resource.api_version()), ("kind", resource.kind.clone())];
            let type_ = type_.into_iter().map(|(name, text)| (name.to_owned(), text.into()));
            Value::Object(type_.collect::<Map<String, Value>>())
        }
    }
}

/// The metadata that a write of the status does not change.
pub(super) fn kept_by_status(resource: &Resource) -> &'static [&'static str] {
    match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "pods") => &["ownerReferences"],
        ("apps", "deployments") => &["labels"],
        _ if has_status_without_metadata(resource) => &["labels", "annotations", "finalizers", "ownerReferences"],
        _ => &[],
    }
}

/// Whether the status of a built-in kind is written without any metadata.
fn has_status_without_metadata(resource: &Resource) -> bool {
    matches!(
        (resource.group.as_str(), resource.plural.as_str()),
        ("storage.k8s.io", "volumeattachments")
            | ("networking.k8s.io", "servicecidrs")
            | ("resource.k8s.io", _)
            | ("admissionregistration.k8s.io", _)
    )
}

/// The fields that the server sets in a new object after it has determined the managers, unless the client sets them.
pub(super) fn set_by_server(resource: &Resource, sent: &Value) -> FieldSet {
    let paths: &[&[&str]] = match (resource.group.as_str(), resource.plural.as_str()) {
        ("", "persistentvolumes" | "persistentvolumeclaims") => &[&["metadata", "finalizers"]],
        ("", "namespaces") => &[&["spec", "finalizers"]],
        _ => &[],
    };
    let is_set = |path: &[&str]| sent.pointer(&format!("/{}", path.join("/"))).is_some();
    let unset: Vec<&[&str]> = paths.iter().copied().filter(|path| !is_set(path)).collect();
    FieldSet::of_fields(&unset)
}

/// The fields that an endpoint does not write: the reset fields of upstream's strategies.
fn ignored(resource: &Resource, part: Part) -> &'static FieldSet {
    static NONE: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);
    static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["status"]]));
    static SPEC: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["spec"]]));
    static ALL_BUT_STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of_fields(&[&["metadata"], &["spec"]]));
    static OF_POD: LazyLock<FieldSet> = LazyLock::new(|| {
        FieldSet::of_fields(&[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ])
    });
    static OF_APPROVAL: LazyLock<FieldSet> =
        LazyLock::new(|| FieldSet::of_fields(&[&["spec"], &["status", "certificate"]]));
    static OF_CERTIFICATE: LazyLock<FieldSet> =
        LazyLock::new(|| FieldSet::of_fields(&[&["spec"], &["status", "conditions"]]));
    static OF_DEPLOYMENT: LazyLock<FieldSet> =
        LazyLock::new(|| FieldSet::of_fields(&[&["spec"], &["metadata", "labels"]]));
    match part {
        Part::Main if resource.has_status() => &STATUS,
        Part::Main => &NONE,
        Part::Finalize => &STATUS,
        Part::Approval => &OF_APPROVAL,
        Part::EphemeralContainers | Part::Resize => &STATUS,
        Part::Status if resource.is_custom() => &ALL_BUT_STATUS,
        Part::Status => match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "pods") => &OF_POD,
            ("apps", "deployments") => &OF_DEPLOYMENT,
            ("certificates.k8s.io", _) => &OF_CERTIFICATE,
            ("flowcontrol.apiserver.k8s.io", _) => &ALL_BUT_STATUS,
            _ if has_status_without_metadata(resource) => &ALL_BUT_STATUS,
            _ => &SPEC,
        },
    }
}
