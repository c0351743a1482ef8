//! Checks Jobs: their counts, policies and selector, and which fields an update can change.

use serde_json::Value;

use super::policies;
use crate::kinds::fields::{immutable, is_set, members, object, one_of, same, text};
use crate::kinds::pods::spec;
use crate::kinds::syntax;
use crate::selector::{LabelSelector, text_of};
use crate::status::FieldError;

/// What a restart policy of pods that end must be.
const POLICIES: &str = "valid values: \"OnFailure\", \"Never\"";

pub(super) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let job = new.get("spec").unwrap_or(&Value::Null);
    validate_spec(&mut errors, job, "spec");
    validate_selector(&mut errors, new);
    if let Some(old) = old {
        validate_update(&mut errors, new, old);
    }
    errors
}

/// Checks the spec of a job or of the template of a CronJob.
pub(super) fn validate_spec(errors: &mut Vec<FieldError>, job: &Value, path: &str) {
    for count in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        if let Some(number) = job.get(count).and_then(Value::as_i64).filter(|number| *number < 0) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(format!("{path}.{count}"), number, why));
        }
    }
    let modes = ["NonIndexed", "Indexed"];
    one_of(
        errors,
        job,
        "/completionMode",
        &format!("{path}.completionMode"),
        &modes,
    );
    let indexed = text(job, "/completionMode") == "Indexed";
    if indexed && job.get("completions").is_none_or(Value::is_null) {
        let why = "when completion mode is Indexed";
        errors.push(FieldError::required(format!("{path}.completions"), why));
    }
    for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
        if let Some(value) = job.get(field).filter(|value| value.is_number() && !indexed) {
            let why = "requires indexed completion mode";
            errors.push(FieldError::invalid(format!("{path}.{field}"), value.clone(), why));
        }
    }
    policies::validate(errors, job, path);
    let replacements: &[&str] = match is_set(job.get("podFailurePolicy")) {
        true => &["Failed"],
        false => &["Failed", "TerminatingOrFailed"],
    };
    let replacement = format!("{path}.podReplacementPolicy");
    one_of(errors, job, "/podReplacementPolicy", &replacement, replacements);
    let manager = text(job, "/managedBy");
    if !manager.is_empty() {
        syntax::domain_prefixed_path(errors, &format!("{path}.managedBy"), manager);
    }
    if let Some(template) = job.pointer("/template/spec") {
        let path = format!("{path}.template.spec");
        spec::validate(errors, template, &path);
        match text(template, "/restartPolicy") {
            "OnFailure" if is_set(job.get("podFailurePolicy")) => {
                let why = "only \"Never\" is supported when podFailurePolicy is specified";
                let path = format!("{path}.restartPolicy");
                errors.push(FieldError::invalid(path, "OnFailure", why));
            }
            "OnFailure" | "Never" => {}
            "Always" | "" => errors.push(FieldError::required(format!("{path}.restartPolicy"), POLICIES)),
            policy => {
                let path = format!("{path}.restartPolicy");
                errors.push(FieldError::not_supported(path, policy, &["OnFailure", "Never"]));
            }
        }
    }
}

/// The selector is generated, unless the job selects manually, and matches the pods.
fn validate_selector(errors: &mut Vec<FieldError>, job: &Value) {
    let Some(selector) = job.pointer("/spec/selector").filter(|selector| selector.is_object()) else {
        return;
    };
    let Ok(parsed) = LabelSelector::parse(&text_of(selector)) else {
        return;
    };
    let manual = job.pointer("/spec/manualSelector").and_then(Value::as_bool) == Some(true);
    let (uid, name) = (text(job, "/metadata/uid"), text(job, "/metadata/name"));
    let own = super::OWN_LABELS.map(|(key, of_uid)| (key.to_owned(), if of_uid { uid } else { name }.to_owned()));
    if !manual && !parsed.matches(&own.into_iter().collect()) {
        let why = "`selector` not auto-generated";
        errors.push(FieldError::invalid("spec.selector", selector.clone(), why));
    }
    let labels = members(job, "/spec/template/metadata/labels")
        .map(|(key, value)| (key.to_owned(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    if !parsed.matches(&labels) {
        let labels = job
            .pointer("/spec/template/metadata/labels")
            .cloned()
            .unwrap_or_default();
        let why = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid("spec.template.metadata.labels", labels, why));
    }
}

fn validate_update(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let of = |job: &Value, field: &str| job.pointer(&format!("/spec/{field}")).cloned();
    let indexed = text(new, "/spec/completionMode") == "Indexed";
    // An indexed job scales if it runs as many pods at once as there are indexes.
    let scales = indexed && of(new, "completions") == of(new, "parallelism");
    if !scales {
        immutable(errors, new, old, "/spec/completions");
    }
    for field in [
        "selector",
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ] {
        immutable(errors, new, old, &format!("/spec/{field}"));
    }
    validate_template(errors, new, old);
}

/// The template does not change, except for where pods of a suspended job run and what they request.
fn validate_template(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let suspended = old.pointer("/spec/suspend").and_then(Value::as_bool) == Some(true);
    if !suspended {
        immutable(errors, new, old, "/spec/template");
        return;
    }
    let never_started = !is_set(old.pointer("/status/startTime"));
    let fixed = |job: &Value| {
        let mut template = job.pointer("/spec/template").cloned().unwrap_or_default();
        for list in ["/spec/containers", "/spec/initContainers"] {
            for container in crate::kinds::fields::items_mut(&mut template, list) {
                if let Some(container) = container.as_object_mut() {
                    container.remove("resources");
                }
            }
        }
        if never_started {
            if let Some(spec) = object(&mut template, "/spec") {
                for field in ["nodeSelector", "tolerations", "schedulingGates", "affinity"] {
                    spec.remove(field);
                }
            }
            if let Some(metadata) = object(&mut template, "/metadata") {
                metadata.remove("labels");
                metadata.remove("annotations");
            }
        }
        template
    };
    if !same(Some(&fixed(new)), Some(&fixed(old))) {
        let spec = new.pointer("/spec/template/spec").cloned().unwrap_or_default();
        errors.push(FieldError::invalid("spec.template.spec", spec, "field is immutable"));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn job(change: Value) -> Value {
        let container = json!({ "name": "c", "image": "i" });
        let template = json!({ "spec": { "restartPolicy": "Never", "containers": [container] } });
        let mut spec = json!({ "template": template, "completions": 1, "parallelism": 1 });
        spec.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        json!({ "metadata": { "name": "j", "uid": "u" }, "spec": spec })
    }

    fn with_image(image: &str, more: Value) -> Value {
        let mut job = job(more);
        job["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
        job
    }

    #[rstest]
    #[case(job(json!({})), job(json!({ "parallelism": 3 })), &[])]
    #[case(job(json!({})), job(json!({ "completions": 3 })), &["spec.completions"])]
    #[case(job(json!({})), with_image("other", json!({})), &["spec.template"])]
    #[case(job(json!({ "suspend": true })), with_image("other", json!({})), &["spec.template.spec"])]
    #[case(
        job(json!({ "completionMode": "Indexed" })),
        job(json!({ "completionMode": "Indexed", "completions": 3, "parallelism": 3 })),
        &[]
    )]
    fn little_of_a_job_is_mutable(#[case] old: Value, #[case] new: Value, #[case] expected: &[&str]) {
        let errors = validate(&new, Some(&old));
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }

    #[test]
    fn a_suspended_job_can_run_elsewhere() {
        let old = job(json!({ "suspend": true }));
        let mut new = old.clone();
        new["spec"]["template"]["spec"]["nodeSelector"] = json!({ "a": "b" });
        assert_eq!(validate(&new, Some(&old)), []);
    }
}
