//! The beginning of a text that may be long.

use std::borrow::Cow;

/// The first `most` characters, followed by an ellipsis if there are more.
pub fn shortened(text: &str, most: usize) -> Cow<'_, str> {
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::short("abc", "abc")]
    #[case::as_long_as_allowed("äöüß", "äöüß")]
    #[case::longer("äöüßx", "äöüß…")]
    fn characters_are_counted(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(shortened(text, 4), expected);
    }
}
