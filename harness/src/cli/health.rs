//! What the running `drydock up` of this folder reports about itself: the panics in its metrics.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use http::Request;
use stage::controller_metrics::{PANICS, RESTARTS};

use super::finding::Finding;
use super::running_world::{self, World, WorldError};
use super::{Outcome, Stop, block_on};

/// The metric of panics of request handlers.
const REQUEST_PANICS: &str = "drydock_request_panics";
/// How long the API server may take to answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Finds the panics of the world of this folder. Fails if there were any: each is a bug.
pub(super) fn report(findings: &mut Vec<Finding>) -> Result<Outcome, Stop> {
    let Ok(world) = running_world::find(Path::new(".")) else {
        findings.push(Finding::ok("up", "no `drydock up` runs in this folder"));
        return Ok(Outcome::Passed);
    };
    let lines = match block_on(metrics(&world))? {
        Ok(text) => describe(&text),
        Err(error) => Lines::Unknown(error.to_string()),
    };
    match lines {
        Lines::Unknown(reason) => {
            findings.push(Finding::ok("up", format!("running; panics are unknown: {reason}")));
        }
        Lines::None(controllers) => {
            let message = format!("running; no panics of {controllers} controllers and of requests");
            findings.push(Finding::ok("up", message));
        }
        Lines::Some(lines) => {
            let bug = |line: String| Finding::problem("up", format!("bug: {line}"));
            findings.extend(lines.into_iter().map(bug));
            return Ok(Outcome::Failed);
        }
    }
    Ok(Outcome::Passed)
}

/// The panics that metrics report.
#[derive(Debug, PartialEq, Eq)]
enum Lines {
    /// They do not report panics.
    Unknown(String),
    /// None, of that number of controllers.
    None(usize),
    /// One line for each controller and each kind of request.
    Some(Vec<String>),
}

/// Why the metrics of a world are unknown.
#[derive(Debug, thiserror::Error)]
enum MetricsError {
    #[error(transparent)]
    World(#[from] WorldError),
    #[error("its API server is unknown")]
    UnknownServer,
    #[error(transparent)]
    Request(#[from] http::Error),
    #[error("its API server answers /metrics with an error: {0}")]
    Answer(#[from] kube::Error),
    #[error("its API server does not answer /metrics within {LIMIT:?}")]
    NoAnswer,
}

async fn metrics(world: &World) -> Result<String, MetricsError> {
    let client = world.client().await?.ok_or(MetricsError::UnknownServer)?;
    let request = Request::get("/metrics").body(Vec::new())?;
    let text = tokio::time::timeout(LIMIT, client.request_text(request)).await;
    Ok(text.map_err(|_| MetricsError::NoAnswer)??)
}

/// One series of a counter.
struct Sample<'a> {
    labels: BTreeMap<&'a str, &'a str>,
    value: f64,
}

impl<'a> Sample<'a> {
    fn label(&self, name: &str) -> &'a str {
        self.labels.get(name).copied().unwrap_or_default()
    }
}

/// The series of a counter in the text of metrics. The values of its labels are names, without quotes and commas.
fn counters<'a>(text: &'a str, name: &str) -> Vec<Sample<'a>> {
    let series = text.lines().filter_map(|line| {
        let (labels, value) = line.strip_prefix(name)?.strip_prefix("_total{")?.split_once("} ")?;
        let labels = labels.split(',').filter_map(|label| label.split_once('='));
        Some(Sample {
            labels: labels.map(|(name, value)| (name, value.trim_matches('"'))).collect(),
            value: value.parse().ok()?,
        })
    });
    series.collect()
}

fn describe(text: &str) -> Lines {
    let (panics, restarts) = (counters(text, PANICS), counters(text, RESTARTS));
    if panics.is_empty() {
        return Lines::Unknown("only stage embedded counts them".to_owned());
    }
    let controllers = panics.len();
    let of_controllers = panics.iter().filter(|sample| sample.value > 0.0).map(|sample| {
        let name = sample.label("controller");
        let restarted = restarts.iter().find(|other| other.label("controller") == name);
        let restarted = restarted.map_or(0.0, |other| other.value);
        let state = if restarted < sample.value {
            "; it waits for its next start"
        } else {
            ""
        };
        format!(
            "controller {name} panicked {} and was restarted {}{state}",
            times(sample.value),
            times(restarted)
        )
    });
    let requests = counters(text, REQUEST_PANICS);
    let of_requests = requests.iter().map(|sample| {
        format!(
            "the handler of {} panicked {} and answered 500",
            request(sample),
            times(sample.value)
        )
    });
    let lines: Vec<String> = of_controllers.chain(of_requests).collect();
    match lines.is_empty() {
        true => Lines::None(controllers),
        false => Lines::Some(lines),
    }
}

/// For example `PATCH pods/status`.
fn request(sample: &Sample<'_>) -> String {
    let (resource, subresource) = (sample.label("resource"), sample.label("subresource"));
    let slash = if resource.is_empty() || subresource.is_empty() {
        ""
    } else {
        "/"
    };
    let target = format!("{resource}{slash}{subresource}");
    let target = if target.is_empty() { "other paths" } else { &target };
    format!("{} {target}", sample.label("verb"))
}

fn times(count: f64) -> String {
    match count {
        1.0 => "once".to_owned(),
        _ => format!("{count} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_described_by_controller_and_by_request() {
        let text = r#"
drydock_controller_panics_total{controller="calm"} 0
drydock_controller_panics_total{controller="job"} 3
drydock_controller_panics_total{controller="scheduler"} 1
drydock_controller_restarts_total{controller="calm"} 0
drydock_controller_restarts_total{controller="job"} 2
drydock_controller_restarts_total{controller="scheduler"} 1
drydock_request_panics_total{verb="PATCH",resource="pods",subresource="status"} 2
drydock_request_panics_total{verb="GET",resource="",subresource=""} 1
"#;
        let expected = [
            "controller job panicked 3 times and was restarted 2 times; it waits for its next start",
            "controller scheduler panicked once and was restarted once",
            "the handler of PATCH pods/status panicked 2 times and answered 500",
            "the handler of GET other paths panicked once and answered 500",
        ];
        assert_eq!(describe(text), Lines::Some(expected.map(str::to_owned).into()));
    }

    #[test]
    fn without_panics_the_controllers_are_counted() {
        let text = "drydock_controller_panics_total{controller=\"job\"} 0\n";
        assert_eq!(describe(text), Lines::None(1));
        assert!(matches!(describe("apiserver_request_total 1\n"), Lines::Unknown(_)));
    }
}
