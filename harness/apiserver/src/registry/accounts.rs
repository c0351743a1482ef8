//! Service accounts of new pods: sets the account, checks that it exists, and adds the volume with its token.
//!
//! Acts as upstream's ServiceAccount admission plugin; only on servers with this option.

use serde_json::{Value, json};

use super::{Entry, Registry, metadata, tree};
use crate::status::ApiError;
use crate::store::Key;

const ACCOUNTS: &str = "serviceaccounts";
const MOUNT_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The lifetime of a pod's token: an hour and a few seconds, which identify it as a pod's token.
const TOKEN_SECONDS: i64 = 3607;
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

impl Registry {
    /// Sets the service account of a new pod and adds the volume with its token.
    ///
    /// # Errors
    /// 403 if the account does not exist.
    pub(super) fn admit_account(&self, entry: &Entry, namespace: &str, pod: &mut Value) -> Result<(), ApiError> {
        let is_pod = entry.resource.group.is_empty() && entry.resource.plural == "pods";
        if !is_pod || !self.settings.service_account_admission {
            return Ok(());
        }
        let mirror = pod.pointer("/metadata/annotations/kubernetes.io~1config.mirror");
        if mirror.is_some() {
            return Ok(());
        }
        let pod_name = metadata::text(pod, "name").to_owned();
        let spec = metadata::member_object(pod, "spec");
        let name = spec
            .get("serviceAccountName")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let name = if name.is_empty() { "default" } else { name }.to_owned();
        spec.insert("serviceAccountName".to_owned(), name.as_str().into());
        spec.insert("serviceAccount".to_owned(), name.as_str().into());
        let Some(account) = self.store.get(ACCOUNTS, &Key::new(namespace, &name)) else {
            let why = format!("error looking up service account {namespace}/{name}: serviceaccount {name:?} not found");
            return Err(ApiError::forbidden(&entry.resource, &pod_name, &why));
        };
        let account = tree(&account)?;
        let own =
            |object: Option<&Value>| object.and_then(|value| value.get("automountServiceAccountToken")?.as_bool());
        let mounts = own(pod.get("spec")).or_else(|| own(Some(&account))).unwrap_or(true);
        if mounts {
            self.mount_token(pod);
        }
        let spec = metadata::member_object(pod, "spec");
        let secrets = account
            .get("imagePullSecrets")
            .filter(|secrets| !is_empty(Some(secrets)));
        if let Some(secrets) = secrets.filter(|_| is_empty(spec.get("imagePullSecrets"))) {
            spec.insert("imagePullSecrets".to_owned(), secrets.clone());
        }
        Ok(())
    }

    fn mount_token(&self, pod: &mut Value) {
        let spec = metadata::member_object(pod, "spec");
        let volumes = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
        let existing = volumes.filter_map(|volume| volume.get("name")?.as_str());
        let existing = existing
            .filter(|name| name.starts_with("kube-api-access-"))
            .map(str::to_owned)
            .next();
        let known = existing.is_some();
        let name = existing.unwrap_or_else(|| {
            let suffix = self.random(|random| random.text(5, SUFFIX_ALPHABET));
            format!("kube-api-access-{suffix}")
        });
        let mut used = false;
        for list in ["initContainers", "containers"] {
            let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            for container in containers.filter_map(Value::as_object_mut) {
                let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
                let Some(mounts) = mounts.as_array_mut() else { continue };
                if mounts.iter().any(|mount| mount["mountPath"] == MOUNT_PATH) {
                    continue;
                }
                mounts.push(json!({ "name": name, "readOnly": true, "mountPath": MOUNT_PATH }));
                used = true;
            }
        }
        if !used || known {
            return;
        }
        let sources = json!([
            { "serviceAccountToken": { "expirationSeconds": TOKEN_SECONDS, "path": "token" } },
            { "configMap": { "name": "kube-root-ca.crt", "items": [{ "key": "ca.crt", "path": "ca.crt" }] } },
            { "downwardAPI": { "items": [
                { "path": "namespace", "fieldRef": { "apiVersion": "v1", "fieldPath": "metadata.namespace" } },
            ] } },
        ]);
        let volume = json!({ "name": name, "projected": { "sources": sources, "defaultMode": 420 } });
        let volumes = spec.entry("volumes").or_insert_with(|| json!([]));
        if let Some(volumes) = volumes.as_array_mut() {
            volumes.push(volume);
        }
    }
}

fn is_empty(list: Option<&Value>) -> bool {
    list.and_then(Value::as_array).is_none_or(Vec::is_empty)
}
