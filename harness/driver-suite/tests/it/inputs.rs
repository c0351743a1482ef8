//! Unusable class and Secret files: one line that names the flag and the fix, without a value of the Secret.

use std::fs;

use driver_suite::Inputs;
use rstest::rstest;

use crate::example;

const CLASS: &str = "kind: MachineClass\nmetadata: {name: a}\nprovider: p\nproviderSpec: {}\n";
const SECRET: &str = "kind: Secret\nstringData: {token: secret-value}\n";

#[rstest]
#[case::a_class_of_another_kind("kind: Machine\n", SECRET, "kind is \"Machine\", expected MachineClass")]
#[case::no_provider("kind: MachineClass\nproviderSpec: {}\n", SECRET, "provider is missing: enter")]
#[case::no_provider_spec("kind: MachineClass\nprovider: p\n", SECRET, "providerSpec is missing: enter")]
#[case::no_name(
    "kind: MachineClass\nprovider: p\nproviderSpec: {}\n",
    SECRET,
    "metadata.name is missing"
)]
#[case::no_yaml("kind: [\n", SECRET, "at line 1")]
#[case::an_invalid_field("kind: MachineClass\nmetadata: 1\n", SECRET, "not a MachineClass in YAML: ")]
#[case::a_secret_of_another_kind(CLASS, CLASS, "kind is \"MachineClass\", expected Secret")]
#[case::an_empty_secret(CLASS, "kind: Secret\n", "data is missing: enter")]
#[case::no_base64(CLASS, "kind: Secret\ndata: {token: secret-value}\n", "data must map keys to Base64")]
#[case::an_invalid_secret(CLASS, "kind: Secret\nstringData: secret-value: {\n", "at line 2")]
fn an_unusable_file_is_reported_in_one_line(#[case] class: &str, #[case] secret: &str, #[case] expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (class_file, secret_file) = (folder.path().join("class.yaml"), folder.path().join("secret.yaml"));
    fs::write(&class_file, class).unwrap();
    fs::write(&secret_file, secret).unwrap();
    let error = Inputs::read(&class_file, &secret_file).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
    assert!(
        error.starts_with("--class ") || error.starts_with("--secret "),
        "{error}"
    );
    assert!(!error.contains('\n') && !error.contains("secret-value"), "{error}");
}

#[test]
fn a_missing_file_is_named() {
    let error = Inputs::read(&example("nowhere.yaml"), &example("secret.yaml")).unwrap_err();
    assert!(
        error.to_string().contains("nowhere.yaml: cannot read the file"),
        "{error}"
    );
}

#[test]
fn string_data_takes_precedence_over_data() {
    let folder = tempfile::tempdir().unwrap();
    let (class, secret) = (folder.path().join("class.yaml"), folder.path().join("secret.yaml"));
    fs::write(&class, CLASS).unwrap();
    fs::write(&secret, "kind: Secret\ndata: {a: YQ==, b: Yg==}\nstringData: {b: c}\n").unwrap();
    let inputs = Inputs::read(&class, &secret).unwrap();
    assert_eq!(inputs.secret["a"].0, b"a");
    assert_eq!(inputs.secret["b"].0, b"c");
    assert_eq!(inputs.class.metadata.namespace.as_deref(), Some("default"));
}
