//! Small kinds: namespaces, secrets, config maps, accounts, leases, events, priority classes.

use serde_json::Value;

use super::{UNKNOWN, age, is_true, joined, name, number, printer, since, size, text, text_or};
use crate::resource::Printer;

pub(crate) fn namespaces() -> Printer {
    printer(
        &[("Name", "string", 0), ("Status", "string", 0), ("Age", "string", 0)],
        |object, now| vec![name(object), text(object, "/status/phase").into(), age(object, now)],
    )
}

pub(crate) fn secrets() -> Printer {
    let columns = [
        ("Name", "string", 0),
        ("Type", "string", 0),
        ("Data", "string", 0),
        ("Age", "string", 0),
    ];
    printer(&columns, |object, now| {
        vec![
            name(object),
            text(object, "/type").into(),
            size(object, "/data").into(),
            age(object, now),
        ]
    })
}

pub(crate) fn config_maps() -> Printer {
    printer(
        &[("Name", "string", 0), ("Data", "string", 0), ("Age", "string", 0)],
        |object, now| {
            let entries = size(object, "/data").saturating_add(size(object, "/binaryData"));
            vec![name(object), entries.into(), age(object, now)]
        },
    )
}

pub(crate) fn service_accounts() -> Printer {
    printer(&[("Name", "string", 0), ("Age", "string", 0)], |object, now| {
        vec![name(object), age(object, now)]
    })
}

pub(crate) fn leases() -> Printer {
    printer(
        &[("Name", "string", 0), ("Holder", "string", 0), ("Age", "string", 0)],
        |object, now| {
            vec![
                name(object),
                text(object, "/spec/holderIdentity").into(),
                age(object, now),
            ]
        },
    )
}

pub(crate) fn priority_classes() -> Printer {
    let columns = [
        ("Name", "string", 0),
        ("Value", "integer", 0),
        ("Global-Default", "boolean", 0),
        ("Age", "string", 0),
        ("PreemptionPolicy", "string", 0),
    ];
    printer(&columns, |object, now| {
        vec![
            name(object),
            number(object, "/value").into(),
            is_true(object, "/globalDefault").into(),
            age(object, now),
            text(object, "/preemptionPolicy").into(),
        ]
    })
}

/// Name and creation time: for kinds without a printer upstream.
pub(crate) fn created_at() -> Printer {
    printer(&[("Name", "string", 0), ("Created At", "date", 0)], |object, _now| {
        vec![name(object), text(object, "/metadata/creationTimestamp").into()]
    })
}

pub(crate) fn events() -> Printer {
    let columns = [
        ("Last Seen", "string", 0),
        ("Type", "string", 0),
        ("Reason", "string", 0),
        ("Object", "string", 0),
        ("Subobject", "string", 1),
        ("Source", "string", 1),
        ("Message", "string", 0),
        ("First Seen", "string", 1),
        ("Count", "string", 1),
        ("Name", "string", 1),
    ];
    printer(&columns, event)
}

fn event(object: &Value, now: i64) -> Vec<Value> {
    let first = match since(object, "/firstTimestamp", now) {
        unknown if unknown == UNKNOWN => since(object, "/eventTime", now),
        first => first,
    };
    let has_series = object.get("series").is_some_and(Value::is_object);
    let (last, count) = if has_series {
        (
            since(object, "/series/lastObservedTime", now),
            number(object, "/series/count"),
        )
    } else {
        let last = match since(object, "/lastTimestamp", now) {
            unknown if unknown == UNKNOWN => first.clone(),
            last => last,
        };
        (last, number(object, "/count").max(1))
    };
    let involved = text(object, "/involvedObject/name");
    let target = match text(object, "/involvedObject/kind") {
        "" => involved.to_owned(),
        kind => format!("{}/{involved}", kind.to_lowercase()),
    };
    let component = text_or(object, "/source/component", text(object, "/reportingComponent"));
    let host = text_or(object, "/source/host", text(object, "/reportingInstance"));
    let source = joined([component, host].into_iter().filter(|part| !part.is_empty()), "").replace(',', ", ");
    vec![
        last.into(),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        target.into(),
        text(object, "/involvedObject/fieldPath").into(),
        source.into(),
        text(object, "/message").trim().into(),
        first.into(),
        count.into(),
        name(object),
    ]
}
