//! Performs the steps of a scenario that read and write objects.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, ListParams};
use scenario::kinds::Kinds;
use scenario::stale::{DeletedObjects, WaitFor};
use scenario::step::{Merge, Patch};
use serde_json::Value;
use stage::clusters::Clusters;
use stage::kind_api::KindApi as _;
use tokio::sync::watch;

use super::error::StaleError;

/// The namespace of the objects.
pub(super) const NAMESPACE: &str = "default";

/// Acts on the objects of a server as its administrator.
pub(super) struct Objects {
    client: kube::Client,
    clusters: Clusters,
    kinds: Kinds,
}

impl Objects {
    pub(super) fn new(client: kube::Client, kinds: Kinds) -> Self {
        Self {
            clusters: Clusters::one(client.clone()),
            client,
            kinds,
        }
    }

    fn api(&self, api_version: Option<&str>, kind: &str) -> Result<Api<DynamicObject>, StaleError> {
        Ok(self.kinds.find(api_version, kind)?.api(&self.client, NAMESPACE))
    }

    /// Creates an object, or merges it into the existing one.
    pub(super) async fn apply(&self, step: &str, object: &Value) -> Result<(), StaleError> {
        let applied = stage::apply(&self.clusters, &self.kinds, NAMESPACE, object).await;
        applied.map_err(|source| refused(step, source))
    }

    /// Sends a merge patch.
    pub(super) async fn patch(&self, step: &str, patch: &Patch) -> Result<(), StaleError> {
        let merge = Merge {
            api_version: patch.api_version.as_deref(),
            kind: &patch.kind,
            name: &patch.name,
            namespace: patch.namespace.as_deref(),
            change: patch.merge.clone(),
            status: patch.status,
        };
        let merged = stage::merge(&self.clusters, &self.kinds, NAMESPACE, &merge).await;
        merged.map_err(|source| refused(step, source))
    }

    /// Deletes objects that are not being deleted yet, in the order of their names.
    pub(super) async fn delete(&self, step: &str, deleted: &DeletedObjects) -> Result<(), StaleError> {
        let api = self.api(deleted.api_version.as_deref(), &deleted.kind)?;
        let names = match &deleted.name {
            Some(name) => vec![name.clone()],
            None => live(&api, step, &deleted.labels).await?,
        };
        let count = deleted.count.unwrap_or(names.len());
        if names.len() < count {
            return Err(StaleError::TooFew {
                step: step.to_owned(),
                found: names.len(),
            });
        }
        for name in names.iter().take(count) {
            let done = api.delete(name, &DeleteParams::default()).await;
            done.map_err(|source| failed(step, source))?;
        }
        Ok(())
    }

    /// Waits until a condition is true; `changes` notifies of changes.
    pub(super) async fn wait_for(
        &self,
        step: &str,
        condition: &WaitFor,
        mut changes: watch::Receiver<u64>,
        within: Duration,
    ) -> Result<(), StaleError> {
        let mut found = String::new();
        let reached = async {
            loop {
                changes.mark_unchanged();
                found = match self.missing(step, condition).await? {
                    None => return Ok(()),
                    Some(found) => found,
                };
                // The sender lives as long as the run.
                let _ = changes.changed().await;
            }
        };
        let in_time = tokio::time::timeout(within, reached).await;
        in_time.unwrap_or_else(|_| {
            Err(StaleError::NotReached {
                step: step.to_owned(),
                within,
                found,
            })
        })
    }

    /// What there is instead of the condition; `None`: it is true.
    async fn missing(&self, step: &str, condition: &WaitFor) -> Result<Option<String>, StaleError> {
        let api = self.api(condition.api_version.as_deref(), &condition.kind)?;
        if let (Some(name), Some(field), Some(wanted)) = (&condition.name, &condition.field, &condition.is) {
            let object = api.get_opt(name).await.map_err(|source| failed(step, source))?;
            let Some(object) = object else {
                return Ok(Some("it does not exist".to_owned()));
            };
            let object = serde_json::to_value(&object).unwrap_or_default();
            let value = object.pointer(field).unwrap_or(&Value::Null);
            return Ok((value != wanted).then(|| format!("it has {value}")));
        }
        let found = live(&api, step, &condition.labels).await?.len();
        let reached = condition.count.is_none_or(|count| count == found);
        Ok((!reached).then(|| format!("there are {found}")))
    }
}

/// The names of the objects with these labels that are not being deleted.
async fn live(
    api: &Api<DynamicObject>,
    step: &str,
    labels: &BTreeMap<String, String>,
) -> Result<Vec<String>, StaleError> {
    let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let listed = api.list(&ListParams::default().labels(&selector.join(","))).await;
    let objects = listed.map_err(|source| failed(step, source))?.items.into_iter();
    let live = objects.filter(|object| object.metadata.deletion_timestamp.is_none());
    Ok(live.filter_map(|object| object.metadata.name).collect())
}

fn failed(step: &str, source: kube::Error) -> StaleError {
    StaleError::Request {
        step: step.to_owned(),
        source: Box::new(source),
    }
}

fn refused(step: &str, source: stage::ApplyError) -> StaleError {
    StaleError::Apply {
        step: step.to_owned(),
        source,
    }
}
