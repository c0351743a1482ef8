//! `drydock doctor` beside a running `drydock up`: panics of controllers and requests.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use apiserver::{Authorization, Identity, Options, Server};
use clock::{Clock, Seed};
use controllers::{Change, Controller, Kind, Panics, Plan, Queue, View};
use k8s_openapi::api::core::v1::Namespace;
use stage::controller_metrics::ControllerMetrics;
use stage::run_folder::RunFolder;
use tokio::sync::mpsc::unbounded_channel;

use crate::drydock::{drydock, printed};

/// The first instance panics at the first namespace.
struct Panicky {
    panics: bool,
}

impl Controller for Panicky {
    type Key = String;
    type Reason = ();

    fn name(&self) -> &'static str {
        "panicky-controller"
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        BTreeSet::from([Kind::Namespace])
    }

    fn observe(&mut self, change: &Change, _: View<'_>, queue: &mut Queue<String>) {
        if change.of::<Namespace>().is_some() {
            queue.add(change.key.name.clone());
        }
    }

    fn decide(&mut self, _: &String, _: View<'_>) -> Plan<()> {
        assert!(!self.panics, "a planted bug");
        Plan::nothing()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_reports_a_controller_that_panicked() {
    let folder = tempfile::tempdir().unwrap();
    let run_folder = RunFolder::new().unwrap();
    let panics = Panics::default();
    let clock = Clock::wall();
    let server = Server::new(Options {
        authorization: Authorization::Rbac,
        metrics: vec![Arc::new(ControllerMetrics(panics.clone()))],
        ..Options::new(clock.clone(), Seed::new(1))
    })
    .unwrap();
    let serving = server.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, serving.kubeconfig(&Identity::admin()).unwrap()).unwrap();
    let entry = serde_json::json!({
        "process": std::process::id(),
        "runFolder": run_folder.path(),
        "world": { "cloud": "grpc://127.0.0.1:1", "kubeconfig": kubeconfig },
    });
    std::fs::create_dir(folder.path().join(".drydock")).unwrap();
    std::fs::write(folder.path().join(".drydock/up.json"), entry.to_string()).unwrap();

    // A new instance is created after the panic.
    let (created, mut instances) = unbounded_channel();
    let count = AtomicUsize::new(0);
    let create = move || {
        let number = count.fetch_add(1, Ordering::Relaxed);
        created.send(number).unwrap();
        Panicky { panics: number == 0 }
    };
    let client = kube::Client::new(server.service(Identity::admin()), "default");
    let running = tokio::spawn(controllers::run_single(
        client,
        clock,
        Seed::new(2),
        create,
        panics.clone(),
    ));
    assert_eq!((instances.recv().await, instances.recv().await), (Some(0), Some(1)));

    let path = folder.path().to_owned();
    let output = tokio::task::spawn_blocking(move || drydock(&path, &["doctor"]))
        .await
        .unwrap();
    let text = printed(&output);
    assert!(
        text.contains("up        bug: controller panicky-controller panicked once and was restarted "),
        "{text}"
    );
    assert_eq!(output.status.code(), Some(1), "{text}");
    running.abort();
}

#[test]
fn the_doctor_says_when_nothing_runs() {
    let folder = tempfile::tempdir().unwrap();
    let text = printed(&drydock(folder.path(), &["doctor"]));
    assert!(text.contains("up        no `drydock up` runs in this folder"), "{text}");
}
