//! The error of a text that is not an expression.

/// The reason why a text is not an expression, in the format of upstream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SyntaxError(String);

impl SyntaxError {
    /// With the line, the column and an excerpt of the text.
    pub(super) fn at(text: &[char], at: usize, why: impl Into<String>) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line = before.iter().filter(|next| **next == '\n').count().saturating_add(1);
        let column = before.iter().rev().take_while(|next| **next != '\n').count();
        let start = before.len().saturating_sub(column);
        let rest = text.get(start..).unwrap_or_default();
        let excerpt: String = rest.iter().take_while(|next| **next != '\n').collect();
        let why = why.into();
        Self(format!(
            "ERROR: <input>:{line}:{}: {why}\n | {excerpt}\n | {}^",
            column.saturating_add(1),
            ".".repeat(column)
        ))
    }

    /// Without a position.
    pub(super) fn plain(why: String) -> Self {
        Self(format!("ERROR: <input>:-1:0: {why}"))
    }
}
