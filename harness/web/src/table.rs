//! The verdict and the main events as a table, for browsers without scripts.

use std::fmt::Write as _;
use std::time::Duration;

use record::{Micros, Point, RunRecord, Verb};

use crate::escape::escaped;

/// The maximum number of events in the table.
const MOST_ROWS: usize = 300;

/// The table of a record as HTML.
pub(crate) fn of(record: &RunRecord) -> String {
    let verdict = &record.meta.verdict;
    let main: Vec<&Point> = record.points.iter().filter(|point| is_main(point)).collect();
    // The end of a run says more about its failure than its begin.
    let first = main.len().saturating_sub(MOST_ROWS);
    let mut html = format!(
        "<h1>{}</h1><p>Replay: <code>{}</code></p>",
        escaped(&verdict.sentence),
        escaped(&record.meta.replay)
    );
    let _ = write!(
        html,
        "<p>This page needs scripts to show its timeline. The table has {} of the {} events: the main ones{}.</p>",
        main.len() - first,
        record.points.len(),
        if first > 0 {
            ", of which the first are left out"
        } else {
            ""
        }
    );
    html += "<table><thead><tr><th>Number</th><th>Time</th><th>Event</th></tr></thead><tbody>";
    for point in &main[first..] {
        let mark = if point.violates.is_some() { "violation: " } else { "" };
        let _ = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{mark}{}</td></tr>",
            point.number,
            time(point.at),
            escaped(&point.summary)
        );
    }
    html + "</tbody></table>"
}

/// Whether an event is shown without the timeline.
fn is_main(point: &Point) -> bool {
    let is_of_scenario = matches!(
        point.verb,
        Verb::Step | Verb::Fault | Verb::Process | Verb::Expectation | Verb::Verdict | Verb::Vm | Verb::Delete
    );
    is_of_scenario || point.violates.is_some() || point.actor.starts_with("machine/") && point.verb == Verb::Write
}

/// The time since the start of the scenario.
pub(crate) fn time(at: Micros) -> String {
    let time = Duration::from_micros(at.0);
    let (minutes, seconds) = (time.as_secs() / 60, time.as_secs() % 60);
    let (hours, minutes) = (minutes / 60, minutes % 60);
    let milliseconds = time.subsec_millis();
    match hours {
        0 => format!("+{minutes}m{seconds:02}.{milliseconds:03}s"),
        hours => format!("+{hours}h{minutes:02}m{seconds:02}s"),
    }
}
