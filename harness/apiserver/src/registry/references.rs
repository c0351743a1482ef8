//! Defaults of a new object that depend on other objects: the priority of a pod and what its runtime adds, from their
//! classes, and the default storage class of a claim. Acts as upstream's admission plugins Priority, RuntimeClass and
//! DefaultStorageClass.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Entry, Registry, metadata, tree};
use crate::kinds::{SYSTEM_PRIORITIES, apply_runtime};
use crate::status::ApiError;
use crate::store::{Key, Object, Scope};

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const BETA_CLASS: &str = "/metadata/annotations/volume.beta.kubernetes.io~1storage-class";

impl Registry {
    /// Sets the defaults of a new object that depend on other objects.
    ///
    /// # Errors
    /// 403 if a pod's class does not exist, or the pod has another priority or overhead than its class.
    pub(super) fn admit_references(&self, entry: &Entry, object: &mut Value) -> Result<(), ApiError> {
        match (entry.resource.group.as_str(), entry.resource.plural.as_str()) {
            ("", "pods") => {
                self.admit_priority(entry, object)?;
                self.admit_runtime(entry, object)
            }
            ("", "persistentvolumeclaims") => self.admit_storage_class(object),
            _ => Ok(()),
        }
    }

    /// Creates the priority classes of the system.
    ///
    /// # Errors
    /// None on a healthy system.
    pub(crate) fn seed_priorities(&self) -> Result<(), ApiError> {
        let catalog = self.catalog();
        let Some(entry) = catalog.find("scheduling.k8s.io", "v1", "priorityclasses") else {
            return Ok(());
        };
        for (name, value, description) in SYSTEM_PRIORITIES {
            let class = json!({ "metadata": { "name": name }, "value": value, "description": description });
            self.create_missing(entry, "", class)?;
        }
        Ok(())
    }

    fn admit_priority(&self, entry: &Entry, pod: &mut Value) -> Result<(), ApiError> {
        let named = pod
            .pointer("/spec/priorityClassName")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let class = if named.is_empty() {
            self.all("priorityclasses")?
                .into_iter()
                .filter(|class| class["globalDefault"] == true)
                .min_by_key(|class| class["value"].as_i64())
        } else {
            let found = self.one("priorityclasses", &named)?;
            if found.is_none() {
                let why = format!("no PriorityClass with name {named} was found");
                return Err(ApiError::forbidden(&entry.resource, metadata::text(pod, "name"), &why));
            }
            found
        };
        let class = class.unwrap_or_else(|| json!({ "value": 0, "preemptionPolicy": "PreemptLowerPriority" }));
        let name = metadata::text(pod, "name").to_owned();
        let refuse = |kind: &str, field: &str, given: &str, computed: &str| {
            let why = format!(
                "the {kind} value of {field} ({given}) must not be provided in pod spec; priority admission controller \
                 computed {computed} from the given PriorityClass name"
            );
            ApiError::forbidden(&entry.resource, &name, &why)
        };
        let value = class["value"].as_i64().unwrap_or_default();
        let policy = class["preemptionPolicy"].as_str().unwrap_or("PreemptLowerPriority");
        let spec = metadata::member_object(pod, "spec");
        if let Some(given) = spec
            .get("priority")
            .and_then(Value::as_i64)
            .filter(|given| *given != value)
        {
            return Err(refuse("integer", "priority", &given.to_string(), &value.to_string()));
        }
        if let Some(given) = spec
            .get("preemptionPolicy")
            .and_then(Value::as_str)
            .filter(|given| *given != policy)
        {
            return Err(refuse("string", "PreemptionPolicy", given, policy));
        }
        if let Some(class) = class.pointer("/metadata/name") {
            spec.insert("priorityClassName".to_owned(), class.clone());
        }
        spec.insert("priority".to_owned(), value.into());
        spec.insert("preemptionPolicy".to_owned(), policy.into());
        Ok(())
    }

    fn admit_runtime(&self, entry: &Entry, pod: &mut Value) -> Result<(), ApiError> {
        let named = pod.pointer("/spec/runtimeClassName").and_then(Value::as_str);
        let refuse = |why: &str| ApiError::forbidden(&entry.resource, metadata::text(pod, "name"), why);
        let class = match named {
            None => None,
            Some(name) => {
                let class = self.one("runtimeclasses", name)?;
                Some(class.ok_or_else(|| refuse(&format!("pod rejected: RuntimeClass {name:?} not found")))?)
            }
        };
        let name = metadata::text(pod, "name").to_owned();
        apply_runtime(class.as_ref(), pod)
            .map_err(|mismatch| ApiError::forbidden(&entry.resource, &name, &mismatch.to_string()))
    }

    /// A claim without a class gets the newest default class.
    fn admit_storage_class(&self, claim: &mut Value) -> Result<(), ApiError> {
        let has_class = claim.pointer("/spec/storageClassName").is_some_and(Value::is_string);
        if has_class || claim.pointer(BETA_CLASS).is_some() {
            return Ok(());
        }
        let default = self
            .all("storageclasses")?
            .into_iter()
            .filter(|class| class["metadata"]["annotations"][DEFAULT_CLASS] == "true")
            .min_by_key(|class| {
                let created = metadata::text(class, "creationTimestamp").to_owned();
                (Reverse(created), metadata::text(class, "name").to_owned())
            });
        if let Some(class) = default {
            let name = metadata::text(&class, "name");
            metadata::member_object(claim, "spec").insert("storageClassName".to_owned(), name.into());
        }
        Ok(())
    }

    /// A bound claim grows only if its class allows it, as with the admission plugin PersistentVolumeClaimResize.
    ///
    /// # Errors
    /// 403.
    pub(super) fn admit_expansion(&self, entry: &Entry, new: &Value, old: &Value) -> Result<(), ApiError> {
        let resource = &entry.resource;
        if !resource.group.is_empty() || resource.plural != "persistentvolumeclaims" {
            return Ok(());
        }
        let requested = |claim: &Value| -> Option<quantity::Quantity> {
            let text = claim.pointer("/spec/resources/requests/storage")?.as_str()?;
            text.parse().ok()
        };
        let grows = match (requested(new), requested(old)) {
            (Some(wanted), Some(before)) => wanted.compare(&before).is_gt(),
            _ => false,
        };
        let phase = old.pointer("/status/phase").and_then(Value::as_str);
        if !grows || phase != Some("Bound") {
            return Ok(());
        }
        let class = new
            .pointer("/spec/storageClassName")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let allows = self
            .one("storageclasses", class)?
            .is_some_and(|class| class["allowVolumeExpansion"] == true);
        if allows {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must \
            support resize";
        Err(ApiError::forbidden(resource, metadata::text(new, "name"), why))
    }

    /// The zone and region of a node, which its pods also get as labels.
    pub(super) fn topology_of(&self, node: &str) -> Result<Vec<(&'static str, Value)>, ApiError> {
        let Some(node) = self.one("nodes", node)? else {
            return Ok(Vec::new());
        };
        let labels = ["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];
        Ok(labels
            .into_iter()
            .filter_map(|label| Some((label, node["metadata"]["labels"].get(label)?.clone())))
            .collect())
    }

    fn table_of(&self, plural: &str) -> String {
        let group = match plural {
            "priorityclasses" => "scheduling.k8s.io",
            "runtimeclasses" => "node.k8s.io",
            "storageclasses" => "storage.k8s.io",
            _ => "",
        };
        let catalog = self.catalog();
        let entry = catalog.find(group, "v1", plural);
        entry.map(|entry| entry.table.to_string()).unwrap_or_default()
    }

    fn one(&self, plural: &str, name: &str) -> Result<Option<Value>, ApiError> {
        let object = self.store.get(&self.table_of(plural), &Key::new("", name));
        object.map(|object| tree(&object)).transpose()
    }

    fn all(&self, plural: &str) -> Result<Vec<Value>, ApiError> {
        let scope = Scope {
            namespace: None,
            after: None,
        };
        let objects: Vec<Arc<Object>> = self
            .store
            .list(&self.table_of(plural), &scope, None)
            .map(|listing| listing.objects)
            .unwrap_or_default();
        objects.iter().map(|object| tree(object)).collect()
    }
}
