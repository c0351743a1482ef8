//! The page of a comparison of two runs: their lanes above each other on a common axis, and their events side by side. It needs no
//! scripts.

use std::fmt::Write as _;

use record::{AlignedRow, Alignment, Point, RunRecord, align};

use crate::escape::escaped;
use crate::static_page::{self, StaticPage};
use crate::{diff_lanes, table};

/// The common events before the first difference in the table.
const CONTEXT: usize = 10;
/// The rows of the table after the first difference.
const MOST_ROWS: usize = 300;

/// The page that compares two runs, as one HTML file.
pub fn diff_page(one: &RunRecord, other: &RunRecord) -> String {
    let alignment = align(one, other);
    let body = [
        head(one, other, &alignment),
        difference(&alignment),
        diff_lanes::of(&alignment),
        events(&alignment),
    ];
    let title = format!("{} and {}", name(one), name(other));
    static_page::rendered(&StaticPage {
        title: &title,
        body: &body.concat(),
    })
}

fn name(record: &RunRecord) -> String {
    let place = &record.meta.place;
    format!("{} on {} with seed {}", place.scenario, place.stage, place.seed)
}

fn head(one: &RunRecord, other: &RunRecord, alignment: &Alignment<'_>) -> String {
    let is_equal = first(alignment).is_none();
    let same_verdict = one.meta.verdict.passed == other.meta.verdict.passed;
    let (class, state, sentence) = match (is_equal, same_verdict) {
        (true, true) => ("pass", "EQUAL", format!("no difference in {} events", alignment.agreed)),
        (true, false) => (
            "fail",
            "DIFFERENT",
            format!(
                "no difference in {} events, but one run passed and the other did not",
                alignment.agreed
            ),
        ),
        (false, _) => (
            "fail",
            "DIFFERENT",
            format!(
                "the first {} events are equal, and the next one is not",
                alignment.agreed
            ),
        ),
    };
    let mut html = format!(
        "<header class=\"head\"><h1 class=\"verdict\"><span class=\"badge {class}\">{state}</span><span>{sentence}</span></h1>"
    );
    for (letter, record) in [("A", one), ("B", other)] {
        let _ = write!(
            html,
            "<p><b>{letter}</b> {}, {} events. {}</p><div class=\"replay\"><span>Replay {letter}</span><code tabindex=\"0\">{}</code></div>",
            escaped(&name(record)),
            record.points.len(),
            escaped(&record.meta.verdict.sentence),
            escaped(&record.meta.replay)
        );
    }
    html + "</header>\n<main>\n"
}

/// The first row whose events differ.
fn first<'a>(alignment: &Alignment<'a>) -> Option<AlignedRow<'a>> {
    alignment.rows.get(alignment.agreed).copied()
}

/// The event of each run with the first difference. In the rows they may not be side by side.
fn firsts<'a>(alignment: &Alignment<'a>) -> [Option<&'a Point>; 2] {
    let mut later = alignment.rows.iter().skip(alignment.agreed);
    let one = later.clone().find_map(|row| row.one);
    [one, later.find_map(|row| row.other)]
}

fn difference(alignment: &Alignment<'_>) -> String {
    if first(alignment).is_none() {
        return String::new();
    }
    let mut html =
        String::from("<section aria-labelledby=\"first\"><h2 id=\"first\">▲ First difference</h2><div class=\"pair\">");
    for (letter, point) in ["A", "B"].into_iter().zip(firsts(alignment)) {
        let _ = write!(html, "<div class=\"group\"><h3>{letter}: {}</h3>", event(point));
        if let Some(change) = point.and_then(|point| point.diff.as_ref()) {
            let change = serde_json::to_string_pretty(change).unwrap_or_default();
            let _ = write!(html, "<pre class=\"object\" tabindex=\"0\">{}</pre>", escaped(&change));
        }
        html += "</div>";
    }
    html + "</div></section>\n"
}

/// An event in one line.
fn event(point: Option<&Point>) -> String {
    match point {
        None => "no more events".to_owned(),
        Some(point) => format!(
            "event {}, {}: {}",
            point.number,
            table::time(point.at),
            escaped(&point.summary)
        ),
    }
}

fn events(alignment: &Alignment<'_>) -> String {
    let from = alignment.agreed.saturating_sub(CONTEXT);
    let to = alignment.aligned.min(alignment.agreed + MOST_ROWS);
    let rows = alignment
        .rows
        .iter()
        .enumerate()
        .take(to)
        .skip(from)
        .map(|(index, row)| {
            let (id, class, state) = match (row.is_equal, index == alignment.agreed) {
                (true, _) => ("", "", "equal"),
                (false, true) => (" id=\"difference\"", " class=\"different\"", "▲ first difference"),
                (false, false) if row.one.is_some() && row.other.is_some() => {
                    ("", " class=\"different\"", "▲ different")
                }
                (false, false) => ("", " class=\"different\"", "▲ only here"),
            };
            let cell = |point: Option<&Point>| point.map_or_else(String::new, |point| event(Some(point)));
            format!(
                "<tr{id}{class}><td>{}</td><td>{}</td><td class=\"result\">{state}</td></tr>",
                cell(row.one),
                cell(row.other)
            )
        });
    let rows: String = rows.collect();
    let hidden = |side: fn(&AlignedRow<'_>) -> bool| alignment.rows.iter().skip(to).filter(|row| side(row)).count();
    let (of_one, of_other) = (hidden(|row| row.one.is_some()), hidden(|row| row.other.is_some()));
    let mut parts = Vec::new();
    if from > 0 {
        parts.push(format!("the first {from} events, which are equal"));
    }
    if of_one + of_other > 0 {
        parts.push(format!("the last {of_one} of A and {of_other} of B"));
    }
    let left_out = match parts.as_slice() {
        [] => String::new(),
        parts => format!("<p class=\"note\">Left out: {}.</p>", parts.join(", and ")),
    };
    format!(
        "<section aria-labelledby=\"events\"><h2 id=\"events\">Events</h2>{left_out}<div class=\"wrap\"><table><thead><tr>\
         <th scope=\"col\">A</th><th scope=\"col\">B</th><th scope=\"col\">Result</th></tr></thead><tbody>{rows}</tbody></table></div></section>\n</main>\n"
    )
}

#[cfg(test)]
#[path = "diff_page_tests.rs"]
mod tests;
