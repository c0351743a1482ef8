//! Unknown and repeated fields below the top, for each way of writing.

use serde_json::{Value, json};

use super::super::definitions::version;
use super::super::site::{Site, WIDGETS};
use super::{DEPLOYMENTS, MAPS, contract, deployment};

/// Sends a body in each mode, and records code, message and warnings.
async fn modes(site: &Site, method: &str, path: &str, media_type: &str, body: &str) {
    for mode in ["Strict", "Warn", "Ignore"] {
        let path = format!("{path}?dryRun=All&fieldValidation={mode}");
        let answer = site
            .quietly(method, &path, &[("content-type", media_type)], body.into())
            .await;
        let message = answer.body["message"].as_str().unwrap_or("fine");
        // Before it stands the patched object, whose fields have no order.
        let message = match message.find("strict decoding error: ") {
            Some(at) if answer.code == 422 => &message[at..],
            _ => message,
        };
        site.note(&format!("{method} {media_type} {mode}: {} {message}", answer.code));
        let warnings = answer.headers.get_all("warning").iter();
        let mut warnings: Vec<&str> = warnings.map(|warning| warning.to_str().unwrap()).collect();
        warnings.sort_unstable();
        for warning in warnings {
            site.note(&format!("  {warning}"));
        }
    }
}

#[test]
fn a_field_below_a_list_is_named() {
    contract!(async |site: &Site| {
        let mut object = deployment("a");
        object["spec"]["template"]["spec"]["containers"][0]["odd"] = 1.into();
        modes(site, "POST", DEPLOYMENTS, "application/json", &object.to_string()).await;
        let mut object = deployment("a");
        object["spec"]["template"]["spec"]["containers"][0]["resources"] = json!({ "limit": { "cpu": "1" } });
        modes(site, "POST", DEPLOYMENTS, "application/json", &object.to_string()).await;
    });
}

#[test]
fn of_a_replacement() {
    contract!(async |site: &Site| {
        site.step("POST", DEPLOYMENTS, deployment("a")).await;
        let mut object = deployment("a");
        object["spec"]["odd"] = 1.into();
        modes(
            site,
            "PUT",
            &format!("{DEPLOYMENTS}/a"),
            "application/json",
            &object.to_string(),
        )
        .await;
    });
}

#[test]
fn of_patches() {
    contract!(async |site: &Site| {
        site.step("POST", DEPLOYMENTS, deployment("a")).await;
        let path = format!("{DEPLOYMENTS}/a");
        let merge = json!({ "spec": { "odd": 1 } }).to_string();
        let list = json!([{ "op": "add", "path": "/spec/odd", "value": 1 }]).to_string();
        modes(site, "PATCH", &path, "application/merge-patch+json", &merge).await;
        modes(site, "PATCH", &path, "application/json-patch+json", &list).await;
    });
}

#[test]
fn repeated_fields_of_patches() {
    contract!(async |site: &Site| {
        site.step("POST", DEPLOYMENTS, deployment("a")).await;
        let path = format!("{DEPLOYMENTS}/a");
        let body = r#"{"spec":{"replicas":2,"replicas":3}}"#;
        modes(site, "PATCH", &path, "application/merge-patch+json", body).await;
        modes(site, "PATCH", &path, "application/strategic-merge-patch+json", body).await;
    });
}

#[test]
fn of_yaml() {
    contract!(async |site: &Site| {
        modes(
            site,
            "POST",
            MAPS,
            "application/yaml",
            "metadata:\n  name: a\nodd: 1\ndata:\n  k: v\n",
        )
        .await;
        modes(
            site,
            "POST",
            MAPS,
            "application/yaml",
            "metadata:\n  name: a\n  odd: 1\n",
        )
        .await;
    });
}

#[test]
fn of_custom_resources() {
    contract!(async |site: &Site| {
        let inner = json!({ "type": "object", "properties": { "b": { "type": "integer" } } });
        let properties = json!({
            "a": inner,
            "list": { "type": "array", "items": inner },
            "any": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        });
        let spec = json!({ "type": "object", "properties": properties });
        site.define(version(json!({ "type": "object", "properties": { "spec": spec } })))
            .await;
        let widget = |spec: Value| {
            let widget =
                json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": spec });
            widget.to_string()
        };
        for spec in [
            json!({ "a": { "b": 1, "odd": 2 } }),
            json!({ "list": [{ "b": 1 }, { "odd": 2 }] }),
            json!({ "any": { "odd": 2 } }),
        ] {
            modes(site, "POST", WIDGETS, "application/json", &widget(spec)).await;
        }
    });
}

#[test]
fn repeated_fields_of_custom_resources() {
    contract!(async |site: &Site| {
        site.define(version(
            json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true }),
        ))
        .await;
        let body = r#"{"apiVersion":"{group}/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"b":1,"b":2}}"#;
        modes(site, "POST", WIDGETS, "application/json", body).await;
        site.step(
            "POST",
            WIDGETS,
            json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": "a" } }),
        )
        .await;
        let path = format!("{WIDGETS}/a");
        modes(
            site,
            "PATCH",
            &path,
            "application/merge-patch+json",
            r#"{"spec":{"b":1,"b":2}}"#,
        )
        .await;
    });
}

#[test]
fn fields_have_a_case() {
    contract!(async |site: &Site| {
        for body in [
            r#"{"metadata":{"Name":"b","name":"a"}}"#,
            r#"{"metadata":{"name":"a"},"DATA":{"k":"v"}}"#,
        ] {
            modes(site, "POST", MAPS, "application/json", body).await;
        }
    });
}
