//! Jobs and CronJobs.

use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{default, immutable, not_negative, one_of, text};
use super::pods::{defaults, spec};
use crate::resource::{Generation, Resource};
use crate::status::FieldError;
use crate::table::printers;

/// What a restart policy of pods that end must be.
const POLICIES: &str = "valid values: \"OnFailure\", \"Never\"";

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new("batch/v1", "Job", "jobs", "io.k8s.api.batch.v1.Job")
            .categories(&["all"])
            .status()
            .generation(Generation::Spec)
            .selectable("status.successful", "/status/succeeded", "0")
            .printer(printers::jobs())
            .prepare(prepare)
            .validate(validate)
            .build(),
        ResourceBuilder::new("batch/v1", "CronJob", "cronjobs", "io.k8s.api.batch.v1.CronJob")
            .short(&["cj"])
            .categories(&["all"])
            .status()
            .generation(Generation::Spec)
            .printer(printers::cron_jobs())
            .prepare(prepare_cron_job)
            .validate(validate_cron_job)
            .build(),
    ]
}

fn prepare_cron_job(new: &mut Value, old: Option<&Value>) {
    default(new, "/spec", "concurrencyPolicy", "Allow");
    default(new, "/spec", "suspend", false);
    default(new, "/spec", "successfulJobsHistoryLimit", 3);
    default(new, "/spec", "failedJobsHistoryLimit", 1);
    default(new, "/spec/jobTemplate", "metadata", serde_json::json!({}));
    default(
        new,
        "/spec/jobTemplate/spec/template",
        "metadata",
        serde_json::json!({}),
    );
    defaults::pod_spec(new, "/spec/jobTemplate/spec/template/spec");
    if old.is_none() {
        default(new, "", "status", serde_json::json!({}));
    }
}

fn validate_cron_job(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let schedule = text(new, "/spec/schedule");
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if schedule.is_empty() {
        errors.push(FieldError::required("spec.schedule", ""));
    } else if fields.len() != 5 && !schedule.starts_with('@') {
        let detail = format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        );
        errors.push(FieldError::invalid("spec.schedule", schedule, detail));
    }
    one_of(
        &mut errors,
        new,
        "/spec/concurrencyPolicy",
        "spec.concurrencyPolicy",
        &["Allow", "Forbid", "Replace"],
    );
    for count in [
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
        "startingDeadlineSeconds",
    ] {
        not_negative(&mut errors, new, &format!("/spec/{count}"));
    }
    let template = "spec.jobTemplate.spec.template.spec";
    if let Some(pod) = new.pointer("/spec/jobTemplate/spec/template/spec") {
        spec::validate(&mut errors, pod, template);
        let policy = text(pod, "/restartPolicy");
        if !matches!(policy, "OnFailure" | "Never") {
            errors.push(FieldError::required(format!("{template}.restartPolicy"), POLICIES));
        }
    }
    errors
}

fn prepare(new: &mut Value, old: Option<&Value>) {
    let unset = |field: &str| new.pointer(&format!("/spec/{field}")).is_none_or(Value::is_null);
    if unset("completions") && unset("parallelism") {
        default(new, "/spec", "completions", 1);
    }
    default(new, "/spec", "parallelism", 1);
    default(new, "/spec", "backoffLimit", 6);
    default(new, "/spec", "completionMode", "NonIndexed");
    default(new, "/spec", "suspend", false);
    default(new, "/spec", "manualSelector", false);
    default(new, "/spec", "podReplacementPolicy", "TerminatingOrFailed");
    defaults::pod_spec(new, "/spec/template/spec");
    if old.is_none() && new.pointer("/spec/manualSelector").and_then(Value::as_bool) != Some(true) {
        select_own_pods(new);
    }
    take_labels_of_template(new);
}

/// A job without labels gets those of its pod template.
fn take_labels_of_template(job: &mut Value) {
    let labels = job.pointer("/spec/template/metadata/labels").cloned();
    let own = job.pointer("/metadata/labels").and_then(Value::as_object);
    if let Some(labels) = labels
        && own.is_none_or(serde_json::Map::is_empty)
        && let Some(metadata) = job.get_mut("metadata").and_then(Value::as_object_mut)
    {
        metadata.insert("labels".to_owned(), labels);
    }
}

/// A job selects its pods by its own uid.
fn select_own_pods(job: &mut Value) {
    const BY_UID: &str = "batch.kubernetes.io/controller-uid";
    let uid = text(job, "/metadata/uid").to_owned();
    let name = text(job, "/metadata/name").to_owned();
    if uid.is_empty() {
        return;
    }
    let labels = [
        (BY_UID, &uid),
        ("batch.kubernetes.io/job-name", &name),
        ("controller-uid", &uid),
        ("job-name", &name),
    ];
    for (key, value) in labels {
        default(job, "/spec/template/metadata/labels", key, value.as_str());
    }
    default(
        job,
        "/spec",
        "selector",
        serde_json::json!({ "matchLabels": { BY_UID: uid } }),
    );
}

fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for count in [
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    ] {
        not_negative(&mut errors, new, &format!("/spec/{count}"));
    }
    if let Some(template) = new.pointer("/spec/template/spec") {
        spec::validate(&mut errors, template, "spec.template.spec");
        let policy = text(template, "/restartPolicy");
        if !matches!(policy, "OnFailure" | "Never") {
            errors.push(FieldError::required("spec.template.spec.restartPolicy", POLICIES));
        }
    }
    if let Some(old) = old {
        immutable(&mut errors, new, old, "/spec/selector");
        immutable(&mut errors, new, old, "/spec/completionMode");
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_job_selects_its_own_pods() {
        let mut job = json!({
            "metadata": { "name": "j", "uid": "u" },
            "spec": { "template": { "spec": {
                "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }],
            } } },
        });
        prepare(&mut job, None);
        assert_eq!(validate(&job, None), []);
        assert_eq!(
            job["spec"]["selector"]["matchLabels"],
            json!({ "batch.kubernetes.io/controller-uid": "u" })
        );
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
        assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
        assert_eq!(job["spec"]["completions"], 1);
    }
}
