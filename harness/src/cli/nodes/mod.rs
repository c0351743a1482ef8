//! `drydock nodes`: lists the nodes of a running world, and adds and removes faults of their kubelets.
//!
//! fakecloud implements the faults.

mod faults;
mod select;
mod table;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use clock::Clock;
use fakecloud::proto::vm_reference::By;
use fakecloud::proto::{
    BreakKubeletRequest, ClearNodeConditionRequest, Kubelet, KubeletFault, ListKubeletsRequest, MendKubeletRequest,
    NodeCondition, SetNodeConditionRequest, VmReference,
};
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use runtime::error::brief;
use scenario::cloud::VmState;
use terminal::{OutputFormat, render};

use self::faults::FaultArguments;
use self::table::NodeRow;
use super::running_world::{Controls, Where, World};
use super::{Ended, Outcome, Stop, block_on};
use crate::cli::output::{print, say};

/// Maximum number of parallel calls.
const CALLS: usize = 32;
/// Timeout of the API server for a page of Nodes.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Number of Nodes in a page.
const PAGE: u32 = 1_000;
/// Maximum number of nodes that are printed one by one.
const NAMED: usize = 20;

#[derive(Args, Debug)]
pub(super) struct Nodes {
    #[command(flatten)]
    place: Where,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Lists VMs, their kubelets and their Nodes
    List(List),
    /// Breaks kubelets, or sets conditions of their Nodes
    Break(Break),
    /// Removes faults of kubelets, and conditions that were set
    #[command(alias = "mend")]
    Repair(Repair),
    /// Deletes the VMs in the cloud; the cloud controller then deletes their Nodes
    Remove(Remove),
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  drydock nodes list\n  drydock nodes list 'node-1*' --broken -o json")]
struct List {
    /// Names of nodes, globs such as 'node-1*', or ids of VMs; without any: all
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,

    /// Only nodes with a problem: a fault, a condition that was set, a VM that does not run, or not Ready
    #[arg(long)]
    broken: bool,

    #[command(flatten)]
    output: OutputFormat,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock nodes break node-3 --with partitioned --lasts 2m\n  drydock nodes break --random 5 --condition DiskPressure=True"
)]
struct Break {
    /// Names of nodes, globs such as 'node-1*', or ids of VMs
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,

    /// Breaks this number of them, or of all nodes, drawn at random
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    random: Option<u32>,

    /// The seed of the draw; the default is a random seed that is printed
    #[arg(long, requires = "random")]
    seed: Option<u64>,

    #[command(flatten)]
    faults: FaultArguments,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  drydock nodes repair node-3\n  drydock nodes repair --all")]
struct Repair {
    /// Names of nodes, globs such as 'node-1*', or ids of VMs
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,

    /// Repairs all nodes
    #[arg(long, conflicts_with = "nodes")]
    all: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  drydock nodes remove 'node-1*'")]
struct Remove {
    /// Names of nodes, globs such as 'node-1*', or ids of VMs
    #[arg(value_name = "NODE", required = true)]
    nodes: Vec<String>,
}

impl Nodes {
    pub(super) fn execute(self) -> Ended {
        self.command.check()?;
        let world = self.place.world(Path::new("."))?;
        match self.command {
            Command::List(list) => block_on(list.execute(&world))?,
            Command::Break(wrong) => block_on(wrong.execute(&world))?,
            Command::Repair(repair) => block_on(repair.execute(&world))?,
            Command::Remove(remove) => block_on(remove.execute(&world))?,
        }
    }
}

impl Command {
    /// Validates the arguments, before a world is searched.
    fn check(&self) -> Result<(), Stop> {
        let no_nodes = match self {
            Self::Break(wrong) => {
                wrong.faults.fault()?;
                wrong.nodes.is_empty() && wrong.random.is_none()
            }
            Self::Repair(repair) => repair.nodes.is_empty() && !repair.all,
            Self::List(_) | Self::Remove(_) => false,
        };
        match (no_nodes, self) {
            (true, Self::Repair(_)) => Err(Stop::Usage("specify the nodes to repair, or say --all".to_owned())),
            (true, _) => Err(Stop::Usage(
                "specify the nodes to break, '*' for all nodes, or say --random COUNT".to_owned(),
            )),
            (false, _) => Ok(()),
        }
    }
}

impl List {
    async fn execute(self, world: &World) -> Ended {
        let kubelets = kubelets(world).await?;
        let chosen = match self.nodes.as_slice() {
            [] => kubelets,
            patterns => select::select(kubelets, patterns)?,
        };
        let nodes = nodes(world).await?;
        let mut rows: Vec<NodeRow> = chosen
            .iter()
            .map(|kubelet| NodeRow::new(kubelet, nodes.as_ref()))
            .collect();
        if self.broken {
            rows.retain(NodeRow::is_broken);
        }
        print(&render(self.output.format, &rows)?)
    }
}

impl Break {
    async fn execute(self, world: &World) -> Ended {
        let fault = self.faults.fault()?;
        let mut chosen = select::select(live(world).await?, &self.nodes)?;
        if let Some(count) = self.random {
            let seed = self.seed.unwrap_or_else(any_seed);
            chosen = select::draw(chosen, count as usize, seed)?;
            say!("drawn by --seed {seed}:");
        }
        let (lasts, conditions) = (self.faults.lasts(), self.faults.conditions());
        for_each(world, &chosen, |mut controls, kubelet| async move {
            break_one(&mut controls, &kubelet, fault, lasts, conditions).await
        })
        .await
    }
}

impl Repair {
    async fn execute(self, world: &World) -> Ended {
        let mut chosen = select::select(live(world).await?, &self.nodes)?;
        if self.all {
            chosen.retain(|kubelet| !kubelet.faults.is_empty() || !kubelet.conditions.is_empty());
            if chosen.is_empty() {
                say!("no node has a fault");
                return Ok(Outcome::Passed);
            }
        }
        for_each(world, &chosen, |mut controls, kubelet| async move {
            repair_one(&mut controls, &kubelet).await
        })
        .await
    }
}

impl Remove {
    async fn execute(self, world: &World) -> Ended {
        let chosen = select::select(live(world).await?, &self.nodes)?;
        for_each(world, &chosen, |mut controls, kubelet| async move {
            controls.delete_vm(reference(&kubelet)).await?;
            Ok("its VM is deleted".to_owned())
        })
        .await
    }
}

/// Breaks one kubelet. Returns a description of the changes.
async fn break_one(
    controls: &mut Controls,
    kubelet: &Kubelet,
    fault: Option<KubeletFault>,
    lasts_nanos: Option<u64>,
    conditions: &[NodeCondition],
) -> Result<String, tonic::Status> {
    let mut done = Vec::new();
    if let Some(fault) = fault {
        done.push(faults::describe(&fault));
        let request = BreakKubeletRequest {
            vm: Some(reference(kubelet)),
            fault: Some(fault),
            lasts_nanos,
        };
        controls.break_kubelet(request).await?;
    }
    for condition in conditions {
        done.push(format!("{}={}", condition.r#type, condition.status));
        let request = SetNodeConditionRequest {
            vm: Some(reference(kubelet)),
            condition: Some(condition.clone()),
        };
        controls.set_node_condition(request).await?;
    }
    Ok(done.join(", "))
}

/// Removes the faults of one kubelet and its conditions. Returns a description of the changes.
async fn repair_one(controls: &mut Controls, kubelet: &Kubelet) -> Result<String, tonic::Status> {
    let mut removed: Vec<String> = kubelet.faults.iter().map(faults::describe).collect();
    if !removed.is_empty() {
        let request = MendKubeletRequest {
            vm: Some(reference(kubelet)),
            kinds: Vec::new(),
        };
        controls.mend_kubelet(request).await?;
    }
    for condition in &kubelet.conditions {
        removed.push(format!("{}={}", condition.r#type, condition.status));
        let request = ClearNodeConditionRequest {
            vm: Some(reference(kubelet)),
            r#type: condition.r#type.clone(),
        };
        controls.clear_node_condition(request).await?;
    }
    Ok(match removed.as_slice() {
        [] => "it had no fault".to_owned(),
        removed => format!("no longer {}", removed.join(", ")),
    })
}

/// Performs an action on each kubelet, in parallel, and prints the results in order. A failure does not affect the
/// other kubelets.
async fn for_each<F>(world: &World, chosen: &[Kubelet], action: impl Fn(Controls, Kubelet) -> F) -> Ended
where
    F: Future<Output = Result<String, tonic::Status>>,
{
    let controls = world.controls()?;
    let calls = chosen.iter().map(|kubelet| action(controls.clone(), kubelet.clone()));
    let results: Vec<_> = stream::iter(calls).buffered(CALLS).collect().await;
    let (mut text, mut failed) = (String::new(), 0_usize);
    for (number, (kubelet, result)) in chosen.iter().zip(results).enumerate() {
        match result {
            Ok(done) if number < NAMED => text += &format!("{} ({}): {done}\n", kubelet.node, kubelet.vm_id),
            Ok(_) => {}
            Err(status) => {
                failed += 1;
                crate::cli::output::complain!("drydock: {}: {}", kubelet.node, world.describe_error(&status));
            }
        }
    }
    if let Some(more) = chosen.len().checked_sub(NAMED).filter(|more| *more > 0) {
        text += &format!("and {more} more\n");
    }
    print(&text)?;
    match failed {
        0 => Ok(Outcome::Passed),
        _ => Ok(Outcome::Failed),
    }
}

/// All kubelets, in the order of their VMs' creation.
async fn kubelets(world: &World) -> Result<Vec<Kubelet>, Stop> {
    let listed = world.controls()?.list_kubelets(ListKubeletsRequest::default()).await;
    let listed = listed.map_err(|status| Stop::Usage(world.describe_error(&status)))?;
    Ok(listed.into_inner().kubelets)
}

/// The kubelets of VMs that are not being deleted.
async fn live(world: &World) -> Result<Vec<Kubelet>, Stop> {
    let mut all = kubelets(world).await?;
    all.retain(|kubelet| kubelet.vm_state().known().is_some_and(VmState::is_live));
    Ok(all)
}

/// All Nodes by name; `None`: the API server is unknown.
async fn nodes(world: &World) -> Result<Option<BTreeMap<String, Node>>, Stop> {
    let Some(client) = world.client().await? else {
        return Ok(None);
    };
    let api: Api<Node> = Api::all(client);
    let mut nodes = BTreeMap::new();
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let page = tokio::time::timeout(ANSWER_LIMIT, api.list(&parameters)).await;
        let page = page
            .map_err(|_| Stop::Usage(format!("the API server does not answer within {ANSWER_LIMIT:?}")))?
            .map_err(|error| Stop::Usage(format!("cannot list the nodes: {}", brief(&error))))?;
        let named = |node: Node| Some((node.metadata.name.clone()?, node));
        nodes.extend(page.items.into_iter().filter_map(named));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => return Ok(Some(nodes)),
        }
    }
}

fn reference(kubelet: &Kubelet) -> VmReference {
    VmReference {
        by: Some(By::Id(kubelet.vm_id.clone())),
    }
}

/// A random seed that is short enough to type.
fn any_seed() -> u64 {
    u64::from(Clock::wall().now().subsec_nanosecond().unsigned_abs())
}
