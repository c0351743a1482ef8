//! `drydock doctor`: which stages can run here and what the others lack.

use std::net::TcpListener;

use stage::plane::envtest;
use stage::{child, kind};

use super::output::say;
use super::{Ended, Outcome, block_on};

pub(super) fn execute() -> Ended {
    let exact = if ::sim::exact_replay() {
        "runs replay exactly"
    } else {
        "replay is not exact on this platform"
    };
    say!("sim       ready; {exact}");
    let mut lacks = Vec::new();
    for program in ["mcm", "fakecloud"] {
        lacks.extend(child::beside(program).err().map(|error| error.to_string()));
    }
    if let Err(error) = TcpListener::bind(("127.0.0.1", 0)) {
        lacks.push(format!("no port can be opened on the loopback address: {error}"));
    }
    if let Err(error) = tempfile::tempdir() {
        lacks.push(format!("no temporary folder can be made: {error}; set TMPDIR"));
    }
    if lacks.is_empty() {
        say!("embedded  ready");
    }
    for lack in &lacks {
        say!("embedded  not ready: {lack}");
    }
    match envtest::Programs::find() {
        Ok(programs) => say!(
            "envtest   ready; etcd and kube-apiserver in {}",
            programs.folder().display()
        ),
        Err(lack) => say!("envtest   not ready: {lack}"),
    }
    match block_on(kind::lacks())? {
        None => say!("kind      ready"),
        Some(lack) => say!("kind      not ready: {lack}"),
    }
    for cluster in block_on(kind::leftovers())?.unwrap_or_default() {
        say!(
            "kind      cluster {cluster} is of a session that runs or was killed: kind delete cluster --name {cluster}"
        );
    }
    say!("kubeconfig name the cluster: --kubeconfig FILE [--context NAME]; it is left as it was");
    let kubectl = match which::which("kubectl") {
        Ok(path) => path.display().to_string(),
        Err(_) => "not found; only needed to look around in `drydock up`".to_owned(),
    };
    say!("kubectl   {kubectl}");
    Ok(if lacks.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed
    })
}
