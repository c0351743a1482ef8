//! Checks one container of a pod or template.

use quantity::Quantity;
use serde_json::Value;

use crate::kinds::fields::{is_set, items, members, one_of, text};
use crate::kinds::syntax;
use crate::status::{FieldError, FieldErrorType};

const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const STANDARD: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
/// The fields of the pod that a container can use as values of its environment.
const POD_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Checks the container at `path` of a pod with these volumes.
pub(super) fn validate(errors: &mut Vec<FieldError>, container: &Value, path: &str, volumes: &[&str], on_host: bool) {
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
    one_of(
        errors,
        container,
        "/terminationMessagePolicy",
        &format!("{path}.terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    validate_ports(errors, items(container, "/ports"), &format!("{path}.ports"), on_host);
    for (index, variable) in items(container, "/env").iter().enumerate() {
        validate_variable(errors, variable, &format!("{path}.env[{index}]"));
    }
    validate_mounts(errors, items(container, "/volumeMounts"), path, volumes);
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = container
            .pointer(&format!("/lifecycle/{hook}"))
            .filter(|hook| hook.is_object())
        {
            validate_handler(errors, handler, &format!("{path}.lifecycle.{hook}"));
        }
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(value) = container.get(probe).filter(|probe| probe.is_object()) {
            validate_probe(errors, value, &format!("{path}.{probe}"), probe);
        }
    }
    validate_resources(errors, container, &format!("{path}.resources"));
    if let Some(context) = container.get("securityContext").filter(|context| context.is_object()) {
        validate_security(errors, context, &format!("{path}.securityContext"));
    }
}

fn validate_security(errors: &mut Vec<FieldError>, context: &Value, path: &str) {
    for field in ["runAsUser", "runAsGroup"] {
        if let Some(id) = context.get(field).and_then(Value::as_i64)
            && u32::try_from(id).map_or(true, |id| i32::try_from(id).is_err())
        {
            let why = "must be between 0 and 2147483647, inclusive";
            errors.push(FieldError::invalid(format!("{path}.{field}"), id, why));
        }
    }
    if context.get("allowPrivilegeEscalation") != Some(&Value::Bool(false)) {
        return;
    }
    let mut refuse = |what: &str| {
        let why = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
        errors.push(FieldError::invalid(path, context.clone(), why));
    };
    if context.get("privileged") == Some(&Value::Bool(true)) {
        refuse("`privileged` to true");
    }
    let added = items(context, "/capabilities/add");
    if added.iter().any(|capability| capability == "CAP_SYS_ADMIN") {
        refuse("`capabilities.Add` CAP_SYS_ADMIN");
    }
}

fn validate_ports(errors: &mut Vec<FieldError>, ports: &[Value], path: &str, on_host: bool) {
    for (index, port) in ports.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let name = text(port, "/name");
        if !name.is_empty() {
            syntax::port_name(errors, &format!("{path}.name"), name);
            if ports.iter().take(index).any(|earlier| text(earlier, "/name") == name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), name));
            }
        }
        let number = |field: &str| port.get(field).and_then(Value::as_i64).unwrap_or_default();
        for field in ["containerPort", "hostPort"] {
            let number = number(field);
            if number == 0 && field == "containerPort" {
                errors.push(FieldError::required(format!("{path}.{field}"), ""));
            } else if number != 0 && !(1..=65535).contains(&number) {
                let why = "must be between 1 and 65535, inclusive";
                errors.push(FieldError::invalid(format!("{path}.{field}"), number, why));
            }
        }
        if on_host && number("hostPort") != 0 && number("hostPort") != number("containerPort") {
            let why = "must match `containerPort` when `hostNetwork` is true";
            errors.push(FieldError::invalid(format!("{path}.hostPort"), number("hostPort"), why));
        }
        one_of(
            errors,
            port,
            "/protocol",
            &format!("{path}.protocol"),
            &["SCTP", "TCP", "UDP"],
        );
    }
}

fn validate_variable(errors: &mut Vec<FieldError>, variable: &Value, path: &str) {
    let name = text(variable, "/name");
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    } else if !name.bytes().all(|byte| (b' '..=b'~').contains(&byte) && byte != b'=') {
        let why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
        errors.push(FieldError::invalid(format!("{path}.name"), name, why));
    }
    let Some(source) = variable.get("valueFrom").filter(|source| source.is_object()) else {
        return;
    };
    let path = format!("{path}.valueFrom");
    if is_set(variable.get("value")) {
        let why = "may not be specified when `value` is not empty";
        errors.push(FieldError::invalid(path.as_str(), "", why));
    }
    let sources = [
        "fieldRef",
        "resourceFieldRef",
        "configMapKeyRef",
        "secretKeyRef",
        "fileKeyRef",
    ];
    match sources
        .iter()
        .filter(|field| source.get(**field).is_some_and(Value::is_object))
        .count()
    {
        0 => {
            let why = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or \
                `fileKeyRef`";
            errors.push(FieldError::invalid(path.as_str(), "", why));
        }
        1 => {}
        _ => {
            let why = "may not have more than one field specified at a time";
            errors.push(FieldError::invalid(path.as_str(), "", why));
        }
    }
    if let Some(reference) = source.get("fieldRef").filter(|reference| reference.is_object()) {
        validate_field(
            errors,
            text(reference, "/fieldPath"),
            &format!("{path}.fieldRef.fieldPath"),
        );
    }
    for reference in ["configMapKeyRef", "secretKeyRef"] {
        if let Some(value) = source.get(reference).filter(|value| value.is_object())
            && text(value, "/key").is_empty()
        {
            errors.push(FieldError::required(format!("{path}.{reference}.key"), ""));
        }
    }
}

fn validate_field(errors: &mut Vec<FieldError>, field: &str, path: &str) {
    let is_entry = ["metadata.labels['", "metadata.annotations['"]
        .iter()
        .any(|start| field.starts_with(start) && field.ends_with("']"));
    if field.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !POD_FIELDS.contains(&field) && !is_entry && !matches!(field, "metadata.labels" | "metadata.annotations")
    {
        let why = format!("error converting fieldPath: field label not supported: {field}");
        errors.push(FieldError::invalid(path, field, why));
    }
}

fn validate_mounts(errors: &mut Vec<FieldError>, mounts: &[Value], path: &str, volumes: &[&str]) {
    let mut mounted: Vec<&str> = Vec::new();
    for (index, mount) in mounts.iter().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        let (volume, place) = (text(mount, "/name"), text(mount, "/mountPath"));
        if volume.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else if !volumes.contains(&volume) {
            errors.push(FieldError {
                kind: FieldErrorType::NotFound,
                field: format!("{path}.name"),
                value: Some(volume.into()),
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
}

/// Exactly one handler, with what it needs.
fn validate_handler(errors: &mut Vec<FieldError>, handler: &Value, path: &str) {
    let handlers = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let mut given = handlers
        .iter()
        .filter(|field| handler.get(**field).is_some_and(Value::is_object));
    if given.next().is_none() {
        errors.push(FieldError::required(path, "must specify a handler type"));
    }
    for other in given {
        let why = "may not specify more than 1 handler type";
        errors.push(FieldError::forbidden(format!("{path}.{other}"), why));
    }
    if handler.get("exec").is_some_and(Value::is_object) && items(handler, "/exec/command").is_empty() {
        errors.push(FieldError::required(format!("{path}.exec.command"), ""));
    }
    for action in ["httpGet", "tcpSocket"] {
        syntax::port_or_name(
            errors,
            &format!("{path}.{action}.port"),
            handler.pointer(&format!("/{action}/port")),
        );
    }
}

fn validate_probe(errors: &mut Vec<FieldError>, probe: &Value, path: &str, kind: &str) {
    validate_handler(errors, probe, path);
    let of = |field: &str| probe.get(field).and_then(Value::as_i64);
    for field in [
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    ] {
        if let Some(number) = of(field).filter(|number| *number < 0) {
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(format!("{path}.{field}"), number, why));
        }
    }
    let grace = of("terminationGracePeriodSeconds");
    if let Some(seconds) = grace.filter(|seconds| *seconds <= 0) {
        let path = format!("{path}.terminationGracePeriodSeconds");
        errors.push(FieldError::invalid(path, seconds, "must be greater than 0"));
    }
    if kind == "readinessProbe" {
        if let Some(seconds) = grace {
            let why = "must not be set for readinessProbes";
            let path = format!("{path}.terminationGracePeriodSeconds");
            errors.push(FieldError::invalid(path, seconds, why));
        }
    } else if let Some(number) = of("successThreshold").filter(|number| *number != 1) {
        errors.push(FieldError::invalid(
            format!("{path}.successThreshold"),
            number,
            "must be 1",
        ));
    }
}

fn validate_resources(errors: &mut Vec<FieldError>, container: &Value, path: &str) {
    let limits = container.pointer("/resources/limits").unwrap_or(&Value::Null);
    let mut lacks_limit = false;
    for list in ["limits", "requests"] {
        for (name, value) in members(container, &format!("/resources/{list}")) {
            let entry = format!("{path}.{list}[{name}]");
            resource_name(errors, &entry, name);
            let Some(amount) = quantity(value) else { continue };
            if amount.milli() < 0 {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(entry.as_str(), value.clone(), why));
            }
            if is_extended(name) && amount.milli().rem_euclid(1000) != 0 {
                errors.push(FieldError::invalid(entry, value.clone(), "must be an integer"));
            }
        }
    }
    for (name, request) in members(container, "/resources/requests") {
        let limit = limits.get(name);
        let overcommits = !is_extended(name) && !name.starts_with("hugepages-");
        let Some(limit) = limit else {
            lacks_limit |= !overcommits;
            continue;
        };
        let (Some(wanted), Some(most)) = (quantity(request), quantity(limit)) else {
            continue;
        };
        let order = wanted.compare(&most);
        let words = match overcommits {
            true if order.is_gt() => "less than or equal to",
            false if order.is_ne() => "equal to",
            _ => continue,
        };
        let most = limit.as_str().unwrap_or_default();
        let why = format!("must be {words} {name} limit of {most}");
        errors.push(FieldError::invalid(format!("{path}.requests"), request.clone(), why));
    }
    if lacks_limit {
        let why = "Limit must be set for non overcommitable resources";
        errors.push(FieldError::required(format!("{path}.limits"), why));
    }
}

fn resource_name(errors: &mut Vec<FieldError>, path: &str, name: &str) {
    let before = errors.len();
    syntax::qualified_name(errors, path, name);
    if errors.len() == before && !name.contains('/') && !STANDARD.contains(&name) && !name.starts_with("hugepages-") {
        for why in [
            "must be a standard resource type or fully qualified",
            "must be a standard resource for containers",
        ] {
            errors.push(FieldError::invalid(path, name, why));
        }
    }
}

/// Whether a resource is one of a device: whole numbers, and no overcommitment.
fn is_extended(name: &str) -> bool {
    name.split_once('/')
        .is_some_and(|(domain, _)| !domain.ends_with("kubernetes.io"))
}

fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// Host ports are unique within a pod.
pub(super) fn validate_host_ports(errors: &mut Vec<FieldError>, containers: &[Value], path: &str) {
    let mut taken: Vec<String> = Vec::new();
    for (index, container) in containers.iter().enumerate() {
        for (number, port) in items(container, "/ports").iter().enumerate() {
            let Some(host_port) = port.get("hostPort").and_then(Value::as_i64).filter(|port| *port != 0) else {
                continue;
            };
            let key = format!("{}/{}/{host_port}", text(port, "/protocol"), text(port, "/hostIP"));
            if taken.contains(&key) {
                let path = format!("{path}[{index}].ports[{number}].hostPort");
                errors.push(FieldError::duplicate(path, key.as_str()));
            }
            taken.push(key);
        }
    }
}
