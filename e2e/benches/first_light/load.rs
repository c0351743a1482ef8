//! The load: a few thousand objects through create, get, patch, list and delete over HTTPS, with one and with
//! many requests in flight.

use std::fmt::Debug;

use anyhow::{Result, ensure};
use clock::Clock;
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use mcm_api::Machine;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::figures::Figures;
use crate::objects::{self, NAMESPACE};
use crate::peer::{Peer, Programs};
use crate::process::{Drydock, seconds_since};

/// Concurrent requests in the second part of each step.
const MANY: usize = 32;
/// The share of sequential requests per step: one in ten.
const ALONE: usize = 10;
/// The number of sequential lists of all objects.
const LISTS: usize = 10;

/// Loads both.
pub async fn measure(figures: &mut Figures, peer: Option<&Programs>, count: usize) -> Result<()> {
    let drydock = Drydock::start().await?;
    let client = objects::client(&drydock.kubeconfig).await?;
    let cpu = || drydock.process.cpu_seconds();
    let ours = load_both(&client, &cpu, count).await?;
    let memory = drydock.process.peak_mebibytes()?;
    drydock.process.stop().await?;

    let mut theirs = None;
    let mut their_memory = None;
    if let Some(programs) = peer {
        let started = Peer::start(programs).await?;
        let cpu = || started.cpu_seconds();
        theirs = Some(load_both(&started.client().await?, &cpu, count).await?);
        their_memory = Some(started.peak_mebibytes()?);
        started.stop().await?;
    }

    for (index, mine) in ours.iter().enumerate() {
        let other = theirs.as_ref().and_then(|all| all.get(index));
        report(figures, mine, other, count);
    }
    figures.add("memory after the load, peak", memory, "MiB", their_memory);
    Ok(())
}

fn report(figures: &mut Figures, mine: &Load, other: Option<&Load>, count: usize) {
    let kind = mine.kind;
    for (index, step) in mine.steps.iter().enumerate() {
        let peer = other.and_then(|load| load.steps.get(index));
        let label = format!("{kind}, {}", step.name);
        if step.repeats == 1.0 {
            figures.add(
                format!("{label}: rate"),
                step.rate(),
                "requests/s",
                peer.map(Step::rate),
            );
        } else {
            figures.add(
                format!("{label}: time"),
                1000.0 / step.rate(),
                "ms",
                peer.map(|step| 1000.0 / step.rate()),
            );
        }
        figures.add(
            format!("{label}: CPU"),
            step.cpu_each(),
            "ms/request",
            peer.map(Step::cpu_each),
        );
    }
    let name = format!("{kind}, {count} through all of it: CPU");
    figures.add(name, mine.cpu_seconds(), "s", other.map(Load::cpu_seconds));
}

/// The cost of one kind of object.
struct Load {
    kind: &'static str,
    steps: Vec<Step>,
}

impl Load {
    fn cpu_seconds(&self) -> f64 {
        self.steps.iter().map(|step| step.cpu_seconds / step.repeats).sum()
    }
}

/// A part of the load with one verb.
struct Step {
    name: String,
    requests: f64,
    /// The number of repetitions, to exceed the kernel's resolution of a hundredth of a second.
    repeats: f64,
    seconds: f64,
    cpu_seconds: f64,
}

impl Step {
    fn rate(&self) -> f64 {
        self.requests / self.seconds
    }

    fn cpu_each(&self) -> f64 {
        self.cpu_seconds / self.requests * 1000.0
    }
}

/// Reads the CPU time of the serving processes.
type Cpu<'a> = &'a dyn Fn() -> Result<f64>;

async fn load_both(client: &Client, cpu: Cpu<'_>, count: usize) -> Result<[Load; 2]> {
    objects::install_machine_api(client).await?;
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
    let machines = Api::<Machine>::namespaced(client.clone(), NAMESPACE);
    Ok([
        load("ConfigMap", &config_maps, objects::config_map, cpu, count).await?,
        load("Machine", &machines, objects::machine, cpu, count).await?,
    ])
}

async fn load<K>(
    kind: &'static str,
    api: &Api<K>,
    make: fn(usize) -> Result<K>,
    cpu: Cpu<'_>,
    count: usize,
) -> Result<Load>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + Serialize + DeserializeOwned,
{
    let create = async |index| {
        api.create(&PostParams::default(), &make(index)?).await?;
        Ok(())
    };
    let get = async |index| {
        api.get(&objects::name(index)).await?;
        Ok(())
    };
    let patch = async |index: usize| {
        let change = json!({ "metadata": { "annotations": { "example.com/touched": index.to_string() } } });
        let name = objects::name(index);
        api.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await?;
        Ok(())
    };
    let types = serde_json::to_value(make(0)?)?;
    let apply = async |index: usize| {
        let configuration = json!({
            "apiVersion": types["apiVersion"], "kind": types["kind"],
            "metadata": { "annotations": { "example.com/applied": index.to_string() } },
        });
        let parameters = PatchParams::apply("bench").force();
        api.patch(&objects::name(index), &parameters, &Patch::Apply(configuration))
            .await?;
        Ok(())
    };
    let delete = async |index| {
        let _ = api.delete(&objects::name(index), &DeleteParams::default()).await?;
        Ok(())
    };
    // Other objects of the kind, such as the root certificate bundle, may exist.
    let list = async |_| {
        let listed = api.list(&ListParams::default()).await?;
        ensure!(
            listed.items.len() >= count,
            "the list has {} of {count} objects",
            listed.items.len()
        );
        Ok(())
    };

    let alone = count / ALONE;
    let mut steps = Vec::new();
    steps.push(step("create, 1 in flight", cpu, 1, 0..alone, create).await?);
    steps.push(step("create, 32 in flight", cpu, MANY, alone..count, create).await?);
    steps.push(step("get, 1 in flight", cpu, 1, 0..alone, get).await?);
    steps.push(step("get, 32 in flight", cpu, MANY, alone..count, get).await?);
    steps.push(step("patch, 1 in flight", cpu, 1, 0..alone, patch).await?);
    steps.push(step("patch, 32 in flight", cpu, MANY, alone..count, patch).await?);
    steps.push(step("apply, 32 in flight", cpu, MANY, alone..count, apply).await?);
    let mut lists = step(&format!("list of {count}"), cpu, 1, 0..LISTS, list).await?;
    lists.repeats = u32::try_from(LISTS)?.into();
    steps.push(lists);
    steps.push(step("delete, 32 in flight", cpu, MANY, 0..count, delete).await?);
    Ok(Load { kind, steps })
}

async fn step(
    name: &str,
    cpu: Cpu<'_>,
    in_flight: usize,
    indices: std::ops::Range<usize>,
    request: impl AsyncFn(usize) -> Result<()>,
) -> Result<Step> {
    let clock = Clock::wall();
    let requests = u32::try_from(indices.len())?.into();
    let (from, cpu_before) = (clock.now(), cpu()?);
    stream::iter(indices)
        .map(|index| request(index))
        .buffer_unordered(in_flight)
        .try_collect::<()>()
        .await?;
    Ok(Step {
        name: name.to_owned(),
        requests,
        repeats: 1.0,
        seconds: seconds_since(&clock, from),
        cpu_seconds: cpu()? - cpu_before,
    })
}
