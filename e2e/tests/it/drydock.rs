//! Runs the program `drydock` as users do, one process per simulated job.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Once;

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use scenario::job::Job;
use scenario::result::RunResult;
use serde_json::Value;

/// A kubeconfig for a port without a listener.
pub const UNREACHABLE: &str = "
apiVersion: v1
kind: Config
clusters: [{name: unreachable, cluster: {server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}}]
users: [{name: me, user: {token: none}}]
contexts: [{name: unreachable, context: {cluster: unreachable, user: me}}]
current-context: unreachable
";

/// A client with the current context of a kubeconfig.
pub async fn client(kubeconfig: &Path) -> Client {
    let read = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// Runs the program with these arguments, in its own folder for reports.
pub fn drydock(folder: &Path, arguments: &[&str]) -> Output {
    drydock_program().args(arguments).current_dir(folder).output().unwrap()
}

/// Runs one simulated job in its own process.
pub fn perform(job: &Job) -> RunResult {
    let mut child = drydock_program()
        .arg("perform")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&serde_json::to_vec(job).unwrap())
        .unwrap();
    serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap()
}

/// The program, with mcm and fakecloud for the wall-clock stages beside it: as shipped, without defects.
pub fn drydock_program() -> Command {
    static BUILT: Once = Once::new();
    let program = env!("CARGO_BIN_EXE_drydock");
    BUILT.call_once(|| {
        let mut build = cargo();
        build.args([
            "build",
            "--quiet",
            "--offline",
            "--workspace",
            "--exclude",
            "e2e",
            "--bins",
        ]);
        if Path::new(program)
            .parent()
            .is_some_and(|folder| folder.ends_with("release"))
        {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "the programs cannot be built");
    });
    let mut command = Command::new(program);
    // The job of CI that runs the tests must not list their runs, some of which fail on purpose.
    command.env_remove("GITHUB_STEP_SUMMARY");
    command
}

/// Cargo, without the variables that Cargo itself sets for a package's programs. A dependency's build script
/// depends on some of them, and would cause all dependent crates to be compiled again.
pub fn cargo() -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars_os() {
        let of_package = ["CARGO_MANIFEST_", "CARGO_PKG_"];
        if name
            .to_str()
            .is_some_and(|name| of_package.iter().any(|begin| name.starts_with(begin)))
        {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// The JSON result of a simulated run; also when runs failed.
pub fn simulate(folder: &Path, arguments: &[&str]) -> (Output, Vec<Value>) {
    let mut all = vec!["run", "--stage", "sim", "--json", "result.json"];
    all.extend(arguments);
    let output = drydock(folder, &all);
    let text = std::fs::read(folder.join("result.json"))
        .unwrap_or_else(|error| panic!("no result ({error}): {}", printed(&output)));
    let document: Value = serde_json::from_slice(&text).unwrap();
    (output, document["runs"].as_array().unwrap().clone())
}

/// The Base64 prefix of a PEM private key in a Secret or a kubeconfig.
const ENCODED_KEY: &str = "LS0tLS1CRUdJTiBQUklWQVRF";

/// Secrets that no report may contain: the class's credential, rendered user data, bootstrap tokens, private
/// keys, and service account tokens.
pub fn holds_secret(text: &str) -> bool {
    text.contains(scenario::fixtures::API_TOKEN)
        || text.contains("join --token")
        || text.contains("PRIVATE KEY")
        || text.contains(ENCODED_KEY)
        || holds_web_token(text)
        || holds_token(text)
}

/// Whether the text contains a JSON Web Token, whose header and claims are Base64 objects.
fn holds_web_token(text: &str) -> bool {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && !"-_.".contains(letter))
        .filter_map(|word| word.split_once('.'))
        .any(|(header, rest)| header.starts_with("eyJ") && rest.starts_with("eyJ"))
}

#[test]
fn a_service_account_token_is_recognized_by_its_form() {
    assert!(holds_web_token(
        "authorization: Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJtY20ifQ.c2ln"
    ));
    assert!(!holds_web_token("eyJ is no token, nor is a.b"));
}

/// Whether the text contains a bootstrap token: six letters or digits, a dot, and sixteen more.
fn holds_token(text: &str) -> bool {
    let letters = |word: &str, count: usize| {
        word.len() == count
            && word
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.')
        .filter_map(|word| word.split_once('.'))
        .any(|(id, secret)| letters(id, 6) && letters(secret, 16) && secret.bytes().any(|byte| byte.is_ascii_digit()))
}

#[test]
fn a_bootstrap_token_is_recognized_by_its_form() {
    assert!(holds_token("token=abc123.0123456789abcdef\n"));
    assert!(!holds_token("drydock.fakecloud.v1 at 127.0.0.1:7300"));
}

/// The complete output.
pub fn printed(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
