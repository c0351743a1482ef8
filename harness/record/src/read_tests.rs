use rstest::rstest;
use serde_json::{Value, json};

use super::*;

/// The smallest record.
fn record() -> Value {
    json!({
        "version": 1,
        "meta": {
            "drydock": "0.1.0", "scenario": "story", "stage": "sim", "seed": 1, "plan": "",
            "started": "2030-01-01T00:00:00Z", "lasted": 0, "wallSeconds": 0.0,
            "verdict": { "passed": true, "sentence": "It passed" }, "replay": "drydock run story", "causes": "unknown",
        },
        "actors": [{ "id": "scenario", "kind": "scenario", "name": "scenario" }], "spans": [], "points": [], "counters": [], "checks": [],
    })
}

fn point(number: u32) -> Value {
    json!({ "number": number, "at": 0, "actor": "scenario", "verb": "note", "summary": "x" })
}

fn error(record: &Value) -> String {
    read(record.to_string().as_bytes()).unwrap_err().to_string()
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let mut text = record();
    text["points"] = json!([point(1), point(2)]);
    text["points"][1]["cause"] = json!(1);
    let record = read(text.to_string().as_bytes()).unwrap();
    assert_eq!(serde_json::to_value(&record).unwrap(), text);
}

#[test]
fn a_record_of_a_newer_version_is_refused_even_if_its_fields_are_unknown() {
    let message = error(&json!({ "version": 2, "run": {} }));
    assert!(
        message.contains("version: it has version 2") && message.contains("newer"),
        "{message}"
    );
}

#[rstest]
#[case::at_half(2)]
#[case::before_the_last_byte(1)]
fn a_truncated_record_is_named_so(#[case] part: usize) {
    let text = record().to_string();
    let end = if part == 1 { text.len() - 1 } else { text.len() / part };
    let error = read(&text.as_bytes()[..end]).unwrap_err();
    assert!(matches!(error, ReadError::Truncated { .. }), "{error}");
}

#[test]
fn another_file_is_not_a_record() {
    let message = error(&json!({ "scenario": "story" }));
    assert!(
        message.contains("not a record") && message.contains("version"),
        "{message}"
    );
    let mut text = record();
    text["points"] = json!([{ "number": 1, "at": 0, "actor": "a", "verb": "sing", "summary": "" }]);
    assert!(error(&text).contains("sing"));
}

#[test]
fn too_large_records_are_refused() {
    assert!(
        check_size(2 << 30, FILE)
            .unwrap_err()
            .to_string()
            .contains("2147483648 bytes")
    );
    let mut text = record();
    text["points"] = (1..=MOST_POINTS as u32 + 1).map(point).collect();
    assert!(error(&text).contains("points: it has 20001 events"));
    let mut text = record();
    let span = json!({ "actor": "a", "from": 0, "label": "Running", "class": "phase" });
    text["spans"] = vec![span; MOST_SPANS + 1].into();
    assert_eq!(error(&text), "spans: it has 50001 states; a record has at most 50000");
    let mut text = record();
    let steps = vec![json!({ "at": 0, "value": 1 }); MOST_STEPS + 1];
    text["counters"] = json!([{ "name": "machines", "chart": "machines", "steps": steps }]);
    assert!(
        error(&text).starts_with("counters[0].steps: it has 50001 changes"),
        "{}",
        error(&text)
    );
}

#[test]
fn logs_have_limits() {
    let mut text = record();
    let log = |lines: usize| json!({ "name": "mcm", "lines": vec![json!({ "at": 0, "text": "" }); lines] });
    text["logs"] = json!([log(50_001)]);
    assert_eq!(
        error(&text),
        "logs[0].lines: it has 50001 lines; a record has at most 50000"
    );
    text["logs"] = vec![log(0); 1001].into();
    assert_eq!(error(&text), "logs: it has 1001 logs; a record has at most 1000");
}

#[test]
fn a_reference_to_a_missing_event_is_refused_with_its_field() {
    let mut text = record();
    text["points"] = json!([point(1)]);
    text["points"][0]["cause"] = json!(7);
    assert_eq!(error(&text), "points[0].cause: there is no event 7");
    text["points"] = json!([point(1), point(2)]);
    text["points"][0]["previous"] = json!(2);
    assert_eq!(error(&text), "points[0].previous: event 2 is not an earlier one");
    text["points"] = json!([point(1), point(1)]);
    assert_eq!(error(&text), "points[1].number: another event has the number 1");
    text["points"] = json!([point(1)]);
    text["points"][0]["cause"] = json!(1);
    assert_eq!(error(&text), "points[0].cause: event 1 cannot lead to itself");
    text["points"] = json!([point(1)]);
    text["points"][0]["actor"] = json!("machine/m-7");
    assert_eq!(
        error(&text),
        "points[0].actor: there is no actor \"machine/m-7\" in actors"
    );
    text["points"] = json!([point(1)]);
    text["points"][0]["violates"] = json!(0);
    assert_eq!(
        error(&text),
        "points[0].violates: there is no check 0; the record has 0, counted from 0"
    );
}
