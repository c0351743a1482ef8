//! `drydock up`: a world to play with, until Ctrl-C.

use std::path::Path;

use clap::{Args, ValueEnum};

use super::{Ended, Outcome, Usage, block_on, interrupted};
use crate::scenario::{Cloud, Timeouts};
use crate::stage::plane::{Plane, embedded, envtest};
use crate::stage::processes::{Controller, Plan, ProcessStage};
use crate::stage::{Stage, StageKind};

/// Where kubectl puts what names no namespace, as the examples do.
const NAMESPACE: &str = "default";

#[derive(Args, Debug)]
pub(super) struct Up {
    /// What the control plane is
    #[arg(long, default_value = "embedded", value_enum)]
    stage: StageKind,

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
            timeouts: Timeouts::short(),
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

/// Ends only when something breaks.
async fn stay_up(stage: StageKind, port: u16, plan: Plan, alone: bool) -> Result<Outcome, String> {
    let mut plane = match stage {
        StageKind::Embedded => {
            let plane = embedded::ControlPlane::start(port, plan.seed, &plan.timeouts, NAMESPACE).await?;
            Plane::Embedded(plane)
        }
        StageKind::Envtest => Plane::Envtest(envtest::ControlPlane::start(&plan.timeouts, NAMESPACE).await?),
        StageKind::Sim | StageKind::Kubeconfig | StageKind::Kind => {
            return Err(format!(
                "drydock up starts a control plane of its own, on stage embedded or envtest; stage {stage} is for drydock run"
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
