//! Regular expressions in the notation of Go (RE2), which schemas and rules use.

use std::borrow::Cow;

/// The same expression for the crate `regex`: there `[` within a class begins an inner class, and `&&`, `--` and `~~` are
/// operators; in Go they are characters.
pub(crate) fn from_go(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains('[') {
        return Cow::Borrowed(pattern);
    }
    let mut out = String::with_capacity(pattern.len().saturating_add(8));
    let mut rest = pattern;
    let mut in_class = false;
    while let Some(next) = rest.chars().next() {
        let mut length = next.len_utf8();
        match next {
            '\\' => length = length.saturating_add(rest.chars().nth(1).map_or(0, char::len_utf8)),
            '[' if !in_class => {
                in_class = true;
                // A bracket right after the start is a character of the class.
                let start = ["[^]", "[]", "[^"].into_iter().find(|start| rest.starts_with(start));
                length = start.map_or(1, str::len);
                if let Some(opening) = start.and_then(|start| start.strip_suffix(']')) {
                    out.push_str(opening);
                    out.push_str("\\]");
                    rest = rest.get(length..).unwrap_or_default();
                    continue;
                }
            }
            '[' if rest.starts_with("[:") && rest.contains(":]") => {
                length = rest.find(":]").unwrap_or_default().saturating_add(2);
            }
            '[' => out.push('\\'),
            ']' if in_class => in_class = false,
            '&' | '~' | '-' if in_class && rest.chars().nth(1) == Some(next) => out.push('\\'),
            _ => {}
        }
        out.push_str(rest.get(..length).unwrap_or_default());
        rest = rest.get(length..).unwrap_or_default();
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use regex::Regex;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("^[a-z]([-a-z0-9]*[a-z0-9])?$", "a-b", "a_b")]
    #[case(r#"^[^()<>@,;:\\"\/[\]?={} \t]+$"#, "name", "a[b")]
    #[case("^[[]$", "[", "a")]
    #[case("^[]a]+$", "]a", "b")]
    #[case("^[^]a]+$", "b", "]")]
    #[case("^[[:alpha:]_]+$", "a_", "1")]
    #[case("^[a&&b]+$", "a&b", "c")]
    fn an_expression_matches_as_in_go(#[case] pattern: &str, #[case] fits: &str, #[case] other: &str) {
        let regex = Regex::new(&from_go(pattern)).unwrap();
        assert!(regex.is_match(fits));
        assert!(!regex.is_match(other));
    }
}
