//! Figures: measurements, as a table and as JSON.

use std::fmt;

use anyhow::Result;
use serde::Serialize;

/// One measured value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    /// The peer's value in the same run.
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<f64>,
    /// The ratio to the peer: above one, ours is faster or smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
}

/// All figures of a run, in their order.
#[derive(Debug, Default)]
pub struct Figures(Vec<Figure>);

impl Figures {
    /// Adds a figure; with `peer` if the peer was measured too.
    pub fn add(&mut self, name: impl Into<String>, value: f64, unit: &'static str, peer: Option<f64>) {
        let more_is_better = unit.ends_with("/s");
        let ratio = peer
            .map(|peer| if more_is_better { value / peer } else { peer / value })
            .filter(|ratio| ratio.is_finite());
        self.0.push(Figure {
            name: name.into(),
            value,
            unit,
            peer,
            ratio,
        });
    }

    /// A JSON array with one object per figure.
    pub fn json(&self) -> Result<Vec<u8>> {
        Ok(serde_json::to_vec_pretty(&self.0)?)
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
        let optional = |value: Option<f64>| value.map_or("-".to_owned(), readable);
        writeln!(
            f,
            "{:width$}  {:>9}  {:<10}  {:>9}  {:>7}",
            "figure", "value", "unit", "peer", "ratio"
        )?;
        for figure in &self.0 {
            writeln!(
                f,
                "{:width$}  {:>9}  {:<10}  {:>9}  {:>7}",
                figure.name,
                readable(figure.value),
                figure.unit,
                optional(figure.peer),
                optional(figure.ratio),
            )?;
        }
        Ok(())
    }
}

/// Three significant digits, without an exponent.
fn readable(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}
