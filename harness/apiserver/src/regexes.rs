//! Regular expressions in the notation of Go (RE2), which schemas and rules use.

use std::borrow::Cow;

/// The same expression for the crate `regex`. There `[` within a class begins an inner class, and `&&`, `--` and `~~` are
/// operators; in Go they are characters. There `\d`, `\w`, `\s` and `\b` know all of Unicode, in Go only ASCII.
pub(crate) fn from_go(pattern: &str) -> Cow<'_, str> {
    if !pattern.contains(['[', '\\']) {
        return Cow::Borrowed(pattern);
    }
    let mut rewriter = Rewriter {
        rest: pattern,
        out: String::with_capacity(pattern.len().saturating_add(8)),
    };
    while let Some(next) = rewriter.rest.chars().next() {
        match next {
            '\\' => rewriter.escape(),
            '[' => rewriter.class(),
            other => rewriter.copy(other.len_utf8()),
        }
    }
    Cow::Owned(rewriter.out)
}

struct Rewriter<'p> {
    rest: &'p str,
    out: String,
}

impl Rewriter<'_> {
    fn skip(&mut self, length: usize) {
        self.rest = self.rest.get(length..).unwrap_or_default();
    }

    fn copy(&mut self, length: usize) {
        self.out.push_str(self.rest.get(..length).unwrap_or_default());
        self.skip(length);
    }

    /// A backslash and the next character.
    fn escape(&mut self) {
        let escaped = self.rest.chars().nth(1);
        let set = match escaped {
            Some('d') => "[0-9]",
            Some('D') => "[^0-9]",
            Some('w') => "[0-9A-Za-z_]",
            Some('W') => "[^0-9A-Za-z_]",
            Some('s') => r"[\t\n\f\r ]",
            Some('S') => r"[^\t\n\f\r ]",
            Some('b') => r"(?-u:\b)",
            Some('B') => r"(?-u:\B)",
            _ => return self.copy(escaped.map_or(1, char::len_utf8).saturating_add(1)),
        };
        self.out.push_str(set);
        self.skip(2);
    }

    /// A class, from its bracket on.
    fn class(&mut self) {
        self.copy(if self.rest.starts_with("[^") { 2 } else { 1 });
        let mut is_first = true;
        while let Some(next) = self.rest.chars().next() {
            if next == ']' && !is_first {
                return self.copy(1);
            }
            is_first = false;
            if let Some(length) = named_class(self.rest) {
                self.copy(length);
                continue;
            }
            let is_set = self.item();
            let mut following = self.rest.chars();
            let is_range = following.next() == Some('-') && following.next().is_some_and(|end| end != ']');
            if is_range && !is_set {
                self.copy(1);
                self.item();
            }
        }
    }

    /// A character of a class, or a set such as `\d`. Returns whether it is a set.
    fn item(&mut self) -> bool {
        match self.rest.chars().next() {
            Some('\\') => {
                let is_set = matches!(self.rest.chars().nth(1), Some('d' | 'D' | 'w' | 'W' | 's' | 'S'));
                self.escape();
                return is_set;
            }
            Some(special @ ('[' | ']' | '&' | '~' | '-' | '^')) => {
                self.out.push('\\');
                self.copy(special.len_utf8());
            }
            Some(other) => self.copy(other.len_utf8()),
            None => {}
        }
        false
    }
}

/// The length of a class such as `[:alpha:]` at the start of a text.
fn named_class(text: &str) -> Option<usize> {
    let length = text.strip_prefix("[:")?.find(":]")?;
    Some(length.saturating_add(4))
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
    #[case("^[a[:]x]$", ":x]", ":")]
    #[case("^[[:digit:]a-c:]+$", "1b:", "d")]
    #[case("^[+--]$", ",", "*")]
    #[case("^[--0]$", "/", "1")]
    #[case("^[a-]+$", "a-", "b")]
    #[case("^[\\d-]+$", "1-", "a")]
    #[case("^[\\w-z~~]+$", "a-~", " ")]
    #[case("^[^\\D5]$", "4", "5")]
    #[case("^[\\x41-\\x43]$", "B", "D")]
    #[case("^[\\^a]$", "^", "b")]
    #[case("^\\d$", "1", "\u{0663}")]
    #[case("^\\D$", "\u{0663}", "1")]
    #[case("^\\w+$", "a_1", "\u{e4}")]
    #[case("^\\W$", "\u{e4}", "a")]
    #[case("^a\\sb$", "a\tb", "a\u{a0}b")]
    #[case("^\\S$", "\u{a0}", " ")]
    #[case("\u{e4}\\bb", "\u{e4}b", "ab")]
    #[case("a\\B\u{e4}|a\\Bb", "ab", "a\u{e4}")]
    #[case("^(?i)k$", "\u{212a}", "l")]
    #[case("^\\pL\\.\\\\$", "\u{e4}.\\", "1.\\")]
    fn an_expression_matches_as_in_go(#[case] pattern: &str, #[case] fits: &str, #[case] other: &str) {
        let regex = Regex::new(&from_go(pattern)).unwrap();
        assert!(regex.is_match(fits));
        assert!(!regex.is_match(other));
    }
}
