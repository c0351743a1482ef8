//! `drydock list` and `drydock show`: the scenarios, their suites and stages, and one of them as a file.

use clap::{Args, ValueEnum};
use scenario::closest::similar;
use scenario::{Scenario, StageKind};
use serde_json::{Value, json};

use super::output::print;
use super::{Ended, Stop};

/// The width of the table in columns.
const WIDTH: usize = 100;
/// The width of the column with stages in the wide format: that of all stages.
const STAGES: usize = 40;

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

    /// The format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
}

/// The format of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One line for each scenario
    Table,
    /// Also suites, whole descriptions, and why a scenario does not run on a stage
    Wide,
    Json,
    Yaml,
}

impl List {
    pub(super) fn execute(&self, scenarios: &[Scenario]) -> Ended {
        print(&self.text(scenarios)?)
    }

    fn text(&self, scenarios: &[Scenario]) -> Result<String, Stop> {
        self.check_suite(scenarios)?;
        let chosen: Vec<&Scenario> = scenarios.iter().filter(|scenario| self.selects(scenario)).collect();
        let all = || Value::from_iter(chosen.iter().map(|scenario| description(scenario)));
        Ok(match self.output {
            Format::Table => table(&chosen),
            Format::Wide => wide(&chosen),
            Format::Json => format!("{:#}\n", all()),
            Format::Yaml => serde_saphyr::to_string(&all())
                .map_err(|error| Stop::Usage(format!("the list has no YAML form: {error}")))?,
        })
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

fn table(scenarios: &[&Scenario]) -> String {
    let mut rows = vec![["NAME", "STAGES", "DESCRIPTION"].map(str::to_owned)];
    rows.extend(
        scenarios
            .iter()
            .map(|scenario| [scenario.name.clone(), short_stages(scenario), scenario.about.clone()]),
    );
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or_default()
    };
    let (name, stages) = (width(0), width(1));
    let rest = WIDTH.saturating_sub(name + stages + 4);
    let line = |row: &[String; 3]| format!("{:name$}  {:stages$}  {}\n", row[0], row[1], shortened(&row[2], rest));
    rows.iter().map(line).collect()
}

/// The beginning of a text, with an ellipsis if it is longer.
fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", beginning.trim_end())
}

fn wide(scenarios: &[&Scenario]) -> String {
    let width = scenarios.iter().map(|scenario| scenario.name.len()).max();
    let width = width.unwrap_or_default().max("NAME".len());
    let mut list = format!("{:width$}  {:STAGES$}  DESCRIPTION\n", "NAME", "STAGES");
    for scenario in scenarios {
        let on = stages(scenario).join(" ");
        list += &format!("{:width$}  {on:STAGES$}  {}\n", scenario.name, scenario.about);
        if !scenario.tags.is_empty() {
            let suites: Vec<&str> = scenario.tags.iter().map(String::as_str).collect();
            list += &format!("{:width$}  {:STAGES$}  in {}\n", "", "", suites.join(", "));
        }
        for stage in StageKind::ALL {
            if let Some(reason) = scenario.why_not_on(stage) {
                list += &format!("{:width$}  {:STAGES$}  not on {stage}: {reason}\n", "", "");
            }
        }
    }
    list
}

fn description(scenario: &Scenario) -> Value {
    let missing = StageKind::ALL
        .into_iter()
        .filter_map(|stage| Some((stage.to_string(), Value::from(scenario.why_not_on(stage)?))));
    json!({
        "name": scenario.name,
        "description": scenario.about,
        "suites": scenario.tags,
        "stages": stages(scenario),
        "notOn": Value::Object(missing.collect()),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

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
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
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
        assert!(
            text.contains("  in machine\n") && text.contains("  not on kind: it takes days\n"),
            "{text}"
        );
    }
}
