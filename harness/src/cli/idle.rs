//! `drydock idle`: runs one idle machine, and optionally other nodes, to measure the speed of virtual time.

use std::time::Duration;

use clap::Args;
use mcm_api::{GoDuration, Phase};
use scenario::builder::{boot_delay, create_machine, phase, slack};
use scenario::job::Job;
use scenario::plan::{Limits, Plan};
use scenario::{Scenario, StageKind};

use super::output::say;
use super::run::summarise;
use super::stage::StageArguments;
use super::{Ended, jobs};

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  drydock idle --virtual 24h --nodes 100")]
pub(super) struct Idle {
    /// Duration in virtual time
    #[arg(long, value_name = "DURATION", default_value = "72h")]
    r#virtual: GoDuration,

    /// Number of additional nodes without a machine
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    nodes: u32,

    /// The seed of all randomness
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Idle {
    pub(super) fn execute(self) -> Ended {
        let running = phase("m-1", Phase::Running);
        let scenario = Scenario::new("idle", "One Running machine is idle.")
            .nodes(self.nodes)
            .step(create_machine("m-1"))
            .eventually(boot_delay() + slack() + slack(), running.clone())
            .always(self.r#virtual.0, running);
        let limits = Limits {
            // Each heartbeat of each node has several trace entries.
            events: u64::MAX,
            wall_time: GoDuration(Duration::from_hours(24)),
            ..Limits::default()
        };
        let plan = Plan {
            limits,
            ..Plan::new(scenario, self.seed)
        };
        let finished = jobs::run(vec![Job::of(plan, StageKind::Sim)], None, &StageArguments::default())?;
        let (interrupt, left) = (finished.interrupt, finished.left());
        let results = finished.performed();
        if let Some(result) = results.first() {
            say!(
                "{:.1} virtual hours in {:.2} s: {:.0} times as fast as the wall clock",
                result.stage_seconds / 3600.0,
                result.wall_seconds,
                result.stage_seconds / result.wall_seconds.max(0.001)
            );
        }
        Ok(summarise(&results, left).or_interrupted(interrupt))
    }
}
