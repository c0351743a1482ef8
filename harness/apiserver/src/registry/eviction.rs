//! Eviction: checks the disruption budget of a pod and deletes the pod.
//!
//! The checks have the order of `k8s.io/kubernetes/pkg/registry/core/pod/storage`. The server does not compute the
//! status of budgets; a disruption controller writes it.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{DeleteOptions, Entry, ListOptions, Payload, Registry, Written, attempt::Attempt, delete, metadata, tree};
use crate::selector::{LabelSelector, text_of};
use crate::status::ApiError;
use crate::store::{Key, Object};

/// The maximum number of pods in a budget's `disruptedPods`.
const MAX_DISRUPTED_PODS: usize = 2000;
/// The Retry-After time in seconds for a budget that is not up to date.
const BUDGET_WAIT: u32 = 10;

/// The decision about an eviction.
enum Verdict {
    /// The pod may be deleted without a change of the budget.
    Free,
    /// The pod may be deleted after the budget got this status.
    UpdateBudget(Box<Value>),
}

impl Registry {
    /// Evicts a pod: deletes it with the eviction's options if its budget allows a disruption.
    ///
    /// # Errors
    /// 400 if the eviction names another pod, 429 if the budget allows no disruption, 500 if the pod has two budgets,
    /// otherwise as for [`Registry::delete`].
    pub fn evict(&self, entry: &Entry, key: &Key, eviction: &Value, dry_run: bool) -> Result<Written, ApiError> {
        let name = metadata::text(eviction, "name");
        if !name.is_empty() && name != key.name {
            return Err(ApiError::bad_request(
                "name in URL does not match name in Eviction object",
            ));
        }
        let mut options = match eviction.get("deleteOptions") {
            Some(options) if options.is_object() => DeleteOptions::from_value(options)?,
            _ => DeleteOptions::default(),
        };
        options.dry_run |= dry_run;
        self.spend_budget(entry, key, options.dry_run)?;
        if !options.dry_run {
            self.add_disruption_condition(entry, key, &mut options)?;
        }
        self.delete(entry, key, &options)?;
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
        });
        Ok(Written {
            code: 201,
            payload: Payload::Value(status),
            warnings: Vec::new(),
        })
    }

    /// Adds the condition `DisruptionTarget` to the pod before its deletion. A revision in the eviction's
    /// preconditions refers to the pod before this change.
    fn add_disruption_condition(&self, entry: &Entry, key: &Key, options: &mut DeleteOptions) -> Result<(), ApiError> {
        loop {
            let current = self.get(entry, key)?;
            delete::check_preconditions(&entry.resource, &current, options)?;
            let mut pod = tree(&current)?;
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting", "lastProbeTime": null, "lastTransitionTime": self.now_text(),
            });
            if !has_condition(&pod, "DisruptionTarget", "True") {
                super::pods::set_condition(metadata::member_object(&mut pod, "status"), condition);
            }
            if let Attempt::Done(written) = self.replace(entry, &current, pod, false, Vec::new())? {
                if let (Some(_), Payload::Object(object)) = (&options.revision, &written.payload) {
                    options.revision = Some(object.revision.to_string());
                }
                return Ok(());
            }
        }
    }

    fn spend_budget(&self, entry: &Entry, key: &Key, dry_run: bool) -> Result<(), ApiError> {
        loop {
            let object = self.get(entry, key)?;
            let pod = tree(&object)?;
            let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
            if object.meta.deleting || matches!(phase, "Succeeded" | "Failed" | "Pending") {
                return Ok(());
            }
            let catalog = self.catalog();
            let Some(budgets) = catalog.any_version("policy", "poddisruptionbudgets") else {
                return Ok(());
            };
            let Some(current) = self.budget_of(budgets, &object)? else {
                return Ok(());
            };
            let budget = tree(&current)?;
            let new = match judge(entry, &pod, &budget, &self.now_text())? {
                Verdict::Free => return Ok(()),
                Verdict::UpdateBudget(new) => *new,
            };
            if let Attempt::Done(_) = self.replace(budgets, &current, new, dry_run, Vec::new())? {
                return Ok(());
            }
        }
    }

    fn budget_of(&self, budgets: &Entry, pod: &Object) -> Result<Option<Arc<Object>>, ApiError> {
        let page = self.list(budgets, Some(&pod.key.namespace), &ListOptions::default())?;
        let mut found = None;
        for object in page.objects {
            let budget = tree(&object)?;
            let Some(selector) = budget.pointer("/spec/selector") else {
                continue;
            };
            if !LabelSelector::parse(&text_of(selector))?.matches(&pod.meta.labels) {
                continue;
            }
            if found.is_some() {
                let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does \
                               not support.";
                return Err(ApiError::new(500, "", message));
            }
            found = Some(object);
        }
        Ok(found)
    }
}

fn judge(pods: &Entry, pod: &Value, budget: &Value, now: &str) -> Result<Verdict, ApiError> {
    let name = metadata::text(budget, "name");
    let count = |field: &str| {
        budget
            .pointer(&format!("/status/{field}"))
            .and_then(Value::as_i64)
            .unwrap_or_default()
    };
    let (healthy, desired) = (count("currentHealthy"), count("desiredHealthy"));
    let always = budget
        .pointer("/spec/unhealthyPodEvictionPolicy")
        .and_then(Value::as_str)
        == Some("AlwaysAllow");
    if !is_ready(pod) && (always || (healthy >= desired && desired > 0)) {
        return Ok(Verdict::Free);
    }
    if count("observedGeneration") < metadata::generation(budget) {
        let cause = format!("The disruption budget {name} is still being processed by the server.");
        return Err(blocked(&cause).retry_after(BUDGET_WAIT));
    }
    let forbidden = |why: &str| ApiError::forbidden(&pods.resource, metadata::text(pod, "name"), why);
    let allowed = count("disruptionsAllowed");
    if allowed < 0 {
        return Err(forbidden("pdb disruptions allowed is negative"));
    }
    let disrupted = budget.pointer("/status/disruptedPods").and_then(Value::as_object);
    if disrupted.is_some_and(|pods| pods.len() > MAX_DISRUPTED_PODS) {
        return Err(forbidden(
            "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
        ));
    }
    if allowed == 0 && healthy <= desired {
        return Err(blocked(&format!(
            "The disruption budget {name} needs {desired} healthy pods and has {healthy} currently"
        )));
    }
    if allowed == 0 {
        return Err(blocked(&format!(
            "The disruption budget {name} does not allow evicting pods currently"
        )));
    }
    let mut new = budget.clone();
    let generation = metadata::generation(budget);
    let status = metadata::member_object(&mut new, "status");
    status.insert("disruptionsAllowed".to_owned(), allowed.saturating_sub(1).into());
    if allowed == 1 {
        let condition = json!({
            "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods", "message": "",
            "observedGeneration": generation, "lastTransitionTime": now,
        });
        super::pods::set_condition(status, condition);
    }
    let pod = metadata::text(pod, "name").to_owned();
    metadata::member_object(&mut new["status"], "disruptedPods").insert(pod, now.into());
    Ok(Verdict::UpdateBudget(Box::new(new)))
}

fn blocked(cause: &str) -> ApiError {
    let message = "Cannot evict pod as it would violate the pod's disruption budget.";
    ApiError::new(429, "TooManyRequests", message).with_cause("DisruptionBudget", cause, "")
}

fn is_ready(pod: &Value) -> bool {
    has_condition(pod, "Ready", "True")
}

fn has_condition(pod: &Value, kind: &str, status: &str) -> bool {
    let conditions = pod.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        let text = |field: &str| condition.get(field).and_then(Value::as_str);
        text("type") == Some(kind) && text("status") == Some(status)
    })
}
