//! `drydock up`: runs a world for interactive use until Ctrl-C.

mod check;
mod kind;
mod processes;

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Args, ValueEnum};
use controllers::Name;
use scenario::{Cloud, DurationExpression, HealthChecks, StageKind, Timeouts};
use stage::processes::{Controller, Plan};

use self::processes::PlaneOptions;
use super::dashboard::{DashboardFlags, Shown};
use super::data_folder::DataFolder;
use super::output::say;
use super::populate::Population;
use super::running_world::{Announced, World};
use super::service_addresses::ServiceAddresses;
use super::stage::StageArguments;
use super::{Ended, Outcome, Stop, availability, block_on, interrupted};

/// With more nodes, kubelets renew their Leases with the production period.
const MANY: u32 = 100;

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock up\n  drydock up --nodes 1000 --pods-per-node 10\n  drydock up --without mcm --port 6443\n  drydock up --data play\n  drydock up --buttons\n  drydock up --stage kind --cluster play"
)]
pub(super) struct Up {
    /// The kind of control plane
    #[arg(long, default_value = "embedded", value_enum)]
    stage: StageKind,

    /// Omits parts, to be replaced by your own; without fakecloud there is no mcm either
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    without: Vec<Part>,

    /// Adds parts that do not run by default
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    with: Vec<Addition>,

    /// The API server's port (stage embedded); 0: any free port
    #[arg(long, default_value_t = 0)]
    port: u16,

    #[command(flatten)]
    data: DataFolder,

    /// A command that replaces mcm; its environment has KUBECONFIG, FAKECLOUD_ADDRESS, DRYDOCK_NAMESPACE, and the stage's
    /// timeouts, such as DRYDOCK_HEALTH_TIMEOUT
    #[arg(long, value_name = "COMMAND", conflicts_with = "without")]
    controller: Option<String>,

    /// Boot time of VMs; the default is short
    #[arg(long, value_name = "TIME")]
    boot_delay: Option<DurationExpression>,

    /// Number of expected kubelets in addition to those of --nodes; with many, Leases are renewed less often
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    kubelets: u32,

    /// The seed of uids and delays
    #[arg(long, default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    services: ServiceAddresses,

    #[command(flatten)]
    population: Population,

    #[command(flatten)]
    dashboard: DashboardFlags,

    #[command(flatten)]
    on: StageArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The machine controller manager.
    Mcm,
    /// The fake cloud and mcm: only the control plane runs.
    Fakecloud,
    /// The built-in controllers, which kube-controller-manager and kube-scheduler have in a cluster (stage embedded).
    Controllers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Addition {
    /// The kind MachineHealthCheck, which mcm evaluates.
    HealthChecks,
    /// The kinds of the example remediation controller, and the controller.
    Remediation,
}

impl Up {
    /// Whether it creates a kind cluster.
    pub(super) fn is_on_kind(&self) -> bool {
        self.stage == StageKind::Kind
    }

    pub(super) fn execute(self) -> Ended {
        self.check()?;
        availability::check([self.stage])?;
        if self.is_on_kind() {
            let shown = Shown {
                kind: self.stage,
                seed: self.seed,
                cloud: self.cloud(),
                has_controller: true,
            };
            return block_on(kind::stay_up(&self.on, &self.population, &self.dashboard, shown))?;
        }
        let (stage, is_alone, plan) = (self.stage, self.is_alone(), self.plan());
        let controllers = match self.omits(Part::Controllers) {
            true => BTreeSet::new(),
            false => Name::ALL.iter().copied().collect(),
        };
        let plane = PlaneOptions {
            port: self.port,
            data: self.data,
            controllers,
            services: self.services,
        };
        block_on(async {
            let ended = async {
                match is_alone {
                    true => processes::stay_up_alone(stage, plane, &plan).await,
                    false => Box::pin(processes::stay_up(stage, plane, plan, self.population, self.dashboard)).await,
                }
            };
            tokio::select! {
                biased;
                _ = interrupted() => Ok(Outcome::Passed),
                ended = ended => ended,
            }
        })?
    }

    fn omits(&self, part: Part) -> bool {
        self.without.contains(&part)
    }

    /// Whether only the control plane runs.
    fn is_alone(&self) -> bool {
        self.omits(Part::Fakecloud)
    }

    fn controller(&self) -> Controller {
        match &self.controller {
            Some(command) => Controller::Command(command.clone()),
            None if self.omits(Part::Mcm) => Controller::None,
            None => Controller::Mcm,
        }
    }

    fn cloud(&self) -> Cloud {
        let default = Cloud::default();
        Cloud {
            boot_delay: self.boot_delay.clone().unwrap_or(default.boot_delay),
            ..default
        }
    }

    fn plan(&self) -> Plan {
        let timeouts = timeouts(self.stage, self.population.nodes().max(self.kubelets));
        let mut plan = Plan {
            controller: self.controller(),
            ledger: self.data.of_cloud(),
            remediation: self.with.contains(&Addition::Remediation),
            cloud: self.cloud(),
            ..Plan::new(self.seed, timeouts)
        };
        if self.with.contains(&Addition::HealthChecks) {
            plan.mcm_settings.health_checks = HealthChecks::On;
        }
        plan
    }
}

/// Short timeouts, except for the Leases of many nodes: renewals twice a second would use all CPU time.
fn timeouts(stage: StageKind, nodes: u32) -> Timeouts {
    let short = match stage {
        StageKind::Envtest => Timeouts::on_etcd(),
        _ => Timeouts::short(),
    };
    if nodes <= MANY {
        return short;
    }
    let production = Timeouts::production();
    say!(
        "With more than {MANY} nodes, kubelets renew their Leases every {:?}, and a silent node is NotReady after {:?}.",
        production.lease_period,
        production.node_grace
    );
    // On a small host, mcm renews its own Lease late while all nodes join at once.
    Timeouts {
        lease_period: production.lease_period,
        node_grace: production.node_grace,
        lease_duration: production.lease_duration,
        ..short
    }
}

/// Lets `drydock nodes` find the world. A failure is only printed.
fn announce(world: &World, run_folder: &Path) -> Option<Announced> {
    let announced = Announced::new(Path::new("."), world, run_folder);
    if let Ok(Some(announced)) = announced {
        return Some(announced);
    }
    if let Err(reason) = announced {
        crate::cli::output::complain!("drydock: {reason}");
    }
    say!(
        "`drydock nodes` and `fakecloud vms` find this world only with --cloud {}",
        world.cloud
    );
    None
}

/// Prints an error. If nodes or pods are not ready in time, the world continues to run for inspection.
fn print_error(settled: Result<(), Stop>) {
    if let Err(stop) = settled {
        crate::cli::output::complain!("drydock: {stop}");
    }
}

fn print_up(kubeconfig: &Path) {
    say!("The control plane is up; the machine CRDs are installed. In another terminal:\n");
    say!("  export KUBECONFIG={}", kubeconfig.display());
}
