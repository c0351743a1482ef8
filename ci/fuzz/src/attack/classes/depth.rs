//! Deep values.

use clock::Stream;
use serde_json::{Value, json};

use super::{DEFINITIONS, Hostile, definition, object_of, objects_of, pick};

const DEPTHS: [usize; 11] = [10, 60, 64, 100, 126, 127, 128, 200, 1000, 3000, 20_000];

pub(super) fn requests(stream: &mut Stream, round: u64) -> Vec<Hostile> {
    let depth = *pick(&DEPTHS, stream);
    let plural = format!("d{round}s");
    let (path, object) = (objects_of(&plural), format!("{}/a", objects_of(&plural)));
    let free = json!({ "type": "object", "properties": { "spec": {
        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
    } } });
    let (open, close) = *pick(&[("{\"a\":", "}"), ("[", "]"), ("[{\"a\":", "}]")], stream);
    let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let mut requests = vec![
        Hostile::post(DEFINITIONS, &definition(&plural, &free, &json!([]))),
        Hostile::post(&path, &object_of(&plural, "a", &json!({ "x": {} }))),
    ];
    requests.push(match stream.below(7) {
        0 => Hostile::body("PATCH", &object, "application/json-patch+json", moves(depth)),
        1 => {
            let patch = format!("{{\"spec\":{{\"x\":{deep}}}}}");
            Hostile::body("PATCH", &object, "application/merge-patch+json", patch)
        }
        2 => {
            let text = object_of(&plural, "b", &json!("DEEP")).to_string();
            Hostile::body("POST", &path, "application/json", text.replace("\"DEEP\"", &deep))
        }
        3 => {
            let text = object_of(&plural, "b", &json!("DEEP")).to_string();
            Hostile::body("POST", &path, "application/yaml", text.replace("\"DEEP\"", &deep))
        }
        4 => {
            let schema = nested_schema(depth.min(2_000));
            Hostile::body("POST", DEFINITIONS, "application/json", schema)
        }
        5 => {
            let column = format!(".spec{}", "[?(@.a".repeat(depth)) + &")]".repeat(depth);
            let columns = json!([{ "name": "A", "type": "string", "jsonPath": column }]);
            Hostile::post(DEFINITIONS, &definition(&format!("p{round}s"), &free, &columns))
        }
        _ => {
            let patch = format!("{{\"metadata\":{{\"annotations\":{deep}}}}}");
            let media_type = "application/strategic-merge-patch+json";
            Hostile::body("PATCH", "/api/v1/namespaces/default", media_type, patch)
        }
    });
    requests.push(Hostile::get(&path));
    requests.push(Hostile::get(&object));
    for plural in [plural, format!("p{round}s"), format!("n{depth}s")] {
        requests.push(Hostile::delete(&format!("{DEFINITIONS}/{plural}.example.com")));
    }
    requests
}

/// A JSON Patch that wraps a value as often: each operation is flat.
fn moves(depth: usize) -> String {
    let mut operations = Vec::new();
    for level in 0..depth.min(10_000) {
        let (inner, outer) = if level % 2 == 0 { ("x", "y") } else { ("y", "x") };
        operations.push(json!({ "op": "add", "path": format!("/spec/{outer}"), "value": {} }));
        operations.push(json!({ "op": "move", "from": format!("/spec/{inner}"), "path": format!("/spec/{outer}/z") }));
    }
    Value::Array(operations).to_string()
}

/// A definition whose schema nests as deep, as text: a value of that depth could not be dropped.
fn nested_schema(depth: usize) -> String {
    let schema = format!(
        "{}{}{}",
        r#"{"type":"object","properties":{"a":"#.repeat(depth),
        r#"{"type":"object"}"#,
        "}}".repeat(depth)
    );
    definition(&format!("n{depth}s"), &json!("DEEP"), &json!([]))
        .to_string()
        .replace("\"DEEP\"", &schema)
}
