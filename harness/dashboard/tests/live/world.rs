//! A world of the test, its dashboard, and a page of it.

use std::sync::Arc;
use std::time::Duration;

use browser::Page;
use clock::Clock;
use dashboard::server::{Dashboard, Readers};
use dashboard::{Executor, LiveWorld, PerformError, Settings, Shared};
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use scenario::cloud::{CloudEvent, Vm, VmState};
use scenario::observation::Seen;
use scenario::step::{CloudRequest, Request, VmAction};
use scenario::{StageKind, Step, kinds};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_util::sync::{CancellationToken, DropGuard};

/// The time at which worlds with fixed times start.
pub(crate) fn start() -> Timestamp {
    "2030-01-01T00:00:00Z".parse().unwrap()
}

/// Performs actions on VMs by changing the model, as an observed cloud would.
#[derive(Debug)]
pub(crate) struct Cloud {
    world: Shared,
    pub(crate) performed: Mutex<Vec<Step>>,
}

impl Cloud {
    /// The cloud of a world.
    pub(crate) fn of(world: &Shared) -> Self {
        Self {
            world: Arc::clone(world),
            performed: Mutex::default(),
        }
    }
}

impl Executor for Cloud {
    fn perform(&self, step: Step, vm: Option<String>) -> BoxFuture<'static, Result<(), PerformError>> {
        let done = match step.request() {
            Request::Cloud(CloudRequest::Vm(step)) => match step.action {
                VmAction::Kill | VmAction::Stop => Some(VmState::Stopped),
                VmAction::Start => Some(VmState::Running),
                _ => None,
            },
            _ => None,
        };
        let refused = matches!(step.request(), Request::Process(_));
        let description = step.description();
        self.performed.lock().push(step);
        if let (Some(state), Some(id)) = (done, vm) {
            let machine = id.trim_start_matches("vm-").to_owned();
            observe(&self.world, vm_event(&machine, "z1", state));
        }
        Box::pin(async move {
            match refused {
                true => Err(PerformError::Refused(format!("{description}: no such process"))),
                false => Ok(()),
            }
        })
    }
}

/// Adds an observation now.
pub(crate) fn observe(world: &Shared, seen: Seen) {
    let now = Clock::wall().now();
    world.lock().observe(now, seen);
}

pub(crate) fn applied(kind: &str, object: Value) -> Seen {
    Seen::Applied(kinds::find(kind).unwrap(), Box::new(object))
}

pub(crate) fn vm_event(machine: &str, zone: &str, state: VmState) -> Seen {
    Seen::Cloud(CloudEvent::Vm(Vm {
        id: format!("vm-{machine}"),
        machine: machine.to_owned(),
        machine_uid: format!("uid-{machine}"),
        provider_id: format!("fakecloud:///{zone}/vm-{machine}"),
        node: machine.to_owned(),
        state,
        revision: 1,
    }))
}

pub(crate) fn machine(name: &str, owner: Option<&str>, phase: &str) -> Seen {
    let owners: Vec<Value> = owner
        .iter()
        .map(|name| json!({ "kind": "MachineSet", "name": name, "controller": true }))
        .collect();
    applied(
        "Machine",
        json!({
            "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "Machine",
            "metadata": { "name": name, "namespace": "default", "uid": format!("uid-{name}"), "creationTimestamp": "2030-01-01T00:00:00Z",
                          "labels": { "node": name }, "ownerReferences": owners },
            "spec": { "class": { "kind": "MachineClass", "name": "class-a" } },
            "status": { "currentStatus": { "phase": phase } },
        }),
    )
}

pub(crate) fn node(name: &str, zone: &str, ready: &str) -> Seen {
    applied(
        "Node",
        json!({
            "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": zone } },
            "status": { "conditions": [{ "type": "Ready", "status": ready, "reason": "KubeletReady" }] },
        }),
    )
}

pub(crate) fn pod(name: &str, node: &str, phase: &str) -> Seen {
    applied(
        "Pod",
        json!({ "metadata": { "name": name, "namespace": "default" }, "spec": { "nodeName": node }, "status": { "phase": phase } }),
    )
}

/// A dashboard and a page of it.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) page: Page,
    pub(crate) world: Shared,
    pub(crate) cloud: Arc<Cloud>,
    pub(crate) url: String,
    pub(crate) readers: Readers,
    pub(crate) runtime: Runtime,
    _cancel: DropGuard,
}

impl Live {
    /// A world of a deployment with three machines, a machine of its own, and a dashboard with buttons; `None`: there is no
    /// browser.
    pub(crate) fn open() -> Option<Self> {
        Self::with(true, small_world)
    }

    /// A dashboard of a world, opened with the URL that the program prints.
    pub(crate) fn with(buttons: bool, fill: impl FnOnce(&mut LiveWorld)) -> Option<Self> {
        let live = Self::unopened(buttons, fill)?;
        live.open_page();
        Some(live)
    }

    /// A dashboard whose page is not opened yet.
    pub(crate) fn unopened(buttons: bool, fill: impl FnOnce(&mut LiveWorld)) -> Option<Self> {
        Self::started(buttons, None, fill)
    }

    /// The small world, which started at [`start`] that time ago.
    pub(crate) fn of_age(age: Duration) -> Option<Self> {
        let live = Self::started(true, Some(age), |world| fill_small(world, start()))?;
        live.open_page();
        Some(live)
    }

    fn open_page(&self) {
        self.page.open_url(&self.url);
        self.page
            .wait("document.getElementById('connection').textContent === 'live'");
        self.page.frame();
    }

    fn started(buttons: bool, age: Option<Duration>, fill: impl FnOnce(&mut LiveWorld)) -> Option<Self> {
        let page = browser::shared()?.page();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let (clock, began) = match age {
            Some(age) => {
                let _runtime = runtime.enter();
                (Clock::simulated(start() + age), start())
            }
            None => (Clock::wall(), Clock::wall().now()),
        };
        let settings = Settings::new(StageKind::Embedded, 1, "0.1.0", "drydock up");
        let mut model = LiveWorld::new(began, settings);
        fill(&mut model);
        let world: Shared = Arc::new(Mutex::new(model));
        let cloud = Arc::new(Cloud::of(&world));
        let executor: Arc<dyn Executor> = Arc::clone(&cloud) as _;
        let dashboard = runtime
            .block_on(Dashboard::bind(0, buttons, Arc::clone(&world), executor, clock))
            .unwrap();
        let (url, readers) = (dashboard.url(), dashboard.readers());
        let cancel = CancellationToken::new();
        runtime.spawn(dashboard.serve(cancel.clone()));
        Some(Self {
            page,
            world,
            cloud,
            url,
            readers,
            runtime,
            _cancel: cancel.drop_guard(),
        })
    }

    /// The address of the server, without the secret.
    pub(crate) fn origin(&self) -> &str {
        self.url.split("/?").next().unwrap()
    }

    /// The text of an element.
    pub(crate) fn text_of(&self, id: &str) -> String {
        self.page.frame();
        self.page.text(&format!("document.getElementById({id:?}).innerText"))
    }

    /// Selects a fault and its target, and waits for its preview.
    pub(crate) fn choose(&self, fault: &str, target: &str) {
        self.page.eval(&format!(
            "(() => {{ const set = (id, value) => {{ const of = document.getElementById(id); of.value = value; \
             of.dispatchEvent(new Event('input')); of.dispatchEvent(new Event('change')); }}; \
             set('fault', {fault:?}); set('fault-targets', {target:?}); }})()"
        ));
        self.page.wait(
            "document.getElementById('preview').textContent !== '' && !document.getElementById('inject')?.disabled",
        );
    }
}

/// A deployment with three machines in two zones, and a machine that nothing owns.
pub(crate) fn small_world(world: &mut LiveWorld) {
    fill_small(world, Clock::wall().now());
}

fn fill_small(world: &mut LiveWorld, now: Timestamp) {
    let mut add = |seen: Seen| world.observe(now, seen);
    let of = |owner: Option<(&str, &str)>, name: &str, ready: u32| {
        let owners: Vec<Value> = owner
            .iter()
            .map(|(kind, name)| json!({ "kind": kind, "name": name, "controller": true }))
            .collect();
        json!({
            "metadata": { "name": name, "namespace": "default", "creationTimestamp": "2030-01-01T00:00:00Z", "ownerReferences": owners },
            "spec": { "replicas": 3, "selector": { "matchLabels": { "name": "pool" } }, "template": { "metadata": { "labels": { "name": "pool" } }, "spec": { "class": { "kind": "MachineClass", "name": "class-a" } } } },
            "status": { "readyReplicas": ready, "conditions": [{ "type": "Available", "status": "True", "reason": "MinimumReplicasAvailable" }] },
        })
    };
    let mut deployment = of(None, "pool", 3);
    deployment["apiVersion"] = "machine.sapcloud.io/v1alpha1".into();
    deployment["kind"] = "MachineDeployment".into();
    add(applied("MachineDeployment", deployment));
    add(applied(
        "MachineSet",
        of(Some(("MachineDeployment", "pool")), "pool-5", 3),
    ));
    for (number, zone) in ["z1", "z1", "z2"].iter().enumerate() {
        let name = format!("pool-5-{number}");
        add(vm_event(&name, zone, VmState::Running));
        add(machine(&name, Some("pool-5"), "Running"));
        add(node(&name, zone, "True"));
        add(pod(&format!("web-{number}"), &name, "Running"));
    }
    add(vm_event("m-1", "z1", VmState::Running));
    add(machine("m-1", None, "Running"));
    add(node("m-1", "z1", "True"));
}

/// That many machines, with a VM, a node and ten pods each.
pub(crate) fn large_world(count: usize) -> impl FnOnce(&mut LiveWorld) {
    move |world| {
        let now = start();
        for number in 0..count {
            let (name, zone) = (format!("node-{number:05}"), format!("z{}", number % 3 + 1));
            world.observe(now, vm_event(&name, &zone, VmState::Running));
            world.observe(now, machine(&name, None, "Running"));
            world.observe(
                now,
                node(&name, &zone, if number % 997 == 0 { "Unknown" } else { "True" }),
            );
        }
    }
}
