//! Jobs.

use std::time::Duration;

use serde_json::{Value, json};

use super::{condition, contract, end, is_deleting, name, node, path_of, pods_of, remove, run, with};
use crate::contract::Site;

const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

fn job(change: Value) -> Value {
    let template = with(super::template("task"), json!({ "spec": { "restartPolicy": "Never" } }));
    let base = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": "task" },
        "spec": { "template": template },
    });
    with(base, json!({ "spec": change }))
}

const JOB: &str = "/apis/batch/v1/namespaces/{ns}/jobs/task";

/// Waits for this number of active pods.
async fn active(site: &Site, count: usize) -> Vec<Value> {
    let is_active = |pod: &&Value| {
        !is_deleting(pod) && !["Succeeded", "Failed"].contains(&pod["status"]["phase"].as_str().unwrap_or_default())
    };
    let pods = site
        .until_all(&pods_of("task"), &format!("{count} active pods"), |pods| {
            pods.iter().filter(is_active).count() == count
        })
        .await;
    pods.into_iter().filter(|pod| is_active(&pod)).collect()
}

async fn ended(site: &Site, type_: &str) -> Value {
    site.until_it(JOB, type_, |job| condition(job, type_)["status"] == "True")
        .await
}

#[test]
fn a_job_is_complete_when_enough_pods_have_succeeded() {
    contract!(async |site: &Site| {
        let created = site.create(job(json!({ "completions": 2, "parallelism": 1 }))).await;
        for _ in 0..2 {
            let pod = active(site, 1).await.remove(0);
            assert_eq!(pod["metadata"]["finalizers"], json!([TRACKING]));
            assert_eq!(pod["metadata"]["labels"]["batch.kubernetes.io/job-name"], "task");
            assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], created["metadata"]["uid"]);
            end(site, &pod, "Succeeded").await;
        }
        let done = ended(site, "Complete").await;
        for type_ in ["SuccessCriteriaMet", "Complete"] {
            assert_eq!(condition(&done, type_)["reason"], "CompletionsReached");
            assert_eq!(
                condition(&done, type_)["message"],
                "Reached expected number of succeeded pods"
            );
        }
        assert_eq!(done["status"]["succeeded"], 2);
        assert_eq!(done["status"]["active"], json!(null));
        assert_eq!(done["status"]["ready"], 0);
        assert_eq!(done["status"]["terminating"], 0);
        assert_eq!(done["status"]["uncountedTerminatedPods"], json!({}));
        assert!(!done["status"]["completionTime"].is_null());
        let event = site.until_event("task", "Completed").await;
        assert_eq!(event["message"], "Job completed");
    });
}

#[test]
fn a_counted_pod_loses_its_finalizer() {
    contract!(async |site: &Site| {
        site.create(job(json!({}))).await;
        let pod = active(site, 1).await.remove(0);
        end(site, &pod, "Succeeded").await;
        ended(site, "Complete").await;
        site.until_it(&path_of(&pod), "without its finalizer", |pod| {
            pod["metadata"]["finalizers"].is_null()
        })
        .await;
    });
}

#[test]
fn parallelism_limits_active_pods() {
    contract!(async |site: &Site| {
        site.create(job(json!({ "completions": 5, "parallelism": 3 }))).await;
        let pods = active(site, 3).await;
        run(site, &pods[0], true).await;
        site.until_it(JOB, "three active, one ready", |job| {
            job["status"]["active"] == 3 && job["status"]["ready"] == 1
        })
        .await;
        site.merge(JOB, json!({ "spec": { "parallelism": 1 } })).await;
        active(site, 1).await;
        let seen = site
            .until_it(JOB, "one active", |job| job["status"]["active"] == 1)
            .await;
        assert_eq!(
            seen["status"]["failed"],
            json!(null),
            "deleted pods do not count as failed"
        );
    });
}

#[test]
fn no_more_pods_run_than_completions_are_left() {
    contract!(async |site: &Site| {
        site.create(job(json!({ "completions": 3, "parallelism": 2 }))).await;
        for pod in active(site, 2).await {
            end(site, &pod, "Succeeded").await;
        }
        site.until_it(JOB, "two succeeded", |job| job["status"]["succeeded"] == 2)
            .await;
        let last = active(site, 1).await;
        end(site, &last[0], "Succeeded").await;
        ended(site, "Complete").await;
    });
}

#[test]
fn a_job_without_completions_completes_after_a_success_and_its_last_pod() {
    contract!(async |site: &Site| {
        site.create(job(json!({ "parallelism": 2 }))).await;
        let pods = active(site, 2).await;
        end(site, &pods[0], "Succeeded").await;
        site.until_it(JOB, "one succeeded", |job| job["status"]["succeeded"] == 1)
            .await;
        let seen = site
            .until_it(JOB, "one active", |job| job["status"]["active"] == 1)
            .await;
        assert!(condition(&seen, "Complete").is_null());
        end(site, &pods[1], "Succeeded").await;
        assert_eq!(ended(site, "Complete").await["status"]["succeeded"], 2);
    });
}

#[test]
fn a_job_fails_beyond_its_backoff_limit() {
    contract!(async |site: &Site| {
        site.create(job(json!({ "backoffLimit": 0 }))).await;
        let pod = active(site, 1).await.remove(0);
        end(site, &pod, "Failed").await;
        let failed = ended(site, "Failed").await;
        for type_ in ["FailureTarget", "Failed"] {
            assert_eq!(condition(&failed, type_)["reason"], "BackoffLimitExceeded");
            assert_eq!(
                condition(&failed, type_)["message"],
                "Job has reached the specified backoff limit"
            );
        }
        assert_eq!(failed["status"]["failed"], 1);
        assert!(failed["status"]["completionTime"].is_null());
        let event = site.until_event("task", "BackoffLimitExceeded").await;
        assert_eq!(event["type"], "Warning");
    });
}

#[test]
fn a_failed_pod_is_replaced_after_ten_seconds() {
    contract!(async |site: &Site| {
        site.create(job(json!({ "backoffLimit": 1 }))).await;
        let first = active(site, 1).await.remove(0);
        end(site, &first, "Failed").await;
        site.until_it(JOB, "one failed", |job| job["status"]["failed"] == 1)
            .await;
        site.never_all(
            &pods_of("task"),
            Duration::from_secs(5),
            "another pod too early",
            |pods| pods.len() > 1,
        )
        .await;
        let second = active(site, 1).await.remove(0);
        assert_ne!(name(&second), name(&first));
        end(site, &second, "Succeeded").await;
        let done = ended(site, "Complete").await;
        assert_eq!(done["status"]["failed"], 1);
    });
}

#[test]
fn a_deleted_pod_counts_as_failed_and_is_replaced() {
    contract!(async |site: &Site| {
        let node = node(site, "n", json!({})).await;
        let template = json!({ "spec": { "nodeName": node } });
        site.create(job(json!({ "template": template }))).await;
        let pod = active(site, 1).await.remove(0);
        run(site, &pod, true).await;
        site.delete(&path_of(&pod), json!({})).await;
        site.until_it(JOB, "one failed", |job| job["status"]["failed"] == 1)
            .await;
        site.until_it(&path_of(&pod), "without its finalizer", |pod| {
            pod["metadata"]["finalizers"].is_null()
        })
        .await;
        remove(site, &pod).await;
        active(site, 1).await;
    });
}

#[test]
fn a_job_fails_when_it_has_been_active_for_too_long() {
    contract!(async |site: &Site| {
        site.create(job(
            json!({ "activeDeadlineSeconds": 3, "parallelism": 2, "completions": 2 }),
        ))
        .await;
        active(site, 2).await;
        let failed = ended(site, "Failed").await;
        assert_eq!(condition(&failed, "Failed")["reason"], "DeadlineExceeded");
        assert_eq!(
            condition(&failed, "Failed")["message"],
            "Job was active longer than specified deadline"
        );
        assert_eq!(failed["status"]["failed"], 2);
        active(site, 0).await;
    });
}

#[test]
fn a_failing_job_waits_for_its_pods_to_end() {
    contract!(async |site: &Site| {
        let node = node(site, "n", json!({})).await;
        let template = json!({ "spec": { "nodeName": node } });
        site.create(job(json!({ "activeDeadlineSeconds": 3, "template": template })))
            .await;
        let pod = active(site, 1).await.remove(0);
        run(site, &pod, true).await;
        let failing = ended(site, "FailureTarget").await;
        assert!(condition(&failing, "Failed").is_null());
        site.until_it(&path_of(&pod), "terminating without its finalizer", |pod| {
            is_deleting(pod) && pod["metadata"]["finalizers"].is_null()
        })
        .await;
        site.never(JOB, Duration::from_secs(1), "failed too early", |job| {
            job.is_some_and(|job| !condition(job, "Failed").is_null())
        })
        .await;
        remove(site, &pod).await;
        ended(site, "Failed").await;
    });
}

#[test]
fn a_finished_job_is_deleted_after_its_ttl() {
    contract!(async |site: &Site| {
        site.create(job(json!({ "ttlSecondsAfterFinished": 2 }))).await;
        let pod = active(site, 1).await.remove(0);
        end(site, &pod, "Succeeded").await;
        ended(site, "Complete").await;
        site.until(JOB, "gone or terminating", |job| job.is_none_or(is_deleting))
            .await;
    });
}

#[test]
fn a_suspended_job_has_no_pods_until_it_is_resumed() {
    contract!(async |site: &Site| {
        site.create(job(json!({ "suspend": true }))).await;
        let suspended = ended(site, "Suspended").await;
        assert_eq!(condition(&suspended, "Suspended")["reason"], "JobSuspended");
        assert!(suspended["status"]["startTime"].is_null());
        site.merge(JOB, json!({ "spec": { "suspend": false } })).await;
        active(site, 1).await;
        let resumed = site
            .until_it(JOB, "resumed", |job| condition(job, "Suspended")["status"] == "False")
            .await;
        assert_eq!(condition(&resumed, "Suspended")["reason"], "JobResumed");
        assert!(!resumed["status"]["startTime"].is_null());
    });
}

#[test]
fn suspending_a_job_deletes_its_pods_without_counting_failures() {
    contract!(async |site: &Site| {
        site.create(job(json!({}))).await;
        active(site, 1).await;
        site.merge(JOB, json!({ "spec": { "suspend": true } })).await;
        let suspended = ended(site, "Suspended").await;
        site.until_all(&pods_of("task"), "no pods", <[Value]>::is_empty).await;
        assert_eq!(suspended["status"]["failed"], json!(null));
        assert_eq!(suspended["status"]["startTime"], json!(null));
        let event = site.until_event("task", "Suspended").await;
        assert_eq!(event["message"], "Job suspended");
    });
}

#[test]
fn an_indexed_job_gives_each_pod_its_index() {
    contract!(async |site: &Site| {
        site.create(job(
            json!({ "completionMode": "Indexed", "completions": 3, "parallelism": 3 }),
        ))
        .await;
        let mut pods = active(site, 3).await;
        pods.sort_by(|one, other| name(one).cmp(name(other)));
        for (index, pod) in pods.iter().enumerate() {
            let text = index.to_string();
            assert!(name(pod).starts_with(&format!("task-{index}-")));
            assert_eq!(pod["metadata"]["annotations"][INDEX], text);
            assert_eq!(pod["metadata"]["labels"][INDEX], text);
            assert_eq!(pod["spec"]["hostname"], format!("task-{index}"));
            let variable = &pod["spec"]["containers"][0]["env"][0];
            assert_eq!(variable["name"], "JOB_COMPLETION_INDEX");
            let field = &variable["valueFrom"]["fieldRef"]["fieldPath"];
            assert_eq!(*field, format!("metadata.labels['{INDEX}']"));
        }
        end(site, &pods[0], "Succeeded").await;
        end(site, &pods[2], "Succeeded").await;
        site.until_it(JOB, "two indexes", |job| job["status"]["completedIndexes"] == "0,2")
            .await;
        end(site, &pods[1], "Succeeded").await;
        let done = ended(site, "Complete").await;
        assert_eq!(done["status"]["completedIndexes"], "0-2");
        assert_eq!(done["status"]["succeeded"], 3);
    });
}

#[test]
fn pods_of_a_deleted_job_lose_their_finalizer() {
    contract!(async |site: &Site| {
        site.create(job(json!({}))).await;
        let pod = active(site, 1).await.remove(0);
        site.delete(JOB, json!({ "propagationPolicy": "Orphan" })).await;
        site.until_gone(JOB).await;
        site.until(&path_of(&pod), "without its finalizer", |pod| {
            pod.is_none_or(|pod| pod["metadata"]["finalizers"].is_null())
        })
        .await;
    });
}
