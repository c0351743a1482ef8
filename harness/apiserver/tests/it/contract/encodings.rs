//! Protobuf responses, field by field.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::contract;
use super::site::{Site, WIDGETS};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const BOTH: &str = "application/vnd.kubernetes.protobuf,application/json";
const MAPS: &str = "/api/v1/namespaces/{ns}/configmaps";

/// The fields of a message by number. Nested messages are recognized by their form. Left out: managed fields, and the
/// seconds of times.
fn dump(bytes: &[u8], path: &str, out: &mut String) {
    for (number, value) in fields(bytes).unwrap() {
        let path = format!("{path}.{number}");
        match value {
            // The metadata of an object is field 1 of it.
            _ if path.ends_with(".2.1.17") => {}
            Wire::Number(number) if path.ends_with(".2.1.8.1") => {
                let _ = number;
                writeln!(out, "{path} TIME").unwrap();
            }
            Wire::Number(number) => writeln!(out, "{path} {number}").unwrap(),
            Wire::Bytes(bytes) => match (std::str::from_utf8(bytes), fields(bytes)) {
                (Ok(text), _) if is_text(text) => writeln!(out, "{path} {text:?}").unwrap(),
                (_, Some(_)) => {
                    writeln!(out, "{path} message").unwrap();
                    dump(bytes, &path, out);
                }
                _ => writeln!(out, "{path} {} bytes", bytes.len()).unwrap(),
            },
        }
    }
}

fn is_text(text: &str) -> bool {
    text.is_empty() || text.chars().all(|letter| !letter.is_control() || letter == '\n') && !text.starts_with('\n')
}

enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields, if the bytes are a message.
fn fields(mut bytes: &[u8]) -> Option<Vec<(u64, Wire<'_>)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let value = match key & 7 {
            0 => Wire::Number(varint(&mut bytes)?),
            1 => {
                let (number, rest) = bytes.split_at_checked(8)?;
                bytes = rest;
                Wire::Number(u64::from_le_bytes(number.try_into().ok()?))
            }
            2 => {
                let length = usize::try_from(varint(&mut bytes)?).ok()?;
                let (value, rest) = bytes.split_at_checked(length)?;
                bytes = rest;
                Wire::Bytes(value)
            }
            _ => return None,
        };
        if key >> 3 == 0 {
            return None;
        }
        found.push((key >> 3, value));
    }
    Some(found)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for place in 0..10 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Records the code, the media type and the fields of a response.
async fn record(site: &Site, method: &str, path: &str, accept: &str, body: Value) {
    let (code, media_type, bytes) = site.bytes(method, path, &[("accept", accept)], body).await;
    site.note(&format!("{method} {path} -> {code} {media_type}"));
    let Some(message) = bytes.strip_prefix(b"k8s\0") else {
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        site.note(&format!("  {} {}", value["kind"], value["message"]));
        return;
    };
    let mut text = String::new();
    dump(message, "", &mut text);
    for line in text.lines() {
        // Revisions differ between runs.
        let line = match line.split_once(' ') {
            Some((path, _)) if path.ends_with(".2.1.6") || path == ".2.1.2" && method == "LIST" => {
                format!("{path} REVISION")
            }
            _ => line.to_owned(),
        };
        site.note(&line);
    }
}

#[test]
fn a_config_map_in_protobuf() {
    contract!(async |site: &Site| {
        let map = json!({ "metadata": { "name": "a", "labels": { "l": "m" } }, "data": { "k": "v" }, "binaryData": { "b": "AAE=" } });
        record(site, "POST", MAPS, PROTOBUF, map).await;
        let path = format!("{MAPS}/a");
        record(site, "GET", &path, BOTH, Value::Null).await;
        record(site, "GET", &format!("{MAPS}/missing"), BOTH, Value::Null).await;
        record(site, "DELETE", &path, PROTOBUF, Value::Null).await;
    });
}

#[test]
fn workloads_in_protobuf() {
    contract!(async |site: &Site| {
        let container = json!({
            "name": "c", "image": "i:1", "ports": [{ "containerPort": 80 }],
            "resources": { "requests": { "cpu": "100m" } },
            "livenessProbe": { "httpGet": { "port": "http" } },
            "env": [{ "name": "A", "value": "B" }],
        });
        let labels = json!({ "app": "web" });
        let spec = json!({
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": {
                "containers": [container], "volumes": [{ "name": "v", "configMap": { "name": "m" } }],
            } },
        });
        let deployment = json!({ "metadata": { "name": "a" }, "spec": spec });
        record(
            site,
            "POST",
            "/apis/apps/v1/namespaces/{ns}/deployments",
            PROTOBUF,
            deployment,
        )
        .await;
        let service = json!({ "metadata": { "name": "a" }, "spec": { "clusterIP": "None", "selector": labels, "ports": [{ "port": 80 }] } });
        record(site, "POST", "/api/v1/namespaces/{ns}/services", PROTOBUF, service).await;
        record(
            site,
            "GET",
            "/apis/apps/v1/namespaces/{ns}/deployments/a/scale",
            PROTOBUF,
            Value::Null,
        )
        .await;
    });
}

#[test]
fn other_kinds_in_protobuf() {
    contract!(async |site: &Site| {
        let role = json!({ "metadata": { "name": "a" }, "rules": [{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }] });
        record(
            site,
            "POST",
            "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles",
            PROTOBUF,
            role,
        )
        .await;
        let lease =
            json!({ "metadata": { "name": "a" }, "spec": { "holderIdentity": "h", "leaseDurationSeconds": 10 } });
        record(
            site,
            "POST",
            "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases",
            PROTOBUF,
            lease,
        )
        .await;
        let revision = json!({ "metadata": { "name": "a" }, "data": { "a": 1 }, "revision": 1 });
        record(
            site,
            "POST",
            "/apis/apps/v1/namespaces/{ns}/controllerrevisions",
            PROTOBUF,
            revision,
        )
        .await;
        let quota = json!({ "metadata": { "name": "a" }, "spec": { "hard": { "pods": "1" } } });
        record(
            site,
            "POST",
            "/api/v1/namespaces/{ns}/resourcequotas?dryRun=All",
            PROTOBUF,
            quota,
        )
        .await;
    });
}

#[test]
fn metadata_in_protobuf() {
    contract!(async |site: &Site| {
        site.quietly(
            "POST",
            MAPS,
            &[],
            json!({ "metadata": { "name": "a" }, "data": { "k": "v" } }),
        )
        .await;
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        record(site, "GET", &format!("{MAPS}/a"), metadata, Value::Null).await;
        let list = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let path = format!("{MAPS}?fieldSelector=metadata.name%3Da");
        let (code, media_type, bytes) = site.bytes("GET", &path, &[("accept", list)], Value::Null).await;
        site.note(&format!("{code} {media_type} {}", bytes.starts_with(b"k8s\0")));
        let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json;as=Table;g=meta.k8s.io;v=v1";
        let (code, media_type, _) = site.bytes("GET", &path, &[("accept", table)], Value::Null).await;
        site.note(&format!("{code} {media_type}"));
    });
}

#[test]
fn custom_resources_are_not_in_protobuf() {
    contract!(async |site: &Site| {
        site.define(json!({
            "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": { "type": "object" } },
        }))
        .await;
        let widget = json!({ "apiVersion": "{group}/v1", "kind": "Widget", "metadata": { "name": "a" } });
        site.quietly("POST", WIDGETS, &[], widget).await;
        let path = format!("{WIDGETS}/a");
        let (code, media_type, _) = site.bytes("GET", &path, &[("accept", BOTH)], Value::Null).await;
        site.note(&format!("{code} {media_type}"));
        let (code, media_type, _) = site.bytes("GET", &path, &[("accept", PROTOBUF)], Value::Null).await;
        site.note(&format!("{code} {media_type}"));
        let metadata = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
        record(site, "GET", &path, metadata, Value::Null).await;
    });
}

#[test]
fn a_watch_in_protobuf() {
    contract!(async |site: &Site| {
        site.config_map("a", "1").await;
        let path = format!("{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name%3Da");
        let accept = "application/vnd.kubernetes.protobuf;stream=watch";
        let (code, media_type, bytes) = site.bytes("GET", &path, &[("accept", accept)], Value::Null).await;
        site.note(&format!("{code} {media_type}"));
        let (length, rest) = bytes.split_at(4);
        let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
        let event = fields(&rest[..length]).unwrap();
        for (number, value) in event {
            match value {
                Wire::Bytes(bytes) if number == 1 => site.note(&format!("1 {:?}", String::from_utf8_lossy(bytes))),
                Wire::Bytes(bytes) => {
                    let inner = fields(bytes).unwrap();
                    let [(1, Wire::Bytes(object))] = inner.as_slice() else {
                        panic!("no object");
                    };
                    site.note(&format!("{number}.1 {:?}", String::from_utf8_lossy(&object[..4])));
                    let mut text = String::new();
                    dump(&object[4..], "", &mut text);
                    for line in text.lines().filter(|line| !line.starts_with(".2.1.6 ")) {
                        site.note(line);
                    }
                }
                Wire::Number(_) => panic!("a number"),
            }
        }
    });
}

#[test]
fn large_responses_are_compressed_for_clients_that_accept_gzip() {
    contract!(async |site: &super::Site| {
        let maps = "/api/v1/namespaces/{ns}/configmaps";
        for name in ["a", "b", "c"] {
            let map = json!({ "metadata": { "name": name }, "data": { "key": "x".repeat(60_000) } });
            assert_eq!(site.quietly("POST", maps, &[], map).await.code, 201);
        }
        let one = format!("{maps}/a");
        for (path, accepted) in [
            (maps, "gzip"),
            (maps, "br, gzip"),
            (maps, "gzip;q=1.0"),
            (maps, "*"),
            (one.as_str(), "gzip"),
        ] {
            let found = site
                .quietly("GET", path, &[("accept-encoding", accepted)], Value::Null)
                .await;
            let header = |name: &str| {
                let values = found.headers.get_all(name).iter();
                let values: Vec<&str> = values.map(|value| value.to_str().unwrap()).collect();
                values.join(" and ")
            };
            let (encoding, vary) = (header("content-encoding"), header("vary"));
            site.note(&format!("{path}, {accepted}: encoding {encoding:?}, vary {vary:?}"));
        }
    });
}
