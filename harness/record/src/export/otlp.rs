//! A record as OpenTelemetry traces in OTLP/JSON, for Jaeger, Tempo and other collectors.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::word;
use crate::{Actor, Micros, Point, RunRecord, Span};

/// `SPAN_KIND_INTERNAL`.
const INTERNAL: u32 = 1;
/// `STATUS_CODE_OK` and `STATUS_CODE_ERROR`.
const CODES: [u32; 2] = [1, 2];

/// The body of an `ExportTraceServiceRequest`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Traces {
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    resource: Resource,
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct ScopeSpans {
    scope: Scope,
    spans: Vec<OtlpSpan>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Scope {
    name: &'static str,
    version: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct OtlpSpan {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    name: String,
    kind: u32,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute>,
    events: Vec<Event>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    time_unix_nano: String,
    name: String,
    attributes: Vec<Attribute>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Status {
    code: u32,
    message: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Attribute {
    key: String,
    value: Text,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    string_value: String,
}

fn attribute(key: &str, value: impl Into<String>) -> Attribute {
    Attribute {
        key: key.to_owned(),
        value: Text {
            string_value: value.into(),
        },
    }
}

/// The record as one trace: the run is the root span, and each state is a span below it with the events of its actor
/// during that time; the root span has all others. Times are those of the stage's clock. Equal records have equal ids.
pub fn otlp(record: &RunRecord) -> Traces {
    let place = &record.meta.place;
    let spans = Exporter::new(record).spans();
    Traces {
        resource_spans: vec![ResourceSpans {
            resource: Resource {
                attributes: vec![
                    attribute("service.name", "drydock"),
                    attribute("service.version", &record.meta.drydock),
                    attribute("drydock.scenario", &place.scenario),
                    attribute("drydock.stage", word(&place.stage)),
                    attribute("drydock.seed", place.seed.to_string()),
                ],
            },
            scope_spans: vec![ScopeSpans {
                scope: Scope {
                    name: "drydock",
                    version: record.meta.drydock.clone(),
                },
                spans,
            }],
        }],
    }
}

struct Exporter<'a> {
    record: &'a RunRecord,
    actors: BTreeMap<&'a str, &'a Actor>,
    trace_id: String,
}

impl<'a> Exporter<'a> {
    fn new(record: &'a RunRecord) -> Self {
        let actors = record.actors.iter();
        Self {
            record,
            actors: actors.map(|actor| (&*actor.id, actor)).collect(),
            trace_id: trace_id(record),
        }
    }

    fn spans(&self) -> Vec<OtlpSpan> {
        let meta = &self.record.meta;
        let mut spans = vec![self.span(0, &meta.place.scenario, Micros(0), meta.lasted)];
        for (number, span) in (1..).zip(&self.record.spans) {
            spans.push(self.state(number, span));
        }
        let code = CODES[usize::from(!meta.verdict.passed)];
        spans[0].status = Some(Status {
            code,
            message: meta.verdict.sentence.clone(),
        });
        spans[0].attributes.push(attribute("drydock.replay", &meta.replay));
        for point in &self.record.points {
            let number = self.span_of(point).map_or(0, |index| index + 1);
            spans[number].events.push(self.event(point));
        }
        spans
    }

    /// The span of a state; its name has the actor, because collectors group by it.
    fn state(&self, number: u64, state: &Span) -> OtlpSpan {
        let end = state.to.unwrap_or(self.record.meta.lasted).max(state.from);
        let actor = self.actors.get(&*state.actor);
        let name = actor.map_or(&*state.actor, |actor| &*actor.name);
        let mut span = self.span(number, &format!("{name} {}", state.label), state.from, end);
        span.parent_span_id = Some(span_id(0));
        span.attributes = vec![
            attribute("drydock.actor", &state.actor),
            attribute("drydock.class", word(&state.class)),
        ];
        span
    }

    /// The index of the last state of the event's actor that had begun and not ended.
    fn span_of(&self, point: &Point) -> Option<usize> {
        let lasts = |span: &Span| span.from <= point.at && span.to.is_none_or(|to| to > point.at);
        self.record
            .spans
            .iter()
            .rposition(|span| span.actor == point.actor && lasts(span))
    }

    fn span(&self, number: u64, name: &str, from: Micros, to: Micros) -> OtlpSpan {
        OtlpSpan {
            trace_id: self.trace_id.clone(),
            span_id: span_id(number),
            parent_span_id: None,
            name: name.to_owned(),
            kind: INTERNAL,
            start_time_unix_nano: self.nanoseconds(from),
            end_time_unix_nano: self.nanoseconds(to),
            attributes: Vec::new(),
            events: Vec::new(),
            status: None,
        }
    }

    fn event(&self, point: &Point) -> Event {
        let details = [
            ("drydock.number", Some(point.number.to_string())),
            ("drydock.actor", Some(point.actor.clone())),
            ("drydock.verb", Some(word(&point.verb))),
            ("drydock.object", point.object.clone()),
            ("drydock.by", point.by.clone()),
            ("drydock.cause", point.cause.map(|cause| cause.to_string())),
            ("drydock.code", point.code.clone()),
            ("drydock.fault", point.fault.clone()),
            ("drydock.change", point.diff.as_ref().map(ToString::to_string)),
        ];
        let given = details.into_iter().filter_map(|(key, value)| Some((key, value?)));
        Event {
            time_unix_nano: self.nanoseconds(point.at),
            name: point.summary.clone(),
            attributes: given.map(|(key, value)| attribute(key, value)).collect(),
        }
    }

    /// Nanoseconds since 1970, as text: JSON numbers are not exact enough.
    fn nanoseconds(&self, at: Micros) -> String {
        let since = SignedDuration::from_micros(i64::try_from(at.0).unwrap_or(i64::MAX));
        let time = self.record.meta.started.saturating_add(since);
        time.unwrap_or(Timestamp::MAX).as_nanosecond().to_string()
    }
}

/// 16 bytes in hexadecimal digits, which depend on the run alone.
fn trace_id(record: &RunRecord) -> String {
    let meta = &record.meta;
    let trace = meta.trace.as_ref().map_or("", |trace| &trace.hash);
    let started = meta.started.to_string();
    let mut hash = Sha256::new();
    for part in [&*meta.place.scenario, &meta.plan, &started, trace] {
        hash.update(part);
        hash.update([0]);
    }
    hash.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 8 bytes in hexadecimal digits, not all of them zero.
fn span_id(number: u64) -> String {
    format!("{:016x}", number.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::fixture::record;
    use super::*;

    fn spans() -> Vec<Value> {
        let traces = serde_json::to_value(otlp(&record())).unwrap();
        traces["resourceSpans"][0]["scopeSpans"][0]["spans"]
            .as_array()
            .unwrap()
            .clone()
    }

    fn names<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
        let items = list.as_array().unwrap().iter();
        items.map(|item| item[field].as_str().unwrap()).collect()
    }

    #[test]
    fn the_run_is_the_root_and_its_status_is_the_verdict() {
        let spans = spans();
        assert_eq!(spans[0]["name"], "one_machine");
        assert_eq!(spans[0]["parentSpanId"], Value::Null);
        assert_eq!(spans[0]["status"]["code"], 2);
        assert_eq!(spans[0]["startTimeUnixNano"], "1893456000000000000");
        assert_eq!(spans[0]["endTimeUnixNano"], "1893456009000000000");
        assert!(spans[1..].iter().all(|span| span["parentSpanId"] == spans[0]["spanId"]));
    }

    #[test]
    fn a_state_has_the_events_of_its_actor_during_that_time() {
        let spans = spans();
        let events = |index: usize| names(&spans[index]["events"], "name");
        assert_eq!(spans[1]["name"], "m-1 Pending");
        assert_eq!(events(1), ["Machine m-1 is created"]);
        assert_eq!(events(2), ["phase: Pending → Running"]);
        assert_eq!(events(4), ["CreateMachine: OK"]);
        assert!(events(0).is_empty());
    }

    #[test]
    fn ids_have_the_length_of_the_protocol_and_are_unique() {
        let spans = spans();
        let mut ids: Vec<_> = spans.iter().map(|span| span["spanId"].as_str().unwrap()).collect();
        assert!(ids.iter().all(|id| id.len() == 16));
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), spans.len());
        assert!(spans.iter().all(|span| span["traceId"].as_str().unwrap().len() == 32));
    }
}
