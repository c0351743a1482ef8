//! `drydock up` on a control plane whose programs are processes of this machine.

use std::collections::BTreeSet;
use std::sync::Arc;

use controllers::Name;
use scenario::step::Process;
use scenario::{Scenario, StageKind};
use stage::plane::{Plane, Planes, embedded, envtest};
use stage::processes::{Controller, Plan, ProcessStage};
use stage::restarts::{ProcessEvent, Restarts};
use stage::role::Role;
use stage::{Stage, StageError, setup};

use super::{announce, print_error, print_up};
use crate::cli::dashboard::{self, DashboardFlags, ProcessLanes, Running, Shown};
use crate::cli::data_folder::DataFolder;
use crate::cli::example::creates_machine;
use crate::cli::output::say;
use crate::cli::populate::Population;
use crate::cli::running_world::World;
use crate::cli::service_addresses::ServiceAddresses;
use crate::cli::{Ended, Stop};

/// The default namespace of kubectl, which the examples use.
const NAMESPACE: &str = "default";

/// The user's choices for a control plane; except for `data`, which also holds the cloud's, only of stage embedded.
pub(super) struct PlaneOptions {
    pub(super) port: u16,
    pub(super) data: DataFolder,
    pub(super) controllers: BTreeSet<Name>,
    pub(super) services: ServiceAddresses,
}

/// Runs only the control plane, until it ends.
pub(super) async fn stay_up_alone(kind: StageKind, options: PlaneOptions, plan: &Plan) -> Ended {
    let end = options.data.describe_end("everything");
    let mut plane = start_plane(kind, options, plan).await?;
    print_up(plane.kubeconfig());
    say!("  kubectl api-resources\n");
    say!("{end}");
    Err(Stop::Usage(plane.failure().await))
}

/// Runs until the control plane ends. Programs that exit are restarted.
pub(super) async fn stay_up(
    kind: StageKind,
    options: PlaneOptions,
    plan: Plan,
    population: Population,
    flags: DashboardFlags,
) -> Ended {
    let end = options.data.describe_end("everything");
    let shown = Shown {
        kind,
        seed: plan.seed,
        cloud: plan.cloud.clone(),
        has_controller: plan.controller != Controller::None,
    };
    let running: &[Process] = match shown.has_controller {
        true => &[Process::Fakecloud, Process::Mcm],
        false => &[Process::Fakecloud],
    };
    let planes = Planes::one(start_plane(kind, options, &plan).await?);
    let installed = setup::install_world(&planes.clusters(), NAMESPACE, &additions(&plan)).await;
    installed.map_err(StageError::from)?;
    let mut stage = ProcessStage::start(planes, plan).await?;
    print_use(&stage, shown.has_controller, &population);
    let mut dashboard = flags.start(shown, &stage).await?;
    let world = World {
        cloud: format!("grpc://{}", stage.cloud_address()),
        tls: None,
        kubeconfig: Some(stage.kubeconfig().to_owned()),
    };
    let _announced = announce(&world, stage.folder());
    let settled = async {
        print_error(population.settle(&world, NAMESPACE).await);
        say!("{end}");
        std::future::pending().await
    };
    let lanes = ProcessLanes::of(dashboard.as_ref(), stage.clock(), running);
    let reason = tokio::select! {
        biased;
        reason = keep_running(&mut stage, &mut dashboard, &lanes) => reason,
        never = settled => never,
    };
    Err(Stop::Usage(reason))
}

/// Restarts programs that exit, and performs what the dashboard requests; returns why the control plane ended.
async fn keep_running(stage: &mut ProcessStage, dashboard: &mut Option<Running>, lanes: &ProcessLanes) -> String {
    let mut restarts = Restarts::default();
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
            reason = stage.keep_running(&mut restarts, report) => return reason,
            request = dashboard::next_process(dashboard) => request,
        };
        let restarted = |process, done: &_, now| {
            // A process that was killed is started by the next step; one that cannot be started is started later.
            if let Some(line) = restarts.restarted(process, done, now) {
                say!("{line}");
            }
        };
        dashboard::perform(stage, request, lanes, restarted).await;
    }
}

async fn start_plane(kind: StageKind, options: PlaneOptions, plan: &Plan) -> Result<Plane, Stop> {
    if kind == StageKind::Envtest {
        let plane = envtest::ControlPlane::start(&plan.timeouts, NAMESPACE, Role::Both, &Arc::default()).await?;
        return Ok(Plane::Envtest(Box::new(plane)));
    }
    let plane = embedded::ControlPlane::start(embedded::Options {
        port: options.port,
        controllers: options.controllers,
        data: options.data.of_api_server(),
        services: options.services.into_map(),
        ..embedded::Options::new(plan.seed, &plan.timeouts, NAMESPACE, Some(Role::Both))
    })
    .await?;
    Ok(Plane::Embedded(Box::new(plane)))
}

/// The kinds and roles that a plan needs beside those of every world.
fn additions(plan: &Plan) -> Scenario {
    let mut scenario = Scenario::new("up", "The additions of drydock up.");
    scenario.world.health_checks = plan.mcm_settings.health_checks;
    scenario.world.remediation = plan.remediation;
    scenario
}

/// Prints the commands that use the world.
fn print_use(stage: &ProcessStage, has_controller: bool, population: &Population) {
    print_up(stage.kubeconfig());
    if !has_controller {
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
}
