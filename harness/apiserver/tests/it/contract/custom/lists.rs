//! Values of custom resources: sets and maps in lists, numbers, texts and their formats, embedded objects.

use serde_json::json;

use super::{Site, WIDGETS, contract, schema, specs, version, widget};

#[test]
fn items_of_sets_and_maps_are_unique() {
    contract!(async |site: &Site| {
        let item = json!({
            "type": "object", "required": ["k"],
            "properties": { "k": { "type": "string" }, "p": { "type": "string", "default": "x" }, "v": { "type": "integer" } },
        });
        site.define(version(schema(json!({
            "set": { "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "set" },
            "map": { "type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "p"] },
        })))).await;
        specs(
            site,
            &[
                json!({ "set": ["a", "b"] }),
                json!({ "set": ["a", "b", "a", "a"] }),
                json!({ "map": [{ "k": "a" }, { "k": "a", "p": "y" }] }),
                json!({ "map": [{ "k": "a" }, { "k": "a", "p": "x" }] }),
                json!({ "map": [{ "k": "a", "v": 1 }, { "k": "b" }, { "k": "a", "v": 2 }, { "k": "b" }] }),
                json!({ "map": [{ "p": "x" }] }),
                json!({ "map": null, "set": [] }),
            ],
        )
        .await;
    });
}

#[test]
fn numbers_have_bounds() {
    contract!(async |site: &Site| {
        site.define(version(schema(json!({
            "n": { "type": "integer", "minimum": 1, "maximum": 10 },
            "open": { "type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 1, "exclusiveMaximum": true },
            "step": { "type": "integer", "multipleOf": 5 },
            "small": { "type": "integer", "format": "int32" },
            "large": { "type": "integer", "format": "int64" },
        })))).await;
        specs(
            site,
            &[
                json!({ "n": 0 }),
                json!({ "n": 11 }),
                json!({ "n": 1.5 }),
                json!({ "n": "1" }),
                json!({ "n": 10.0 }),
                json!({ "open": 0 }),
                json!({ "open": 1 }),
                json!({ "open": 0.5 }),
                json!({ "step": 7 }),
                json!({ "step": 10 }),
                json!({ "small": 2_147_483_648_u64 }),
                json!({ "large": 9_007_199_254_740_993_u64 }),
                json!({ "n": true }),
            ],
        )
        .await;
    });
}

#[test]
fn texts_have_formats() {
    contract!(async |site: &Site| {
        let format = |format: &str| json!({ "type": "string", "format": format });
        site.define(version(schema(json!({
            "time": format("date-time"), "day": format("date"), "span": format("duration"), "v4": format("ipv4"), "v6": format("ipv6"),
            "block": format("cidr"), "uuid": format("uuid"), "mail": format("email"), "bytes": format("byte"), "uri": format("uri"),
            "host": format("hostname"), "mac": format("mac"), "secret": format("password"), "odd": format("odd"),
        })))).await;
        specs(
            site,
            &[
                json!({ "time": "2026-01-02T03:04:05Z" }),
                json!({ "time": "2026-01-02 03:04:05" }),
                json!({ "time": "yesterday" }),
                json!({ "day": "2026-01-02" }),
                json!({ "day": "2026-13-02" }),
                json!({ "span": "1h30m" }),
                json!({ "span": "1 hour" }),
                json!({ "span": "soon" }),
                json!({ "v4": "10.0.0.1" }),
                json!({ "v4": "::1" }),
                json!({ "v6": "::1" }),
                json!({ "v6": "10.0.0.1" }),
                json!({ "block": "10.0.0.0/8" }),
                json!({ "block": "10.0.0.0" }),
                json!({ "uuid": "123e4567-e89b-12d3-a456-426614174000" }),
                json!({ "uuid": "123e" }),
                json!({ "mail": "a@example.com" }),
                json!({ "mail": "a" }),
                json!({ "bytes": "YQ==" }),
                json!({ "bytes": "?" }),
                json!({ "uri": "https://example.com/a" }),
                json!({ "uri": "::" }),
                json!({ "host": "a.example.com" }),
                json!({ "host": "a b" }),
                json!({ "mac": "00:00:5e:00:53:01" }),
                json!({ "mac": "00" }),
                json!({ "secret": "x" }),
                json!({ "odd": "x" }),
            ],
        )
        .await;
    });
}

#[test]
fn sizes_are_limited() {
    contract!(async |site: &Site| {
        site.define(version(schema(json!({
            "text": { "type": "string", "minLength": 2, "maxLength": 3, "pattern": "^[a-zä]*$" },
            "list": { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": 2 },
            "map": { "type": "object", "additionalProperties": { "type": "integer" }, "minProperties": 1, "maxProperties": 2 },
            "choice": { "type": "string", "enum": ["a", "b"] },
        })))).await;
        specs(
            site,
            &[
                json!({ "text": "a" }),
                json!({ "text": "abcd" }),
                json!({ "text": "äää" }),
                json!({ "text": "A" }),
                json!({ "text": "ABCD" }),
                json!({ "list": [] }),
                json!({ "list": ["a", "b", "c"] }),
                json!({ "map": {} }),
                json!({ "map": { "a": 1, "b": 2, "c": 3 } }),
                json!({ "map": { "a": "x" } }),
                json!({ "choice": "c" }),
                json!({ "choice": "" }),
                json!({ "choice": null }),
            ],
        )
        .await;
    });
}

#[test]
fn nulls_of_nullable_fields_are_kept() {
    contract!(async |site: &Site| {
        site.define(version(schema(json!({
            "nullable": { "type": "string", "nullable": true },
            "default": { "type": "string", "default": "d" },
            "both": { "type": "string", "nullable": true, "default": "d" },
            "plain": { "type": "string" },
            "list": { "type": "array", "items": { "type": "string" } },
            "nulls": { "type": "array", "items": { "type": "string", "nullable": true } },
        }))))
        .await;
        for spec in [
            json!({ "nullable": null }),
            json!({ "default": null }),
            json!({ "both": null }),
            json!({}),
            json!({ "nulls": [null, "a"] }),
        ] {
            let answer = site
                .quietly("POST", &format!("{WIDGETS}?dryRun=All"), &[], widget("a", spec.clone()))
                .await;
            // The absence of a field differs from a null.
            site.note(&format!("{spec}: {} {}", answer.code, answer.body["spec"]));
        }
        specs(
            site,
            &[
                json!({ "plain": null }),
                json!({ "list": null }),
                json!({ "list": [null] }),
            ],
        )
        .await;
    });
}

#[test]
fn alternatives_and_negations() {
    contract!(async |site: &Site| {
        let one = |name: &str| json!({ "required": [name] });
        let mut schema = schema(json!({
            "a": { "type": "string" }, "b": { "type": "string" },
            "n": { "type": "integer", "anyOf": [{ "minimum": 10 }, { "maximum": 2 }], "not": { "enum": [1] } },
        }));
        schema["properties"]["spec"]["oneOf"] = json!([one("a"), one("b")]);
        site.define(version(schema)).await;
        specs(
            site,
            &[
                json!({ "a": "x" }),
                json!({ "b": "x" }),
                json!({ "a": "x", "b": "x" }),
                json!({}),
                json!({ "a": "x", "n": 5 }),
                json!({ "a": "x", "n": 1 }),
                json!({ "a": "x", "n": 11 }),
            ],
        )
        .await;
    });
}
