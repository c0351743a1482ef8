//! `drydock up --stage kind`: a world of pods in a kind cluster.

use std::path::Path;
use std::sync::Arc;

use scenario::step::Process;
use stage::Stage;
use stage::kind::{Cluster, Up};

use super::{announce, print_error};
use crate::cli::dashboard::{self, DashboardFlags, ProcessLanes, Shown};
use crate::cli::data_folder::DataFolder;
use crate::cli::example::creates_machine;
use crate::cli::output::{inform, say};
use crate::cli::populate::Population;
use crate::cli::running_world::World;
use crate::cli::stage::StageArguments;
use crate::cli::{Ended, Interrupts, Outcome, Stop};

/// The folder for the logs of a failed start.
const REPORTS: &str = ".drydock/reports";

/// Runs until Ctrl-C, or until a part fails.
pub(super) async fn stay_up(
    on: &StageArguments,
    population: &Population,
    dashboard: &DashboardFlags,
    shown: Shown,
) -> Ended {
    let mut interrupts = Interrupts::new()?;
    let options = on.kind_options(Path::new(REPORTS));
    let cluster = tokio::select! {
        biased;
        _ = interrupts.next() => return Ok(Outcome::Passed),
        cluster = Cluster::start(&options, Arc::new(|line| inform!("{line}"))) => cluster?,
    };
    let broken = tokio::select! {
        biased;
        _ = interrupts.next() => None,
        stop = deployed(&cluster, population, dashboard, shown) => Some(stop),
    };
    let mut ending = std::pin::pin!(cluster.end());
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut ending => break ended,
            _ = interrupts.next() => crate::cli::output::complain!("drydock: the removal of the cluster is still in progress; wait"),
        }
    };
    ended?;
    broken.map_or(Ok(Outcome::Passed), Err)
}

/// Deploys a world, prints how to use it, and returns when a part fails.
async fn deployed(cluster: &Cluster, population: &Population, flags: &DashboardFlags, shown: Shown) -> Stop {
    match cluster.up(&shown.cloud, shown.seed).await {
        Ok(mut up) => match Box::pin(used(cluster, &mut up, population, flags, shown)).await {
            Ok(reason) => Stop::Usage(reason),
            Err(stop) => stop,
        },
        Err(error) => Stop::Usage(error.to_string()),
    }
}

/// Returns the reason when a part of the world fails.
async fn used(
    cluster: &Cluster,
    up: &mut Up,
    population: &Population,
    flags: &DashboardFlags,
    shown: Shown,
) -> Result<String, Stop> {
    say!(
        "mcm and fakecloud run in namespace {}. In another terminal:\n",
        up.namespace()
    );
    say!("  export KUBECONFIG={}", cluster.kubeconfig().display());
    say!("  {}", creates_machine(up.namespace()));
    say!("  kubectl get machines,nodes -A --watch\n");
    say!("fakecloud's controls answer on {} over mutual TLS.", up.cloud_address());
    let mut dashboard = flags.start(shown, up.stage()).await?;
    let lanes = ProcessLanes::of(
        dashboard.as_ref(),
        up.stage().clock(),
        &[Process::Fakecloud, Process::Mcm],
    );
    let world = World {
        cloud: format!("grpcs://{}", up.cloud_address()),
        tls: Some(up.cloud_tls().into()),
        kubeconfig: Some(cluster.kubeconfig().to_owned()),
    };
    let _announced = announce(&world, cluster.folder());
    let namespace = up.namespace().to_owned();
    let settle = async {
        print_error(population.settle(&world, &namespace).await);
        say!("{}", DataFolder::default().describe_end("everything"));
        std::future::pending().await
    };
    tokio::pin!(settle);
    loop {
        let request = tokio::select! {
            biased;
            reason = up.failure() => return Ok(reason),
            never = &mut settle => return never,
            request = dashboard::next_process(&mut dashboard) => request,
        };
        // Kubernetes restarts what does not start.
        dashboard::perform(up.stage(), request, &lanes, |_, _, _| {}).await;
    }
}
