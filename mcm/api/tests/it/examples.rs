//! The examples for users: the definitions accept each one, and each can be applied alone or with the others.

use std::collections::BTreeMap;
use std::path::Path;

use mcm_api::keys;
use serde_json::Value;

use crate::definitions::schema_violations;

/// File name and objects of every example.
fn examples() -> BTreeMap<String, Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let objects = serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            (path.file_name().unwrap().to_string_lossy().into_owned(), objects)
        })
        .collect()
}

fn key(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&object["kind"]), text(&object["metadata"]["name"]))
}

#[test]
fn every_kind_has_an_example_that_the_definitions_accept() {
    let mut kinds: Vec<String> = Vec::new();
    for (file, objects) in examples() {
        for object in objects {
            let kind = key(&object).0;
            if kind != "Secret" {
                assert_eq!(schema_violations(&kind, object), Vec::<String>::new(), "{file}");
            }
            kinds.push(kind);
        }
    }
    kinds.sort();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "Machine",
            "MachineClass",
            "MachineDeployment",
            "MachineHealthCheck",
            "MachineSet",
            "Secret"
        ]
    );
}

#[test]
fn an_object_in_two_files_is_the_same_in_both() {
    let mut seen: BTreeMap<(String, String), Value> = BTreeMap::new();
    for (file, objects) in examples() {
        for object in objects {
            let first = seen.entry(key(&object)).or_insert_with(|| object.clone());
            assert_eq!(*first, object, "{:?} in {file} differs from another file", key(&object));
        }
    }
}

#[test]
fn the_machine_example_is_complete() {
    let all = examples();
    let objects = &all["machine.yaml"];
    let find = |kind: &str| objects.iter().find(|object| object["kind"] == kind).unwrap();
    let (machine, class, secret) = (find("Machine"), find("MachineClass"), find("Secret"));
    assert_eq!(machine["spec"]["class"]["name"], class["metadata"]["name"]);
    assert_eq!(class["secretRef"]["name"], secret["metadata"]["name"]);
    let user_data = secret["stringData"][keys::USER_DATA_KEY].as_str().unwrap();
    assert!(
        user_data.contains(keys::BOOTSTRAP_TOKEN_PLACEHOLDER) && user_data.contains(keys::MACHINE_NAME_PLACEHOLDER)
    );
    for key in ["cpu", "gpu", "memory"] {
        assert!(
            class["nodeTemplate"]["capacity"][key].is_string(),
            "the controller requires {key}"
        );
    }
}
