//! `drydock up`: a world to play with, until Ctrl-C.

use std::path::Path;
use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::stage::StageArguments;
use super::{Ended, Interrupts, Outcome, Usage, block_on, interrupted};
use crate::scenario::{Cloud, Timeouts};
use crate::stage::kind::Cluster;
use crate::stage::plane::{Plane, embedded, envtest};
use crate::stage::processes::{Controller, Plan, ProcessStage};
use crate::stage::{Stage, StageKind};

/// Where kubectl puts what names no namespace, as the examples do.
const NAMESPACE: &str = "default";
/// Where a start that fails leaves its logs.
const REPORTS: &str = ".drydock/reports";

#[derive(Args, Debug)]
pub(super) struct Up {
    /// What the control plane is
    #[arg(long, default_value = "embedded", value_enum)]
    stage: StageKind,

    #[command(flatten)]
    on: StageArguments,

    /// Leaves parts out, for people who bring their own; without fakecloud there is no mcm either
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    without: Vec<Part>,

    /// The API server's port (stage embedded); 0: any that is free
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// A command that replaces mcm; it gets KUBECONFIG, FAKECLOUD_ADDRESS and DRYDOCK_NAMESPACE by environment
    #[arg(long, value_name = "COMMAND", conflicts_with = "without")]
    controller: Option<String>,

    /// The seed of uids and delays
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The machine controller manager.
    Mcm,
    /// The fake cloud, and mcm with it: what is left is the control plane.
    Fakecloud,
}

impl Up {
    pub(super) fn execute(self) -> Ended {
        let controller = match self.controller {
            Some(command) => Controller::Command(command),
            None if self.without.contains(&Part::Mcm) => Controller::None,
            None => Controller::Mcm,
        };
        let alone = self.without.contains(&Part::Fakecloud);
        self.on.check(self.stage)?;
        if self.stage == StageKind::Kind {
            if controller != Controller::Mcm {
                return Err(Usage(
                    "--without and --controller are for stages of processes; on stage kind mcm is a Deployment".into(),
                ));
            }
            return block_on(stay_up_in_kind(&self.on))?;
        }
        if self.port != 0 && self.stage != StageKind::Embedded {
            return Err(Usage(format!(
                "--port is for --stage embedded; the stage is {}",
                self.stage
            )));
        }
        let plan = Plan {
            seed: self.seed,
            cloud: Cloud::default(),
            replicas: 1,
            controller,
            timeouts: match self.stage {
                StageKind::Envtest => Timeouts::on_etcd(),
                _ => Timeouts::short(),
            },
        };
        let (stage, port) = (self.stage, self.port);
        block_on(async {
            tokio::select! {
                biased;
                () = interrupted() => Ok(Outcome::Passed),
                ended = stay_up(stage, port, plan, alone) => ended.map_err(Usage),
            }
        })?
    }
}

/// Until Ctrl-C, or until something breaks.
async fn stay_up_in_kind(on: &StageArguments) -> Ended {
    let mut interrupts = Interrupts::new()?;
    let options = on.kind_options(Path::new(REPORTS));
    let cluster = tokio::select! {
        biased;
        () = interrupts.next() => return Ok(Outcome::Passed),
        cluster = Cluster::start(&options, Arc::new(|line| println!("{line}"))) => cluster?,
    };
    let broken = tokio::select! {
        biased;
        () = interrupts.next() => None,
        reason = deployed(&cluster) => Some(reason),
    };
    let mut ending = std::pin::pin!(cluster.end());
    let ended = loop {
        tokio::select! {
            biased;
            ended = &mut ending => break ended,
            () = interrupts.next() => eprintln!("drydock: still removing the cluster; wait"),
        }
    };
    ended?;
    match broken {
        None => Ok(Outcome::Passed),
        Some(reason) => Err(Usage(reason)),
    }
}

/// Deploys a world, tells a person of it, and returns when something breaks.
async fn deployed(cluster: &Cluster) -> String {
    let mut up = match cluster.up().await {
        Ok(up) => up,
        Err(reason) => return reason,
    };
    println!(
        "mcm and fakecloud run in namespace {}. In another terminal:\n",
        up.namespace()
    );
    println!("  export KUBECONFIG={}", cluster.kubeconfig().display());
    println!(
        "  sed 's/namespace: default/namespace: {}/' examples/machine.yaml | kubectl apply -f -",
        up.namespace()
    );
    println!("  kubectl get machines,nodes -A --watch\n");
    println!("fakecloud's controls answer on {} over mutual TLS.", up.cloud_address());
    print_end();
    up.trouble().await
}

/// Ends only when something breaks.
async fn stay_up(stage: StageKind, port: u16, plan: Plan, alone: bool) -> Result<Outcome, String> {
    let mut plane = match stage {
        StageKind::Embedded => {
            let plane = embedded::ControlPlane::start(port, plan.seed, &plan.timeouts, NAMESPACE).await?;
            Plane::Embedded(Box::new(plane))
        }
        StageKind::Envtest => Plane::Envtest(Box::new(envtest::ControlPlane::start(&plan.timeouts, NAMESPACE).await?)),
        StageKind::Sim | StageKind::Kubeconfig | StageKind::Kind => {
            return Err(format!(
                "drydock up starts a cluster of its own, on stage embedded, envtest or kind; stage {stage} is for drydock run"
            ));
        }
    };
    if alone {
        print_up(plane.kubeconfig());
        print_end();
        return Err(plane.trouble().await);
    }
    let without_mcm = plan.controller == Controller::None;
    let mut stage = ProcessStage::start(plane, plan).await?;
    print_up(stage.kubeconfig());
    println!(
        "fakecloud answers gRPC on {}; logs are in {}",
        stage.cloud_address(),
        stage.folder().display()
    );
    if without_mcm {
        println!(
            "mcm is left out. For example: mcm --driver=grpc://{} \\",
            stage.cloud_address()
        );
        println!("  --control-kubeconfig=$KUBECONFIG --target-kubeconfig=$KUBECONFIG");
    }
    print_end();
    Err(stage.trouble().await)
}

fn print_up(kubeconfig: &Path) {
    println!("The control plane is up; the machine CRDs are installed. In another terminal:\n");
    println!("  export KUBECONFIG={}", kubeconfig.display());
    println!("  kubectl apply -f examples/machine.yaml");
    println!("  kubectl get machines,nodes --watch\n");
}

fn print_end() {
    println!("Ctrl-C ends everything and removes the files.");
}
