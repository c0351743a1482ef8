//! `drydock driver test`: the contract suite against processes, its report, and invalid input.

use std::path::Path;
use std::process::Output;

use rstest::rstest;

use crate::drydock::{drydock, printed};
use crate::programs::{Running, program};

/// Starts a driver; returns its `HOST:PORT`.
fn driver(name: &str, arguments: &[&str], folder: &Path) -> (Running, String) {
    let mut command = program(name);
    let (running, address) = Running::announced(command.args(arguments).current_dir(folder), "serves on ");
    let address = address.split(';').next().unwrap_or_default().to_owned();
    (running, address)
}

/// A file below `examples/`.
fn example(file: &str) -> String {
    format!("{}/../examples/{file}", env!("CARGO_MANIFEST_DIR"))
}

/// Runs `drydock driver test` with the class and Secret in a folder below `examples/`.
fn test(folder: &Path, objects: &str, address: &str, more: &[&str]) -> Output {
    let (class, secret) = (
        example(&format!("{objects}machine-class.yaml")),
        example(&format!("{objects}secret.yaml")),
    );
    let mut arguments = vec![
        "driver", "test", "--driver", address, "--class", &class, "--secret", &secret,
    ];
    arguments.extend(more);
    drydock(folder, &arguments)
}

#[test]
fn the_rust_skeleton_is_green_and_the_report_has_every_case() {
    let folder = tempfile::tempdir().unwrap();
    let (_running, address) = driver("skeleton-driver", &["127.0.0.1:0"], folder.path());
    let address = format!("grpc://{}", address);
    let output = test(folder.path(), "driver-rust/", &address, &["--junit", "driver.xml"]);
    let text = printed(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("19 passed, 0 failed, 4 skipped in "), "{text}");
    assert!(
        text.contains("skip  initialize-repeated    the driver does not implement InitializeMachine"),
        "{text}"
    );
    let xml = std::fs::read_to_string(folder.path().join("driver.xml")).unwrap();
    assert!(
        xml.contains("tests=\"23\"") && xml.contains("name=\"leftovers\""),
        "{xml}"
    );
}

#[test]
fn fakecloud_over_mutual_tls_is_green() {
    let folder = tempfile::tempdir().unwrap();
    let issued = program("fakecloud")
        .args(["certificates", "--namespace=default", "--name=cloud", "--output=tls"])
        .current_dir(folder.path())
        .status();
    assert!(issued.unwrap().success());
    let serve = [
        "serve",
        "--without-kubelets",
        "--address=127.0.0.1:0",
        "--tls-cert=tls/server.crt",
        "--tls-key=tls/server.key",
        "--tls-client-ca=tls/ca.crt",
    ];
    let (_running, address) = driver("fakecloud", &serve, folder.path());
    let tls = [
        "--driver-tls-ca=tls/ca.crt",
        "--driver-tls-cert=tls/client.crt",
        "--driver-tls-key=tls/client.key",
        "--driver-tls-server-name=cloud.default.svc",
    ];
    let address = format!("grpcs://{}", address);
    let output = test(folder.path(), "", &address, &tls);
    assert!(output.status.success(), "{}", printed(&output));
    assert!(
        printed(&output).contains("23 passed, 0 failed, 0 skipped"),
        "{}",
        printed(&output)
    );
}

#[test]
fn a_driver_that_breaks_a_rule_fails_with_status_1() {
    let folder = tempfile::tempdir().unwrap();
    let serve = [
        "serve",
        "--without-kubelets",
        "--address=127.0.0.1:0",
        "--duplicate-creates=two",
    ];
    let (_running, address) = driver("fakecloud", &serve, folder.path());
    let address = format!("grpc://{}", address);
    let only = [
        "--only",
        "create-repeated",
        "--only",
        "delete-unknown",
        "--settle",
        "1s",
    ];
    let output = test(folder.path(), "", &address, &only);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        text.contains("FAIL  create-repeated        CreateMachine returned VM fakecloud:///"),
        "{text}"
    );
    assert!(text.contains("1 passed, 1 failed, 0 skipped"), "{text}");
}

#[test]
fn the_list_has_every_case_with_its_rule() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(&drydock(folder.path(), &["driver", "test", "--list"]));
    assert_eq!(text.lines().count(), 1 + 23, "a heading and the cases: {text}");
    assert!(
        text.contains("GetMachineStatus of a machine without a VM fails with NotFound."),
        "{text}"
    );
}

#[rstest]
#[case::no_scheme("127.0.0.1:1", &[], "must begin with grpc:// or grpcs://")]
#[case::no_driver("grpc://127.0.0.1:1", &[], "start the driver, or correct the address")]
#[case::no_certificates("grpcs://127.0.0.1:1", &[], "--driver-tls-ca is missing")]
#[case::certificates_without_encryption(
    "grpc://127.0.0.1:1",
    &["--driver-tls-ca=a", "--driver-tls-cert=a", "--driver-tls-key=a"],
    "grpcs:// only"
)]
#[case::a_missing_class("grpc://127.0.0.1:1", &["--class=nowhere.yaml"], "--class=nowhere.yaml: the file cannot be read")]
#[case::a_class_as_secret("grpc://127.0.0.1:1", &["--secret=class.yaml"], "give a Secret of v1")]
#[case::a_class_without_provider("grpc://127.0.0.1:1", &["--class=class.yaml"], "provider: it is missing: name")]
#[case::a_mistyped_case("grpc://127.0.0.1:1", &["--only=delete-repeat"], "near it are: delete-repeated")]
#[case::an_invalid_prefix("grpc://127.0.0.1:1", &["--prefix=A_B"], "lower-case letters")]
#[case::no_time("grpc://127.0.0.1:1", &["--timeout=0s"], "--timeout must be longer than 0s")]
fn invalid_input_fails_with_one_line_and_status_2(
    #[case] address: &str,
    #[case] more: &[&str],
    #[case] expected: &str,
) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let class = "apiVersion: machine.sapcloud.io/v1alpha1\nkind: MachineClass\nmetadata: {name: a}\nproviderSpec: {}\n\
                 secretRef: {name: s}\n";
    write("class.yaml", class);
    write("valid.yaml", &format!("{class}provider: p\n"));
    write(
        "secret.yaml",
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {a: b}\n",
    );
    let mut arguments = vec!["driver", "test", "--driver", address];
    for (flag, file) in [
        ("--class=", "--class=valid.yaml"),
        ("--secret=", "--secret=secret.yaml"),
    ] {
        if more.iter().all(|argument| !argument.starts_with(flag)) {
            arguments.push(file);
        }
    }
    arguments.extend(more);
    let output = drydock(folder.path(), &arguments);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(text.contains(expected), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}
