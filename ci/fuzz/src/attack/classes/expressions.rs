//! Validation rules that nest, overflow, or run for long.

use clock::Stream;
use serde_json::{Value, json};

use super::{DEFINITIONS, Hostile, definition, object_of, objects_of, pick};
use crate::{corpus, mutate, target};

const TIMES: [usize; 6] = [3, 12, 40, 300, 3_000, 30_000];
const NUMBERS: [&str; 5] = ["1000", "1000000", "1000000000", "9223372036854775807", "-1"];
const LISTS: [&str; 3] = ["self.numbers", "self.words", "lists.range(1000)"];
const ITERATIONS: [&str; 5] = ["all", "exists", "map", "filter", "exists_one"];

/// A rule on `spec`.
fn rule(stream: &mut Stream, round: u64) -> String {
    let times = *pick(&TIMES, stream);
    let number = *pick(&NUMBERS, stream);
    match stream.below(12) {
        0 => format!("{}true{}", "(".repeat(times), ")".repeat(times)),
        1 => format!("{}true", "!".repeat(times)),
        2 => format!("lists.range({number}).size() > 0"),
        3 => format!("[{number}, 9223372036854775807].sum() > 0"),
        4 => format!("'%.{number}f'.format([1.0]) != ''"),
        5 => vec!["self.text == 'a'"; times].join(" && "),
        6 => "self.text.matches('(a+)+$') || self.text.matches('(a|aa)+$')".to_owned(),
        7 => format!("{}0{} == 0", "[".repeat(times), "][0]".repeat(times)),
        8 => format!("{}1{}", "true ? ".repeat(times), " : 0".repeat(times)),
        9 => nested(2 + times % 4, stream),
        10 => format!("{number} * {number} + {number} - (-{number}) / -1 % -1 > 0"),
        _ => {
            let cel = target("cel").and_then(|target| Some((target, corpus::inputs(target).ok()?)));
            let input = cel.map(|(target, corpus)| mutate::input(target.form, &corpus, "cel", stream.bits(), round));
            String::from_utf8_lossy(&input.unwrap_or_default()).into_owned()
        }
    }
}

/// Iterations inside each other.
fn nested(levels: usize, stream: &mut Stream) -> String {
    let mut rule = "self.text + self.text != ''".to_owned();
    for level in 0..levels {
        let (list, iteration) = (pick(&LISTS, stream), pick(&ITERATIONS, stream));
        rule = format!("{list}.{iteration}(x{level}, {rule})");
        if matches!(*iteration, "map" | "filter") {
            rule = format!("{rule}.size() >= 0");
        }
    }
    rule
}

pub(super) fn requests(stream: &mut Stream, round: u64) -> Vec<Hostile> {
    let plural = format!("c{round}s");
    // Without limits in the schema, the estimated cost of an iteration is high; with them it may be accepted.
    let items = if stream.chance(0.5) { json!(1000) } else { Value::Null };
    let mut schema = json!({ "type": "object", "properties": { "spec": {
        "type": "object",
        "properties": {
            "text": { "type": "string", "maxLength": 1000 },
            "numbers": { "type": "array", "maxItems": items, "items": { "type": "integer" } },
            "words": { "type": "array", "maxItems": items, "items": { "type": "string", "maxLength": 10 } },
        },
        "x-kubernetes-validations": [{ "rule": rule(stream, round) }],
    } } });
    if items.is_null() {
        for list in ["numbers", "words"] {
            if let Some(list) = schema["properties"]["spec"]["properties"][list].as_object_mut() {
                list.remove("maxItems");
            }
        }
    }
    let length = if stream.chance(0.1) { 1000 } else { 10 };
    let spec = json!({ "text": "a".repeat(length) + "b", "numbers": vec![1; length], "words": vec!["a"; length] });
    vec![
        Hostile::post(DEFINITIONS, &definition(&plural, &schema, &json!([]))),
        Hostile::post(&objects_of(&plural), &object_of(&plural, "a", &spec)),
        Hostile::delete(&format!("{DEFINITIONS}/{plural}.example.com")),
    ]
}
