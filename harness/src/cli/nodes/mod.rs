//! `drydock nodes`: what becomes of the kubelets of a world that is up, and what a person does to them.
//!
//! What must not live here: what a fault makes of a kubelet.

mod faults;
mod select;
mod table;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use clock::Clock;
use fakecloud::proto::vm_reference::By;
use fakecloud::proto::{
    BreakKubeletRequest, ClearNodeConditionRequest, Kubelet, KubeletFault, ListKubeletsRequest, MendKubeletRequest,
    NodeCondition, SetNodeConditionRequest, VmReference, VmState,
};
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};

use self::faults::FaultArguments;
use self::table::Row;
use super::running_world::{Controls, Where, World};
use super::{Ended, Outcome, Usage, block_on};
use crate::cli::output::{print, say};

/// How many calls are under way at once.
const CALLS: usize = 32;
/// How long the API server may take to answer with a page of Nodes.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How many Nodes a page has.
const PAGE: u32 = 1_000;
/// How many nodes are named one by one when something is done to them.
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
    /// Shows VMs, their kubelets and their Nodes
    List(List),
    /// Breaks kubelets, or sets conditions of their Nodes
    Break(Break),
    /// Mends kubelets and takes back conditions that were set
    Mend(Mend),
    /// Deletes the VMs behind everybody's back; their Nodes go as those of a cloud do
    Remove(Remove),
}

#[derive(Args, Debug)]
struct List {
    /// Names of nodes, globs such as 'node-1*', or ids of VMs; without any: all
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,

    /// Only those with which something is wrong: a fault, a condition that was set, a VM that does not run, or not
    /// Ready
    #[arg(long)]
    broken: bool,

    /// How they are shown
    #[arg(long, short, value_enum, default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

#[derive(Args, Debug)]
struct Break {
    /// Names of nodes, globs such as 'node-1*', or ids of VMs
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,

    /// Breaks so many of them, or of all, drawn at random
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    random: Option<u32>,

    /// The seed by which they are drawn; without it one that is told
    #[arg(long, requires = "random")]
    seed: Option<u64>,

    #[command(flatten)]
    faults: FaultArguments,
}

#[derive(Args, Debug)]
struct Mend {
    /// Names of nodes, globs such as 'node-1*', or ids of VMs
    #[arg(value_name = "NODE")]
    nodes: Vec<String>,

    /// Mends all of them
    #[arg(long, conflicts_with = "nodes")]
    all: bool,
}

#[derive(Args, Debug)]
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
            Command::Mend(mend) => block_on(mend.execute(&world))?,
            Command::Remove(remove) => block_on(remove.execute(&world))?,
        }
    }
}

impl Command {
    /// Refuses what makes no sense, before a world is looked for.
    fn check(&self) -> Result<(), Usage> {
        let nobody = match self {
            Self::Break(wrong) => {
                wrong.faults.fault()?;
                wrong.nodes.is_empty() && wrong.random.is_none()
            }
            Self::Mend(mend) => mend.nodes.is_empty() && !mend.all,
            Self::List(_) | Self::Remove(_) => false,
        };
        match (nobody, self) {
            (true, Self::Mend(_)) => Err(Usage("name the nodes to mend, or say --all".to_owned())),
            (true, _) => Err(Usage(
                "name the nodes to break, '*' for all of them, or say --random COUNT".to_owned(),
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
        let mut rows: Vec<Row> = chosen.iter().map(|kubelet| Row::new(kubelet, nodes.as_ref())).collect();
        if self.broken {
            rows.retain(Row::is_broken);
        }
        match self.output {
            Output::Table => print(&table::table(&rows)),
            Output::Json => {
                let text = serde_json::to_string_pretty(&rows).map_err(|error| Usage(error.to_string()))?;
                print(&format!("{text}\n"))
            }
        }
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
        do_to(world, &chosen, |mut controls, kubelet| async move {
            break_one(&mut controls, &kubelet, fault, lasts, conditions).await
        })
        .await
    }
}

impl Mend {
    async fn execute(self, world: &World) -> Ended {
        let mut chosen = select::select(live(world).await?, &self.nodes)?;
        if self.all {
            chosen.retain(|kubelet| !kubelet.faults.is_empty() || !kubelet.conditions.is_empty());
            if chosen.is_empty() {
                say!("nothing is broken");
                return Ok(Outcome::Passed);
            }
        }
        do_to(world, &chosen, |mut controls, kubelet| async move {
            mend_one(&mut controls, &kubelet).await
        })
        .await
    }
}

impl Remove {
    async fn execute(self, world: &World) -> Ended {
        let chosen = select::select(live(world).await?, &self.nodes)?;
        do_to(world, &chosen, |mut controls, kubelet| async move {
            controls.delete_vm(reference(&kubelet)).await?;
            Ok("its VM is deleted".to_owned())
        })
        .await
    }
}

/// Breaks one kubelet; what was done.
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

/// Mends one kubelet and takes its conditions back; what was done.
async fn mend_one(controls: &mut Controls, kubelet: &Kubelet) -> Result<String, tonic::Status> {
    let mut wrong: Vec<String> = kubelet.faults.iter().map(faults::describe).collect();
    if !wrong.is_empty() {
        let request = MendKubeletRequest {
            vm: Some(reference(kubelet)),
            kinds: Vec::new(),
        };
        controls.mend_kubelet(request).await?;
    }
    for condition in &kubelet.conditions {
        wrong.push(format!("{}={}", condition.r#type, condition.status));
        let request = ClearNodeConditionRequest {
            vm: Some(reference(kubelet)),
            r#type: condition.r#type.clone(),
        };
        controls.clear_node_condition(request).await?;
    }
    Ok(match wrong.as_slice() {
        [] => "nothing was wrong".to_owned(),
        wrong => format!("no longer {}", wrong.join(", ")),
    })
}

/// Does something to each kubelet, many at once, and tells in their order what was done. One that fails does not
/// keep the others from their turn.
async fn do_to<F>(world: &World, chosen: &[Kubelet], what: impl Fn(Controls, Kubelet) -> F) -> Ended
where
    F: Future<Output = Result<String, tonic::Status>>,
{
    let controls = world.controls()?;
    let calls = chosen.iter().map(|kubelet| what(controls.clone(), kubelet.clone()));
    let results: Vec<_> = stream::iter(calls).buffered(CALLS).collect().await;
    let (mut text, mut failed) = (String::new(), 0_usize);
    for (number, (kubelet, result)) in chosen.iter().zip(results).enumerate() {
        match result {
            Ok(done) if number < NAMED => text += &format!("{} ({}): {done}\n", kubelet.node, kubelet.vm_id),
            Ok(_) => {}
            Err(status) => {
                failed += 1;
                eprintln!("drydock: {}: {}", kubelet.node, world.refused(&status));
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
async fn kubelets(world: &World) -> Result<Vec<Kubelet>, Usage> {
    let listed = world.controls()?.list_kubelets(ListKubeletsRequest::default()).await;
    let listed = listed.map_err(|status| Usage(world.refused(&status)))?;
    Ok(listed.into_inner().kubelets)
}

/// Those of VMs that something can be done to.
async fn live(world: &World) -> Result<Vec<Kubelet>, Usage> {
    let mut all = kubelets(world).await?;
    all.retain(|kubelet| {
        matches!(
            kubelet.vm_state(),
            VmState::Pending | VmState::Running | VmState::Stopped
        )
    });
    Ok(all)
}

/// All Nodes by name; `None`: the API server is not known.
async fn nodes(world: &World) -> Result<Option<BTreeMap<String, Node>>, Usage> {
    let Some(client) = world.client().await? else {
        return Ok(None);
    };
    let api: Api<Node> = Api::all(client);
    let mut nodes = BTreeMap::new();
    let mut parameters = ListParams::default().limit(PAGE);
    loop {
        let page = tokio::time::timeout(ANSWER_LIMIT, api.list(&parameters)).await;
        let page = page
            .map_err(|_| Usage(format!("the API server does not answer within {ANSWER_LIMIT:?}")))?
            .map_err(|error| Usage(format!("cannot list the nodes: {error}")))?;
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

/// A seed that is short enough to be typed again.
fn any_seed() -> u64 {
    u64::from(Clock::wall().now().subsec_nanosecond().unsigned_abs())
}
