//! Grafana dashboards as tables of panels, and alerting rules for Prometheus as tables of queries. Tests generate the files of
//! `deploy/monitoring` with it, from queries whose metrics they have seen in the text of a scrape. No program contains it.

mod alerts;

pub use alerts::{Alert, AlertGroup, Severity};

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

/// A panel.
#[derive(Clone, Copy, Debug)]
pub struct Panel {
    /// Its title.
    pub title: &'static str,
    /// Its unit in Grafana's words, for example `s` or `reqps`.
    pub unit: &'static str,
    /// Its queries with their legends.
    pub queries: &'static [(&'static str, &'static str)],
}

/// A panel.
pub const fn panel(title: &'static str, unit: &'static str, queries: &'static [(&'static str, &'static str)]) -> Panel {
    Panel { title, unit, queries }
}

/// A row of panels with its title.
pub type Row = (&'static str, &'static [Panel]);

/// A dashboard.
#[derive(Clone, Copy, Debug)]
pub struct Board {
    /// Its identity in Grafana.
    pub uid: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its tag.
    pub tag: &'static str,
    /// Its rows, from what an operator asks first.
    pub rows: &'static [Row],
}

/// The width of Grafana's grid, and the height of a panel and of a row's title in it.
const GRID: usize = 24;
const HEIGHT: usize = 8;

impl Board {
    /// The file that Grafana imports.
    pub fn text(&self) -> String {
        format!("{:#}\n", self.json())
    }

    fn json(&self) -> Value {
        let mut panels = Vec::new();
        let mut y = 0;
        for (title, row) in self.rows {
            panels.push(json!({
                "id": panels.len() + 1, "type": "row", "title": title, "collapsed": false, "panels": [],
                "gridPos": { "x": 0, "y": y, "w": GRID, "h": 1 },
            }));
            let width = GRID / row.len().max(1);
            for (column, panel) in row.iter().enumerate() {
                let place = json!({ "x": column * width, "y": y + 1, "w": width, "h": HEIGHT });
                panels.push(chart(panels.len() + 1, panel, &place));
            }
            y += 1 + HEIGHT;
        }
        json!({
            "uid": self.uid,
            "title": self.title,
            "tags": [self.tag],
            "schemaVersion": 39,
            "time": { "from": "now-6h", "to": "now" },
            "refresh": "30s",
            "templating": { "list": [{ "name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source" }] },
            "panels": panels,
        })
    }

    /// The metrics of its queries whose names begin with one of `prefixes` and are not in the text of a scrape, and the number of
    /// those that are.
    pub fn missing_metrics(&self, prefixes: &[&str], scraped: &str) -> (Vec<String>, usize) {
        let panels = self.rows.iter().flat_map(|(_, row)| row.iter());
        let queries = panels.flat_map(|panel| panel.queries);
        missing_metrics(queries.map(|(query, _)| *query), prefixes, scraped)
    }
}

fn chart(id: usize, panel: &Panel, place: &Value) -> Value {
    let source = json!({ "type": "prometheus", "uid": "${datasource}" });
    let targets: Vec<Value> = ('A'..)
        .zip(panel.queries)
        .map(|(name, (query, legend))| {
            json!({ "refId": name.to_string(), "expr": query, "legendFormat": legend, "datasource": source })
        })
        .collect();
    json!({
        "id": id, "type": "timeseries", "title": panel.title, "datasource": source, "gridPos": place, "targets": targets,
        "fieldConfig": { "defaults": { "unit": panel.unit, "min": 0 }, "overrides": [] },
    })
}

/// The metrics of queries that a scrape does not have, and the number of those that it has.
fn missing_metrics<'a>(
    queries: impl Iterator<Item = &'a str>,
    prefixes: &[&str],
    scraped: &str,
) -> (Vec<String>, usize) {
    let used: BTreeSet<String> = queries.flat_map(|query| metrics_in(prefixes, query)).collect();
    let (found, missing): (Vec<String>, Vec<String>) = used.into_iter().partition(|name| exists(name, scraped));
    (missing, found.len())
}

/// The sorted names of metrics in a text: the words with one of these prefixes.
fn metrics_in(prefixes: &[&str], text: &str) -> Vec<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let used = words.filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)));
    let used: BTreeSet<&str> = used.collect();
    used.into_iter().map(str::to_owned).collect()
}

/// Whether a scrape has a metric of that name. Counters and histograms have suffixes in queries.
fn exists(name: &str, scraped: &str) -> bool {
    let family = name.trim_end_matches("_total").trim_end_matches("_bucket");
    [name, family]
        .iter()
        .any(|name| scraped.contains(&format!("# TYPE {name} ")))
}

/// Whether a file has that content; with `DRYDOCK_WRITE_DOCS` in the environment it is written first.
///
/// # Errors
/// When the file cannot be written.
pub fn is_current(file: &Path, generated: &str) -> std::io::Result<bool> {
    if std::env::var_os("DRYDOCK_WRITE_DOCS").is_some() {
        std::fs::write(file, generated)?;
    }
    Ok(std::fs::read_to_string(file).unwrap_or_default() == generated)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOARD: Board = Board {
        uid: "b",
        title: "A board",
        tag: "test",
        rows: &[
            (
                "One",
                &[panel(
                    "Rates",
                    "reqps",
                    &[("rate(a_calls_total[5m]) / a_gone", "calls"), ("b_size", "")],
                )],
            ),
            ("Two", &[panel("Left", "s", &[]), panel("Right", "s", &[])]),
        ],
    };

    #[test]
    fn panels_stand_side_by_side_below_the_title_of_their_row() {
        let board = BOARD.json();
        let places: Vec<String> = board["panels"]
            .as_array()
            .unwrap()
            .iter()
            .map(|panel| {
                let place = &panel["gridPos"];
                format!(
                    "{} {},{} {}x{}",
                    panel["title"], place["x"], place["y"], place["w"], place["h"]
                )
            })
            .collect();
        assert_eq!(
            places,
            [
                "\"One\" 0,0 24x1",
                "\"Rates\" 0,1 24x8",
                "\"Two\" 0,9 24x1",
                "\"Left\" 0,10 12x8",
                "\"Right\" 12,10 12x8"
            ]
        );
        assert_eq!(board["panels"][1]["targets"][1]["refId"], "B");
    }

    #[test]
    fn a_query_for_a_metric_that_no_scrape_has_is_found() {
        let scraped = "# TYPE a_calls counter\n# TYPE b_size gauge\n";
        assert_eq!(
            BOARD.missing_metrics(&["a_", "b_"], scraped),
            (vec!["a_gone".to_owned()], 2)
        );
        assert_eq!(BOARD.missing_metrics(&["b_"], scraped), (Vec::new(), 1));
    }
}
