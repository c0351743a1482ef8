//! Puts the assets and a record into one file.

use std::io::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use record::RunRecord;

use crate::escape::escaped;
use crate::{script, table};

/// The frame of the page, with a line for each part that is put into it.
const SHELL: &str = include_str!("../assets/shell.html");
/// The style sheet.
const STYLE: &str = include_str!("../assets/theme.css");

/// The report of a record as one HTML file.
///
/// # Errors
/// When the record has no JSON form, which every record has.
pub fn page(record: &RunRecord) -> io::Result<String> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&serde_json::to_vec(record)?)?;
    let data = STANDARD.encode(packed.finish()?);
    let place = &record.meta.place;
    let title = format!("{} on {} with seed {}", place.scenario, place.stage, place.seed);
    Ok(filled(
        SHELL,
        &[
            ("{{title}}", &escaped(&title)),
            ("{{style}}", STYLE),
            ("{{script}}", &script::joined()),
            ("{{noscript}}", &table::of(record)),
            ("{{data}}", &data),
        ],
    ))
}

/// A frame with its parts.
pub(crate) fn filled(shell: &str, parts: &[(&str, &str)]) -> String {
    let mut page = String::with_capacity(shell.len() + parts.iter().map(|(_, text)| text.len()).sum::<usize>());
    for line in shell.lines() {
        // One part a line: a part is never searched for the name of another one.
        match parts.iter().find(|(name, _)| line.contains(name)) {
            Some((name, text)) => {
                let (before, after) = line.split_once(name).unwrap_or((line, ""));
                page.extend([before, text, after, "\n"]);
            }
            None => page.extend([line, "\n"]),
        }
    }
    page
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
