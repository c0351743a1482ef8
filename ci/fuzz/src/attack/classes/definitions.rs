//! Definitions of built-in resources and protected groups.

use clock::Stream;
use serde_json::{Value, json};

use super::{Check, DEFINITIONS, Hostile, pick};

const PROTECTED: [&str; 12] = [
    "apps",
    "batch",
    "policy",
    "autoscaling",
    "coordination.k8s.io",
    "rbac.authorization.k8s.io",
    "apiextensions.k8s.io",
    "storage.k8s.io",
    "new.k8s.io",
    "sub.new.k8s.io",
    "new.kubernetes.io",
    "k8s.io",
];
const PLURALS: [&str; 8] = [
    "deployments",
    "pods",
    "jobs",
    "leases",
    "roles",
    "customresourcedefinitions",
    "secrets",
    "things",
];

pub(super) fn requests(stream: &mut Stream, round: u64) -> Vec<Hostile> {
    let group = *pick(&PROTECTED, stream);
    let plural = match stream.below(3) {
        0 => format!("things{round}"),
        _ => (*pick(&PLURALS, stream)).to_owned(),
    };
    let kind = *pick(
        &["Pod", "Deployment", "Lease", "CustomResourceDefinition", "Thing"],
        stream,
    );
    let name = format!("{plural}.{group}");
    let approval = match stream.below(3) {
        0 => json!({ "api-approved.kubernetes.io": pick(&["", "no", "true", "unapproved", "https:"], stream) }),
        _ => Value::Null,
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": name, "annotations": approval },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "plural": plural, "kind": kind, "shortNames": ["po"], "categories": ["all"] },
            "versions": [{ "name": pick(&["v1", "v1beta1", "v2"], stream), "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }],
        },
    });
    // `unapproved` with a reason is upstream's way to use a protected group, for tests.
    let may_be_unapproved = approval["api-approved.kubernetes.io"]
        .as_str()
        .is_some_and(|value| value.starts_with("unapproved"));
    let is_protected = group.ends_with("k8s.io") || group.ends_with("kubernetes.io");
    let check = if is_protected && !may_be_unapproved {
        Check::Refused
    } else {
        Check::Served
    };
    vec![
        Hostile::post(DEFINITIONS, &definition).must(check),
        Hostile::delete(&format!("{DEFINITIONS}/{name}")),
        Hostile::get(&format!("/apis/{group}")),
    ]
}
