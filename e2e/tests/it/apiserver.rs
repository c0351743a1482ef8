//! `drydock apiserver`: a control plane for the tests of others.

use std::path::Path;
use std::process::Stdio;

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Api;

use crate::drydock::{client, drydock_program};
use crate::up::Up;

/// Starts a server as a test's helper does, and waits for the first line of its output.
pub fn start(folder: &Path, arguments: &[&str]) -> Up {
    let mut command = drydock_program();
    command.args(["apiserver", "--until-stdin-closes"]).args(arguments);
    command.current_dir(folder).env("TMPDIR", folder).stdin(Stdio::piped());
    Up::when_it_prints("export KUBECONFIG=", &mut command)
}

/// Closes the input of the server, as the end of the test's process does.
pub fn end(mut server: Up) {
    drop(server.child.stdin.take());
    assert!(server.child.wait().unwrap().success());
}

#[tokio::test]
async fn the_server_is_ready_with_its_first_line_and_ends_with_its_input() {
    let folder = tempfile::tempdir().unwrap();
    let server = start(folder.path(), &["--kubeconfig=mine"]);
    assert_eq!(server.kubeconfig(), Path::new("mine"));
    let mine = folder.path().join("mine");
    assert!(mine.exists());
    end(server);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn the_controllers_are_chosen() {
    let folder = tempfile::tempdir().unwrap();
    for (controllers, creates_accounts) in [("*", true), ("none", false), ("*,-serviceaccount-controller", false)] {
        let server = start(folder.path(), &["--controllers", controllers]);
        let accounts: Api<ServiceAccount> = Api::default_namespaced(client(&server.kubeconfig()).await);
        let account = accounts.get_opt("default").await.unwrap();
        assert_eq!(account.is_some(), creates_accounts, "{controllers}");
        end(server);
    }
}
