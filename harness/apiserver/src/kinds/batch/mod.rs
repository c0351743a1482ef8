//! Jobs and CronJobs: resources and defaults.

mod cron;
mod policies;
mod validate;

use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{default, is_set, items_mut, text};
use super::pods::defaults;
use crate::resource::{Generation, Resource};
use crate::table::printers;

pub(super) fn resources() -> Vec<Resource> {
    vec![
        ResourceBuilder::new("batch/v1", "Job", "jobs", "io.k8s.api.batch.v1.Job")
            .categories(&["all"])
            .status()
            .generation(Generation::Spec)
            .selectable("status.successful", "/status/succeeded", "0")
            .printer(printers::jobs())
            .prepare(prepare)
            .validate(validate::validate)
            .build(),
        ResourceBuilder::new("batch/v1", "CronJob", "cronjobs", "io.k8s.api.batch.v1.CronJob")
            .short(&["cj"])
            .categories(&["all"])
            .status()
            .generation(Generation::Spec)
            .printer(printers::cron_jobs())
            .prepare(cron::prepare)
            .validate(cron::validate)
            .build(),
    ]
}

fn prepare(new: &mut Value, old: Option<&Value>) {
    let unset = |field: &str| new.pointer(&format!("/spec/{field}")).is_none_or(Value::is_null);
    if unset("completions") && unset("parallelism") {
        default(new, "/spec", "completions", 1);
    }
    default(new, "/spec", "parallelism", 1);
    // Each index has its own limit.
    let per_index = is_set(new.pointer("/spec/backoffLimitPerIndex"));
    default(new, "/spec", "backoffLimit", if per_index { i32::MAX } else { 6 });
    default(new, "/spec", "completionMode", "NonIndexed");
    default(new, "/spec", "suspend", false);
    default(new, "/spec", "manualSelector", false);
    let has_policy = is_set(new.pointer("/spec/podFailurePolicy"));
    let replacement = if has_policy { "Failed" } else { "TerminatingOrFailed" };
    default(new, "/spec", "podReplacementPolicy", replacement);
    for rule in items_mut(new, "/spec/podFailurePolicy/rules") {
        for condition in items_mut(rule, "/onPodConditions") {
            default(condition, "", "status", "True");
        }
    }
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

const BY_UID: &str = "batch.kubernetes.io/controller-uid";
/// The labels of a job's pods, and whether their value is the uid or the name of the job.
const OWN_LABELS: [(&str, bool); 4] = [
    (BY_UID, true),
    ("batch.kubernetes.io/job-name", false),
    ("controller-uid", true),
    ("job-name", false),
];

/// A job selects its pods by its own uid.
fn select_own_pods(job: &mut Value) {
    let uid = text(job, "/metadata/uid").to_owned();
    let name = text(job, "/metadata/name").to_owned();
    if uid.is_empty() {
        return;
    }
    for (key, of_uid) in OWN_LABELS {
        let value = if of_uid { &uid } else { &name };
        default(job, "/spec/template/metadata/labels", key, value.as_str());
    }
    default(
        job,
        "/spec",
        "selector",
        serde_json::json!({ "matchLabels": { BY_UID: uid } }),
    );
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
        assert_eq!(validate::validate(&job, None), []);
        assert_eq!(
            job["spec"]["selector"]["matchLabels"],
            json!({ "batch.kubernetes.io/controller-uid": "u" })
        );
        assert_eq!(job["spec"]["template"]["metadata"]["labels"]["job-name"], "j");
        assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
        assert_eq!(job["spec"]["completions"], 1);
    }
}
