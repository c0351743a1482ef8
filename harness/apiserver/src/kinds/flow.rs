//! The group flowcontrol.apiserver.k8s.io: priority and fairness of requests. The server stores the configuration and
//! does not queue requests.

use serde_json::{Value, json};

use super::builder::ResourceBuilder;
use super::fields::{default, default_within, items, text};
use super::syntax;
use crate::resource::{Generation, Resource};
use crate::status::FieldError;
use crate::table::printers;

const VERBS: [&str; 9] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];
const MOST_PRECEDENCE: i64 = 10_000;
const MOST_QUEUES: i64 = 10_000_000;

pub(super) fn resources() -> Vec<Resource> {
    let resource = |kind, plural, type_| {
        ResourceBuilder::new("flowcontrol.apiserver.k8s.io/v1", kind, plural, type_)
            .cluster()
            .status()
            .generation(Generation::Spec)
    };
    vec![
        resource("FlowSchema", "flowschemas", "io.k8s.api.flowcontrol.v1.FlowSchema")
            .printer(printers::flow_schemas())
            .prepare(prepare_schema)
            .validate(validate_schema)
            .build(),
        resource(
            "PriorityLevelConfiguration",
            "prioritylevelconfigurations",
            "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration",
        )
        .printer(printers::priority_levels())
        .prepare(prepare_level)
        .validate(validate_level)
        .build(),
    ]
}

fn prepare_schema(new: &mut Value, old: Option<&Value>) {
    if new
        .pointer("/spec/matchingPrecedence")
        .and_then(Value::as_i64)
        .unwrap_or_default()
        == 0
        && let Some(spec) = super::fields::object(new, "/spec")
    {
        spec.insert("matchingPrecedence".to_owned(), 1000.into());
    }
    if old.is_none() {
        default(new, "", "status", json!({}));
    }
}

fn prepare_level(new: &mut Value, old: Option<&Value>) {
    default_within(new, "/spec/exempt", "nominalConcurrencyShares", 0);
    default_within(new, "/spec/exempt", "lendablePercent", 0);
    default_within(new, "/spec/limited", "nominalConcurrencyShares", 30);
    default_within(new, "/spec/limited", "lendablePercent", 0);
    for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
        default_within(new, "/spec/limited/limitResponse/queuing", field, value);
    }
    if old.is_none() {
        default(new, "", "status", json!({}));
    }
}

fn number(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn validate_schema(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    const PRECEDENCE: &str = "spec.matchingPrecedence";
    let mut errors = Vec::new();
    let precedence = number(new, "/spec/matchingPrecedence");
    if precedence <= 0 {
        errors.push(FieldError::invalid(PRECEDENCE, precedence, "must be a positive value"));
    }
    if precedence > MOST_PRECEDENCE {
        let why = format!("must not be greater than {MOST_PRECEDENCE}");
        errors.push(FieldError::invalid(PRECEDENCE, precedence, why));
    }
    if precedence == 1 && text(new, "/metadata/name") != "exempt" {
        let why = "only the schema named 'exempt' may have matchingPrecedence 1";
        errors.push(FieldError::invalid(PRECEDENCE, precedence, why));
    }
    if let Some(method) = new
        .pointer("/spec/distinguisherMethod")
        .filter(|method| method.is_object())
        && !matches!(text(method, "/type"), "ByNamespace" | "ByUser")
    {
        let path = "spec.distinguisherMethod.type";
        let shown = json!({ "Type": text(method, "/type") });
        errors.push(FieldError::not_supported(path, shown, &["ByNamespace", "ByUser"]));
    }
    let level = text(new, "/spec/priorityLevelConfiguration/name");
    let path = "spec.priorityLevelConfiguration.name";
    if level.is_empty() {
        errors.push(FieldError::required(path, "must reference a priority level"));
    } else {
        syntax::dns_subdomain(&mut errors, path, level);
    }
    for (index, rule) in items(new, "/spec/rules").iter().enumerate() {
        validate_rule(&mut errors, rule, &format!("spec.rules[{index}]"));
    }
    errors
}

fn validate_rule(errors: &mut Vec<FieldError>, rule: &Value, path: &str) {
    let subjects = items(rule, "/subjects");
    if subjects.is_empty() {
        let why = "subjects must contain at least one value";
        errors.push(FieldError::required(format!("{path}.subjects"), why));
    }
    for (index, subject) in subjects.iter().enumerate() {
        validate_subject(errors, subject, &format!("{path}.subjects[{index}]"));
    }
    let (resources, others) = (items(rule, "/resourceRules"), items(rule, "/nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        let why = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errors.push(FieldError::required(path, why));
    }
    for (index, rule) in resources.iter().enumerate() {
        let path = format!("{path}.resourceRules[{index}]");
        validate_verbs(errors, rule, &path);
        values(
            errors,
            rule,
            &path,
            "apiGroups",
            "resource rules must supply at least one api group",
            "api groups",
        );
        values(
            errors,
            rule,
            &path,
            "resources",
            "resource rules must supply at least one resource",
            "resources",
        );
        let cluster = rule.get("clusterScope").and_then(Value::as_bool) == Some(true);
        if !cluster || !items(rule, "/namespaces").is_empty() {
            let why = "resource rules that are not cluster scoped must supply at least one namespace";
            values(errors, rule, &path, "namespaces", why, "namespaces");
        }
    }
    for (index, rule) in others.iter().enumerate() {
        let path = format!("{path}.nonResourceRules[{index}]");
        validate_verbs(errors, rule, &path);
        let why = "nonResourceURLs must contain at least one value";
        values(errors, rule, &path, "nonResourceURLs", why, "non-resource URLs");
        for (index, url) in items(rule, "/nonResourceURLs").iter().enumerate() {
            validate_path(
                errors,
                url.as_str().unwrap_or_default(),
                &format!("{path}.nonResourceURLs[{index}]"),
            );
        }
    }
}

/// At least one value, and nothing beside a wildcard.
fn values(errors: &mut Vec<FieldError>, rule: &Value, path: &str, field: &str, why: &str, words: &str) {
    let values = items(rule, &format!("/{field}"));
    let path = format!("{path}.{field}");
    if values.is_empty() {
        errors.push(FieldError::required(path, why));
    } else if values.len() > 1 && values.iter().any(|value| value == "*") {
        let why = format!("if '*' is present, must not specify other {words}");
        errors.push(FieldError::invalid(path, values.to_vec(), why));
    }
}

fn validate_verbs(errors: &mut Vec<FieldError>, rule: &Value, path: &str) {
    values(
        errors,
        rule,
        path,
        "verbs",
        "verbs must contain at least one value",
        "verbs",
    );
    let verbs = items(rule, "/verbs");
    let known = |verb: &Value| verb == "*" || VERBS.iter().any(|known| verb == known);
    if !verbs.iter().all(known) {
        errors.push(FieldError::not_supported(
            format!("{path}.verbs"),
            verbs.to_vec(),
            &VERBS,
        ));
    }
}

fn validate_path(errors: &mut Vec<FieldError>, url: &str, path: &str) {
    let wildcards = url.matches('*').count();
    let why = if url == "*" || url == "/" {
        return;
    } else if url.is_empty() {
        "must not be empty"
    } else if !url.starts_with('/') {
        "must start with slash"
    } else if url.contains(' ') {
        "must not contain white-space"
    } else if url.contains("//") {
        "must not contain double slash"
    } else if wildcards > 1 || (wildcards == 1 && !url.ends_with("/*")) {
        "wildcard can only do suffix matching"
    } else {
        return;
    };
    errors.push(FieldError::invalid(path, url, why));
}

fn validate_subject(errors: &mut Vec<FieldError>, subject: &Value, path: &str) {
    const KINDS: [(&str, &str); 3] = [
        ("ServiceAccount", "serviceAccount"),
        ("User", "user"),
        ("Group", "group"),
    ];
    let kind = text(subject, "/kind");
    if !KINDS.iter().any(|(name, _)| *name == kind) {
        let supported = ["Group", "ServiceAccount", "User"];
        errors.push(FieldError::not_supported(format!("{path}.kind"), kind, &supported));
        return;
    }
    for (name, field) in KINDS {
        let path = format!("{path}.{field}");
        let value = subject.get(field).filter(|value| value.is_object());
        match (name == kind, value) {
            (true, None) => {
                let why = format!("{field} is required when subject kind is '{name}'");
                errors.push(FieldError::required(path, why));
            }
            (true, Some(value)) => {
                if text(value, "/name").is_empty() {
                    errors.push(FieldError::required(format!("{path}.name"), ""));
                }
                if field == "serviceAccount" && text(value, "/namespace").is_empty() {
                    let why = "must specify namespace for service account";
                    errors.push(FieldError::required(format!("{path}.namespace"), why));
                }
            }
            (false, Some(_)) => {
                let why = format!("{field} is forbidden when subject kind is not '{name}'");
                errors.push(FieldError::forbidden(path, why));
            }
            (false, None) => {}
        }
    }
}

fn validate_level(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = text(new, "/spec/type");
    if (text(new, "/metadata/name") == "exempt") != (kind == "Exempt") {
        let why = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid("spec.type", kind, why));
    }
    let part = |name: &str| new.pointer(&format!("/spec/{name}")).filter(|part| part.is_object());
    let (limited, exempt) = (part("limited"), part("exempt"));
    match kind {
        "Exempt" => {
            if limited.is_some() {
                errors.push(FieldError::forbidden(
                    "spec.limited",
                    "must be nil if the type is not Limited",
                ));
            }
            if let Some(exempt) = exempt {
                validate_shares(&mut errors, exempt, "spec.exempt");
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.push(FieldError::forbidden(
                    "spec.exempt",
                    "must be nil if the type is Limited",
                ));
            }
            match limited {
                None => errors.push(FieldError::required(
                    "spec.limited",
                    "must not be empty when type is Limited",
                )),
                Some(limited) => validate_limited(&mut errors, limited),
            }
        }
        "" => errors.push(FieldError::required("spec.type", "")),
        kind => errors.push(FieldError::not_supported("spec.type", kind, &["Exempt", "Limited"])),
    }
    errors
}

fn validate_shares(errors: &mut Vec<FieldError>, level: &Value, path: &str) {
    let shares = number(level, "/nominalConcurrencyShares");
    if shares < 0 {
        let path = format!("{path}.nominalConcurrencyShares");
        errors.push(FieldError::invalid(path, shares, "must be a non-negative integer"));
    }
    let percent = number(level, "/lendablePercent");
    if !(0..=100).contains(&percent) {
        let path = format!("{path}.lendablePercent");
        errors.push(FieldError::invalid(
            path,
            percent,
            "must be between 0 and 100, inclusive",
        ));
    }
}

fn validate_limited(errors: &mut Vec<FieldError>, limited: &Value) {
    const RESPONSE: &str = "spec.limited.limitResponse";
    validate_shares(errors, limited, "spec.limited");
    let borrowing = number(limited, "/borrowingLimitPercent");
    if borrowing < 0 {
        let why = "if specified, must be a non-negative integer";
        errors.push(FieldError::invalid(
            "spec.limited.borrowingLimitPercent",
            borrowing,
            why,
        ));
    }
    let queuing = limited
        .pointer("/limitResponse/queuing")
        .filter(|queuing| queuing.is_object());
    let path = format!("{RESPONSE}.queuing");
    match (text(limited, "/limitResponse/type"), queuing) {
        ("Reject", Some(_)) => {
            let why = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(FieldError::forbidden(path, why));
        }
        ("Queue", None) => {
            let why = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(FieldError::required(path, why));
        }
        ("Queue", Some(queuing)) => validate_queuing(errors, queuing, &path),
        ("Reject", None) => {}
        ("", _) => errors.push(FieldError::required(format!("{RESPONSE}.type"), "")),
        (kind, _) => {
            errors.push(FieldError::not_supported(
                format!("{RESPONSE}.type"),
                kind,
                &["Queue", "Reject"],
            ));
        }
    }
}

fn validate_queuing(errors: &mut Vec<FieldError>, queuing: &Value, path: &str) {
    let of = |field: &str| number(queuing, &format!("/{field}"));
    let (limit, queues, hand) = (of("queueLengthLimit"), of("queues"), of("handSize"));
    let mut refuse = |field: &str, value: i64, why: String| {
        errors.push(FieldError::invalid(format!("{path}.{field}"), value, why));
    };
    if limit <= 0 {
        refuse("queueLengthLimit", limit, "must be positive".to_owned());
    }
    if queues <= 0 {
        refuse("queues", queues, "must be positive".to_owned());
    } else if queues > MOST_QUEUES {
        refuse("queues", queues, format!("must not be greater than {MOST_QUEUES}"));
    }
    if hand <= 0 {
        refuse("handSize", hand, "must be positive".to_owned());
    } else if hand > queues {
        refuse(
            "handSize",
            hand,
            format!("should not be greater than queues ({queues})"),
        );
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(json!({ "type": "Limited", "limited": { "limitResponse": { "type": "Reject" } } }), &[])]
    #[case(json!({ "type": "Limited" }), &["spec.limited: Required value: must not be empty when type is Limited"])]
    #[case(
        json!({ "type": "Exempt" }),
        &[r#"spec.type: Invalid value: "Exempt": must be 'Exempt' if and only if `name` is 'exempt'"#]
    )]
    #[case(
        json!({ "type": "Limited", "limited": { "limitResponse": { "type": "Queue", "queuing": { "handSize": 65 } } } }),
        &["spec.limited.limitResponse.queuing.handSize: Invalid value: 65: should not be greater than queues (64)"]
    )]
    fn priority_levels_are_checked(#[case] spec: Value, #[case] expected: &[&str]) {
        let mut level = json!({ "metadata": { "name": "a" }, "spec": spec });
        prepare_level(&mut level, None);
        let errors: Vec<String> = validate_level(&level, None).iter().map(ToString::to_string).collect();
        assert_eq!(errors, expected);
    }

    #[test]
    fn a_schema_has_the_default_precedence() {
        let mut schema = json!({ "spec": { "priorityLevelConfiguration": { "name": "a" } } });
        prepare_schema(&mut schema, None);
        assert_eq!(schema["spec"]["matchingPrecedence"], 1000);
        assert_eq!(validate_schema(&schema, None), []);
    }
}
