//! Kinds that configure the server: webhooks, policies, API services, priority and fairness, certificates, quotas.

use serde_json::Value;

use super::{AGE, NAME, NONE, UNSET, age, items, members, name, number, printer, text, text_or};
use crate::resource::Printer;
use crate::table::age::human;

pub(crate) fn webhooks() -> Printer {
    printer(&[NAME, ("Webhooks", "integer", 0), AGE], |configuration, now| {
        vec![
            name(configuration),
            items(configuration, "/webhooks").len().into(),
            age(configuration, now),
        ]
    })
}

pub(crate) fn validating_policies() -> Printer {
    let columns = [NAME, ("Validations", "integer", 0), ("ParamKind", "string", 0), AGE];
    printer(&columns, |policy, now| policy_row(policy, "/spec/validations", now))
}

pub(crate) fn mutating_policies() -> Printer {
    let columns = [NAME, ("Mutations", "integer", 0), ("ParamKind", "string", 0), AGE];
    printer(&columns, |policy, now| policy_row(policy, "/spec/mutations", now))
}

fn policy_row(policy: &Value, parts: &str, now: i64) -> Vec<Value> {
    let kind = match policy.pointer("/spec/paramKind") {
        Some(kind) if kind.is_object() => format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind")),
        _ => UNSET.to_owned(),
    };
    vec![
        name(policy),
        items(policy, parts).len().into(),
        kind.into(),
        age(policy, now),
    ]
}

pub(crate) fn policy_bindings() -> Printer {
    let columns = [NAME, ("PolicyName", "string", 0), ("ParamRef", "string", 0), AGE];
    printer(&columns, |binding, now| {
        let reference = match (
            text(binding, "/spec/paramRef/name"),
            text(binding, "/spec/paramRef/namespace"),
        ) {
            ("", _) => match binding.pointer("/spec/paramRef/selector") {
                Some(selector) => in_go(selector),
                None => UNSET.to_owned(),
            },
            (name, "") => format!("*/{name}"),
            (name, namespace) => format!("{namespace}/{name}"),
        };
        vec![
            name(binding),
            text(binding, "/spec/policyName").into(),
            reference.into(),
            age(binding, now),
        ]
    })
}

/// A label selector as Go prints the struct.
fn in_go(selector: &Value) -> String {
    let labels: Vec<String> = members(selector, "/matchLabels")
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions: Vec<String> = items(selector, "/matchExpressions")
        .iter()
        .map(|expression| {
            let values: Vec<&str> = items(expression, "/values").iter().filter_map(Value::as_str).collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                text(expression, "/key"),
                text(expression, "/operator"),
                values.join(" "),
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{}}},MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
        labels.join(" "),
        expressions.concat(),
    )
}

pub(crate) fn api_services() -> Printer {
    let columns = [NAME, ("Service", "string", 0), ("Available", "string", 0), AGE];
    printer(&columns, |service, now| {
        let target = match service.pointer("/spec/service") {
            Some(target) if target.is_object() => format!("{}/{}", text(target, "/namespace"), text(target, "/name")),
            _ => "Local".to_owned(),
        };
        let available = items(service, "/status/conditions")
            .iter()
            .find(|condition| text(condition, "/type") == "Available");
        let available = match available {
            None => "Unknown".to_owned(),
            Some(condition) => match (text(condition, "/status"), text(condition, "/reason")) {
                ("True", _) => "True".to_owned(),
                (status, "") => status.to_owned(),
                (status, reason) => format!("{status} ({reason})"),
            },
        };
        vec![name(service), target.into(), available.into(), age(service, now)]
    })
}

pub(crate) fn flow_schemas() -> Printer {
    let columns = [
        NAME,
        ("PriorityLevel", "string", 0),
        ("MatchingPrecedence", "string", 0),
        ("DistinguisherMethod", "string", 0),
        AGE,
        ("MissingPL", "string", 0),
    ];
    printer(&columns, |schema, now| {
        let dangling = items(schema, "/status/conditions")
            .iter()
            .find(|condition| text(condition, "/type") == "Dangling");
        vec![
            name(schema),
            text(schema, "/spec/priorityLevelConfiguration/name").into(),
            number(schema, "/spec/matchingPrecedence").into(),
            text_or(schema, "/spec/distinguisherMethod/type", NONE).into(),
            age(schema, now),
            dangling.map_or("?", |condition| text(condition, "/status")).into(),
        ]
    })
}

pub(crate) fn priority_levels() -> Printer {
    let columns = [
        NAME,
        ("Type", "string", 0),
        ("NominalConcurrencyShares", "string", 0),
        ("Queues", "string", 0),
        ("HandSize", "string", 0),
        ("QueueLengthLimit", "string", 0),
        AGE,
    ];
    printer(&columns, |level, now| {
        let of = |pointer: &str| level.pointer(pointer).cloned().unwrap_or_else(|| NONE.into());
        let queuing = |field: &str| of(&format!("/spec/limited/limitResponse/queuing/{field}"));
        vec![
            name(level),
            text(level, "/spec/type").into(),
            of("/spec/limited/nominalConcurrencyShares"),
            queuing("queues"),
            queuing("handSize"),
            queuing("queueLengthLimit"),
            age(level, now),
        ]
    })
}

pub(crate) fn signing_requests() -> Printer {
    let columns = [
        NAME,
        AGE,
        ("SignerName", "string", 0),
        ("Requestor", "string", 0),
        ("RequestedDuration", "string", 0),
        ("Condition", "string", 0),
    ];
    printer(&columns, |request, now| {
        let seconds = request.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
        let has = |type_: &str| {
            let mut conditions = items(request, "/status/conditions").iter();
            conditions.any(|condition| text(condition, "/type") == type_)
        };
        let mut state = match (has("Denied"), has("Approved")) {
            (true, _) => "Denied",
            (false, true) => "Approved",
            (false, false) => "Pending",
        }
        .to_owned();
        if has("Failed") {
            state.push_str(",Failed");
        }
        if !text(request, "/status/certificate").is_empty() {
            state.push_str(",Issued");
        }
        vec![
            name(request),
            age(request, now),
            text_or(request, "/spec/signerName", NONE).into(),
            text(request, "/spec/username").into(),
            seconds.map_or(NONE.to_owned(), human).into(),
            state.into(),
        ]
    })
}

pub(crate) fn resource_quotas() -> Printer {
    let columns = [NAME, ("Request", "string", 0), ("Limit", "string", 0), AGE];
    printer(&columns, |quota, now| {
        let (mut requests, mut limits) = (Vec::new(), Vec::new());
        for (resource, hard) in members(quota, "/status/hard") {
            let used = quota.pointer("/status/used").and_then(|used| used.get(resource));
            let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("0").to_owned();
            let cell = format!("{resource}: {}/{}", text(used), text(Some(hard)));
            match resource.starts_with("limits.") {
                true => limits.push(cell),
                false => requests.push(cell),
            }
        }
        vec![
            name(quota),
            requests.join(", ").into(),
            limits.join(", ").into(),
            age(quota, now),
        ]
    })
}

pub(crate) fn service_ranges() -> Printer {
    printer(&[NAME, ("CIDRs", "string", 0), AGE], |range, now| {
        let ranges = items(range, "/spec/cidrs").iter().filter_map(Value::as_str);
        vec![name(range), super::joined(ranges, "").into(), age(range, now)]
    })
}

pub(crate) fn addresses() -> Printer {
    // Upstream sends the age without a column for it.
    printer(&[NAME, ("ParentRef", "string", 0)], |address, now| {
        let parent = address.pointer("/spec/parentRef").filter(|parent| parent.is_object());
        let parent = parent.map_or(NONE.to_owned(), |parent| {
            let resource = match text(parent, "/group") {
                "" => text(parent, "/resource").to_owned(),
                group => format!("{}.{group}", text(parent, "/resource")),
            };
            let parts = [resource.as_str(), text(parent, "/namespace"), text(parent, "/name")];
            let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            parts.join("/")
        });
        vec![name(address), parent.into(), age(address, now)]
    })
}

pub(crate) fn component_statuses() -> Printer {
    let columns = [
        NAME,
        ("Status", "string", 0),
        ("Message", "string", 0),
        ("Error", "string", 0),
    ];
    printer(&columns, |component, _now| {
        let healthy = items(component, "/conditions")
            .iter()
            .find(|condition| text(condition, "/type") == "Healthy")
            .unwrap_or(&Value::Null);
        let status = match text(healthy, "/status") {
            "" => "Unknown".to_owned(),
            "True" => "Healthy".to_owned(),
            _ => "Unhealthy".to_owned(),
        };
        vec![
            name(component),
            status.into(),
            text(healthy, "/message").into(),
            text(healthy, "/error").into(),
        ]
    })
}
