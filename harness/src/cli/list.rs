//! `drydock list` and `drydock show`: the scenarios, their suites and stages, and one of them as a file.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use scenario::closest::similar;
use scenario::{Scenario, StageKind};
use serde::Serialize;
use terminal::{Column, OutputFormat, Row, render};

use super::output::print;
use super::{Ended, Stop};

#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  drydock list drain                         # those with `drain` in the name or description\n  \
                  drydock list --suite preservation -o wide\n  drydock list --stage kind -o json"
)]
pub(super) struct List {
    /// Only scenarios whose name or description contains one of these texts
    texts: Vec<String>,

    /// Only scenarios that run on this stage
    #[arg(long, value_enum)]
    stage: Option<StageKind>,

    /// Only scenarios of this suite
    #[arg(long)]
    suite: Option<String>,

    #[command(flatten)]
    output: OutputFormat,
}

impl List {
    pub(super) fn execute(&self, scenarios: &[Scenario]) -> Ended {
        print(&self.text(scenarios)?)
    }

    fn text(&self, scenarios: &[Scenario]) -> Result<String, Stop> {
        self.check_suite(scenarios)?;
        let chosen = scenarios.iter().filter(|scenario| self.selects(scenario));
        let rows: Vec<ScenarioRow> = chosen.map(ScenarioRow::of).collect();
        Ok(render(self.output.format, &rows)?)
    }

    fn selects(&self, scenario: &Scenario) -> bool {
        let has = |text: &String| scenario.name.contains(text.as_str()) || scenario.about.contains(text.as_str());
        (self.texts.is_empty() || self.texts.iter().any(has))
            && self.stage.is_none_or(|stage| scenario.runs_on(stage))
            && self.suite.as_ref().is_none_or(|suite| scenario.tags.contains(suite))
    }

    fn check_suite(&self, scenarios: &[Scenario]) -> Result<(), Stop> {
        let Some(suite) = &self.suite else { return Ok(()) };
        let suites = || scenarios.iter().flat_map(|scenario| &scenario.tags);
        if suites().any(|known| known == suite) {
            return Ok(());
        }
        let mut near = similar(suite, suites().map(String::as_str));
        near.dedup();
        Err(Stop::Usage(match near.as_slice() {
            [] => format!("--suite: there is no suite {suite:?}"),
            near => format!("--suite: there is no suite {suite:?}; near it are: {}", near.join(", ")),
        }))
    }
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  drydock show lifecycle > my.yaml\n  drydock run --file my.yaml --stage sim")]
pub(super) struct Show {
    /// The scenario
    name: String,
}

impl Show {
    pub(super) fn execute(&self, scenarios: &[Scenario]) -> Ended {
        let name = &self.name;
        let yaml = super::find(scenarios, name)?.to_yaml();
        print(&yaml.map_err(|error| Stop::Usage(format!("scenario {name} has no YAML form: {error}")))?)
    }
}

/// A scenario of the list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ScenarioRow {
    name: String,
    description: String,
    suites: BTreeSet<String>,
    stages: Vec<String>,
    /// Why it does not run on the other stages.
    not_on: BTreeMap<String, String>,
    #[serde(skip)]
    short_stages: String,
}

impl ScenarioRow {
    fn of(scenario: &Scenario) -> Self {
        let missing = StageKind::ALL
            .into_iter()
            .filter_map(|stage| Some((stage.to_string(), scenario.why_not_on(stage)?)));
        Self {
            name: scenario.name.clone(),
            description: scenario.about.clone(),
            suites: scenario.tags.clone(),
            stages: stages(scenario),
            not_on: missing.collect(),
            short_stages: short_stages(scenario),
        }
    }
}

impl Row for ScenarioRow {
    const COLUMNS: &'static [Column] = &[
        Column::Shown("NAME"),
        Column::Shown("STAGES"),
        Column::Wide("SUITES"),
        Column::Text("DESCRIPTION"),
        Column::Wide("WHY NOT ON"),
    ];
    const EMPTY: &'static str = "there is no such scenario";

    fn cells(&self) -> Vec<String> {
        let suites: Vec<&str> = self.suites.iter().map(String::as_str).collect();
        let reasons: Vec<String> = self
            .not_on
            .iter()
            .map(|(stage, why)| format!("{stage}: {why}"))
            .collect();
        vec![
            self.name.clone(),
            self.short_stages.clone(),
            suites.join(", "),
            self.description.clone(),
            reasons.join("; "),
        ]
    }
}

fn stages(scenario: &Scenario) -> Vec<String> {
    let on = StageKind::ALL.into_iter().filter(|stage| scenario.runs_on(*stage));
    on.map(|stage| stage.to_string()).collect()
}

/// The stages in few letters: all, those that run it, or those that do not.
fn short_stages(scenario: &Scenario) -> String {
    let on = stages(scenario);
    if on.len() == StageKind::ALL.len() {
        return "all".to_owned();
    }
    let off = StageKind::ALL.into_iter().filter(|stage| !scenario.runs_on(*stage));
    let off: Vec<String> = off.map(|stage| stage.to_string()).collect();
    let (on, but) = (on.join(" "), format!("all but {}", off.join(" ")));
    if on.len() <= but.len() { on } else { but }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::Value;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        list: List,
    }

    fn scenarios() -> Vec<Scenario> {
        let mut drain = Scenario::new(
            "drain",
            "A node is drained: its pods leave one after another, as their budget permits, and then the VM goes.",
        );
        drain.tags.insert("machine".to_owned());
        let times = Scenario::new("times", "Production's times.");
        let times = times.only_on([StageKind::Sim], "it takes days");
        vec![drain, times]
    }

    fn listed(arguments: &[&str]) -> Result<String, String> {
        let line = Line::try_parse_from([&["list"], arguments].concat()).map_err(|error| error.to_string())?;
        line.list.text(&scenarios()).map_err(|stop| stop.to_string())
    }

    #[test]
    fn a_table_has_a_header_and_fits_a_hundred_columns() {
        let text = listed(&[]).unwrap();
        assert_eq!(
            text,
            "NAME   STAGES  DESCRIPTION\n\
             drain  all     A node is drained: its pods leave one after another, as their budget permits, and th…\n\
             times  sim     Production's times.\n"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 100));
    }

    #[test]
    fn filters_select_by_text_stage_and_suite() {
        let names = |arguments: &[&str]| {
            let json: Value = serde_json::from_str(&listed(&[arguments, &["-o", "json"]].concat()).unwrap()).unwrap();
            let names = json.as_array().unwrap().iter();
            names
                .map(|one| one["name"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["drain", "times"]);
        assert_eq!(names(&["budget"]), ["drain"]);
        assert_eq!(names(&["budget", "times"]), ["drain", "times"]);
        assert_eq!(names(&["--stage", "kind"]), ["drain"]);
        assert_eq!(names(&["--suite", "machine"]), ["drain"]);
        let error = "--suite: there is no suite \"machines\"; near it are: machine";
        assert_eq!(listed(&["--suite", "machines"]), Err(error.to_owned()));
    }

    #[test]
    fn the_wide_format_has_suites_and_reasons() {
        let text = listed(&["-o", "wide"]).unwrap();
        let of = |name| text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        assert!(
            of("drain").contains("  machine  ") && of("times").contains("kind: it takes days"),
            "{text}"
        );
    }
}
