//! `drydock up`: a world to play with, until Ctrl-C.

use clap::{Args, ValueEnum};

use super::{Ended, Outcome, Usage, block_on, interrupted};
use crate::scenario::Cloud;
use crate::stage::Stage;
use crate::stage::embedded::{Controller, EmbeddedStage, Plan};

#[derive(Args, Debug)]
pub(super) struct Up {
    /// Leaves a part out, for people who bring their own
    #[arg(long, value_name = "PART")]
    without: Option<Part>,

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
}

impl Up {
    pub(super) fn execute(self) -> Ended {
        let controller = match (self.without, self.controller) {
            (Some(Part::Mcm), _) => Controller::None,
            (None, Some(command)) => Controller::Command(command),
            (None, None) => Controller::Mcm,
        };
        let plan = Plan {
            port: self.port,
            seed: self.seed,
            cloud: Cloud::default(),
            controller,
        };
        block_on(async {
            tokio::select! {
                biased;
                () = interrupted() => Ok(Outcome::Passed),
                ended = stay_up(plan) => ended.map_err(Usage),
            }
        })?
    }
}

/// Ends only when something breaks.
async fn stay_up(plan: Plan) -> Result<Outcome, String> {
    let without_mcm = plan.controller == Controller::None;
    let mut stage = EmbeddedStage::start(plan).await?;
    println!("The control plane is up; the machine CRDs are installed. In another terminal:\n");
    println!("  export KUBECONFIG={}", stage.kubeconfig().display());
    println!("  kubectl apply -f examples/machine.yaml");
    println!("  kubectl get machines,nodes --watch\n");
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
    println!("Ctrl-C ends everything and removes the files.");
    Err(stage.trouble().await)
}
