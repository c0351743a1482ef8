//! The dashboard of `drydock up`: the crate `dashboard` with the clients of a running world.

mod cloud;
mod crash;
mod executor;
mod follow;
mod processes;

use std::sync::Arc;

use clap::Args;
use clock::Clock;
use dashboard::server::Dashboard;
use dashboard::{LiveWorld, Settings, Shared};
use jiff::Timestamp;
use parking_lot::Mutex;
use scenario::step::{Process, ProcessAction};
use scenario::{Cloud, StageKind};
use stage::{Stage, StageError};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::executor::WorldExecutor;
use self::follow::Watched;
use self::processes::Processes;
pub(super) use self::processes::{ProcessChange, ProcessRequest};
use super::Stop;
use super::output::say;

/// The fault that needs a controller.
const OF_CONTROLLER: &str = "process.";
/// Faults that only the embedded API server has.
const OF_EMBEDDED: &str = "api.";
/// The faults that kill a process at its next write, which a rule of the API server awaits.
const OF_EMBEDDED_PROCESSES: &str = "process.crash";
/// The fault of processes of this machine; those of a cluster in Docker are in containers.
const OF_LOCAL_PROCESSES: &str = "process.pause";

/// What the dashboard says about a world and its replay.
pub(super) struct Shown {
    pub(super) kind: StageKind,
    pub(super) seed: u64,
    pub(super) cloud: Cloud,
    pub(super) has_controller: bool,
}

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Dashboard")]
pub(super) struct DashboardFlags {
    /// Lets the dashboard inject faults; without it the dashboard is read-only
    #[arg(long, conflicts_with = "no_dashboard")]
    buttons: bool,

    /// The dashboard's port on 127.0.0.1; 0: any free port
    #[arg(long, value_name = "PORT", default_value_t = 0, conflicts_with = "no_dashboard")]
    dashboard_port: u16,

    /// Starts no dashboard
    #[arg(long)]
    no_dashboard: bool,
}

/// A running dashboard, which ends when dropped.
pub(super) struct Running {
    /// Steps on processes, for the owner of the stage.
    pub(super) processes: mpsc::Receiver<ProcessRequest>,
    world: Shared,
    _cancel: DropGuard,
}

impl DashboardFlags {
    /// Whether the user asked for something of it.
    pub(super) fn is_given(&self) -> bool {
        self.buttons || self.dashboard_port != 0
    }

    /// Starts the dashboard of a world, and prints its address; `None`: the user wants none.
    ///
    /// # Errors
    /// When its port is not available.
    pub(super) async fn start(&self, shown: Shown, stage: &impl Stage) -> Result<Option<Running>, Stop> {
        if self.no_dashboard {
            return Ok(None);
        }
        let Shown {
            kind,
            seed,
            mut cloud,
            has_controller,
        } = shown;
        let clock = Clock::wall();
        // A replay in virtual time has production's durations, and VMs that boot later would be hit in another state.
        cloud.boot_delay = cloud.boot_delay.value(stage.timeouts()).into();
        let api_faults = stage.api_faults();
        let possible = [
            (OF_CONTROLLER, has_controller),
            (OF_EMBEDDED, api_faults.is_some()),
            (OF_EMBEDDED_PROCESSES, api_faults.is_some()),
            (OF_LOCAL_PROCESSES, kind != StageKind::Kind),
        ];
        let settings = Settings {
            stage: kind,
            seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: format!("drydock up --stage {kind} --seed {seed}"),
            cloud,
            without: possible
                .into_iter()
                .filter_map(|(faults, possible)| (!possible).then_some(faults))
                .collect(),
        };
        let world: Shared = Arc::new(Mutex::new(LiveWorld::new(clock.now(), settings)));
        let (sender, processes) = mpsc::channel(1);
        let executor = WorldExecutor {
            cloud: stage.cloud(),
            namespace: stage.namespace().to_owned(),
            timeouts: stage.timeouts().clone(),
            faults: api_faults,
            processes: Processes(sender),
        };
        let dashboard = Dashboard::bind(
            self.dashboard_port,
            self.buttons,
            Arc::clone(&world),
            Arc::new(executor),
            clock.clone(),
        )
        .await?;
        say!("The dashboard is at {}", dashboard.url());
        let cancel = CancellationToken::new();
        let watched = Watched {
            clusters: stage.clusters(),
            cloud: stage.cloud(),
            clock,
            readers: dashboard.readers(),
            audits: stage.audits(),
        };
        let ended = cancel.clone();
        let followed = Arc::clone(&world);
        tokio::spawn(async move {
            tokio::select! {
                () = ended.cancelled() => {}
                () = watched.follow(&followed) => {}
            }
        });
        tokio::spawn(dashboard.serve(cancel.clone()));
        Ok(Some(Running {
            processes,
            world,
            _cancel: cancel.drop_guard(),
        }))
    }
}

/// Shows in the timeline what happens to processes.
#[derive(Clone)]
pub(super) struct ProcessLanes {
    world: Option<Shared>,
    clock: Clock,
}

impl ProcessLanes {
    /// Lanes of these processes, which run. Without a dashboard they show nothing.
    pub(super) fn of(dashboard: Option<&Running>, clock: &Clock, running: &[Process]) -> Self {
        let lanes = Self {
            world: dashboard.map(|running| Arc::clone(&running.world)),
            clock: clock.clone(),
        };
        for process in running {
            lanes.changed(*process, "started", true);
        }
        lanes
    }

    /// A process has started or ended.
    pub(super) fn changed(&self, process: Process, what: &str, runs: bool) {
        if let Some(world) = &self.world {
            world.lock().process(self.clock.now(), process, what, runs);
        }
    }

    /// A step on a process was performed.
    fn performed(&self, process: Process, action: ProcessAction, done: bool) {
        match action {
            ProcessAction::Kill | ProcessAction::KillLeader => self.changed(process, "killed", false),
            ProcessAction::Start if done => self.changed(process, "started", true),
            ProcessAction::Restart | ProcessAction::RollingRestart => {
                self.changed(process, "killed", false);
                if done {
                    self.changed(process, "started", true);
                }
            }
            ProcessAction::Start => {}
        }
    }
}

/// The next step on a process; never, without a dashboard.
pub(super) async fn next_process(running: &mut Option<Running>) -> ProcessRequest {
    let next = match running {
        Some(running) => running.processes.recv().await,
        None => None,
    };
    match next {
        Some(request) => request,
        None => std::future::pending().await,
    }
}

/// Performs a step on a process, calls `performed` with the result of an end or start, and returns it to the dashboard.
pub(super) async fn perform<S: Stage>(
    stage: &mut S,
    request: ProcessRequest,
    lanes: &ProcessLanes,
    performed: impl FnOnce(Process, &Result<(), StageError>, Timestamp),
) {
    let ProcessRequest {
        process,
        change,
        done: reply,
    } = request;
    let done = match change {
        ProcessChange::Pause(time) => stage.pause(process, time).await,
        ProcessChange::Action(action) => {
            let done = stage.process(process, action).await;
            lanes.performed(process, action, done.is_ok());
            performed(process, &done, stage.clock().now());
            done
        }
    };
    // The page may be gone.
    let _ = reply.send(done);
}
