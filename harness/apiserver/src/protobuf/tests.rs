//! A small encoder writes bodies with the field numbers of upstream's `generated.proto`.

use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;

/// A message under construction.
#[derive(Clone, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn bytes(mut self, field: u64, bytes: impl AsRef<[u8]>) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.as_ref().len() as u64);
        self.0.extend_from_slice(bytes.as_ref());
        self
    }

    fn number(mut self, field: u64, number: i64) -> Self {
        self.varint(field << 3);
        self.varint(number as u64);
        self
    }

    fn message(self, field: u64, inner: Self) -> Self {
        self.bytes(field, inner.0)
    }

    fn entry(self, field: u64, key: &str, value: Self) -> Self {
        self.message(field, Self::default().bytes(1, key).bytes(2, value.0))
    }
}

fn new() -> Message {
    Message::default()
}

fn text(text: &str) -> Message {
    Message(text.as_bytes().to_vec())
}

fn quantity(text: &str) -> Message {
    new().bytes(1, text)
}

fn body(api_version: &str, kind: &str, object: Message) -> Vec<u8> {
    let type_meta = new().bytes(1, api_version).bytes(2, kind);
    let unknown = new().message(1, type_meta).message(2, object).bytes(3, "").bytes(4, "");
    [MAGIC, &unknown.0].concat()
}

/// `metadata` as Go writes it, including empty fields.
fn metadata(name: &str) -> Message {
    new()
        .bytes(1, name)
        .bytes(2, "")
        .bytes(3, "default")
        .bytes(4, "")
        .bytes(5, "")
        .bytes(6, "")
        .number(7, 0)
        .message(8, new())
}

fn pod() -> Vec<u8> {
    let container = new()
        .bytes(1, "main")
        .bytes(2, "img:1")
        .bytes(3, "run")
        .message(
            6,
            new()
                .bytes(1, "")
                .number(2, 0)
                .number(3, 8080)
                .bytes(4, "TCP")
                .bytes(5, ""),
        )
        .message(7, new().bytes(1, "EMPTY").bytes(2, ""))
        .message(8, new().entry(1, "cpu", quantity("100m")))
        .message(
            10,
            new()
                .message(
                    1,
                    new().message(
                        2,
                        new()
                            .bytes(1, "/")
                            .message(2, new().number(1, 0).number(2, 80).bytes(3, "")),
                    ),
                )
                .number(2, 5),
        )
        .number(16, 0);
    let volume = new().bytes(1, "v").message(2, new().message(2, new().bytes(1, "")));
    let secret = new()
        .bytes(1, "s")
        .message(2, new().message(6, new().bytes(1, "tls").number(3, 0)));
    let toleration = new()
        .bytes(1, "k")
        .bytes(2, "Exists")
        .bytes(3, "")
        .bytes(4, "")
        .number(5, 300);
    let spec = new()
        .message(1, volume)
        .message(1, secret)
        .message(2, container)
        .number(4, 0)
        .bytes(10, "")
        .number(11, 0)
        .message(22, toleration)
        .number(25, 0);
    body(
        "v1",
        "Pod",
        new()
            .message(1, metadata("p"))
            .message(2, spec)
            .message(3, new().bytes(1, "")),
    )
}

#[test]
fn a_pod() {
    assert_eq!(
        decode(&pod()).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "tls", "defaultMode": 0}}],
                "containers": [{
                    "name": "main", "image": "img:1", "command": ["run"],
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "env": [{"name": "EMPTY"}],
                    "resources": {"limits": {"cpu": "100m"}},
                    "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "initialDelaySeconds": 5},
                }],
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}],
                "priority": 0,
            },
            "status": {},
        })
    );
}

#[test]
fn a_config_map_and_a_secret() {
    let object = new()
        .message(1, metadata("c"))
        .entry(2, "a", text("b"))
        .entry(2, "empty", text(""))
        .entry(3, "bin", Message(vec![0, 255]));
    assert_eq!(
        decode(&body("v1", "ConfigMap", object)).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"},
            "data": {"a": "b", "empty": ""}, "binaryData": {"bin": "AP8="},
        })
    );
    let object = new()
        .message(1, metadata("s"))
        .entry(2, "key", text("value"))
        .bytes(3, "Opaque")
        .number(5, 0);
    assert_eq!(
        decode(&body("v1", "Secret", object)).unwrap(),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"},
            "data": {"key": "dmFsdWU="}, "type": "Opaque", "immutable": false,
        })
    );
}

#[test]
fn a_lease_has_microseconds() {
    let time = new().number(1, 1_767_225_600).number(2, 123_456_000);
    let spec = new()
        .bytes(1, "me")
        .number(2, 15)
        .message(3, time.clone())
        .message(4, time)
        .number(5, 0);
    assert_eq!(
        decode(&body(
            "coordination.k8s.io/v1",
            "Lease",
            new().message(1, new().bytes(1, "l")).message(2, spec)
        ))
        .unwrap(),
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
            "spec": {
                "holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
                "acquireTime": "2026-01-01T00:00:00.123456Z", "renewTime": "2026-01-01T00:00:00.123456Z",
            },
        })
    );
}

#[test]
fn an_event_has_times_in_both_precisions() {
    let seconds = new().number(1, 1_767_225_600).number(2, 0);
    let object = new()
        .message(1, metadata("e"))
        .message(2, new().bytes(1, "Node").bytes(2, "").bytes(3, "n"))
        .bytes(3, "Reason")
        .message(6, seconds.clone())
        .message(7, seconds)
        .number(8, 2)
        .message(10, new());
    let event = decode(&body("v1", "Event", object)).unwrap();
    assert_eq!(event["firstTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(event["involvedObject"], json!({"kind": "Node", "name": "n"}));
    assert_eq!(event["count"], 2);
    assert_eq!(event.get("eventTime"), None);
}

#[test]
fn a_node_has_names_with_capitals() {
    let spec = new()
        .bytes(1, "10.0.0.0/24")
        .bytes(3, "fake:///z/vm")
        .number(4, 1)
        .bytes(7, "10.0.0.0/24");
    let status = new()
        .entry(1, "memory", quantity("1Gi"))
        .message(5, new().bytes(1, "InternalIP").bytes(2, "10.0.0.1"));
    assert_eq!(
        decode(&body(
            "v1",
            "Node",
            new()
                .message(1, new().bytes(1, "n"))
                .message(2, spec)
                .message(3, status)
        ))
        .unwrap(),
        json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"},
            "spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"], "providerID": "fake:///z/vm", "unschedulable": true},
            "status": {"capacity": {"memory": "1Gi"}, "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
        })
    );
}

#[test]
fn a_disruption_budget_and_an_eviction() {
    let percent = new().number(1, 1).number(2, 0).bytes(3, "50%");
    let spec = new().message(1, percent).message(2, new().entry(1, "app", text("a")));
    assert_eq!(
        decode(&body("policy/v1", "PodDisruptionBudget", new().message(2, spec))).unwrap()["spec"],
        json!({"minAvailable": "50%", "selector": {"matchLabels": {"app": "a"}}})
    );
    let object = new()
        .message(1, metadata("p"))
        .message(2, new().number(1, 0).bytes(4, "Background"));
    for version in ["policy/v1", "policy/v1beta1"] {
        assert_eq!(
            decode(&body(version, "Eviction", object.clone())).unwrap(),
            json!({
                "apiVersion": version, "kind": "Eviction", "metadata": {"name": "p", "namespace": "default"},
                "deleteOptions": {"gracePeriodSeconds": 0, "propagationPolicy": "Background"},
            })
        );
    }
}

#[test]
fn delete_options_exist_in_every_group() {
    for version in ["v1", "apps/v1", "meta.k8s.io/v1"] {
        let options = decode(&body(version, "DeleteOptions", new().message(2, new().bytes(1, "u")))).unwrap();
        assert_eq!(
            options,
            json!({"apiVersion": version, "kind": "DeleteOptions", "preconditions": {"uid": "u"}})
        );
    }
}

#[test]
fn a_schema_of_a_custom_resource() {
    let string = new().bytes(5, "string");
    let list = new().bytes(5, "array").message(24, new().message(1, string.clone()));
    let preserved = new().bytes(5, "object").number(38, 1);
    let map = new()
        .bytes(5, "object")
        .message(30, new().number(1, 0).message(2, string))
        .message(8, new().bytes(1, "{\"a\":1}"));
    let schema = new()
        .bytes(5, "object")
        .entry(29, "list", list)
        .entry(29, "map", map)
        .entry(29, "any", preserved);
    let version = new()
        .bytes(1, "v1")
        .number(2, 1)
        .number(3, 1)
        .message(4, new().message(1, schema));
    let object = new().message(2, new().bytes(1, "example.com").message(7, version));
    let crd = decode(&body("apiextensions.k8s.io/v1", "CustomResourceDefinition", object)).unwrap();
    assert_eq!(
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
        json!({
            "type": "object",
            "properties": {
                "list": {"type": "array", "items": {"type": "string"}},
                "map": {"type": "object", "additionalProperties": {"type": "string"}, "default": {"a": 1}},
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            },
        })
    );
}

#[test]
fn managed_fields_contain_json() {
    let entry = new()
        .bytes(1, "m")
        .bytes(2, "Apply")
        .bytes(6, "FieldsV1")
        .message(7, new().bytes(1, "{\"f:data\":{}}"));
    let object = new().message(1, new().message(17, entry));
    assert_eq!(
        decode(&body("v1", "ConfigMap", object)).unwrap()["metadata"]["managedFields"],
        json!([{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}])
    );
}

#[rstest]
#[case::empty(b"".to_vec(), "does not appear to be a protobuf message")]
#[case::json(b"{}".to_vec(), "does not appear to be a protobuf message")]
#[case::custom(body("example.com/v1", "Widget", new()), "no kind \"Widget\" is registered")]
#[case::truncated(pod()[..40].to_vec(), "unexpected EOF")]
#[case::text_as_number(body("v1", "Pod", new().number(1, 5)), "wrong wire type for field metadata")]
#[case::not_utf8(body("v1", "Pod", new().message(1, new().bytes(1, [255]))), "invalid UTF-8")]
#[case::encoded([MAGIC, &new().bytes(3, "gzip").0].concat(), "content encoding")]
fn malformed_bodies_are_rejected(#[case] body: Vec<u8>, #[case] message: &str) {
    let error = decode(&body).unwrap_err();
    assert_eq!(error.code, 400);
    assert!(error.message.contains(message), "{}", error.message);
}

#[test]
fn excessive_nesting_is_rejected() {
    let mut schema = new();
    for _ in 0..500 {
        schema = new().message(25, schema);
    }
    let version = new().message(4, new().message(1, schema));
    let object = new().message(2, new().message(7, version));
    let error = decode(&body("apiextensions.k8s.io/v1", "CustomResourceDefinition", object)).unwrap_err();
    assert!(error.message.contains("nested too deeply"), "{}", error.message);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = decode(&bytes);
        let _ = decode(&body("v1", "Pod", Message(bytes.clone())));
        let _ = decode(&body("apiextensions.k8s.io/v1", "CustomResourceDefinition", Message(bytes)));
    }

    #[test]
    fn mutated_bodies_never_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>()) {
        let mut bytes = pod();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let _ = decode(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        let _ = decode(&bytes);
    }
}
