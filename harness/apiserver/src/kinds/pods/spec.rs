//! Checks the spec of a new pod, or of a workload's template. Covers a part of upstream's checks: the mistakes that
//! clients of this server make in practice.

use quantity::Quantity;
use serde_json::Value;

use crate::kinds::fields::{is_set, items, members, one_of, text};
use crate::kinds::syntax;
use crate::status::{FieldError, FieldErrorType};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Checks the spec at `path`, which messages name.
pub(in crate::kinds) fn validate(errors: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let volumes = validate_volumes(errors, spec, path);
    let containers = items(spec, "/containers");
    if containers.is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut names: Vec<&str> = Vec::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in items(spec, &format!("/{list}")).iter().enumerate() {
            let path = format!("{path}.{list}[{index}]");
            let name = text(container, "/name");
            if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), name));
            }
            names.push(name);
            validate_container(errors, container, &path, &volumes);
        }
    }
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
    for (index, toleration) in items(spec, "/tolerations").iter().enumerate() {
        validate_toleration(errors, toleration, &format!("{path}.tolerations[{index}]"));
    }
}

/// Returns the names of the volumes.
fn validate_volumes<'a>(errors: &mut Vec<FieldError>, spec: &'a Value, path: &str) -> Vec<&'a str> {
    let mut names = Vec::new();
    for (index, volume) in items(spec, "/volumes").iter().enumerate() {
        let path = format!("{path}.volumes[{index}]");
        let name = text(volume, "/name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else {
            syntax::dns_label(errors, &format!("{path}.name"), name);
            if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), name));
            }
        }
        names.push(name);
        let sources = members(volume, "")
            .filter(|(field, value)| *field != "name" && !value.is_null())
            .skip(1);
        for (source, _) in sources {
            let why = "may not specify more than 1 volume type";
            errors.push(FieldError::forbidden(format!("{path}.{source}"), why));
        }
    }
    names
}

fn validate_container(errors: &mut Vec<FieldError>, container: &Value, path: &str, volumes: &[&str]) {
    let name = text(container, "/name");
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    } else {
        syntax::dns_label(errors, &format!("{path}.name"), name);
    }
    let image = text(container, "/image");
    if image.is_empty() {
        errors.push(FieldError::required(format!("{path}.image"), ""));
    } else if image.trim() != image {
        let why = "must not have leading or trailing whitespace";
        errors.push(FieldError::invalid(format!("{path}.image"), image, why));
    }
    one_of(
        errors,
        container,
        "/imagePullPolicy",
        &format!("{path}.imagePullPolicy"),
        &PULL_POLICIES,
    );
    for (index, port) in items(container, "/ports").iter().enumerate() {
        validate_port(errors, port, &format!("{path}.ports[{index}]"));
    }
    for (index, variable) in items(container, "/env").iter().enumerate() {
        let path = format!("{path}.env[{index}]");
        if text(variable, "/name").is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        }
        if is_set(variable.get("value")) && is_set(variable.get("valueFrom")) {
            let why = "may not be specified when `value` is not empty";
            errors.push(FieldError::invalid(format!("{path}.valueFrom"), "", why));
        }
    }
    let mut mounted: Vec<&str> = Vec::new();
    for (index, mount) in items(container, "/volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        let (volume, place) = (text(mount, "/name"), text(mount, "/mountPath"));
        if volume.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else if !volumes.contains(&volume) {
            let field = format!("{path}.name");
            let value = Some(volume.into());
            errors.push(FieldError {
                kind: FieldErrorType::NotFound,
                field,
                value,
                detail: String::new(),
            });
        }
        if place.is_empty() {
            errors.push(FieldError::required(format!("{path}.mountPath"), ""));
        } else if mounted.contains(&place) {
            errors.push(FieldError::invalid(
                format!("{path}.mountPath"),
                place,
                "must be unique",
            ));
        }
        mounted.push(place);
    }
    validate_resources(errors, container, &format!("{path}.resources"));
}

fn validate_port(errors: &mut Vec<FieldError>, port: &Value, path: &str) {
    for field in ["containerPort", "hostPort"] {
        let number = port.get(field).and_then(Value::as_i64).unwrap_or_default();
        if number == 0 && field == "containerPort" {
            errors.push(FieldError::required(format!("{path}.{field}"), ""));
        } else if number != 0 && !(1..=65535).contains(&number) {
            let why = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(format!("{path}.{field}"), number, why));
        }
    }
    one_of(
        errors,
        port,
        "/protocol",
        &format!("{path}.protocol"),
        &["SCTP", "TCP", "UDP"],
    );
}

fn validate_resources(errors: &mut Vec<FieldError>, container: &Value, path: &str) {
    for list in ["limits", "requests"] {
        for (name, value) in members(container, &format!("/resources/{list}")) {
            let path = format!("{path}.{list}[{name}]");
            syntax::qualified_name(errors, &path, name);
            if quantity(value).is_some_and(|quantity| quantity.milli() < 0) {
                errors.push(FieldError::invalid(
                    path,
                    value.clone(),
                    "must be greater than or equal to 0",
                ));
            }
        }
    }
    let limits = container.pointer("/resources/limits");
    for (name, request) in members(container, "/resources/requests") {
        let Some(limit) = limits.and_then(|limits| limits.get(name)) else {
            continue;
        };
        if let (Some(wanted), Some(most)) = (quantity(request), quantity(limit))
            && wanted.compare(&most).is_gt()
        {
            let most = limit.as_str().unwrap_or_default();
            let why = format!("must be less than or equal to {name} limit of {most}");
            errors.push(FieldError::invalid(format!("{path}.requests"), request.clone(), why));
        }
    }
}

fn quantity(value: &Value) -> Option<Quantity> {
    value.as_str()?.parse().ok()
}

pub(super) fn validate_toleration(errors: &mut Vec<FieldError>, toleration: &Value, path: &str) {
    let (key, operator) = (text(toleration, "/key"), text(toleration, "/operator"));
    if !key.is_empty() {
        syntax::qualified_name(errors, &format!("{path}.key"), key);
    } else if operator != "Exists" {
        let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(format!("{path}.operator"), operator, why));
    }
    match operator {
        "" | "Equal" => syntax::label_value(errors, &format!("{path}.value"), text(toleration, "/value")),
        "Exists" => {
            if !text(toleration, "/value").is_empty() {
                let why = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(format!("{path}.operator"), toleration.clone(), why));
            }
        }
        _ => errors.push(FieldError::not_supported(
            format!("{path}.operator"),
            operator,
            &["Equal", "Exists"],
        )),
    }
    let effect = text(toleration, "/effect");
    if is_set(toleration.get("tolerationSeconds")) && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(format!("{path}.effect"), effect, why));
    }
    one_of(errors, toleration, "/effect", &format!("{path}.effect"), &EFFECTS);
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
