//! The limits of validation rules: at the creation of a definition, and for an object.

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, WIDGETS};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?dryRun=All";

fn spec() -> Value {
    json!({
        "type": "object",
        "properties": {
            "a": { "type": "array", "items": { "type": "integer" } },
            "o": { "type": "array", "items": { "type": "object", "properties": { "x": { "type": "integer" }, "y": { "type": "string" } } } },
            "m": { "type": "object", "additionalProperties": { "type": "string" } },
            "s": { "type": "string" },
            "n": { "type": "integer" },
        },
    })
}

/// Defines widgets with these rules of the spec and records the errors, without the quoted rule, which servers format
/// differently.
async fn checked(site: &Site, rules: &[Value]) {
    let mut spec = spec();
    spec["x-kubernetes-validations"] = rules.into();
    schema_checked(site, &rules[0].to_string(), spec).await;
}

async fn schema_checked(site: &Site, title: &str, spec: Value) {
    let schema = json!({ "type": "object", "properties": { "spec": spec } });
    let definition = json!({
        "metadata": { "name": "widgets.{group}" },
        "spec": {
            "group": "{group}", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    });
    let answer = site.quietly("POST", DEFINITIONS, &[], definition).await;
    let title: String = title.chars().take(100).collect();
    site.note(&format!("{title} -> {}", answer.code));
    for cause in answer.body["details"]["causes"].as_array().into_iter().flatten() {
        let (field, message) = (cause["field"].as_str().unwrap(), cause["message"].as_str().unwrap());
        let field = field.rsplit_once("openAPIV3Schema").map_or(field, |(_, field)| field);
        let marks = [
            "messageExpression compilation failed: ",
            "compilation failed: ",
            "must ",
            "oldSelf cannot",
        ];
        let start = marks
            .iter()
            .find_map(|mark| message.starts_with("Invalid").then(|| message.find(mark)).flatten());
        let message = message.get(start.unwrap_or(0)..).unwrap();
        site.note(&format!(
            "  {field}: {}",
            message.replace("spec.validation.openAPIV3Schema.", "")
        ));
    }
}

fn rules(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| json!({ "rule": text })).collect()
}

#[test]
fn the_cost_of_rules_is_limited() {
    contract!(async |site: &Site| {
        for rule in [
            "self.a.all(x, x > 0)",
            "self.a.all(x, self.a.all(y, x + y > 0))",
            "self.a.all(x, self.a.all(y, self.a.all(z, x + y + z > 0)))",
            "self.o.all(a, self.o.exists_one(b, a.x == b.x))",
            "lists.range(1000000000).size() > 0",
            "lists.range(self.n).size() > 0",
            "self.a.sum() > 0",
            "self.a.transformList(i, v, v + i).size() > 0",
            "self.s.contains(self.s)",
            "self.s.matches(self.s)",
            "self.s.matches('^a+$')",
            "self.m.all(k, self.m[k].size() > 1)",
            "self.n in self.a",
            "self.a == self.a && self.s == self.s && self.o == self.o",
            "self.s.split(',').join('-') == ''",
            "self.a.map(x, self.s).join('') == ''",
            "self.s.replace('a', 'bb') == ''",
            "self.o.sortBy(x, x.x).size() > 0",
        ] {
            checked(site, &rules(&[rule])).await;
        }
        let lowered = |times: usize| format!("self.s{} == ''", ".lowerAscii()".repeat(times));
        for times in [31, 32, 100] {
            checked(site, &rules(&[&lowered(times)])).await;
        }
        checked(site, &rules(&["self.a.all(x, x > 0)"; 120])).await;
        let dynamic = "self.o.map(x, self.o.map(y, x.y + y.y).join(',')).join(',')";
        checked(site, &[json!({ "rule": "self.n > 0", "messageExpression": dynamic })]).await;
    });
}

#[test]
fn the_cost_of_rules_within_lists_is_multiplied() {
    contract!(async |site: &Site| {
        let item = |rule: &str, text: Value| {
            let properties = json!({ "n": { "type": "integer" }, "s": text });
            json!({ "type": "object", "properties": properties, "x-kubernetes-validations": [{ "rule": rule }] })
        };
        let list = |items: Value, most: Option<u64>| {
            let mut list = json!({ "type": "array", "items": items });
            if let Some(most) = most {
                list["maxItems"] = most.into();
            }
            json!({ "type": "object", "properties": { "l": list } })
        };
        let text = json!({ "type": "string" });
        let short = json!({ "type": "string", "maxLength": 10 });
        let contains = "self.s.contains('abc')";
        for (title, schema) in [
            ("a list", list(item("self.n > 0", text.clone()), None)),
            ("texts in a list", list(item(contains, text.clone()), None)),
            (
                "a list in a list",
                list(list(item("self.n > 0", text.clone()), None), None),
            ),
            (
                "short texts in limited lists",
                list(list(item(contains, short), Some(100)), Some(100)),
            ),
            (
                "texts in limited lists",
                list(list(item(contains, text.clone()), Some(100)), Some(100)),
            ),
            ("the old value in a list", list(item("self.n >= oldSelf.n", text), None)),
        ] {
            schema_checked(site, title, schema).await;
        }
    });
}

#[test]
fn invalid_rules_are_rejected() {
    contract!(async |site: &Site| {
        for rule in [
            "foo == 1",
            "self.zzz == 1",
            "has(self.zzz)",
            "self.a == 1",
            "self.n",
            "",
            "  ",
            "self.n.foo()",
            "self.n\n > 0",
            "self.n > 9223372036854775808",
        ] {
            checked(site, &rules(&[rule])).await;
        }
        let nested = |times: usize| format!("{}true{}", "(".repeat(times), ")".repeat(times));
        let longest = |length: usize| format!("'{}' == ''", "a".repeat(length - 8));
        for rule in [
            nested(12),
            nested(249),
            nested(250),
            nested(20_000),
            longest(100_000),
            longest(100_001),
        ] {
            checked(site, &rules(&[&rule])).await;
        }
        for (field, value) in [
            ("message", "x\ny"),
            ("message", " "),
            ("messageExpression", " "),
            ("messageExpression", "1"),
            ("messageExpression", "'a' + self.zzz"),
            ("reason", "Foo"),
            ("fieldPath", ".zzz"),
            ("fieldPath", "n"),
            ("fieldPath", ".n"),
        ] {
            checked(site, &[json!({ "rule": "self.n > 0", field: value })]).await;
        }
    });
}

#[test]
fn the_cost_of_an_evaluation_is_limited() {
    contract!(async |site: &Site| {
        // A sum has a high cost, and takes a real server little time.
        let mut all = vec!["self.a.all(x, self.a.all(y, x + y >= 0))"];
        all.resize(14, "self.b.all(x, self.b.sum() >= x)");
        let list = json!({ "type": "array", "maxItems": 1000, "items": { "type": "integer" } });
        let mut spec = json!({ "type": "object", "properties": { "a": list, "b": list } });
        spec["x-kubernetes-validations"] = rules(&all).into();
        let schema = json!({ "type": "object", "properties": { "spec": spec } });
        site.define(json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }))
            .await;
        for (name, a, b) in [
            ("some", 100, 100),
            ("many", 360, 900),
            ("too-many", 1000, 100),
            ("too-many-sums", 100, 1000),
        ] {
            let spec = json!({ "a": vec![1; a], "b": vec![1; b] });
            let widget = json!({
                "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec,
            });
            site.brief("", "POST", WIDGETS, &[], widget).await;
        }
    });
}

#[test]
fn errors_of_an_evaluation_are_reported() {
    contract!(async |site: &Site| {
        let mut spec = spec();
        spec["properties"]["i"] = json!({ "x-kubernetes-int-or-string": true });
        spec["x-kubernetes-validations"] = json!([
            { "rule": "self.a.sum() > 0" },
            { "rule": "self.n / 0 > 0", "message": "the division" },
            { "rule": "self.a[5] > 0" },
            { "rule": "self.m['x'] == ''" },
            { "rule": "self.i > 5" },
            { "rule": "self.n > 5", "messageExpression": "'s is ' + self.s" },
            { "rule": "self.n > 6", "message": "static", "messageExpression": "self.m['x']" },
            { "rule": "self.n > 7", "fieldPath": ".n", "reason": "FieldValueForbidden" },
        ]);
        let schema = json!({ "type": "object", "properties": { "spec": spec } });
        site.define(json!({ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }))
            .await;
        let spec = json!({ "a": [i64::MAX, 1], "n": 1, "m": {}, "s": "x", "i": "x" });
        let widget = json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": spec });
        site.brief("", "POST", WIDGETS, &[], widget).await;
    });
}
