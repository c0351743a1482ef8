//! `drydock play`: simulates a world that a page in the browser paces.

mod played;

use std::path::PathBuf;
use std::sync::Arc;

use clap::{ArgGroup, Args};
use clock::Clock;
use dashboard::server::Dashboard;
use dashboard::{LiveWorld, Player, RunEnd, Settings, Shared};
use parking_lot::Mutex;
use scenario::job::Job;
use scenario::plan::Plan;
use scenario::{Scenario, StageKind};
use sim::EPOCH;
use stage::logs;
use tokio_util::sync::CancellationToken;

use self::played::{Follows, NoFaults, Played};
use super::files::{read_plan, read_scenario};
use super::output::say;
use super::{Ended, Outcome, Stop, block_on, find, interrupted};
use crate::engine::ScenarioEngine;
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
        block_on(Box::pin(play(job, plan, self.dashboard_port)))?
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
async fn play(job: Job, plan: String, port: u16) -> Ended {
    let clock = Clock::wall();
    let name = format!("{} with seed {}", job.plan.scenario.name, job.plan.seed);
    let settings = Settings {
        // The page offers no faults, because a simulated run has those of its plan: the empty prefix excludes all names.
        without: vec![""],
        ..Settings::new(
            StageKind::Sim,
            job.plan.seed,
            env!("CARGO_PKG_VERSION"),
            &format!("drydock play {}", job.scenario_argument()),
        )
    };
    let world: Shared = Arc::new(Mutex::new(LiveWorld::without_timeline(EPOCH, settings)));
    let engine = ScenarioEngine::default();
    let played = Arc::new(Played::new(job.clone(), plan, engine.recording.clone()));
    let player = Player::new(clock.clone(), EPOCH, Arc::clone(&world), Arc::clone(&played) as _);
    let dashboard = Dashboard::bind(port, false, world, Arc::new(NoFaults), clock)
        .await?
        .playing(player.clone());
    say!("Scenario {name} waits before its first step. Open {}", dashboard.url());
    say!("Space lets it go on, n shows the next event, v goes on to the next violation or the end. Ctrl-C ends it.");
    let cancel = CancellationToken::new();
    let _served_until_the_end = cancel.clone().drop_guard();
    tokio::spawn(dashboard.serve(cancel));
    let follower = Follows::new(player.clone(), Arc::clone(&played));
    let engine = ScenarioEngine {
        follower: Some(Arc::new(follower)),
        ..engine
    };
    let trace = Arc::clone(&played);
    let run = tokio::task::spawn_blocking(move || runner::run_followed(&job, &engine, || trace.trace()));
    let ran = tokio::select! {
        biased;
        _ = interrupted() => return Ok(Outcome::Passed),
        ran = run => ran.map_err(|error| Stop::Usage(format!("the simulation failed: {error}")))?,
    };
    let outcome = finished(ran, &player, &played)?;
    interrupted().await;
    Ok(outcome)
}

/// Shows the complete record of a run that has ended. Returns whether it passed.
fn finished(ran: FollowedRun, player: &Player, played: &Played) -> Result<Outcome, Stop> {
    let FollowedRun { result, record } = ran;
    let record = record?;
    let end = RunEnd {
        passed: record.meta.verdict.passed,
        sentence: record.meta.verdict.sentence.clone(),
    };
    let at = Played::end_of(&record);
    let outcome = if end.passed { Outcome::Passed } else { Outcome::Failed };
    say!("{}", end.sentence);
    if let Some(folder) = &result.report {
        say!("Its report is in {}", folder.display());
    }
    played.complete(record);
    player.finish(at, end);
    Ok(outcome)
}
