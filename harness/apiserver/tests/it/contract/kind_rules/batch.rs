//! Defaults and checks of jobs and cron jobs.

use serde_json::{Value, json};

use super::super::site::with;
use super::{Site, contract, part};

const JOBS: &str = "/apis/batch/v1/namespaces/{ns}/jobs";
const CRON_JOBS: &str = "/apis/batch/v1/namespaces/{ns}/cronjobs";

fn template() -> Value {
    json!({ "spec": { "containers": [{ "name": "c", "image": "i:1" }], "restartPolicy": "Never" } })
}

fn job(change: Value) -> Value {
    json!({ "metadata": { "name": "a" }, "spec": with(&json!({ "template": template() }), change) })
}

#[test]
fn indexed_jobs() {
    contract!(async |site: &Site| {
        for change in [
            json!({ "completionMode": "Indexed" }),
            json!({ "completionMode": "Indexed", "completions": 3 }),
            json!({ "completionMode": "Indexed", "completions": 3, "parallelism": 100_001 }),
            json!({ "completionMode": "Other", "completions": 3 }),
            json!({ "completions": 3, "backoffLimitPerIndex": 1 }),
            json!({ "completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1, "maxFailedIndexes": 2 }),
            json!({ "completionMode": "Indexed", "completions": 3, "backoffLimitPerIndex": 1, "maxFailedIndexes": 5 }),
            json!({ "completionMode": "Indexed", "completions": 3, "maxFailedIndexes": 1 }),
            json!({ "completionMode": "Indexed", "completions": 3, "successPolicy": { "rules": [{ "succeededCount": 1 }] } }),
            json!({ "completionMode": "Indexed", "completions": 3, "successPolicy": { "rules": [] } }),
            json!({ "completions": 3, "successPolicy": { "rules": [{ "succeededCount": 1 }] } }),
        ] {
            part(
                site,
                &change.to_string(),
                JOBS,
                job(change.clone()),
                "/spec/backoffLimit",
            )
            .await;
        }
    });
}

#[test]
fn failure_policies() {
    contract!(async |site: &Site| {
        let rules = |rules: Value| json!({ "podFailurePolicy": { "rules": rules } });
        let codes = |change: Value| with(&json!({ "operator": "In", "values": [1] }), change);
        for (what, change) in [
            (
                "exit codes",
                rules(json!([{ "action": "FailJob", "onExitCodes": codes(json!({})) }])),
            ),
            (
                "a zero",
                rules(json!([{ "action": "FailJob", "onExitCodes": codes(json!({ "values": [0] })) }])),
            ),
            (
                "unordered",
                rules(json!([{ "action": "FailJob", "onExitCodes": codes(json!({ "values": [2, 1, 1] })) }])),
            ),
            (
                "an unknown container",
                rules(json!([{ "action": "FailJob", "onExitCodes": codes(json!({ "containerName": "d" })) }])),
            ),
            (
                "conditions",
                rules(json!([{ "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget" }] }])),
            ),
            (
                "both",
                rules(
                    json!([{ "action": "Count", "onExitCodes": codes(json!({})), "onPodConditions": [{ "type": "A" }] }]),
                ),
            ),
            ("neither", rules(json!([{ "action": "Count" }]))),
            (
                "another action",
                rules(json!([{ "action": "Other", "onExitCodes": codes(json!({})) }])),
            ),
            (
                "an index",
                rules(json!([{ "action": "FailIndex", "onExitCodes": codes(json!({})) }])),
            ),
        ] {
            part(site, what, JOBS, job(change), "/spec/podFailurePolicy").await;
        }
        let on_failure =
            json!({ "spec": { "containers": [{ "name": "c", "image": "i:1" }], "restartPolicy": "OnFailure" } });
        let object = job(with(
            &rules(json!([{ "action": "Ignore", "onPodConditions": [{ "type": "A" }] }])),
            json!({ "template": on_failure }),
        ));
        part(site, "restarts", JOBS, object, "/spec").await;
    });
}

#[test]
fn schedules() {
    contract!(async |site: &Site| {
        for (schedule, zone) in [
            ("*/5 * * * *", Value::Null),
            ("@daily", Value::Null),
            ("@every 1h", Value::Null),
            ("0 0 31 2 *", Value::Null),
            ("60 * * * *", Value::Null),
            ("* * * *", Value::Null),
            ("", Value::Null),
            ("* * * * * *", Value::Null),
            ("0 0 * * MON-FRI", Value::Null),
            ("TZ=UTC * * * * *", Value::Null),
            ("CRON_TZ=UTC * * * * *", Value::Null),
            ("* * * * *", json!("Europe/Berlin")),
            ("* * * * *", json!("Nowhere/City")),
            ("* * * * *", json!("Local")),
            ("* * * * *", json!("")),
            ("TZ=UTC * * * * *", json!("Etc/UTC")),
        ] {
            let spec = json!({ "schedule": schedule, "timeZone": zone, "jobTemplate": { "spec": { "template": template() } } });
            part(
                site,
                &format!("{schedule} {zone}"),
                CRON_JOBS,
                json!({ "metadata": { "name": "a" }, "spec": spec }),
                "/spec/concurrencyPolicy",
            )
            .await;
        }
    });
}

#[test]
fn settings_of_cron_jobs() {
    contract!(async |site: &Site| {
        for change in [
            json!({}),
            json!({ "concurrencyPolicy": "Replace" }),
            json!({ "concurrencyPolicy": "Other" }),
            json!({ "startingDeadlineSeconds": -1 }),
            json!({ "successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -1 }),
            json!({ "successfulJobsHistoryLimit": 0 }),
            json!({ "suspend": true }),
            json!({ "jobTemplate": { "spec": { "template": { "spec": {} } } } }),
        ] {
            let spec = json!({ "schedule": "@daily", "jobTemplate": { "spec": { "template": template() } } });
            let mut spec = with(&spec, change.clone());
            spec["startingDeadlineSeconds"] = spec["startingDeadlineSeconds"].take();
            part(
                site,
                &change.to_string(),
                CRON_JOBS,
                json!({ "metadata": { "name": "a" }, "spec": spec }),
                "/spec/failedJobsHistoryLimit",
            )
            .await;
        }
    });
}
