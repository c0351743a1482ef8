//! Converts events between events.k8s.io/v1 and the core group, which name some fields differently.

use serde_json::Value;

use crate::kinds::fields::default;
use crate::resource::Conversion;

pub(super) const CONVERSION: Conversion = Conversion {
    group: "",
    version: "v1",
    to_stored,
    from_stored,
};

/// The names in events.k8s.io and in the core group.
const NAMES: [(&str, &str); 7] = [
    ("deprecatedCount", "count"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedSource", "source"),
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("reportingController", "reportingComponent"),
];

fn to_stored(event: &mut Value) {
    for (name, stored) in NAMES {
        rename(event, name, stored);
    }
    for field in ["involvedObject", "source"] {
        default(event, "", field, serde_json::json!({}));
    }
}

fn from_stored(event: &mut Value) {
    for (name, stored) in NAMES {
        rename(event, stored, name);
    }
    if let Some(event) = event.as_object_mut() {
        for field in ["reportingController", "reportingInstance"] {
            if event.get(field).is_some_and(|text| text == "") {
                event.remove(field);
            }
        }
        event.entry("eventTime").or_insert(Value::Null);
    }
}

fn rename(event: &mut Value, from: &str, to: &str) {
    let Some(event) = event.as_object_mut() else { return };
    if let Some(value) = event.remove(from) {
        event.insert(to.to_owned(), value);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_has_the_fields_of_its_group() {
        let newer = json!({
            "note": "n", "regarding": { "kind": "Pod" }, "reportingController": "c", "reportingInstance": "i",
            "deprecatedCount": 2, "deprecatedSource": {}, "eventTime": "2026-01-01T00:00:00.000000Z",
        });
        let mut event = newer.clone();
        to_stored(&mut event);
        assert_eq!(event["message"], "n");
        assert_eq!(event["involvedObject"]["kind"], "Pod");
        from_stored(&mut event);
        assert_eq!(event, newer);
    }
}
