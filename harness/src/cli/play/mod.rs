//! `drydock play`: simulates a world that a page in the browser paces.

mod played;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgGroup, Args};
use clock::Clock;
use dashboard::server::Dashboard;
use dashboard::{LiveWorld, Player, RunEnd, RunHandle, Settings, Shared};
use parking_lot::Mutex;
use scenario::job::Job;
use scenario::plan::Plan;
use scenario::{Scenario, StageKind};
use sim::EPOCH;
use stage::logs;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::played::{InThePlan, OneRun, Played, end_of};
use super::files::{read_plan, read_scenario};
use super::output::say;
use super::{Ended, Outcome, Stop, block_on, find, interrupted};
use crate::report::record;
use crate::runner::{self, FollowedRun};

#[derive(Args, Debug)]
#[command(
    group = ArgGroup::new("what").required(true),
    after_help = "Examples:\n  drydock play lifecycle\n  drydock play drain_timeout --seed 7\n  drydock play --plan .drydock/chaos/sim-rollout-17-disturbed-0a1b2c3d/plan.yaml"
)]
pub(super) struct PlayCommand {
    /// A scenario by name
    #[arg(group = "what")]
    scenario: Option<String>,

    /// A scenario in a YAML file
    #[arg(long, value_name = "FILE", group = "what")]
    file: Option<PathBuf>,

    /// A plan in a YAML or JSON file, with scenario, seed and disturbances, for example of a failed run
    #[arg(long, value_name = "FILE", group = "what", conflicts_with_all = ["seed", "mutant"])]
    plan: Option<PathBuf>,

    /// The seed of all randomness
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// A defect of mcm that is switched on (builds with mutants)
    #[arg(long, value_name = "NAME", hide = true)]
    mutant: Option<String>,

    /// Lets the page inject faults: the run begins again, and goes on from the fault
    #[arg(long)]
    buttons: bool,

    /// The page's port on 127.0.0.1; 0: any free port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    dashboard_port: u16,

    /// Folder for the report folder of a run that fails
    #[arg(long, value_name = "FOLDER", default_value = ".drydock/reports")]
    report: PathBuf,
}

impl PlayCommand {
    /// Whether the command line contains the name of a scenario.
    pub(super) fn names_scenario(&self) -> bool {
        self.scenario.is_some()
    }

    pub(super) fn execute(self, scenarios: &[Scenario]) -> Ended {
        let job = self.job(scenarios)?;
        let plan = record::plan(&job)?;
        logs::keep();
        block_on(Box::pin(play(job, plan, self.dashboard_port, self.buttons)))?
    }

    /// The run to be played.
    fn job(&self, scenarios: &[Scenario]) -> Result<Job, Stop> {
        let job = match &self.plan {
            Some(file) => Job::of(read_plan(file, scenarios)?, StageKind::Sim),
            None => {
                let scenario = match (&self.file, &self.scenario) {
                    (Some(file), _) => read_scenario(file)?,
                    (None, Some(name)) => find(scenarios, name)?,
                    (None, None) => return Err(Stop::Usage("name a scenario".to_owned())),
                };
                let plan = Plan {
                    mutant: self.mutant.clone(),
                    ..Plan::new(scenario, self.seed)
                };
                Job {
                    file: self.file.clone(),
                    from_plan: false,
                    ..Job::of(plan, StageKind::Sim)
                }
            }
        };
        let scenario = &job.plan.scenario;
        if let Some(reason) = scenario.why_not_on(StageKind::Sim) {
            return Err(Stop::Usage(format!(
                "scenario {} cannot be played: it does not run on stage sim: {reason}",
                scenario.name
            )));
        }
        Ok(Job {
            reports: self.report.clone(),
            ..job
        })
    }
}

/// Serves the page and runs the job, until Ctrl-C.
async fn play(job: Job, plan: String, port: u16, buttons: bool) -> Ended {
    let clock = Clock::wall();
    let name = format!("{} with seed {}", job.plan.scenario.name, job.plan.seed);
    let settings = Settings {
        // Without buttons the page offers no faults: the empty prefix excludes all names.
        without: if buttons { Vec::new() } else { vec![""] },
        ..Settings::new(
            StageKind::Sim,
            job.plan.seed,
            env!("CARGO_PKG_VERSION"),
            &format!("drydock play {}", job.scenario_argument()),
        )
    };
    let world: Shared = Arc::new(Mutex::new(LiveWorld::without_timeline(EPOCH, settings)));
    let mut run = Arc::new(OneRun::new(job, plan));
    let (next, mut runs) = mpsc::unbounded_channel();
    let played = Arc::new(Played::new(Arc::clone(&run), next));
    let player = Player::new(clock.clone(), EPOCH, Arc::clone(&world), played);
    let mut handle = player.current();
    let dashboard = Dashboard::bind(port, buttons, world, Arc::new(InThePlan), clock)
        .await?
        .playing(player);
    say!("Scenario {name} waits before its first step. Open {}", dashboard.url());
    say!("Space lets it go on, n shows the next event, v goes on to the next violation or the end. Ctrl-C ends it.");
    let cancel = CancellationToken::new();
    let _served_until_the_end = cancel.clone().drop_guard();
    tokio::spawn(dashboard.serve(cancel));
    loop {
        let performed = tokio::task::spawn_blocking({
            let (run, handle) = (Arc::clone(&run), handle.clone());
            move || perform(&run, handle)
        });
        let ran = tokio::select! {
            biased;
            _ = interrupted() => return Ok(Outcome::Passed),
            ran = performed => ran.map_err(|error| Stop::Usage(format!("the simulation failed: {error}")))?,
        };
        let outcome = match ran {
            Some(ran) => finish(ran, &handle, &run)?,
            None => None,
        };
        let next = tokio::select! {
            biased;
            next = runs.recv() => next,
            _ = interrupted() => None,
        };
        match next {
            Some((next, its_handle)) => (run, handle) = (next, its_handle),
            None => return Ok(outcome.unwrap_or(Outcome::Passed)),
        }
    }
}

/// Performs a run; `None`: another one takes its place.
fn perform(run: &Arc<OneRun>, handle: RunHandle) -> Option<FollowedRun> {
    logs::forget();
    let engine = run.engine(handle.clone());
    runner::run_followed(&run.job, &engine, || run.trace(), || handle.is_current())
}

/// Shows the complete record of a run that has ended. Returns whether it passed; `None`: another run takes its place.
fn finish(ran: FollowedRun, handle: &RunHandle, run: &OneRun) -> Result<Option<Outcome>, Stop> {
    let FollowedRun { result, record } = ran;
    let record = record?;
    let end = RunEnd {
        passed: record.meta.verdict.passed,
        sentence: record.meta.verdict.sentence.clone(),
    };
    let at = end_of(&record);
    let outcome = if end.passed { Outcome::Passed } else { Outcome::Failed };
    let sentence = end.sentence.clone();
    run.complete(record);
    if !handle.finish(at, end) {
        return Ok(None);
    }
    say!("{sentence}");
    if let Some(folder) = &result.report {
        say!("Its report is in {}", folder.display());
    }
    Ok(Some(outcome))
}
