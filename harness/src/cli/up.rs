//! `drydock up`: a world to play with, until Ctrl-C.

use std::path::Path;

use clap::{Args, ValueEnum};

use super::{Ended, Outcome, Usage, block_on, interrupted};
use crate::scenario::{Cloud, Timeouts};
use crate::stage::Stage;
use crate::stage::embedded::{Controller, EmbeddedStage, Plan};
use crate::stage::plane::ControlPlane;

#[derive(Args, Debug)]
pub(super) struct Up {
    /// Leaves parts out, for people who bring their own; without fakecloud there is no mcm either
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    without: Vec<Part>,

    /// The API server's port; 0: any that is free
    #[arg(long, default_value_t = 0)]
    port: u16,

    /// A command that replaces mcm; it gets KUBECONFIG and FAKECLOUD_ADDRESS by environment
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
        let plan = Plan {
            port: self.port,
            seed: self.seed,
            cloud: Cloud::default(),
            replicas: 1,
            controller,
        };
        block_on(async {
            tokio::select! {
                biased;
                () = interrupted() => Ok(Outcome::Passed),
                ended = stay_up(plan, alone) => ended.map_err(Usage),
            }
        })?
    }
}

/// Ends only when something breaks.
async fn stay_up(plan: Plan, alone: bool) -> Result<Outcome, String> {
    if alone {
        let (mut plane, _) = ControlPlane::start(plan.port, plan.seed, &Timeouts::short()).await?;
        print_up(plane.kubeconfig());
        print_end();
        return Err(plane.trouble().await);
    }
    let without_mcm = plan.controller == Controller::None;
    let mut stage = EmbeddedStage::start(plan).await?;
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
