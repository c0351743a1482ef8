//! From flags and files to requests, and the errors on the way.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use rstest::rstest;

use super::*;
use crate::vm::error::VmError;
use crate::vm::input::{Action, job};

fn error_of(sources: &Sources) -> String {
    let error = VmError::from(job(Action::Create, sources).unwrap_err());
    assert_eq!(error.exit_code(), 2);
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    assert!(!text.contains(PLANTED), "{text}");
    text
}

#[test]
fn a_machine_name_and_the_files_make_a_request() {
    let request = job(Action::Create, &sources("m-1")).unwrap().request;
    let machine = &request.machine;
    assert_eq!(machine.metadata.name.as_deref(), Some("m-1"));
    assert_eq!(
        machine.metadata.namespace.as_deref(),
        Some("garden"),
        "that of the class"
    );
    assert_eq!(
        (machine.spec.class.name.as_str(), machine.spec.provider_id.as_str()),
        ("small", "")
    );
    assert_eq!(request.class.provider_spec, serde_json::json!({ "zone": "z1" }));
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    let expected = [("userData", bytes("join")), ("token", bytes(PLANTED))];
    let expected: BTreeMap<String, ByteString> = expected.map(|(key, value)| (key.to_owned(), value)).into();
    assert_eq!(request.secret, expected, "credentialsSecretRef takes precedence");
}

#[test]
fn a_machine_file_is_passed_unchanged() {
    let machine = job(Action::Delete, &with_machine_file(MACHINE))
        .unwrap()
        .request
        .machine;
    let read = serde_saphyr::from_str::<serde_json::Value>(MACHINE).unwrap();
    assert_eq!(machine, serde_json::from_value(read).unwrap());
}

#[rstest]
#[case::name_alone(None, None, ("garden", ""))]
#[case::namespace(Some("other"), None, ("other", ""))]
#[case::provider_id(None, Some("fake:///1"), ("garden", "fake:///1"))]
fn flags_complete_a_machine_of_a_name(
    #[case] namespace: Option<&str>,
    #[case] provider_id: Option<&str>,
    #[case] expected: (&str, &str),
) {
    let mut sources = sources("m-1");
    let flags = sources.machine.as_mut().unwrap();
    flags.namespace = namespace.map(str::to_owned);
    flags.provider_id = provider_id.map(str::to_owned);
    let machine = job(Action::Create, &sources).unwrap().request.machine;
    let found = (machine.metadata.namespace.unwrap(), machine.spec.provider_id);
    assert_eq!((found.0.as_str(), found.1.as_str()), expected);
}

#[rstest]
#[case::none(
    "",
    "--class=class.yaml: the file has 0 YAML documents: give a file with one MachineClass"
)]
#[case::two(&format!("{CLASS}---{CLASS}"), "--class=class.yaml: the file has 2 YAML documents: give a file with one MachineClass")]
#[case::syntax(
    "a: [1",
    "--class=class.yaml: the file is not valid YAML at line 1, column 4: correct it"
)]
#[case::no_object(
    "text",
    "--class=class.yaml: apiVersion or kind is missing: give a MachineClass of machine.sapcloud.io/v1alpha1"
)]
#[case::another_kind(
    USER_DATA,
    "--class=class.yaml: the file contains a Secret of v1: give a MachineClass of machine.sapcloud.io/v1alpha1"
)]
#[case::another_version(
    &CLASS.replace("v1alpha1", "v2"),
    "--class=class.yaml: the file contains a MachineClass of machine.sapcloud.io/v2: give a MachineClass of machine.sapcloud.io/v1alpha1"
)]
#[case::no_name(&CLASS.replace("name: small, ", ""), "--class=class.yaml: metadata.name: it is missing: add it")]
#[case::no_provider(
    &CLASS.replace("provider: fake", ""),
    "--class=class.yaml: provider: it is missing: name the provider of the driver, for example provider: fakecloud"
)]
#[case::no_provider_spec(
    &CLASS.replace("providerSpec: {zone: z1}", ""),
    "--class=class.yaml: providerSpec: it is missing: describe the VM as the driver documents it"
)]
#[case::wrong_type(
    &CLASS.replace("provider: fake", "provider: [fake]"),
    "--class=class.yaml: the file is not a valid MachineClass: invalid type: sequence, expected a string"
)]
fn an_unusable_class_is_rejected(#[case] text: &str, #[case] expected: &str) {
    let mut sources = sources("m-1");
    sources.class = Some(source("class.yaml", text));
    assert_eq!(error_of(&sources), expected);
}

#[rstest]
#[case::none(&[], "--secret is missing: the class small names the Secret user-data in secretRef: give its file")]
#[case::one_of_two(&[USER_DATA], "--secret is missing: the class small names the Secret cloud in credentialsSecretRef: give its file")]
#[case::twice(&[USER_DATA, CREDENTIALS, CREDENTIALS], "--secret=2: the Secret is given twice: remove one of the files")]
#[case::another(
    &[USER_DATA, CREDENTIALS, &CREDENTIALS.replace("cloud", "stray")],
    "--secret=2: the Secret stray is not named by the class small, which names user-data and cloud: give that file, or correct the class"
)]
#[case::another_namespace(
    &[&USER_DATA.replace("garden", "other"), CREDENTIALS],
    "--secret is missing: the class small names the Secret user-data in secretRef: give its file"
)]
#[case::class_as_secret(&[CLASS], "--secret=0: the file contains a MachineClass of machine.sapcloud.io/v1alpha1: give a Secret of v1")]
fn the_secrets_must_be_those_that_the_class_names(#[case] texts: &[&str], #[case] expected: &str) {
    let secrets = texts.iter().enumerate();
    let sources = Sources {
        secrets: secrets.map(|(index, text)| source(&index.to_string(), text)).collect(),
        ..sources("m-1")
    };
    assert_eq!(error_of(&sources), expected);
}

#[rstest]
#[case::no_base64(
    &CREDENTIALS.replace("cGxhbnRlZC1jcmVkZW50aWFs", PLANTED),
    "--secret=0: data.token: it is not base64: encode it, or move it to stringData"
)]
#[case::no_string(
    &USER_DATA.replace("token: overridden", "token: 12345678"),
    "--secret=0: stringData.token: it is not a string: put it in quotes"
)]
#[case::no_map(&USER_DATA.replace("{userData: join, token: overridden}", PLANTED),
    "--secret=0: stringData: it is not a map: write KEY: VALUE lines")]
#[case::syntax(&format!("{USER_DATA}{PLANTED}: ["), "--secret=0: the file is not valid YAML at line 6, column 21: correct it")]
#[case::one_value_twice(
    &format!("{USER_DATA}data: {{a: {PLANTED}, a: {PLANTED}}}"),
    "--secret=0: the file is not valid YAML at line 6, column 31: correct it"
)]
fn an_unusable_secret_is_rejected_without_its_values(#[case] text: &str, #[case] expected: &str) {
    let mut sources = sources("m-1");
    sources.secrets = vec![source("0", text)];
    assert_eq!(error_of(&sources), expected);
}

#[test]
fn a_class_without_secrets_takes_none() {
    let class: String = CLASS
        .lines()
        .filter(|line| !line.contains("ecretRef"))
        .map(|line| format!("{line}\n"))
        .collect();
    let mut sources = Sources {
        class: Some(source("class.yaml", &class)),
        ..sources("m-1")
    };
    assert_eq!(
        error_of(&sources),
        "--secret=data.yaml: the Secret user-data is not named by the class small, which names none: \
         remove --secret, or add secretRef to the class"
    );
    sources.secrets = Vec::new();
    assert!(job(Action::List, &sources).unwrap().request.secret.is_empty());
}

#[rstest]
#[case::another_class(
    &MACHINE.replace("name: small", "name: large"),
    "--machine=machine.yaml: spec.class.name: the machine is of the class \"large\", and --class is \"small\": give the file of its class"
)]
#[case::another_kind(
    CLASS,
    "--machine=machine.yaml: the file contains a MachineClass of machine.sapcloud.io/v1alpha1: give a Machine of machine.sapcloud.io/v1alpha1"
)]
#[case::two(&format!("{MACHINE}---{MACHINE}"), "--machine=machine.yaml: the file has 2 YAML documents: give a file with one Machine")]
fn an_unusable_machine_file_is_rejected(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(error_of(&with_machine_file(text)), expected);
}

#[rstest]
#[case::none(&[], "--machine-name is missing: give the name of the machine, or its file with --machine")]
#[case::invalid_name(
    &["name=M 1"],
    "--machine-name=M 1: it is not the name of a Kubernetes object: use lower-case letters, digits, - and ."
)]
#[case::invalid_namespace(
    &["name=m-1", "namespace=-"],
    "--namespace=-: it is not the name of a Kubernetes object: use lower-case letters, digits, - and ."
)]
#[case::both(&["file", "name=m-1"], "--machine=machine.yaml: --machine and --machine-name exclude each other: remove one")]
#[case::namespace_of_file(
    &["file", "namespace=a"],
    "--namespace=a: it applies to --machine-name only: set metadata.namespace in the file of --machine"
)]
#[case::empty_id(&["name=m-1", "id="], "--provider-id=: it is empty: give the provider id, or remove the flag")]
#[case::another_id(
    &["file", "id=fake:///2"],
    "--provider-id=fake:///2: spec.providerID of --machine is fake:///m-1: remove the flag, or use --machine-name"
)]
fn contradicting_flags_of_the_machine_are_rejected(#[case] flags: &[&str], #[case] expected: &str) {
    let value = |key: &str| {
        let values = flags.iter().filter_map(|flag| flag.split_once('='));
        values
            .filter(|(name, _)| *name == key)
            .map(|(_, value)| value.to_owned())
            .next()
    };
    let machine = MachineSource {
        file: flags.contains(&"file").then(|| source("machine.yaml", MACHINE)),
        name: value("name"),
        namespace: value("namespace"),
        provider_id: value("id"),
    };
    let sources = Sources {
        machine: Some(machine),
        ..sources("")
    };
    assert_eq!(error_of(&sources), expected);
}

#[test]
fn a_missing_class_is_rejected() {
    let sources = Sources {
        class: None,
        ..sources("m-1")
    };
    assert_eq!(
        error_of(&sources),
        "--class is missing: give the file of the MachineClass"
    );
}

#[rstest]
#[case::no_driver(&["list"], "--driver is missing: give the address of the cloud's driver as grpc://HOST:PORT or grpcs://HOST:PORT")]
#[case::no_time(&["list", "--driver=grpc://[::1]:1", "--timeout=0s"], "--timeout=0s: no call can succeed: choose 1s or more")]
#[case::plain_off_loopback(
    &["list", "--driver=grpc://10.0.0.1:1"],
    "--driver: \"grpc://10.0.0.1:1\" is not the address of a driver: write grpc://HOST:PORT (10.0.0.1 is not on loopback and the \
     connection would not be encrypted: use grpcs://10.0.0.1:1 with certificates)"
)]
#[case::no_certificates(
    &["list", "--driver=grpcs://cloud:1", "--driver-tls-ca=ca"],
    "--driver-tls-cert is missing: --driver=grpcs://cloud:1 needs it; --driver-tls-key is missing: --driver=grpcs://cloud:1 needs it"
)]
fn unusable_flags_of_the_driver_are_rejected(#[case] arguments: &[&str], #[case] expected: &str) {
    let error = parse(arguments).class().connection().unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[rstest]
#[case(&["list", "--class=/nowhere/class.yaml"], "--class=/nowhere/class.yaml: the file cannot be read: No such file or directory")]
#[case(&["list", "--secret=/nowhere/secret.yaml"], "--secret=/nowhere/secret.yaml: the file cannot be read: No such file or directory")]
#[case(&["create", "--machine=/nowhere/m.yaml"], "--machine=/nowhere/m.yaml: the file cannot be read: No such file or directory")]
fn a_file_that_cannot_be_read_is_named(#[case] arguments: &[&str], #[case] expected: &str) {
    let error = parse(arguments).sources().unwrap_err().to_string();
    assert!(error.starts_with(expected), "{error}");
}
