//! `drydock apiserver`: a control plane for the tests of others.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;

use crate::drydock::{client, drydock_program};

/// A running server, as a test's helper starts it.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// The first line of its output.
    line: String,
}

impl Server {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = drydock_program();
        command.args(["apiserver", "--until-stdin-closes"]).args(arguments);
        command.current_dir(folder).env("TMPDIR", folder);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        Self {
            child,
            input,
            output,
            line,
        }
    }

    fn kubeconfig(&self) -> &str {
        self.line.trim().strip_prefix("export KUBECONFIG=").unwrap()
    }

    async fn has_service_account(&self) -> bool {
        let client = client(Path::new(self.kubeconfig())).await;
        let accounts: Api<ServiceAccount> = Api::default_namespaced(client);
        accounts.get_opt("default").await.unwrap().is_some()
    }

    /// Closes its input, as the end of the test's process does.
    fn end(mut self) {
        drop(self.input);
        assert!(self.child.wait().unwrap().success());
        drop(self.output);
    }
}

#[tokio::test]
async fn the_server_is_ready_with_its_first_line_and_ends_with_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), &["--kubeconfig=mine"]);
    assert_eq!(server.kubeconfig(), "mine");
    let mine = folder.path().join("mine");
    assert!(mine.exists());
    server.end();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn the_controllers_are_chosen() {
    let folder = tempfile::tempdir().unwrap();
    for (controllers, creates_accounts) in [("*", true), ("none", false), ("*,-serviceaccount-controller", false)] {
        let server = Server::start(folder.path(), &["--controllers", controllers]);
        assert_eq!(server.has_service_account().await, creates_accounts, "{controllers}");
        server.end();
    }
}
