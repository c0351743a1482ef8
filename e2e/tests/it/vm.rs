//! One VM by hand: `mcm vm` against a fake cloud on loopback, without a Kubernetes cluster.

use serde_json::Value;

use crate::programs::{Running, program};

/// A credential of the Secret that must not appear in any output.
const PLANTED: &str = "planted-credential";

/// A fake cloud and the files of a class.
struct Cloud {
    _running: Running,
    address: String,
    folder: tempfile::TempDir,
}

/// What a command printed, and its exit status.
struct Ended {
    code: i32,
    output: String,
    error: String,
}

impl Cloud {
    fn start() -> Self {
        let mut serve = program("fakecloud");
        serve.args(["serve", "--without-kubelets", "--address=127.0.0.1:0"]);
        let (running, address) = Running::announced(&mut serve, "as a driver: ");
        let folder = tempfile::tempdir().unwrap();
        let mut secret = scenario::fixtures::secret("default");
        secret["stringData"]["apiToken"] = PLANTED.into();
        for (file, object) in [
            ("class.yaml", scenario::fixtures::class("default")),
            ("secret.yaml", secret),
        ] {
            std::fs::write(folder.path().join(file), object.to_string()).unwrap();
        }
        Self {
            _running: running,
            address,
            folder,
        }
    }

    /// Runs `mcm vm` with the flags of driver, class and Secret before these arguments.
    fn vm(&self, command: &str, arguments: &[&str]) -> Ended {
        let driver = format!("--driver={}", self.address);
        let flags = ["vm", command, &driver, "--class=class.yaml", "--secret=secret.yaml"];
        self.run(&[&flags, arguments].concat())
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        let output = program("mcm")
            .args(arguments)
            .current_dir(self.folder.path())
            .env_remove("KUBECONFIG")
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let ended = Ended {
            code: output.status.code().unwrap(),
            output: text(output.stdout),
            error: text(output.stderr),
        };
        for stream in [&ended.output, &ended.error] {
            assert!(!stream.contains(PLANTED), "{stream}");
        }
        assert!(ended.error.lines().count() <= 1, "{}", ended.error);
        ended
    }
}

impl Ended {
    #[track_caller]
    fn succeeded(self) -> String {
        assert_eq!((self.code, self.error.as_str()), (0, ""), "{}", self.output);
        self.output
    }

    #[track_caller]
    fn failed(self, code: i32) -> String {
        assert_eq!((self.code, self.output.as_str()), (code, ""), "{}", self.error);
        self.error.trim().to_owned()
    }
}

#[test]
fn a_vm_is_created_found_listed_initialized_and_deleted_by_hand() {
    let cloud = Cloud::start();
    let created = cloud.vm("create", &["--machine-name=m-1"]).succeeded();
    let found = cloud.vm("status", &["--machine-name=m-1", "-o=json"]).succeeded();
    let found: Value = serde_json::from_str(&found).unwrap();
    let id = found["providerId"].as_str().unwrap();
    assert_eq!(created, format!("created: provider id {id}, node m-1, running\n"));
    let again = cloud.vm("create", &["--machine-name=m-1"]).succeeded();
    assert_eq!(again, created, "a second creation finds the VM");

    let listed = cloud.vm("list", &[]).succeeded();
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows, [vec!["PROVIDER", "ID", "MACHINE"], vec![id, "m-1"]]);
    let initialized = cloud.vm("initialize", &["--machine-name=m-1"]).succeeded();
    assert_eq!(
        initialized,
        format!("initialized: provider id {id}, node m-1, running\n")
    );
    let stopped = cloud.vm("stop", &["--machine-name=m-1"]).succeeded();
    assert_eq!(stopped, format!("stopped: provider id {id}, node m-1, stopped\n"));

    let deleted = cloud.vm("delete", &["--machine-name=m-1"]).succeeded();
    assert_eq!(deleted, format!("deleted: provider id {id}\n"));
    // The VM terminates for a while.
    cloud
        .vm("delete", &["--machine-name=m-1", &format!("--provider-id={id}")])
        .succeeded();
}

#[test]
fn a_machine_without_a_vm_has_no_status_and_is_deleted_repeatedly() {
    let cloud = Cloud::start();
    let missing = cloud.vm("status", &["--machine-name=m-1"]).failed(1);
    assert_eq!(
        missing,
        "mcm: GetMachineStatus failed: NotFound: machine default/m-1 has no VM"
    );
    for _ in 0..2 {
        let deleted = cloud.vm("delete", &["--machine-name=m-1"]).succeeded();
        assert_eq!(deleted, "deleted: the machine m-1 has no VM\n");
    }
    assert_eq!(cloud.vm("list", &[]).succeeded(), "the class class-a has no VMs\n");
}

#[test]
fn unusable_input_and_an_unreachable_driver_end_with_status_two() {
    let cloud = Cloud::start();
    let unnamed = cloud.vm("create", &[]).failed(2);
    assert!(unnamed.starts_with("mcm: --machine-name is missing"), "{unnamed}");
    let swapped = ["vm", "list", "--driver=grpc://127.0.0.1:1", "--class=secret.yaml"];
    let swapped = cloud.run(&swapped).failed(2);
    assert!(
        swapped.contains("--class=secret.yaml: the file contains a Secret"),
        "{swapped}"
    );
    let files = ["--class=class.yaml", "--secret=secret.yaml"];
    let absent = cloud.run(&[&["vm", "list", "--driver=grpc://127.0.0.1:1"], &files[..]].concat());
    let absent = absent.failed(2);
    assert!(
        absent.starts_with("mcm: no driver answers at grpc://127.0.0.1:1"),
        "{absent}"
    );
}
