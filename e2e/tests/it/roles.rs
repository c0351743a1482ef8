//! mcm and fakecloud have exactly the roles that they need: `deploy/rbac` grants what they use over all
//! scenarios, and no more.

use std::collections::{BTreeMap, BTreeSet};

use scenario::result::{Access, RunResult};
use serde_json::Value;
use stage::{NAMESPACE, deploy};

use crate::drydock::{drydock_program, printed, simulate};

/// Permissions used only when two writers race, which no virtual-time scenario reproduces reliably.
const ONLY_IN_RACES: [(&str, &str, &str); 4] = [
    // mcm reads a machine again after a conflict. (The scenario `edits` covers it on a wall clock.)
    (deploy::MCM_ACCOUNT, "get", "machines"),
    // The same for a deployment.
    (deploy::MCM_ACCOUNT, "get", "machinedeployments"),
    // The node for a claim's volume was deleted before the volume was created.
    (deploy::FAKECLOUD_ACCOUNT, "patch", "persistentvolumeclaims"),
    // Another storage driver registered itself with a new node first.
    (deploy::FAKECLOUD_ACCOUNT, "patch", "csinodes"),
];

/// Verbs that permit nothing and make an admission policy apply.
const MARKS: [&str; 2] = ["bootstrap-tokens-only", "preserve-only"];

/// Additional permissions of the scenario `class_migration`, which operators grant as in
/// docs/using/operating.md.
fn is_of_migration(access: &Access) -> bool {
    let resource = access.resource.as_str();
    resource == "awsmachineclasses"
        || resource == "machineclasses" && ["get", "create", "update"].contains(&access.verb.as_str())
}

/// The permissions in `deploy/rbac`, each with the object that grants it.
fn granted() -> BTreeMap<Access, String> {
    let objects = deploy::rbac(NAMESPACE).unwrap();
    let mut granted = BTreeMap::new();
    for binding in objects.iter().filter(|object| object.get("roleRef").is_some()) {
        let (role, namespace) = (&binding["roleRef"], &binding["metadata"]["namespace"]);
        let role = objects.iter().find(|object| {
            let metadata = &object["metadata"];
            object["kind"] == role["kind"] && metadata["name"] == role["name"] && metadata["namespace"] == *namespace
        });
        let role = role.unwrap_or_else(|| panic!("no role for {binding}"));
        let account = binding["subjects"][0]["name"].as_str().unwrap();
        for rule in role["rules"].as_array().unwrap() {
            for access in accesses(rule, account, namespace.as_str()) {
                let origin = format!(
                    "{} {}",
                    role["kind"].as_str().unwrap(),
                    role["metadata"]["name"].as_str().unwrap()
                );
                granted.insert(access, origin);
            }
        }
    }
    granted
}

fn accesses(rule: &Value, account: &str, namespace: Option<&str>) -> Vec<Access> {
    let values = |field: &str| -> Vec<String> {
        let list = rule[field]
            .as_array()
            .unwrap_or_else(|| panic!("{rule} has no {field}"));
        list.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let mut accesses = Vec::new();
    for group in values("apiGroups") {
        for resource in values("resources") {
            for verb in values("verbs")
                .into_iter()
                .filter(|verb| !MARKS.contains(&verb.as_str()))
            {
                assert!(
                    [&group, &resource, &verb].iter().all(|word| *word != "*"),
                    "{rule} allows too much"
                );
                accesses.push(Access {
                    account: account.to_owned(),
                    verb,
                    group: group.clone(),
                    resource: resource.clone(),
                    namespace: namespace.map(str::to_owned),
                });
            }
        }
    }
    accesses
}

fn is_of_races(access: &Access) -> bool {
    ONLY_IN_RACES.contains(&(&access.account, &access.verb, &access.resource))
}

/// Scenarios that together use all permissions. A scenario that uses more fails by itself: the server refuses
/// it.
const COVERING: [&str; 11] = [
    "cascade",
    "class_migration",
    "crash",
    "delete_unknown",
    "drain_retries",
    "drain_timeout",
    "hot_update",
    "namespace_goes",
    "preserve_dead_vm",
    "preserve_relapses",
    "vm_deleted",
];

/// A scenario of kubelets alone, without which no run uses the permissions to read and create pods.
const MIRROR_POD: &str = "
name: mirror_pod
about: A mirror pod is deleted, and the kubelet of its node creates it again.
world: {cloud: {bootDelay: bootDelay}}
steps:
- apply: {machine: m-1}
- expect:
    that: {phase: {machine: m-1, is: Running}}
    holds: {eventually: bootDelay + slack}
- apply:
    object:
      apiVersion: v1
      kind: Pod
      metadata: {name: static, annotations: {kubernetes.io/config.mirror: hash}}
      spec:
        nodeName: m-1
        terminationGracePeriodSeconds: 1
        containers: [{name: static, image: static}]
- expect:
    that: {field: {kind: Pod, name: static, field: /status/phase, is: Running}}
    holds: {eventually: slack}
- delete: {kind: Pod, name: static}
- expect:
    that: {not: {exists: {kind: Pod, name: static}}}
    holds: {eventually: slack}
- expect:
    that: {field: {kind: Pod, name: static, field: /status/phase, is: Running}}
    holds: {eventually: slack}
";

/// The permissions that these scenarios use.
fn used() -> BTreeSet<Access> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mirror_pod.yaml"), MIRROR_POD).unwrap();
    let mut used = BTreeSet::new();
    for arguments in [&COVERING[..], &["--file", "mirror_pod.yaml"]] {
        let (output, runs) = simulate(folder.path(), arguments);
        assert!(output.status.success(), "{}", printed(&output));
        for run in runs {
            let run: RunResult = serde_json::from_value(run).unwrap();
            used.extend(run.requests);
        }
    }
    used
}

#[test]
fn the_roles_grant_exactly_the_permissions_that_mcm_and_fakecloud_use() {
    let (granted, used) = (granted(), used());
    let missing: Vec<String> = used
        .iter()
        .filter(|access| !granted.contains_key(access) && !is_of_migration(access))
        .map(|access| format!("no rule grants a used permission: {access}"))
        .collect();
    let idle: Vec<String> = granted
        .iter()
        .filter(|(access, _)| !used.contains(access) && !is_of_races(access))
        .map(|(access, origin)| format!("no scenario uses a permission of {origin}: {access}"))
        .collect();
    assert!(
        missing.is_empty() && idle.is_empty(),
        "{}",
        [missing, idle].concat().join("\n")
    );
}

#[test]
fn mcm_and_fakecloud_are_denied_nothing_over_https() {
    let folder = tempfile::tempdir().unwrap();
    let output = drydock_program()
        .args([
            "run",
            "lifecycle",
            "drain",
            "failover",
            "--stage",
            "embedded",
            "--json",
            "result.json",
        ])
        .current_dir(folder.path())
        .output()
        .unwrap();
    // A refusal fails its run.
    assert!(output.status.success(), "{}", printed(&output));
    let document: Value = serde_json::from_slice(&std::fs::read(folder.path().join("result.json")).unwrap()).unwrap();
    let granted = granted();
    for run in document["runs"].as_array().unwrap() {
        let run: RunResult = serde_json::from_value(run.clone()).unwrap();
        let accounts: BTreeSet<&str> = run.requests.iter().map(|access| access.account.as_str()).collect();
        assert_eq!(
            accounts,
            BTreeSet::from([deploy::FAKECLOUD_ACCOUNT, deploy::MCM_ACCOUNT]),
            "{}",
            run.scenario
        );
        for access in &run.requests {
            assert!(granted.contains_key(access), "{}: {access}", run.scenario);
        }
    }
}
