//! Tables.

/// The width of a table in characters, which its last column fits if that has text.
const WIDTH: usize = 100;
/// The number of characters of a text that are always shown.
const LEAST_TEXT: usize = 25;
/// Between two columns.
const GAP: &str = "  ";

/// A column, by its heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// Always shown.
    Shown(&'static str),
    /// Only in the wide format.
    Wide(&'static str),
    /// A text, which the normal format shortens if the line is too long. At most the last shown column.
    Text(&'static str),
}

impl Column {
    fn heading(self) -> &'static str {
        match self {
            Self::Shown(heading) | Self::Wide(heading) | Self::Text(heading) => heading,
        }
    }
}

/// The rows below the headings, in columns that are as wide as their widest cell. An empty cell is a dash.
pub(crate) fn table(columns: &[Column], rows: impl Iterator<Item = Vec<String>>, wide: bool) -> String {
    let shown: Vec<usize> = (0..columns.len())
        .filter(|index| wide || !matches!(columns[*index], Column::Wide(_)))
        .collect();
    let headings = columns.iter().map(|column| column.heading().to_owned()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(headings)
        .chain(rows)
        .map(|cells: Vec<String>| shown.iter().map(|index| cell(cells.get(*index))).collect())
        .collect();
    let mut widths = vec![0; shown.len()];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(length(cell));
        }
    }
    if let (Some(&index), false) = (shown.last(), wide)
        && matches!(columns[index], Column::Text(_))
        && let Some((last, others)) = widths.split_last_mut()
    {
        let used: usize = others.iter().map(|width| width + GAP.len()).sum();
        *last = (*last).min(WIDTH.saturating_sub(used).max(LEAST_TEXT));
    }
    lines.iter().map(|line| row(line, &widths)).collect()
}

fn cell(text: Option<&String>) -> String {
    match text.map(String::as_str) {
        None | Some("") => "-".to_owned(),
        Some(text) => text.split('\n').collect::<Vec<_>>().join(" "),
    }
}

fn row(cells: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!("{:width$}", shortened(cell, *width)))
        .collect();
    cells.join(GAP).trim_end().to_owned() + "\n"
}

/// The beginning of a text, with an ellipsis if it is longer.
fn shortened(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", beginning.trim_end())
}

fn length(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [Column::Shown("NAME"), Column::Wide("ZONE"), Column::Text("WHY")];

    fn rows(name: &str, why: &str) -> Vec<Vec<String>> {
        vec![
            vec![name.to_owned(), "local-1".to_owned(), why.to_owned()],
            vec!["b".to_owned(), String::new(), "short".to_owned()],
        ]
    }

    #[test]
    fn columns_are_as_wide_as_needed_and_empty_cells_are_dashes() {
        let text = table(&COLUMNS, rows("ä-1", "two\nlines").into_iter(), true);
        assert_eq!(
            text,
            "NAME  ZONE     WHY\nä-1   local-1  two lines\nb     -        short\n"
        );
        let text = table(&COLUMNS, rows("a", "x").into_iter(), false);
        assert_eq!(text, "NAME  WHY\na     x\nb     short\n");
    }

    #[test]
    fn a_long_text_is_shortened_unless_the_format_is_wide() {
        let why = "word ".repeat(40);
        let text = table(&COLUMNS, rows("a", &why).into_iter(), false);
        let longest = text.lines().map(length).max();
        assert!(
            longest.is_some_and(|longest| longest <= WIDTH) && text.contains('…'),
            "{text}"
        );
        assert!(table(&COLUMNS, rows("a", &why).into_iter(), true).contains(why.trim_end()));
    }

    #[test]
    fn a_text_beside_a_long_name_keeps_some_characters() {
        let text = table(&COLUMNS, rows(&"n".repeat(95), &"x".repeat(60)).into_iter(), false);
        assert_eq!(text.matches('x').count(), LEAST_TEXT - 1);
    }
}
