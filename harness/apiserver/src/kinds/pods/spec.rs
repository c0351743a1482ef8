//! Checks the spec of a new pod, or of a workload's template. Covers a part of upstream's checks: the mistakes that
//! clients of this server make in practice.

use serde_json::Value;

use super::{container, host, placement, sources};
use crate::kinds::fields::{items, members, one_of, text};
use crate::kinds::syntax;
use crate::status::FieldError;

/// Checks the spec at `path`, which messages name.
pub(in crate::kinds) fn validate(errors: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let volumes = validate_volumes(errors, spec, path);
    let containers = items(spec, "/containers");
    if containers.is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let on_host = spec.get("hostNetwork").and_then(Value::as_bool) == Some(true);
    let mut names: Vec<&str> = Vec::new();
    for list in ["containers", "initContainers"] {
        for (index, container) in items(spec, &format!("/{list}")).iter().enumerate() {
            let path = format!("{path}.{list}[{index}]");
            let name = text(container, "/name");
            if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), name));
            }
            names.push(name);
            container::validate(errors, container, &path, &volumes, on_host);
            if list == "initContainers" {
                host::validate_init_container(errors, container, &path);
            }
        }
    }
    container::validate_host_ports(errors, containers, &format!("{path}.containers"));
    one_of(
        errors,
        spec,
        "/restartPolicy",
        &format!("{path}.restartPolicy"),
        &["Always", "OnFailure", "Never"],
    );
    let policies = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
    one_of(errors, spec, "/dnsPolicy", &format!("{path}.dnsPolicy"), &policies);
    if let Some(seconds) = spec
        .get("terminationGracePeriodSeconds")
        .and_then(Value::as_i64)
        .filter(|it| *it < 0)
    {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(
            format!("{path}.terminationGracePeriodSeconds"),
            seconds,
            why,
        ));
    }
    if let Some(seconds) = spec
        .get("activeDeadlineSeconds")
        .and_then(Value::as_i64)
        .filter(|it| *it < 1)
    {
        let why = "must be between 1 and 2147483647, inclusive";
        errors.push(FieldError::invalid(
            format!("{path}.activeDeadlineSeconds"),
            seconds,
            why,
        ));
    }
    for (key, value) in members(spec, "/nodeSelector") {
        syntax::qualified_name(errors, &format!("{path}.nodeSelector"), key);
        syntax::label_value(
            errors,
            &format!("{path}.nodeSelector"),
            value.as_str().unwrap_or_default(),
        );
    }
    for field in ["nodeName", "serviceAccountName", "priorityClassName"] {
        let name = text(spec, &format!("/{field}"));
        if !name.is_empty() {
            syntax::dns_subdomain(errors, &format!("{path}.{field}"), name);
        }
    }
    placement::validate(errors, spec, path);
    validate_network(errors, spec, path);
    host::validate(errors, spec, path);
}

/// Names and addresses of the pod and of others.
fn validate_network(errors: &mut Vec<FieldError>, spec: &Value, path: &str) {
    for field in ["hostname", "subdomain"] {
        let name = text(spec, &format!("/{field}"));
        if !name.is_empty() {
            syntax::dns_label(errors, &format!("{path}.{field}"), name);
        }
    }
    for (index, alias) in items(spec, "/hostAliases").iter().enumerate() {
        let path = format!("{path}.hostAliases[{index}]");
        syntax::ip_address(errors, &format!("{path}.ip"), text(alias, "/ip"));
        for (index, name) in items(alias, "/hostnames").iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            syntax::dns_subdomain(errors, &format!("{path}.hostnames[{index}]"), name);
        }
    }
}

/// Returns the names of the volumes.
fn validate_volumes<'a>(errors: &mut Vec<FieldError>, spec: &'a Value, path: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (index, volume) in items(spec, "/volumes").iter().enumerate() {
        let path = format!("{path}.volumes[{index}]");
        let name = text(volume, "/name");
        let known_errors = errors.len();
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else {
            syntax::dns_label(errors, &format!("{path}.name"), name);
            if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), name));
            }
        }
        let sources = members(volume, "")
            .filter(|(field, value)| *field != "name" && !value.is_null())
            .skip(1);
        for (source, _) in sources {
            let why = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(format!("{path}.{source}"), why));
        }
        sources::validate_volume(errors, volume, &path);
        // As upstream, mounts of an invalid volume do not find it.
        if errors.len() == known_errors {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn with(container: Value) -> Value {
        let mut whole = json!({ "name": "c", "image": "i" });
        whole
            .as_object_mut()
            .unwrap()
            .extend(container.as_object().unwrap().clone());
        json!({ "containers": [whole], "volumes": [{ "name": "v" }] })
    }

    #[rstest]
    #[case(with(json!({})), &[])]
    #[case(json!({}), &["spec.containers: Required value"])]
    #[case(with(json!({ "image": "" })), &["spec.containers[0].image: Required value"])]
    #[case(
        with(json!({ "volumeMounts": [{ "name": "other", "mountPath": "/a" }] })),
        &[r#"spec.containers[0].volumeMounts[0].name: Not found: "other""#]
    )]
    #[case(
        with(json!({ "ports": [{ "containerPort": 70000 }] })),
        &["spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"]
    )]
    #[case(
        with(json!({ "resources": { "limits": { "cpu": "100m" }, "requests": { "cpu": "1" } } })),
        &[r#"spec.containers[0].resources.requests: Invalid value: "1": must be less than or equal to cpu limit of 100m"#]
    )]
    #[case(
        json!({ "containers": [{ "name": "a", "image": "i" }, { "name": "a", "image": "i" }] }),
        &[r#"spec.containers[1].name: Duplicate value: "a""#]
    )]
    #[case(
        json!({ "containers": [{ "name": "a", "image": "i" }], "tolerations": [{ "key": "k", "tolerationSeconds": 5 }] }),
        &[r#"spec.tolerations[0].effect: Invalid value: "": effect must be 'NoExecute' when `tolerationSeconds` is set"#]
    )]
    fn specs_are_checked(#[case] spec: Value, #[case] expected: &[&str]) {
        let mut errors = Vec::new();
        validate(&mut errors, &spec, "spec");
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }
}
