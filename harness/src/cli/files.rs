//! Reads scenario and plan files of the command line, and reports deprecated spellings in them on standard error.

use std::path::Path;

use scenario::plan::Plan;
use scenario::{Deprecations, Scenario};

use super::Stop;

/// Reads the scenario of a file.
pub(super) fn read_scenario(file: &Path) -> Result<Scenario, Stop> {
    let mut deprecations = Deprecations::default();
    let scenario = Scenario::read(file, &mut deprecations).map_err(|error| Stop::Usage(error.to_string()))?;
    warn(&deprecations);
    Ok(scenario)
}

/// Reads the plan of a file, which may reference one of `scenarios`.
pub(super) fn read_plan(file: &Path, scenarios: &[Scenario]) -> Result<Plan, Stop> {
    let mut deprecations = Deprecations::default();
    let plan = Plan::read(file, scenarios, &mut deprecations).map_err(|error| Stop::Usage(error.to_string()))?;
    warn(&deprecations);
    Ok(plan)
}

fn warn(deprecations: &Deprecations) {
    for deprecation in deprecations.iter() {
        crate::cli::output::complain!("warning: {deprecation}");
    }
}
