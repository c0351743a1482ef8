//! `drydock up`: runs a world for interactive use until Ctrl-C.

mod kind;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use controllers::Name;
use scenario::step::Process;
use scenario::{Cloud, DurationExpression, HealthChecks, Scenario, StageKind, Timeouts};
use stage::plane::{Plane, Planes, embedded, envtest};
use stage::processes::{Controller, Plan, ProcessStage};
use stage::restarts::{ProcessEvent, Restarts};
use stage::role::Role;
use stage::{Stage, StageError, setup};

use super::dashboard::{self, DashboardFlags, ProcessLanes, Shown};
use super::data_folder::DataFolder;
use super::example::creates_machine;
use super::output::say;
use super::populate::Population;
use super::running_world::{Announced, World};
use super::service_addresses::ServiceAddresses;
use super::stage::StageArguments;
use super::{Ended, Outcome, Stop, availability, block_on, interrupted};

/// The default namespace of kubectl, which the examples use.
const NAMESPACE: &str = "default";
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

/// The user's choices for an embedded control plane.
struct PlaneOptions {
    port: u16,
    data: DataFolder,
    controllers: BTreeSet<Name>,
    services: ServiceAddresses,
    dashboard: DashboardFlags,
}

impl Up {
    /// Whether it creates a kind cluster.
    pub(super) fn is_on_kind(&self) -> bool {
        self.stage == StageKind::Kind
    }

    pub(super) fn execute(self) -> Ended {
        let controller = match self.controller {
            Some(command) => Controller::Command(command),
            None if self.without.contains(&Part::Mcm) => Controller::None,
            None => Controller::Mcm,
        };
        let alone = self.without.contains(&Part::Fakecloud);
        self.on.check(self.stage, None)?;
        self.population.check()?;
        let controllers = match self.without.contains(&Part::Controllers) {
            false => Name::ALL.iter().copied().collect(),
            true if self.stage == StageKind::Embedded => BTreeSet::new(),
            true => {
                return Err(Stop::Usage(format!(
                    "--without=controllers is for --stage embedded; the stage is {}",
                    self.stage
                )));
            }
        };
        if alone && self.population.nodes() > 0 {
            return Err(Stop::Usage(
                "--nodes needs fakecloud: without fakecloud there are none".to_owned(),
            ));
        }
        if self.services.is_given() && self.stage != StageKind::Embedded {
            return Err(Stop::Usage(format!(
                "--service is for --stage embedded; the stage is {}",
                self.stage
            )));
        }
        if self.data.is_given() && self.stage != StageKind::Embedded {
            return Err(Stop::Usage(format!(
                "--data is for --stage embedded; the stage is {}",
                self.stage
            )));
        }
        if self.dashboard.is_given() && alone {
            return Err(Stop::Usage(
                "--buttons and --dashboard-port need fakecloud: the dashboard shows its VMs".to_owned(),
            ));
        }
        if !self.with.is_empty() && (self.stage == StageKind::Kind || alone) {
            return Err(Stop::Usage(
                "--with is for stages embedded and envtest with fakecloud: leave it out, or apply deploy/ yourself"
                    .to_owned(),
            ));
        }
        if self.stage == StageKind::Kind {
            if controller != Controller::Mcm {
                return Err(Stop::Usage(
                    "--without and --controller are for stages of processes; on stage kind mcm is a Deployment".into(),
                ));
            }
            if self.kubelets != 0 {
                return Err(Stop::Usage(
                    "--kubelets is for stages of processes; on stage kind it changes nothing: leave it out".to_owned(),
                ));
            }
            availability::check([StageKind::Kind])?;
            let mut shown = Shown {
                kind: StageKind::Kind,
                seed: self.seed,
                cloud: Cloud::default(),
                has_controller: true,
            };
            if let Some(boot_delay) = self.boot_delay {
                shown.cloud.boot_delay = boot_delay;
            }
            return block_on(kind::stay_up(&self.on, &self.population, &self.dashboard, shown))?;
        }
        if self.port != 0 && self.stage != StageKind::Embedded {
            return Err(Stop::Usage(format!(
                "--port is for --stage embedded; the stage is {}",
                self.stage
            )));
        }
        let timeouts = timeouts(self.stage, self.population.nodes().max(self.kubelets));
        let mut plan = Plan {
            controller,
            ledger: self.data.of_cloud(),
            remediation: self.with.contains(&Addition::Remediation),
            ..Plan::new(self.seed, timeouts)
        };
        if self.with.contains(&Addition::HealthChecks) {
            plan.mcm_settings.health_checks = HealthChecks::On;
        }
        if let Some(boot_delay) = self.boot_delay {
            plan.cloud.boot_delay = boot_delay;
        }
        let (stage, population) = (self.stage, self.population);
        let plane = PlaneOptions {
            port: self.port,
            data: self.data,
            controllers,
            services: self.services,
            dashboard: self.dashboard,
        };
        availability::check([stage])?;
        block_on(async {
            tokio::select! {
                biased;
                _ = interrupted() => Ok(Outcome::Passed),
                ended = stay_up(stage, plane, plan, alone, population) => ended,
            }
        })?
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
        eprintln!("drydock: {reason}");
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
        eprintln!("drydock: {stop}");
    }
}

/// Runs until the control plane ends. Programs that exit are restarted.
async fn stay_up(kind: StageKind, options: PlaneOptions, plan: Plan, alone: bool, population: Population) -> Ended {
    let mut plane = match kind {
        StageKind::Embedded => {
            let plane = embedded::ControlPlane::start(embedded::Options {
                port: options.port,
                controllers: options.controllers,
                data: options.data.of_api_server(),
                services: options.services.into_map(),
                ..embedded::Options::new(plan.seed, &plan.timeouts, NAMESPACE, Some(Role::Both))
            })
            .await?;
            Plane::Embedded(Box::new(plane))
        }
        StageKind::Envtest => {
            let plane = envtest::ControlPlane::start(&plan.timeouts, NAMESPACE, Role::Both, &Arc::default()).await?;
            Plane::Envtest(Box::new(plane))
        }
        StageKind::Sim | StageKind::Kubeconfig | StageKind::Kind => {
            return Err(Stop::Usage(format!(
                "drydock up starts its own cluster, on stage embedded, envtest or kind; stage {kind} is for drydock run"
            )));
        }
    };
    let end = options.data.describe_end("everything");
    if alone {
        print_up(plane.kubeconfig());
        say!("  kubectl api-resources\n");
        say!("{end}");
        return Err(Stop::Usage(plane.failure().await));
    }
    let without_controller = plan.controller == Controller::None;
    let (seed, cloud) = (plan.seed, plan.cloud.clone());
    let planes = Planes::one(plane);
    let world = additions(&plan);
    let installed = setup::install_world(&planes.clusters(), NAMESPACE, &world).await;
    installed.map_err(StageError::from)?;
    let mut stage = ProcessStage::start(planes, plan).await?;
    print_up(stage.kubeconfig());
    if without_controller {
        say!(
            "  mcm --driver=grpc://{} --control-kubeconfig=$KUBECONFIG --target-kubeconfig=$KUBECONFIG   # or your controller",
            stage.cloud_address()
        );
    }
    say!("  {}", creates_machine(NAMESPACE));
    say!("  kubectl get machines,nodes --watch");
    if population.nodes() > 0 {
        say!("  drydock nodes list                                   # in this folder");
    }
    say!("  export FAKECLOUD_CLOUD=grpc://{}", stage.cloud_address());
    say!("  fakecloud vms\n");
    say!(
        "fakecloud answers gRPC on {}; logs are in {}",
        stage.cloud_address(),
        stage.folder().display()
    );
    let shown = Shown {
        kind,
        seed,
        cloud,
        has_controller: !without_controller,
    };
    let mut dashboard = options.dashboard.start(shown, &stage).await?;
    let world = World {
        cloud: format!("grpc://{}", stage.cloud_address()),
        tls: None,
        kubeconfig: Some(stage.kubeconfig().to_owned()),
    };
    let _announced = announce(&world, stage.folder());
    let settle = async {
        print_error(population.settle(&world, NAMESPACE).await);
        say!("{end}");
        std::future::pending().await
    };
    tokio::pin!(settle);
    let mut restarts = Restarts::default();
    let running: &[Process] = match without_controller {
        true => &[Process::Fakecloud],
        false => &[Process::Fakecloud, Process::Mcm],
    };
    let lanes = ProcessLanes::of(dashboard.as_ref(), stage.clock(), running);
    let report = |event: &ProcessEvent| match event {
        ProcessEvent::Exited { process, line } => {
            say!("{line}");
            lanes.changed(*process, "exited", false);
        }
        ProcessEvent::Started(process) => lanes.changed(*process, "started", true),
    };
    loop {
        let request = tokio::select! {
            biased;
            reason = stage.keep_running(&mut restarts, report) => return Err(Stop::Usage(reason)),
            never = &mut settle => return never,
            request = dashboard::next_process(&mut dashboard) => request,
        };
        let restarted = |process, done: &_, now| {
            // A process that was killed is started by the next step; one that cannot be started is started later.
            if let Some(line) = restarts.restarted(process, done, now) {
                say!("{line}");
            }
        };
        dashboard::perform(&mut stage, request, &lanes, restarted).await;
    }
}

/// The kinds and roles that a plan needs beside those of every world.
fn additions(plan: &Plan) -> Scenario {
    let mut scenario = Scenario::new("up", "The additions of drydock up.");
    scenario.world.health_checks = plan.mcm_settings.health_checks;
    scenario.world.remediation = plan.remediation;
    scenario
}

fn print_up(kubeconfig: &Path) {
    say!("The control plane is up; the machine CRDs are installed. In another terminal:\n");
    say!("  export KUBECONFIG={}", kubeconfig.display());
}
