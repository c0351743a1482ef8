//! The dependency rule: crates depend only on crates of lower layers.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Finding;

/// Which crates a crate of the workspace may depend on, directly. A new crate needs a row.
const ALLOWED: [(&str, &[&str]); 37] = [
    ("clock", &[]),
    ("durable", &[]),
    ("logs", &[]),
    ("monitoring", &[]),
    ("proxy", &[]),
    ("quantity", &[]),
    ("runtime", &["clock", "proxy"]),
    ("serving", &[]),
    ("terminal", &[]),
    ("mcm-api", &[]),
    ("defects", &[]),
    ("mcm-core", &["defects", "mcm-api", "quantity"]),
    ("mcm-driver", &["mcm-api", "proxy"]),
    ("request-files", &["mcm-api"]),
    (
        "mcm",
        &[
            "apiserver",
            "clock",
            "defects",
            "logs",
            "mcm-api",
            "mcm-core",
            "mcm-driver",
            "monitoring",
            "request-files",
            "runtime",
            "serving",
        ],
    ),
    ("fakecloud-api", &["clock", "mcm-api"]),
    (
        "fakecloud",
        &[
            "clock",
            "durable",
            "fakecloud-api",
            "logs",
            "mcm-api",
            "mcm-driver",
            "quantity",
            "runtime",
            "serving",
            "terminal",
        ],
    ),
    ("consumption", &["quantity"]),
    (
        "apiserver",
        &["clock", "consumption", "durable", "logs", "quantity", "serving"],
    ),
    ("apiserver-tests", &["apiserver", "clock", "durable", "runtime"]),
    (
        "controllers",
        &["apiserver", "clock", "consumption", "logs", "quantity", "runtime"],
    ),
    ("sim", &["clock"]),
    ("scenario", &["apiserver", "clock", "fakecloud-api", "mcm-api"]),
    ("judge", &["clock", "mcm-api", "scenario"]),
    ("record", &["judge", "mcm-api", "scenario"]),
    // Only for tests of pages.
    ("browser", &[]),
    ("web", &["browser", "record"]),
    (
        "dashboard",
        &["browser", "clock", "judge", "record", "scenario", "serving", "web"],
    ),
    ("skeleton-driver", &["mcm-api", "mcm-driver"]),
    ("widget-controller", &[]),
    (
        "capi-comparison",
        &["clock", "fakecloud", "mcm-api", "mcm-driver", "runtime"],
    ),
    // fakecloud and the skeleton only in its tests, which run the suite against both.
    (
        "driver-suite",
        &[
            "clock",
            "fakecloud",
            "mcm-api",
            "mcm-driver",
            "request-files",
            "skeleton-driver",
        ],
    ),
    (
        "stage",
        &[
            "apiserver",
            "clock",
            "controllers",
            "defects",
            "durable",
            "fakecloud",
            "judge",
            "logs",
            "mcm",
            "mcm-api",
            "mcm-driver",
            "runtime",
            "scenario",
            "sim",
        ],
    ),
    (
        "harness",
        &[
            "apiserver",
            "clock",
            "controllers",
            "dashboard",
            "defects",
            "driver-suite",
            "durable",
            "fakecloud",
            "judge",
            "logs",
            "mcm",
            "mcm-api",
            "mcm-driver",
            "record",
            "runtime",
            "scenario",
            "sim",
            "stage",
            "terminal",
            "web",
        ],
    ),
    (
        "e2e",
        &[
            "apiserver",
            "browser",
            "clock",
            "controllers",
            "dashboard",
            "defects",
            "fakecloud",
            "harness",
            "judge",
            "mcm-api",
            "mcm-core",
            "mcm-driver",
            "monitoring",
            "scenario",
            "sim",
            "stage",
        ],
    ),
    (
        "fuzz",
        &[
            "apiserver",
            "clock",
            "fakecloud",
            "logs",
            "mcm-api",
            "mcm-driver",
            "scenario",
        ],
    ),
    ("tidy", &[]),
];

/// Libraries that a crate must not reach for, because of what it must not know.
const FORBIDDEN: [(&str, &[&str]); 11] = [
    ("mcm-api", &["kube", "tokio", "tonic"]),
    ("mcm-core", &["clock", "kube", "rand", "tokio", "tonic"]),
    ("fakecloud-api", &["kube", "tokio", "tonic"]),
    ("apiserver", &["kube", "runtime", "tonic"]),
    ("scenario", &["bollard", "kube", "tokio", "tonic"]),
    ("judge", &["bollard", "kube", "tokio", "tonic"]),
    ("record", &["bollard", "kube", "tokio", "tonic"]),
    ("web", &["browser", "judge", "kube", "scenario", "tokio", "tonic"]),
    ("dashboard", &["browser", "kube", "tonic"]),
    // Only their tests use the embedded server.
    ("controllers", &["apiserver"]),
    ("mcm", &["apiserver"]),
];

/// Checks the output of `cargo metadata --no-deps`.
pub fn check(metadata: &Value) -> Vec<Finding> {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.into_iter().collect();
    let forbidden: BTreeMap<&str, &[&str]> = FORBIDDEN.into_iter().collect();
    let mut findings = Vec::new();
    for package in array(metadata, "packages") {
        let name = text(package, "name");
        let Some(below) = allowed.get(name) else {
            findings.push(format!(
                "crate {name} has no entry in the dependency rule: add its allowed dependencies"
            ));
            continue;
        };
        if package["publish"] != serde_json::json!([]) {
            findings.push(format!(
                "crate {name} could be published: inherit `publish` from the workspace"
            ));
        }
        if array(package, "targets").any(|target| array(target, "kind").any(|kind| kind == "custom-build")) {
            findings.push(format!(
                "crate {name} has a build script: commit the generated files instead"
            ));
        }
        for dependency in array(package, "dependencies") {
            let on = text(dependency, "name");
            let shipped = dependency["kind"] != "dev";
            if allowed.contains_key(on) && !below.contains(&on) {
                findings.push(format!(
                    "crate {name} depends on {on}, which the dependency rule does not allow"
                ));
            }
            if shipped && forbidden.get(name).is_some_and(|list| list.contains(&on)) {
                findings.push(format!("crate {name} depends on {on}, which it must not know"));
            }
        }
    }
    findings
}

pub(crate) fn array<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value[key].as_array().into_iter().flatten()
}

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::upwards("apiserver", "mcm-api", "normal", "does not allow")]
    #[case::upwards_in_tests("mcm", "fakecloud", "dev", "does not allow")]
    #[case::a_client_in_the_core("mcm-core", "kube", "normal", "must not know")]
    #[case::a_crate_without_an_entry("stray", "serde", "normal", "no entry")]
    fn a_forbidden_dependency_is_found(
        #[case] from: &str,
        #[case] to: &str,
        #[case] kind: &str,
        #[case] expected: &str,
    ) {
        let kind = if kind == "normal" { Value::Null } else { json!(kind) };
        let metadata = json!({ "packages": [
            { "name": from, "publish": [], "targets": [], "dependencies": [{ "name": to, "kind": kind }] }
        ] });
        let findings = check(&metadata);
        assert!(
            findings.iter().any(|finding| finding.contains(expected)),
            "{findings:?}"
        );
    }
}
