//! `drydock list`: lists the scenarios with their stages, and why they do not run on others.

use clap::Args;
use scenario::{Scenario, StageKind};

use super::output::print;
use super::{Ended, Stop};

/// The width of the column with all stages.
const COLUMN: usize = 40;

#[derive(Args, Debug)]
pub(super) struct List {
    /// Prints one scenario as the YAML file that `drydock run --file` reads
    #[arg(long, value_name = "NAME")]
    yaml: Option<String>,
}

impl List {
    pub(super) fn execute(self, scenarios: &[Scenario]) -> Ended {
        if let Some(name) = &self.yaml {
            let yaml = super::find(scenarios, name)?.to_yaml();
            let yaml = yaml.map_err(|error| Stop::Usage(format!("scenario {name} has no YAML form: {error}")))?;
            return print(&yaml);
        }
        let mut list = String::new();
        let width = scenarios
            .iter()
            .map(|scenario| scenario.name.len())
            .max()
            .unwrap_or_default();
        for scenario in scenarios {
            let stages: Vec<String> = StageKind::ALL
                .into_iter()
                .filter(|stage| scenario.runs_on(*stage))
                .map(|stage| stage.to_string())
                .collect();
            list += &format!(
                "{:width$}  {:COLUMN$}  {}\n",
                scenario.name,
                stages.join(" "),
                scenario.about
            );
            if !scenario.tags.is_empty() {
                let suites: Vec<&str> = scenario.tags.iter().map(String::as_str).collect();
                list += &format!("{:width$}  {:COLUMN$}  in {}\n", "", "", suites.join(", "));
            }
            for stage in StageKind::ALL {
                if let Some(reason) = scenario.why_not_on(stage) {
                    list += &format!("{:width$}  {:COLUMN$}  not on {stage}: {reason}\n", "", "");
                }
            }
        }
        print(&list)
    }
}
