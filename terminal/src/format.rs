//! The formats of lists.

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::table::{Column, table};

/// The flag `-o`.
#[derive(Args, Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputFormat {
    /// The format
    #[arg(
        short = 'o',
        long = "output",
        value_enum,
        value_name = "FORMAT",
        default_value_t,
        help_heading = "Output"
    )]
    pub format: Format,
}

/// The format of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The most important columns
    #[default]
    #[value(alias = "text")]
    Table,
    /// All columns, and whole texts
    Wide,
    Json,
    Yaml,
}

/// A row of a list.
pub trait Row: Serialize {
    /// The columns.
    const COLUMNS: &'static [Column];
    /// What a table without rows says; empty: the names of the columns.
    const EMPTY: &'static str = "";

    /// The row's cells, one for each column, also of those that only the wide format has.
    fn cells(&self) -> Vec<String>;
}

/// Why a value cannot be printed in a format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the output has no {format} form: {reason}")]
pub struct FormatError {
    format: &'static str,
    reason: String,
}

/// The text of rows in a format, with a line break at its end.
///
/// # Errors
/// If a row cannot be serialized.
pub fn render<R: Row>(format: Format, rows: &[R]) -> Result<String, FormatError> {
    if let Some(text) = structured(format, &rows)? {
        return Ok(text);
    }
    if rows.is_empty() && !R::EMPTY.is_empty() {
        return Ok(format!("{}\n", R::EMPTY));
    }
    Ok(table(R::COLUMNS, rows.iter().map(Row::cells), format == Format::Wide))
}

/// The JSON or YAML text of a value; `None` for the formats for people.
///
/// # Errors
/// If the value cannot be serialized.
pub fn structured(format: Format, value: &impl Serialize) -> Result<Option<String>, FormatError> {
    let failed = |format, reason: &dyn std::error::Error| FormatError {
        format,
        reason: reason.to_string(),
    };
    match format {
        Format::Table | Format::Wide => Ok(None),
        Format::Json => {
            let text = serde_json::to_string_pretty(value).map_err(|error| failed("JSON", &error))?;
            Ok(Some(text + "\n"))
        }
        Format::Yaml => {
            let text = serde_saphyr::to_string(value).map_err(|error| failed("YAML", &error))?;
            Ok(Some(text.trim_end().to_owned() + "\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Vm {
        id: &'static str,
        zone: &'static str,
    }

    impl Row for Vm {
        const COLUMNS: &'static [Column] = &[Column::Shown("ID"), Column::Wide("ZONE")];
        const EMPTY: &'static str = "there are no VMs";

        fn cells(&self) -> Vec<String> {
            vec![self.id.to_owned(), self.zone.to_owned()]
        }
    }

    #[test]
    fn each_format_has_the_same_rows() {
        let vms = [Vm { id: "vm-1", zone: "a" }];
        let of = |format| render(format, &vms).unwrap();
        assert_eq!(of(Format::Table), "ID\nvm-1\n");
        assert_eq!(of(Format::Wide), "ID    ZONE\nvm-1  a\n");
        assert_eq!(of(Format::Yaml), "- id: vm-1\n  zone: a\n");
        let json: serde_json::Value = serde_json::from_str(&of(Format::Json)).unwrap();
        assert_eq!(json, serde_json::json!([{"id": "vm-1", "zone": "a"}]));
    }

    #[test]
    fn an_empty_list_is_a_sentence_for_people_and_a_list_for_programs() {
        let of = |format| render::<Vm>(format, &[]).unwrap();
        assert_eq!(of(Format::Table), "there are no VMs\n");
        assert_eq!(of(Format::Json), "[]\n");
        assert_eq!(of(Format::Yaml), "[]\n");
    }
}
