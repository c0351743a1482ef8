//! The idle cost of the controllers: two days of a cluster with twenty ready nodes, in virtual time, with all
//! requests and wakes counted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apiserver::observe::{Observer, RequestRecord};
use apiserver::{Identity, Options, Server};
use clock::{Clock, Seed};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::foundation::{self, AnyWorker};
use crate::{Action, Change, Kind, Outcome, Panics, Settings, View, workers};

const NODES: usize = 20;
/// Renewals are not measured here: a few of them, with a matching grace period, represent two days of renewals.
const RENEWAL: Duration = Duration::from_secs(50 * 60);
const GRACE: Duration = Duration::from_secs(60 * 60);
/// The number of renewals per status update.
const RENEWALS: u32 = 3;
const SETTLED: Duration = Duration::from_secs(120);
const IDLE: Duration = Duration::from_secs(48 * 3600);
/// The minimum duration of an idle watch.
const WATCH: Duration = Duration::from_secs(290);
/// The embedded server does not serve this kind; the controllers poll it with increasing pauses.
const UNSERVED: &str = "list /api/v1/replicationcontrollers";
const MOST_ASKED_FOR_UNSERVED: u64 = 9;

/// Wakes per controller: decisions without a preceding change.
type Wakes = Arc<Mutex<BTreeMap<&'static str, u64>>>;

/// A worker that counts its wakes.
struct Counted {
    inner: Box<dyn AnyWorker>,
    wakes: Wakes,
    has_changed: bool,
}

impl AnyWorker for Counted {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn kinds(&self) -> BTreeSet<Kind> {
        self.inner.kinds()
    }

    fn needs_all_metadata(&self) -> bool {
        self.inner.needs_all_metadata()
    }

    fn observe(&mut self, change: &Change, view: View<'_>) {
        self.has_changed = true;
        self.inner.observe(change, view);
    }

    fn next_due(&self) -> Option<Timestamp> {
        self.inner.next_due()
    }

    fn is_waiting(&self) -> bool {
        self.inner.is_waiting()
    }

    fn synced(&mut self, view: View<'_>) {
        self.has_changed = true;
        self.inner.synced(view);
    }

    fn supervise(&mut self, panics: Panics) {
        self.inner.supervise(panics);
    }

    fn resume_at(&self) -> Option<Timestamp> {
        self.inner.resume_at()
    }

    fn begin(&mut self, view: View<'_>) -> Option<(u64, Action)> {
        let is_due = self.inner.next_due().is_some_and(|due| due <= view.now);
        if is_due && !self.has_changed {
            *self.wakes.lock().entry(self.inner.name()).or_default() += 1;
        }
        let begun = self.inner.begin(view);
        // Other keys that are due now belong to the same wake.
        self.has_changed = begun.is_some();
        begun
    }

    fn continue_plan(&mut self, ticket: u64, action: &Action, outcome: &Outcome, view: View<'_>) -> Option<Action> {
        self.has_changed = true;
        self.inner.continue_plan(ticket, action, outcome, view)
    }
}

/// Counts requests by verb and path.
#[derive(Debug, Default)]
struct Requests(Mutex<BTreeMap<String, u64>>);

impl Observer for Requests {
    fn request(&self, record: &RequestRecord<'_>) {
        if record.client == "controllers" {
            let path = record.path.split('?').next().unwrap_or_default();
            let what = format!("{} {path}", record.verb);
            *self.0.lock().entry(what).or_default() += 1;
        }
    }
}

fn node(name: &str, now: Timestamp) -> Node {
    let conditions = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"].map(|kind| {
        let status = if kind == "Ready" { "True" } else { "False" };
        json!({ "type": kind, "status": status, "lastHeartbeatTime": seconds(now) })
    });
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": "a" } },
        "status": { "conditions": conditions, "capacity": { "cpu": "4", "memory": "8Gi", "pods": "110" } },
    }))
    .unwrap()
}

fn seconds(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap().to_string()
}

/// Renews the leases of all nodes, and regularly posts their statuses.
async fn kubelets(client: Client, clock: Clock) {
    let (nodes, leases) = (
        Api::<Node>::all(client.clone()),
        Api::<Lease>::namespaced(client, "kube-node-lease"),
    );
    let names: Vec<String> = (0..NODES).map(|number| format!("n-{number:02}")).collect();
    for name in &names {
        let created = nodes
            .create(&PostParams::default(), &node(name, clock.now()))
            .await
            .unwrap();
        let owner = json!({ "apiVersion": "v1", "kind": "Node", "name": name, "uid": created.uid() });
        let lease = json!({ "metadata": { "name": name, "ownerReferences": [owner] }, "spec": {} });
        leases
            .create(&PostParams::default(), &serde_json::from_value(lease).unwrap())
            .await
            .unwrap();
    }
    for round in 0.. {
        for name in &names {
            let renewal = json!({ "spec": { "renewTime": format!("{:.6}", clock.now()) } });
            leases
                .patch(name, &PatchParams::default(), &Patch::Merge(renewal))
                .await
                .unwrap();
            if round % RENEWALS == 0 {
                let status = json!({ "status": node(name, clock.now()).status });
                nodes
                    .patch_status(name, &PatchParams::default(), &Patch::Strategic(status))
                    .await
                    .unwrap();
            }
        }
        clock.sleep(RENEWAL).await;
    }
}

#[tokio::test(start_paused = true)]
async fn two_idle_days_cause_no_writes_and_no_wakes_except_node_deadlines() {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    let requests = Arc::new(Requests::default());
    let server = Server::new(Options {
        garbage_collector: true,
        namespace_controllers: true,
        observer: Some(Arc::clone(&requests) as Arc<dyn Observer>),
        ..Options::new(clock.clone(), Seed::new(7))
    })
    .unwrap();
    let client = |user: &str| {
        let identity = Identity {
            user: user.to_owned(),
            ..Identity::admin()
        };
        Client::new(server.service(identity), "default")
    };
    let wakes = Wakes::default();
    let mut settings = Settings::default();
    settings.node_lifecycle.grace = GRACE;
    let counted = workers(&settings, clock.now())
        .into_iter()
        .map(|inner| {
            let wakes = Arc::clone(&wakes);
            Box::new(Counted {
                inner,
                wakes,
                has_changed: false,
            }) as Box<dyn AnyWorker>
        })
        .collect();
    let controllers = foundation::run::run(
        client("controllers"),
        clock.clone(),
        Seed::new(8),
        counted,
        Panics::default(),
        CancellationToken::new(),
    );
    let script = async {
        clock.sleep(SETTLED).await;
        wakes.lock().clear();
        requests.0.lock().clear();
        clock.sleep(IDLE).await;
    };
    futures::select_biased! {
        () = controllers.fuse() => panic!("the controllers ended"),
        () = kubelets(client("kubelets"), clock.clone()).fuse() => panic!("the kubelets ended"),
        () = script.fuse() => {}
    }

    let mut requests = requests.0.lock().clone();
    let requested = requests.remove(UNSERVED).unwrap_or_default();
    assert!(requested <= MOST_ASKED_FOR_UNSERVED, "{requested}");
    // A kind may have two watches: one with full objects of a subset, one with the metadata of all.
    let most = 2 * (IDLE.as_secs() / WATCH.as_secs() + 1);
    for (what, count) in &requests {
        assert!(what.starts_with("watch ") && *count <= most, "{what}, {count} times");
    }
    let wakes = wakes.lock().clone();
    let woken: Vec<&str> = wakes.keys().copied().collect();
    assert_eq!(woken, ["node-controller"], "{wakes:?}");
    // A renewal extends a node's deadline; the old deadline causes one wake.
    let most = u64::try_from(NODES).unwrap() * (IDLE.as_secs() / RENEWAL.as_secs() + 1);
    assert!(wakes["node-controller"] <= most, "{wakes:?}, at most {most}");
    println!("watches of {} kinds, wakes {wakes:?}", requests.len());
}
