//! Workloads of the group apps. Resources, defaults and checks only: the server runs no controllers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::builder::ResourceBuilder;
use super::fields::{default, default_within, immutable, items, not_negative, one_of, same, text};
use super::pods::{defaults, spec};
use super::{claims, syntax, workload_status};
use crate::resource::{Generation, Printer, Resource};
use crate::selector::{LabelSelector, text_of};
use crate::status::FieldError;
use crate::table::printers;
use crate::types;

pub(super) fn resources() -> Vec<Resource> {
    let workload = |kind, plural, type_, short: &str, printer: Printer| {
        ResourceBuilder::new("apps/v1", kind, plural, type_)
            .short(&[short])
            .categories(&["all"])
            .status()
            .generation(Generation::Spec)
            .printer(printer)
    };
    vec![
        workload(
            "Deployment",
            "deployments",
            "io.k8s.api.apps.v1.Deployment",
            "deploy",
            printers::deployments(),
        )
        .scale()
        .prepare(prepare_deployment)
        .validate(validate_deployment)
        .build(),
        workload(
            "ReplicaSet",
            "replicasets",
            "io.k8s.api.apps.v1.ReplicaSet",
            "rs",
            printers::replica_sets(),
        )
        .scale()
        .selectable("status.replicas", "/status/replicas", "0")
        .prepare(prepare_replica_set)
        .validate(validate_replica_set)
        .build(),
        workload(
            "StatefulSet",
            "statefulsets",
            "io.k8s.api.apps.v1.StatefulSet",
            "sts",
            printers::stateful_sets(),
        )
        .scale()
        .prepare(prepare_stateful_set)
        .validate(validate_stateful_set)
        .build(),
        workload(
            "DaemonSet",
            "daemonsets",
            "io.k8s.api.apps.v1.DaemonSet",
            "ds",
            printers::daemon_sets(),
        )
        .prepare(prepare_daemon_set)
        .validate(validate_daemon_set)
        .build(),
        ResourceBuilder::new(
            "apps/v1",
            "ControllerRevision",
            "controllerrevisions",
            "io.k8s.api.apps.v1.ControllerRevision",
        )
        .printer(printers::controller_revisions())
        .validate(validate_revision)
        .build(),
    ]
}

const TEMPLATE: &str = "/spec/template/spec";

fn prepare_deployment(new: &mut Value, _old: Option<&Value>) {
    default(new, "/spec", "replicas", 1);
    default(new, "/spec", "revisionHistoryLimit", 10);
    default(new, "/spec", "progressDeadlineSeconds", 600);
    default(new, "/spec/strategy", "type", "RollingUpdate");
    if text(new, "/spec/strategy/type") == "RollingUpdate" {
        default(new, "/spec/strategy/rollingUpdate", "maxSurge", "25%");
        default(new, "/spec/strategy/rollingUpdate", "maxUnavailable", "25%");
    }
    defaults::pod_spec(new, TEMPLATE);
}

fn prepare_replica_set(new: &mut Value, _old: Option<&Value>) {
    default(new, "/spec", "replicas", 1);
    default(new, "/status", "replicas", 0);
    defaults::pod_spec(new, TEMPLATE);
}

fn prepare_stateful_set(new: &mut Value, _old: Option<&Value>) {
    default(new, "/spec", "replicas", 1);
    default(new, "/spec", "revisionHistoryLimit", 10);
    default(new, "/spec", "podManagementPolicy", "OrderedReady");
    if text(new, "/spec/updateStrategy/type").is_empty() {
        default(new, "/spec/updateStrategy", "type", "RollingUpdate");
        default(new, "/spec/updateStrategy/rollingUpdate", "partition", 0);
    } else if text(new, "/spec/updateStrategy/type") == "RollingUpdate" {
        default_within(new, "/spec/updateStrategy/rollingUpdate", "partition", 0);
    }
    for occasion in ["whenDeleted", "whenScaled"] {
        default(new, "/spec/persistentVolumeClaimRetentionPolicy", occasion, "Retain");
    }
    for claim in super::fields::items_mut(new, "/spec/volumeClaimTemplates") {
        default(claim, "/spec", "volumeMode", "Filesystem");
        default(claim, "", "apiVersion", "v1");
        default(claim, "", "kind", "PersistentVolumeClaim");
        default(claim, "/status", "phase", "Pending");
    }
    for count in ["replicas", "availableReplicas"] {
        default(new, "/status", count, 0);
    }
    defaults::pod_spec(new, TEMPLATE);
}

fn prepare_daemon_set(new: &mut Value, old: Option<&Value>) {
    default(new, "/spec", "revisionHistoryLimit", 10);
    default(new, "/spec/updateStrategy", "type", "RollingUpdate");
    if text(new, "/spec/updateStrategy/type") == "RollingUpdate" {
        default(new, "/spec/updateStrategy/rollingUpdate", "maxSurge", 0);
        default(new, "/spec/updateStrategy/rollingUpdate", "maxUnavailable", 1);
    }
    for count in [
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberMisscheduled",
        "numberReady",
    ] {
        default(new, "/status", count, 0);
    }
    defaults::pod_spec(new, TEMPLATE);
    number_template(new, old);
}

/// Counts the templates of a DaemonSet.
fn number_template(new: &mut Value, old: Option<&Value>) {
    const NUMBER: &str = "deprecated.daemonset.template.generation";
    let number = match old {
        None => 1,
        Some(old) => {
            let before = old
                .pointer("/metadata/annotations")
                .and_then(|annotations| annotations.get(NUMBER));
            let before: i64 = before
                .and_then(Value::as_str)
                .and_then(|text| text.parse().ok())
                .unwrap_or(1);
            // The new one is not in canonical form yet: its zero values do not make another template.
            let template = |set: &Value| {
                let mut template = set.pointer("/spec/template").cloned()?;
                types::canonicalise("io.k8s.api.core.v1.PodTemplateSpec", &mut template);
                Some(template)
            };
            before.saturating_add(i64::from(template(new) != template(old)))
        }
    };
    if let Some(metadata) = new.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.entry("annotations").or_insert_with(|| json!({}))[NUMBER] = json!(number.to_string());
    }
}

fn validate_deployment(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_workload(&mut errors, new, old, "deployment");
    let kind = text(new, "/spec/strategy/type");
    let strategy = new.pointer("/spec/strategy").cloned().unwrap_or_default();
    if !matches!(kind, "Recreate" | "RollingUpdate") {
        let supported = ["Recreate", "RollingUpdate"];
        errors.push(FieldError::not_supported("spec.strategy", strategy, &supported));
    }
    if kind == "Recreate" && new.pointer("/spec/strategy/rollingUpdate").is_some() {
        let why = "may not be specified when strategy `type` is 'Recreate'";
        errors.push(FieldError::forbidden("spec.strategy.rollingUpdate", why));
    }
    if kind == "RollingUpdate" {
        validate_rolling_update(&mut errors, new, "strategy");
    }
    validate_deadline(&mut errors, new);
    workload_status::validate_deployment(&mut errors, new);
    errors
}

/// The deadline of progress must be longer than a pod has to be ready.
fn validate_deadline(errors: &mut Vec<FieldError>, new: &Value) {
    const PATH: &str = "spec.progressDeadlineSeconds";
    let Some(deadline) = new.pointer("/spec/progressDeadlineSeconds").and_then(Value::as_i64) else {
        return;
    };
    let ready = new
        .pointer("/spec/minReadySeconds")
        .and_then(Value::as_i64)
        .unwrap_or_default();
    not_negative(errors, new, "/spec/progressDeadlineSeconds");
    if deadline <= ready {
        errors.push(FieldError::invalid(
            PATH,
            deadline,
            "must be greater than minReadySeconds",
        ));
    }
}

fn validate_replica_set(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_workload(&mut errors, new, old, "replicaset");
    workload_status::validate_replica_set(&mut errors, new);
    errors
}

fn validate_daemon_set(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_workload(&mut errors, new, old, "daemonset");
    workload_status::validate_daemon_set(&mut errors, new);
    match text(new, "/spec/updateStrategy/type") {
        "OnDelete" => {}
        "RollingUpdate" => validate_daemon_update(&mut errors, new),
        _ => {
            let strategy = new.pointer("/spec/updateStrategy").cloned().unwrap_or_default();
            let supported = ["RollingUpdate", "OnDelete"];
            errors.push(FieldError::not_supported("spec.updateStrategy", strategy, &supported));
        }
    }
    errors
}

/// Pods of a daemon are replaced either before or after their successors start.
fn validate_daemon_update(errors: &mut Vec<FieldError>, new: &Value) {
    const PATH: &str = "spec.updateStrategy.rollingUpdate";
    let [unavailable, surge] = amounts_of_update(errors, new, "updateStrategy");
    let is_zero = |amount: Option<&Value>| amount.is_none_or(|amount| *amount == json!(0) || *amount == json!("0%"));
    match (is_zero(unavailable), is_zero(surge)) {
        (false, false) => {
            let why = "may not be set when maxUnavailable is non-zero";
            let value = surge.cloned().unwrap_or_default();
            errors.push(FieldError::invalid(format!("{PATH}.maxSurge"), value, why));
        }
        (true, true) => {
            let why = "cannot be 0 when maxSurge is 0";
            errors.push(FieldError::required(format!("{PATH}.maxUnavailable"), why));
        }
        _ => {}
    }
}

fn validate_stateful_set(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    const CHANGEABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let mut errors = Vec::new();
    validate_workload(&mut errors, &with_volumes_of_claims(new), None, "statefulset");
    validate_claim_templates(&mut errors, new);
    validate_set_policies(&mut errors, new);
    workload_status::validate_stateful_set(&mut errors, new);
    let Some(old) = old else { return errors };
    let fixed = |set: &Value| {
        let mut spec = set.get("spec").cloned().unwrap_or_default();
        if let Some(spec) = spec.as_object_mut() {
            spec.retain(|field, _| !CHANGEABLE.contains(&field.as_str()));
        }
        spec
    };
    if !same(Some(&fixed(new)), Some(&fixed(old))) {
        let why = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
            'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are \
            forbidden";
        errors.push(FieldError::forbidden("spec", why));
    }
    errors
}

fn validate_set_policies(errors: &mut Vec<FieldError>, new: &Value) {
    const UPDATE: &str = "spec.updateStrategy";
    let management = text(new, "/spec/podManagementPolicy");
    if !matches!(management, "OrderedReady" | "Parallel") {
        let why = "must be 'OrderedReady' or 'Parallel'";
        errors.push(FieldError::invalid("spec.podManagementPolicy", management, why));
    }
    let rolling = new.pointer("/spec/updateStrategy/rollingUpdate");
    match text(new, "/spec/updateStrategy/type") {
        "RollingUpdate" => {
            not_negative(errors, new, "/spec/updateStrategy/rollingUpdate/partition");
            if let Some(value) = new.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable") {
                syntax::amount_or_percent(errors, &format!("{UPDATE}.rollingUpdate.maxUnavailable"), value);
            }
        }
        "OnDelete" => {
            if let Some(rolling) = rolling.filter(|rolling| rolling.is_object()) {
                let why = "only allowed for updateStrategy 'RollingUpdate'";
                errors.push(FieldError::invalid(
                    format!("{UPDATE}.rollingUpdate"),
                    rolling.clone(),
                    why,
                ));
            }
        }
        _ => {
            let strategy = new.pointer("/spec/updateStrategy").cloned().unwrap_or_default();
            errors.push(FieldError::invalid(
                UPDATE,
                strategy,
                "must be 'RollingUpdate' or 'OnDelete'",
            ));
        }
    }
    not_negative(errors, new, "/spec/ordinals/start");
    for occasion in ["whenDeleted", "whenScaled"] {
        let field = format!("persistentVolumeClaimRetentionPolicy/{occasion}");
        let path = format!("spec.persistentVolumeClaimRetentionPolicy.{occasion}");
        one_of(errors, new, &format!("/spec/{field}"), &path, &["Retain", "Delete"]);
    }
}

/// Checks the claims that the set creates for each pod.
fn validate_claim_templates(errors: &mut Vec<FieldError>, set: &Value) {
    for (position, claim) in items(set, "/spec/volumeClaimTemplates").iter().enumerate() {
        let path = format!("spec.volumeClaimTemplates[{position}].spec");
        claims::validate_spec(errors, claim.get("spec").unwrap_or(&Value::Null), &path);
    }
}

/// The set as its pods will see it: each claim adds a volume, replacing one of the same name.
fn with_volumes_of_claims(set: &Value) -> Value {
    let mut set = set.clone();
    let claims = items(&set, "/spec/volumeClaimTemplates").iter();
    let names: BTreeSet<String> = claims.map(|claim| text(claim, "/metadata/name").to_owned()).collect();
    if names.is_empty() {
        return set;
    }
    let mut volumes = set
        .pointer(TEMPLATE)
        .map(|template| items(template, "/volumes").to_vec())
        .unwrap_or_default();
    volumes.retain(|volume| !names.contains(text(volume, "/name")));
    volumes.extend(
        names
            .iter()
            .map(|name| json!({ "name": name, "persistentVolumeClaim": { "claimName": name } })),
    );
    if let Some(template) = set.pointer_mut(TEMPLATE).and_then(Value::as_object_mut) {
        template.insert("volumes".to_owned(), volumes.into());
    }
    set
}

fn validate_revision(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    not_negative(&mut errors, new, "/revision");
    if new.get("data").is_none_or(Value::is_null) {
        errors.push(FieldError::required("data", "data is mandatory"));
    }
    if let Some(old) = old {
        immutable(&mut errors, new, old, "/data");
    }
    errors
}

/// Checks the selector, template and counts, which all workloads have.
fn validate_workload(errors: &mut Vec<FieldError>, new: &Value, old: Option<&Value>, word: &str) {
    for count in ["replicas", "minReadySeconds", "revisionHistoryLimit"] {
        not_negative(errors, new, &format!("/spec/{count}"));
    }
    match new.pointer("/spec/selector").filter(|selector| !selector.is_null()) {
        None => {
            errors.push(FieldError::required("spec.selector", ""));
            errors.push(mismatch(new));
        }
        Some(selector) if text_of(selector).is_empty() => {
            let why = format!("empty selector is invalid for {word}");
            errors.push(FieldError::invalid("spec.selector", selector.clone(), why));
        }
        Some(selector) => {
            let before = errors.len();
            syntax::label_selector(errors, selector, "spec.selector");
            if errors.len() > before {
                let why = "invalid label selector";
                errors.push(FieldError::invalid("spec.selector", selector.clone(), why));
            } else if !matches_template(selector, new) {
                errors.push(mismatch(new));
            }
        }
    }
    if let Some(template) = new.pointer(TEMPLATE) {
        spec::validate(errors, template, "spec.template.spec");
        if template.get("activeDeadlineSeconds").is_some_and(Value::is_number) {
            let kind = match word {
                "daemonset" => "DaemonSet",
                "statefulset" => "StatefulSet",
                _ => "ReplicaSet",
            };
            let why = format!("activeDeadlineSeconds in {kind} is not Supported");
            errors.push(FieldError::forbidden("spec.template.spec.activeDeadlineSeconds", why));
        }
        let policy = text(template, "/restartPolicy");
        if !matches!(policy, "" | "Always") {
            errors.push(FieldError::not_supported(
                "spec.template.spec.restartPolicy",
                policy,
                &["Always"],
            ));
        }
    }
    if let Some(old) = old {
        immutable(errors, new, old, "/spec/selector");
    }
}

/// The selector does not match the labels of the template.
fn mismatch(workload: &Value) -> FieldError {
    let labels = workload.pointer("/spec/template/metadata/labels").cloned();
    let why = "`selector` does not match template `labels`";
    FieldError::invalid("spec.template.metadata.labels", labels.unwrap_or_default(), why)
}

fn matches_template(selector: &Value, workload: &Value) -> bool {
    let labels = super::fields::members(workload, "/spec/template/metadata/labels")
        .map(|(key, value)| (key.to_owned(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    LabelSelector::parse(&text_of(selector)).is_ok_and(|selector| selector.matches(&labels))
}

/// Checks the maximum of unavailable pods and that of additional ones.
fn amounts_of_update<'a>(errors: &mut Vec<FieldError>, new: &'a Value, strategy: &str) -> [Option<&'a Value>; 2] {
    ["maxUnavailable", "maxSurge"].map(|field| {
        let value = new.pointer(&format!("/spec/{strategy}/rollingUpdate/{field}"));
        if let Some(value) = value {
            let path = format!("spec.{strategy}.rollingUpdate.{field}");
            // A deployment can add more pods than it has.
            match (strategy, field) {
                ("strategy", "maxSurge") => syntax::amount_or_any_percent(errors, &path, value),
                _ => syntax::amount_or_percent(errors, &path, value),
            }
        }
        value
    })
}

fn validate_rolling_update(errors: &mut Vec<FieldError>, new: &Value, strategy: &str) {
    let none = |value: &Value| *value == json!(0) || *value == json!("0%");
    if let [Some(unavailable), Some(surge)] = amounts_of_update(errors, new, strategy)
        && none(unavailable)
        && none(surge)
    {
        let why = "may not be 0 when `maxSurge` is 0";
        let path = format!("spec.{strategy}.rollingUpdate.maxUnavailable");
        errors.push(FieldError::invalid(path, unavailable.clone(), why));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn workload(spec: Value) -> Value {
        let mut whole = json!({
            "selector": { "matchLabels": { "app": "a" } },
            "template": {
                "metadata": { "labels": { "app": "a" } },
                "spec": { "containers": [{ "name": "c", "image": "i" }] },
            },
        });
        whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        json!({ "spec": whole })
    }

    #[test]
    fn a_deployment_rolls_out_by_quarters() {
        let mut deployment = workload(json!({}));
        prepare_deployment(&mut deployment, None);
        assert_eq!(validate_deployment(&deployment, None), []);
        let expected = json!({
            "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "25%", "maxUnavailable": "25%" },
        });
        assert_eq!(deployment["spec"]["strategy"], expected);
        assert_eq!(deployment["spec"]["template"]["spec"]["restartPolicy"], "Always");
    }

    #[rstest]
    #[case(
        json!({ "selector": null }),
        "spec.selector: Required value\n\
         spec.template.metadata.labels: Invalid value: {\"app\":\"a\"}: `selector` does not match template `labels`"
    )]
    #[case(json!({ "selector": {} }), "spec.selector: Invalid value: {}: empty selector is invalid for deployment")]
    #[case(
        json!({ "selector": { "matchLabels": { "app": "b" } } }),
        r#"spec.template.metadata.labels: Invalid value: {"app":"a"}: `selector` does not match template `labels`"#
    )]
    #[case(json!({ "replicas": -1 }), "spec.replicas: Invalid value: -1: must be greater than or equal to 0")]
    #[case(
        json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 0, "maxUnavailable": 0 } } }),
        "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"
    )]
    fn deployments_are_checked(#[case] spec: Value, #[case] expected: &str) {
        let mut deployment = workload(spec);
        prepare_deployment(&mut deployment, None);
        let errors: Vec<String> = validate_deployment(&deployment, None)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(errors.join("\n"), expected);
    }

    #[rstest]
    #[case::its_own("data", &[])]
    #[case::of_no_claim("other", &[r#"spec.template.spec.containers[0].volumeMounts[0].name: Not found: "other""#])]
    fn pods_of_a_stateful_set_mount_volumes_of_their_claims(#[case] mounted: &str, #[case] expected: &[&str]) {
        let storage = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
        let claim = json!({ "metadata": { "name": "data" }, "spec": storage });
        let mut set = workload(json!({ "volumeClaimTemplates": [claim] }));
        let mount = json!([{ "name": mounted, "mountPath": "/data" }]);
        set["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mount;
        prepare_stateful_set(&mut set, None);
        let errors = validate_stateful_set(&set, None);
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }

    #[test]
    fn the_templates_of_a_daemon_set_are_counted() {
        let number = |set: &Value| set["metadata"]["annotations"]["deprecated.daemonset.template.generation"].clone();
        let mut first = workload(json!({}));
        first["metadata"] = json!({ "name": "a" });
        prepare_daemon_set(&mut first, None);
        assert_eq!(number(&first), "1");
        let mut same = first.clone();
        same["spec"]["minReadySeconds"] = json!(3);
        same["spec"]["template"]["spec"]["hostNetwork"] = json!(false);
        same["spec"]["template"]["spec"]["containers"][0]["env"] = json!([]);
        prepare_daemon_set(&mut same, Some(&first));
        assert_eq!(number(&same), "1");
        let mut second = first.clone();
        second["spec"]["template"]["spec"]["containers"][0]["image"] = json!("other");
        prepare_daemon_set(&mut second, Some(&first));
        assert_eq!(number(&second), "2");
    }

    #[test]
    fn selectors_are_immutable() {
        let old = workload(json!({}));
        let new = workload(json!({ "selector": { "matchExpressions": [{ "key": "app", "operator": "Exists" }] } }));
        assert_eq!(validate_replica_set(&new, Some(&old))[0].detail, "field is immutable");
        let set = |mut workload: Value| {
            prepare_stateful_set(&mut workload, None);
            workload
        };
        let (old, new) = (set(old), set(new));
        assert_eq!(validate_stateful_set(&new, Some(&old))[0].field, "spec");
        let scaled = set(self::workload(json!({ "replicas": 3 })));
        assert_eq!(validate_stateful_set(&scaled, Some(&old)), []);
    }
}
