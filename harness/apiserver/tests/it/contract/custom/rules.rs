//! Where rules in CEL are evaluated, their messages, and transition rules.

use serde_json::{Value, json};

use super::{Site, WIDGETS, checked, contract, schema, specs, updates, version, widget, with};

fn ruled(property: Value, rules: Value) -> Value {
    with(&property, json!({ "x-kubernetes-validations": rules }))
}

#[test]
fn rules_of_items_and_values_of_maps() {
    contract!(async |site: &Site| {
        let text = json!({ "type": "string", "maxLength": 20 });
        let short = ruled(text, json!([{ "rule": "self.size() < 4", "message": "too long" }]));
        site.define(version(schema(json!({
            "list": { "type": "array", "maxItems": 5, "items": short },
            "map": { "type": "object", "maxProperties": 5, "additionalProperties": short },
        }))))
        .await;
        specs(
            site,
            &[
                json!({ "list": ["abc", "abcd", "abcde"] }),
                json!({ "map": { "a": "abcd", "b": "a", "c/d": "abcdef" } }),
                json!({ "list": ["abc"], "map": {} }),
            ],
        )
        .await;
    });
}

#[test]
fn transition_rules_compare_with_the_old_value() {
    contract!(async |site: &Site| {
        let number = json!({ "type": "integer" });
        let item = json!({
            "type": "object", "required": ["k"], "properties": {
                "k": { "type": "string" },
                "n": ruled(number.clone(), json!([{ "rule": "self >= oldSelf", "message": "items grow" }])),
            },
        });
        site.define(version(schema(json!({
            "fixed": ruled(json!({ "type": "string" }), json!([{ "rule": "self == oldSelf", "message": "it is fixed" }])),
            "grows": ruled(number, json!([{ "rule": "self >= oldSelf", "message": "it grows" }])),
            "items": { "type": "array", "maxItems": 5, "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"] },
        })))).await;
        let spec = json!({ "fixed": "a", "grows": 5, "items": [{ "k": "a", "n": 1 }, { "k": "b", "n": 2 }] });
        site.step("POST", WIDGETS, widget("a", spec)).await;
        let specs = [
            json!({ "fixed": "b" }),
            json!({ "fixed": null }),
            json!({ "grows": 4 }),
            json!({ "grows": 6 }),
            json!({ "items": [{ "k": "b", "n": 1 }, { "k": "a", "n": 1 }] }),
            json!({ "items": [{ "k": "b", "n": 2 }, { "k": "c", "n": 0 }] }),
        ];
        updates(site, &specs).await;
    });
}

#[test]
fn transition_rules_with_an_optional_old_value() {
    contract!(async |site: &Site| {
        let rules = json!([{ "rule": "oldSelf.hasValue() ? self == oldSelf.value() : self == 'first'", "optionalOldSelf": true, "message": "starts as first, and stays" }]);
        site.define(version(schema(
            json!({ "stage": ruled(json!({ "type": "string" }), rules), "other": { "type": "string" } }),
        )))
        .await;
        specs(
            site,
            &[json!({ "stage": "first" }), json!({ "stage": "second" }), json!({})],
        )
        .await;
        site.step("POST", WIDGETS, widget("a", json!({ "stage": "first" })))
            .await;
        site.step("POST", WIDGETS, widget("b", json!({}))).await;
        for (name, spec) in [
            ("a", json!({ "stage": "second" })),
            ("a", json!({ "other": "x" })),
            ("b", json!({ "stage": "second" })),
            ("b", json!({ "stage": "first" })),
        ] {
            checked(
                site,
                &format!("{name} {spec}"),
                "PATCH",
                &format!("{WIDGETS}/{name}"),
                json!({ "spec": spec }),
            )
            .await;
        }
    });
}

#[test]
fn rules_see_the_status_only_where_it_is_written() {
    contract!(async |site: &Site| {
        let mut schema = schema(
            json!({ "n": ruled(json!({ "type": "integer" }), json!([{ "rule": "self < 10", "message": "n is small" }])) }),
        );
        schema["properties"]["status"] = json!({
            "type": "object", "properties": { "m": ruled(json!({ "type": "integer" }), json!([{ "rule": "self < 10", "message": "m is small" }])) },
        });
        schema["x-kubernetes-validations"] = json!([{
            "rule": "!has(self.status) || !has(self.spec) || self.status.m <= self.spec.n", "message": "m is at most n",
        }]);
        site.define(with(&version(schema), json!({ "subresources": { "status": {} } })))
            .await;
        site.step("POST", WIDGETS, widget("a", json!({ "n": 5 }))).await;
        let path = format!("{WIDGETS}/a");
        for status in [11, 6, 5] {
            checked(
                site,
                &format!("status {status}"),
                "PATCH",
                &format!("{path}/status"),
                json!({ "status": { "m": status } }),
            )
            .await;
        }
        site.merge(&format!("{path}/status"), json!({ "status": { "m": 5 } }))
            .await;
        for spec in [11, 4, 6] {
            checked(
                site,
                &format!("spec {spec}"),
                "PATCH",
                &path,
                json!({ "spec": { "n": spec } }),
            )
            .await;
        }
    });
}

#[test]
fn rules_see_metadata() {
    contract!(async |site: &Site| {
        let mut schema = schema(json!({ "n": { "type": "integer" } }));
        schema["x-kubernetes-validations"] = json!([
            { "rule": "self.metadata.name.startsWith('a')", "message": "names start with a" },
            { "rule": "self.kind == 'Widget' && self.apiVersion.endsWith('/v1')", "message": "the kind" },
        ]);
        site.define(version(schema)).await;
        for name in ["a", "b"] {
            checked(site, name, "POST", WIDGETS, widget(name, json!({}))).await;
        }
        let generated = json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "generateName": "b-" } });
        let answer = site
            .quietly("POST", &format!("{WIDGETS}?dryRun=All"), &[], generated)
            .await;
        site.note(&format!("generated: {} {}", answer.code, answer.body["reason"]));
    });
}

#[test]
fn functions_of_rules() {
    contract!(async |site: &Site| {
        let rules: Vec<Value> = [
            "self.text.matches('^[a-z]+$')",
            "self.text.lowerAscii() == self.text",
            "self.list.isSorted()",
            "self.list.sum() < 10",
            "self.list.max() <= 5",
            "self.text.replace('a', 'b').contains('b')",
            "self.list.indexOf(3) == -1",
            "url('https://' + self.text).getHost() == self.text",
            "quantity(self.amount).isLessThan(quantity('1Gi'))",
            "self.text.split('').size() > 1",
            "self.list.map(n, n * 2).exists(n, n > 4)",
            "isQuantity(self.amount)",
            "duration(self.time) > duration('1s')",
            "self.text in ['ab', 'cd']",
            "self.text.find('[0-9]') == ''",
        ]
        .into_iter()
        .map(|rule| json!({ "rule": rule, "message": rule }))
        .collect();
        let mut schema = schema(json!({
            "text": { "type": "string", "maxLength": 10 }, "amount": { "type": "string", "maxLength": 10 }, "time": { "type": "string", "maxLength": 10 },
            "list": { "type": "array", "maxItems": 5, "items": { "type": "integer" } },
        }));
        schema["properties"]["spec"] = ruled(schema["properties"]["spec"].take(), rules.into());
        site.define(version(schema)).await;
        specs(
            site,
            &[
                json!({ "text": "ab", "amount": "1Mi", "time": "5s", "list": [1, 2, 4] }),
                json!({ "text": "B1", "amount": "2Gi", "time": "1ms", "list": [3, 2, 9] }),
            ],
        )
        .await;
    });
}
