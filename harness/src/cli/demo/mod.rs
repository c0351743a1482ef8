//! `drydock demo`: a machine fails, is kept for analysis, and is released and replaced. Takes about ten seconds.

mod machines;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use clock::Clock;
use fakecloud::proto::VmReference;
use fakecloud::proto::vm_reference::By;
use jiff::Timestamp;
use judge::evaluate::{between, short};
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use runtime::error::brief;
use scenario::{StageKind, Timeouts};
use serde_json::json;
use stage::plane::{Plane, Planes, embedded};
use stage::processes::{Plan, ProcessStage};
use stage::restarts::Restarts;
use stage::role::Role;

use self::machines::{Machine, Machines, until};
use super::output::say;
use super::running_world::World;
use super::{Ended, Outcome, Stop, availability, block_on, interrupted};

/// The objects of the demo.
const OBJECTS: &str = include_str!("objects.yaml");
/// The namespace of the objects.
const NAMESPACE: &str = "default";
/// The number of machines of its deployment.
const REPLICAS: usize = 3;
/// Maximum duration of one part.
const LIMIT: Duration = Duration::from_mins(2);
/// The annotation that requests or ends a preservation.
const PRESERVE: &str = "node.machine.sapcloud.io/preserve";

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  drydock demo")]
pub(super) struct Demo {
    /// The seed of uids and delays
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Demo {
    pub(super) fn execute(self) -> Ended {
        availability::check([StageKind::Embedded])?;
        block_on(async {
            tokio::select! {
                biased;
                interrupt = interrupted() => Err(Stop::Interrupted(interrupt)),
                ended = perform(self.seed) => ended,
            }
        })?
    }
}

async fn perform(seed: u64) -> Ended {
    let clock = Clock::wall();
    let from = clock.now();
    let timeouts = Timeouts {
        preserve: Duration::from_hours(72),
        ..Timeouts::short()
    };
    let plan = Plan::new(seed, timeouts);
    let options = embedded::Options::new(plan.seed, &plan.timeouts, NAMESPACE, Some(Role::Both));
    let plane = embedded::ControlPlane::start(options).await?;
    let mut stage = ProcessStage::start(Planes::one(Plane::Embedded(Box::new(plane))), plan).await?;
    let world = World {
        cloud: format!("grpc://{}", stage.cloud_address()),
        tls: None,
        kubeconfig: Some(stage.kubeconfig().to_owned()),
    };
    let ready = clock.now();
    say!(
        "A control plane, a fake cloud and mcm are ready after {}.",
        short(between(from, ready))
    );
    let mut restarts = Restarts::default();
    let ended = tokio::select! {
        biased;
        reason = stage.keep_running(&mut restarts, |event| event.exit().into_iter().for_each(|exit| say!("{exit}"))) => Err(Stop::Usage(reason)),
        ended = tell(&world, &clock, ready) => ended,
    };
    stage.end().await;
    ended?;
    say!(
        "\nDone after {}; nothing is left. `drydock up` starts such a world for you.",
        short(between(from, clock.now()))
    );
    Ok(Outcome::Passed)
}

/// The parts of the demo, one after another.
async fn tell(world: &World, clock: &Clock, since: Timestamp) -> Result<(), Stop> {
    let client = world.client().await?;
    let client = client.ok_or_else(|| Stop::Usage("the API server is unknown".to_owned()))?;
    let mut story = Story {
        machines: Machines::new(objects(&client, "machine.sapcloud.io", "v1alpha1", "Machine")),
        clock,
        since,
    };
    say!("\n1. A deployment of {REPLICAS} machines, which may keep one failed machine for analysis:");
    say!("   kubectl apply -f deployment.yaml          # spec.autoPreserveFailedMax: 1");
    create_objects(&client).await?;
    story
        .until("the machines are Running", |all| running(all) == REPLICAS)
        .await?;

    let victim = story
        .machines
        .all
        .iter()
        .next()
        .map(|(name, machine)| (name.clone(), machine.clone()));
    let (name, machine) = victim.ok_or_else(|| Stop::Usage("there is no machine".to_owned()))?;
    say!("\n2. The VM of one of them dies:");
    say!("   fakecloud vm kill {name}");
    let vm = VmReference {
        by: Some(By::ProviderId(machine.provider_id.clone())),
    };
    let killed = world.controls()?.kill_vm(vm).await;
    killed.map_err(|status| Stop::Usage(format!("cannot kill the VM: {}", world.describe_error(&status))))?;
    let is_preserved = |all: &BTreeMap<String, Machine>| {
        all.get(&name)
            .is_some_and(|machine| !machine.preserved_until.is_empty())
    };
    story.until("the machine is preserved", is_preserved).await?;

    say!("\n3. The failed machine is kept for analysis, with its VM, its disks and its Node:");
    say!("   kubectl get machines");
    for line in table(&story.machines.all) {
        say!("   {line}");
    }
    let kept = story
        .machines
        .all
        .get(&name)
        .map(|machine| machine.preserved_until.clone());
    say!("   It is kept until {}.", until(&kept.unwrap_or_default(), clock.now()));

    say!("\n4. A user releases it after the analysis, and another machine replaces it:");
    say!("   kubectl annotate node {} {PRESERVE}=false", machine.node);
    release(&client, &machine.node).await?;
    let is_replaced = |all: &BTreeMap<String, Machine>| !all.contains_key(&name) && running(all) == REPLICAS;
    story.until("the machine is replaced", is_replaced).await
}

struct Story<'a> {
    machines: Machines,
    clock: &'a Clock,
    since: Timestamp,
}

impl Story<'_> {
    /// Waits, and prints what happens meanwhile.
    async fn until(&mut self, what: &str, expected: impl Fn(&BTreeMap<String, Machine>) -> bool) -> Result<(), Stop> {
        let (clock, since) = (self.clock, self.since);
        let print = |line: String| {
            let after = between(since, clock.now()).as_secs_f64();
            say!("   {after:>6.2}s  {line}");
        };
        tokio::time::timeout(LIMIT, self.machines.until(expected, print))
            .await
            .map_err(|_| Stop::Usage(format!("the demo waited for {}: {what}", short(LIMIT))))?
    }
}

fn running(all: &BTreeMap<String, Machine>) -> usize {
    let healthy = |machine: &&Machine| machine.phase == "Running" && !machine.deleting;
    all.values().filter(healthy).count()
}

/// The machines as `kubectl get machines` prints them.
fn table(all: &BTreeMap<String, Machine>) -> Vec<String> {
    let width = all.keys().map(String::len).max().unwrap_or_default();
    let rows = all
        .iter()
        .map(|(name, machine)| format!("{name:width$}   {:<16}   {}", machine.phase, machine.node));
    std::iter::once(format!("{:width$}   {:<16}   NODE", "NAME", "STATUS"))
        .chain(rows)
        .collect()
}

/// The objects of a kind in the demo's namespace.
fn objects(client: &kube::Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

async fn create_objects(client: &kube::Client) -> Result<(), Stop> {
    let read = serde_saphyr::from_multiple::<DynamicObject>(OBJECTS);
    let all = read.map_err(|error| Stop::Usage(format!("the objects of the demo: {error}")))?;
    for object in all {
        let types = object.types.clone().unwrap_or_default();
        let gvk = GroupVersionKind::try_from(&types).map_err(|error| Stop::Usage(error.to_string()))?;
        let api = objects(client, &gvk.group, &gvk.version, &gvk.kind);
        let created = api.create(&PostParams::default(), &object).await;
        created.map_err(|error| Stop::Usage(format!("cannot create the {}: {}", gvk.kind, brief(&error))))?;
    }
    Ok(())
}

/// Ends the preservation of a node's machine.
async fn release(client: &kube::Client, node: &str) -> Result<(), Stop> {
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(client.clone());
    let patch = Patch::Merge(json!({ "metadata": { "annotations": { PRESERVE: "false" } } }));
    let patched = nodes.patch(node, &PatchParams::default(), &patch).await;
    patched.map_err(|error| Stop::Usage(format!("cannot annotate node {node}: {}", brief(&error))))?;
    Ok(())
}
