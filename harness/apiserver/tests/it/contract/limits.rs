//! Requests that are too deep or too large, and metadata of the wrong type.

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, WIDGETS};

const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";
/// More than upstream's 10,000 levels.
const LEVELS: usize = 10_001;

fn deep(open: &str, close: &str) -> String {
    format!("{}1{}", open.repeat(LEVELS), close.repeat(LEVELS))
}

fn widget(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

async fn define_open_widgets(site: &Site) {
    site.define(json!({
        "name": "v1", "served": true, "storage": true,
        "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
    }))
    .await;
}

/// Records the code and the reason only: the messages quote the body.
async fn refused(site: &Site, method: &str, path: &str, media_type: &str, body: String) {
    let headers = [("content-type", media_type)];
    let answer = site.quietly(method, path, &headers, body.into()).await;
    site.note(&format!(
        "{method} {path} as {media_type} -> {} {}",
        answer.code, answer.body["reason"]
    ));
}

#[test]
fn bodies_that_are_too_deep_are_rejected() {
    contract!(async |site: &Site| {
        define_open_widgets(site).await;
        let json = deep(r#"{"a":"#, "}");
        let head = r#""apiVersion":"{group}/v1","kind":"Widget","metadata":{"name":"a"}"#;
        refused(
            site,
            "POST",
            WIDGETS,
            "application/json",
            format!("{{{head},\"spec\":{json}}}"),
        )
        .await;
        refused(
            site,
            "POST",
            MAPS,
            "application/json",
            format!("{{\"metadata\":{{\"name\":\"a\"}},\"data\":{json}}}"),
        )
        .await;
        let yaml = deep("{a: ", "}");
        let head = "apiVersion: \"{group}/v1\"\nkind: Widget\nmetadata: {name: a}\n";
        refused(
            site,
            "POST",
            WIDGETS,
            "application/yaml",
            format!("{head}spec: {yaml}\n"),
        )
        .await;
        let levels: String = (1..9)
            .map(|level| format!("l{level}: &l{level} [{}]\n", format!("*l{},", level - 1).repeat(9)))
            .collect();
        refused(
            site,
            "POST",
            WIDGETS,
            "application/yaml",
            format!("{head}l0: &l0 [x]\n{levels}"),
        )
        .await;
    });
}

#[test]
fn patches_that_are_too_deep_are_rejected() {
    contract!(async |site: &Site| {
        define_open_widgets(site).await;
        site.step("POST", WIDGETS, widget("a", json!({ "a": {} }))).await;
        let path = format!("{WIDGETS}/a");
        let nested = deep(r#"{"a":"#, "}");
        for (kind, body) in [
            ("merge-patch", format!(r#"{{"spec":{nested}}}"#)),
            (
                "json-patch",
                format!(r#"[{{"op":"add","path":"/spec/b","value":{nested}}}]"#),
            ),
        ] {
            let headers = [("content-type", &*format!("application/{kind}+json"))];
            site.brief("", "PATCH", &path, &headers, body.into()).await;
        }
        // A result of flat operations that is too deep has code 422. It is not compared here: a real server applies such
        // operations in a time with the square of the depth, up to its timeout on a busy machine.
        let unchanged = site.get(&path).await;
        assert_eq!(unchanged.body["spec"], json!({ "a": {} }));
    });
}

#[test]
fn objects_that_are_too_large_are_rejected() {
    contract!(async |site: &Site| {
        define_open_widgets(site).await;
        let text = |size: usize| Value::from("x".repeat(size));
        let large = widget("large", json!({ "a": text(1_600_000) }));
        site.brief("", "POST", WIDGETS, &[], large).await;
        let fits = site
            .quietly("POST", WIDGETS, &[], widget("a", json!({ "a": text(1_400_000) })))
            .await;
        assert_eq!(fits.code, 201);
        let headers = [("content-type", "application/merge-patch+json")];
        let grown = json!({ "spec": { "b": text(400_000) } });
        site.brief("", "PATCH", &format!("{WIDGETS}/a"), &headers, grown).await;
        let larger = widget("larger", json!({ "a": text(3_200_000) }));
        site.brief("", "POST", WIDGETS, &[], larger).await;
    });
}

#[test]
fn metadata_of_the_wrong_type_is_rejected() {
    contract!(async |site: &Site| {
        define_open_widgets(site).await;
        site.step("POST", WIDGETS, widget("a", json!({}))).await;
        site.config_map("a", "1").await;
        let wrong = [
            ("resourceVersion", json!(5)),
            ("resourceVersion", json!(true)),
            ("resourceVersion", json!({ "a": 1 })),
            ("resourceVersion", json!([1])),
            ("uid", json!(5)),
            ("generation", json!("5")),
        ];
        for (path, whole) in [
            (MAPS, json!({})),
            (WIDGETS, json!({ "apiVersion": "{group}/v1", "kind": "Widget" })),
        ] {
            for (field, value) in &wrong {
                let metadata = json!({ "name": "a", *field: value });
                let mut body = whole.clone();
                body["metadata"] = metadata.clone();
                site.brief("", "PUT", &format!("{path}/a"), &[], body).await;
                for (kind, patch) in [
                    ("merge-patch", json!({ "metadata": metadata })),
                    (
                        "json-patch",
                        json!([{ "op": "add", "path": format!("/metadata/{field}"), "value": value }]),
                    ),
                ] {
                    let headers = [("content-type", &*format!("application/{kind}+json"))];
                    let answer = site.quietly("PATCH", &format!("{path}/a"), &headers, patch).await;
                    // The message quotes the whole object before this.
                    let message = answer.body["message"].as_str().unwrap_or_default();
                    let why = message.rsplit_once("json: ").map_or(message, |(_, why)| why);
                    site.note(&format!("{kind} {path} {field}={value} -> {} {why}", answer.code));
                }
            }
        }
    });
}
