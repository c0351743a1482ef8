//! Unusable class and Secret files: one line that names the flag and the fix, without a value of the Secret.

use std::fs;

use driver_suite::Inputs;
use rstest::rstest;

use crate::example;

const CLASS: &str = "apiVersion: machine.sapcloud.io/v1alpha1\nkind: MachineClass\nmetadata: {name: a}\nprovider: p\n\
                     providerSpec: {}\nsecretRef: {name: s}\n";
const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {token: secret-value}\n";

#[rstest]
#[case::another_kind(SECRET, SECRET, "contains a Secret of v1: give a MachineClass")]
#[case::no_provider(&CLASS.replace("provider: p", ""), SECRET, "provider: it is missing: name")]
#[case::no_provider_spec(&CLASS.replace("providerSpec: {}", ""), SECRET, "providerSpec: it is missing: describe")]
#[case::no_name(&CLASS.replace("name: a", ""), SECRET, "metadata.name: it is missing")]
#[case::no_yaml("kind: [\n", SECRET, "at line 1")]
#[case::an_invalid_field(&CLASS.replace("provider: p", "provider: [p]"), SECRET, "not a valid MachineClass: ")]
#[case::a_secret_of_another_kind(CLASS, CLASS, "give a Secret of v1")]
#[case::another_secret(CLASS, &SECRET.replace("name: s", "name: other"), "the class a names the Secret s in secretRef")]
#[case::no_base64(CLASS, &SECRET.replace("stringData", "data"), "data.token: it is not base64")]
#[case::an_invalid_secret(CLASS, "kind: Secret\nstringData: secret-value: {\n", "at line 2")]
fn an_unusable_file_is_reported_in_one_line(#[case] class: &str, #[case] secret: &str, #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (class_file, secret_file) = (folder.path().join("class.yaml"), folder.path().join("secret.yaml"));
    fs::write(&class_file, class).unwrap();
    fs::write(&secret_file, secret).unwrap();
    let error = Inputs::read(&class_file, &[secret_file]).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    assert!(
        ["--class=", "--secret"].iter().any(|flag| error.starts_with(flag)),
        "{error}"
    );
    assert!(!error.contains('\n') && !error.contains("secret-value"), "{error}");
}

#[test]
fn a_missing_file_is_named() {
    let error = Inputs::read(&example("nowhere.yaml"), &[example("secret.yaml")]).unwrap_err();
    assert!(
        error.to_string().contains("nowhere.yaml: the file cannot be read"),
        "{error}"
    );
}

#[test]
fn string_data_takes_precedence_over_data() {
    let folder = tempfile::tempdir().unwrap();
    let (class, secret) = (folder.path().join("class.yaml"), folder.path().join("secret.yaml"));
    fs::write(&class, CLASS).unwrap();
    fs::write(
        &secret,
        SECRET.replace(
            "stringData: {token: secret-value}",
            "data: {a: YQ==, b: Yg==}\nstringData: {b: c}",
        ),
    )
    .unwrap();
    let inputs = Inputs::read(&class, &[secret]).unwrap();
    assert_eq!(inputs.secret["a"].0, b"a");
    assert_eq!(inputs.secret["b"].0, b"c");
    assert_eq!(inputs.class.metadata.namespace.as_deref(), Some("default"));
}
