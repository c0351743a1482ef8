//! Large bodies, merges and lists.

use clock::Stream;
use serde_json::{Value, json};

use super::{DEFINITIONS, Hostile, definition, object_of, objects_of, pick};

const CONFIG: &str = "/api/v1/namespaces/default/configmaps";
/// Just below the limit of a body, in bytes.
const LARGE: usize = 3_000_000;

pub(super) fn prepare() -> Vec<Hostile> {
    let schema = json!({ "type": "object", "properties": { "spec": { "type": "object", "properties": {
        "parts": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } },
        },
        "tags": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
    } } } });
    let pod = json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    vec![
        Hostile::post(DEFINITIONS, &definition("heavys", &schema, &json!([]))),
        Hostile::post("/api/v1/namespaces/default/pods", &pod),
        Hostile::post(
            CONFIG,
            &json!({ "metadata": { "name": "a" }, "data": { "k": "v".repeat(LARGE / 4) } }),
        ),
    ]
}

pub(super) fn requests(stream: &mut Stream, round: u64) -> Vec<Hostile> {
    let many = *pick(&[10_000, 40_000, 60_000], stream);
    let entries =
        |field: &str| -> Vec<Value> { (0..many).map(|number| json!({ field: format!("n{number}") })).collect() };
    let name = format!("h{round}");
    vec![match stream.below(8) {
        0 => {
            let patch = json!({ "spec": { "containers": [{ "name": "c", "env": entries("name") }] } }).to_string();
            let media_type = "application/strategic-merge-patch+json";
            Hostile::body("PATCH", "/api/v1/namespaces/default/pods/p", media_type, patch)
        }
        1 => {
            let spec = json!({ "parts": entries("name") });
            Hostile::post(&objects_of("heavys"), &object_of("heavys", &name, &spec))
        }
        2 => {
            let tags: Vec<String> = (0..many).map(|number| format!("t{}", number % (many - 1))).collect();
            Hostile::post(
                &objects_of("heavys"),
                &object_of("heavys", &name, &json!({ "tags": tags })),
            )
        }
        3 => Hostile::post(
            CONFIG,
            &json!({ "metadata": { "name": name }, "data": { "k": "v".repeat(LARGE) } }),
        ),
        4 => {
            let data: serde_json::Map<String, Value> =
                (0..many).map(|number| (format!("k{number}"), json!("v"))).collect();
            Hostile::body(
                "PATCH",
                &format!("{CONFIG}/a"),
                "application/merge-patch+json",
                json!({ "data": data }).to_string(),
            )
        }
        5 => {
            let copies: Vec<Value> = (0..2_000)
                .map(|number| json!({ "op": "copy", "from": "/data/k", "path": format!("/data/c{number}") }))
                .collect();
            Hostile::body(
                "PATCH",
                &format!("{CONFIG}/a"),
                "application/json-patch+json",
                Value::from(copies).to_string(),
            )
        }
        6 => Hostile::body("POST", CONFIG, "application/yaml", bomb()),
        _ => {
            let paths = [CONFIG, "/api/v1/pods", "/openapi/v3", "/apis/example.com/v1/heavys"];
            let path = *pick(&paths, stream);
            Hostile::get(path)
        }
    }]
}

/// A YAML document whose aliases multiply.
fn bomb() -> String {
    let mut text = "metadata:\n  name: bomb\ndata:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("  a{level}: &a{level} [{inner}]\n"));
    }
    text
}
