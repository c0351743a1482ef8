//! Output of rows: a table for people, JSON for programs.

use std::io::Write;

use anyhow::Context;
use clap::ValueEnum;
use jiff::Timestamp;
use serde::Serialize;

/// Output format of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table.
    Table,
    /// A JSON array.
    Json,
}

/// A row of a table.
pub(super) trait Row: Serialize {
    /// The columns' names.
    const COLUMNS: &'static [&'static str];

    /// The row's cells, one per column.
    fn cells(&self) -> Vec<String>;
}

/// Prints the rows.
pub(super) fn print<R: Row>(format: Format, rows: &[R], out: &mut impl Write) -> anyhow::Result<()> {
    let text = match format {
        Format::Json => serde_json::to_string_pretty(rows).context("cannot write the rows as JSON")? + "\n",
        Format::Table => table(R::COLUMNS, rows.iter().map(Row::cells).collect()),
    };
    out.write_all(text.as_bytes())
        .context("cannot write to standard output")
}

/// Columns as wide as their widest cells; empty cells show a dash.
fn table(columns: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut lines = vec![columns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
    lines.extend(rows);
    let width = |column: usize| {
        lines
            .iter()
            .filter_map(|line| line.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns.len())
        .map(|column| width(column).unwrap_or_default().max(1))
        .collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| {
            let cell = if cell.is_empty() { "-" } else { cell.as_str() };
            format!("{cell:width$}")
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// A time of a message; empty: none.
pub(super) fn time(nanos: i64) -> String {
    if nanos == 0 {
        return String::new();
    }
    let time = Timestamp::from_nanosecond(i128::from(nanos));
    time.map_or_else(|_| nanos.to_string(), |time| format!("{time:.3}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_needed_and_empty_cells_are_dashes() {
        let rows = vec![
            vec!["a".to_owned(), String::new()],
            vec!["bcd".to_owned(), "e".to_owned()],
        ];
        assert_eq!(table(&["X", "Y"], rows), "X    Y\na    -\nbcd  e\n");
    }

    #[test]
    fn a_moment_has_milliseconds() {
        assert_eq!(time(1_800_000_000_123_456_789), "2027-01-15T08:00:00.123Z");
        assert_eq!(time(0), "");
    }
}
