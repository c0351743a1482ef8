//! Globs on names: `*` matches any characters, `?` matches one. Knows nothing about the named things.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

/// A glob that must match the whole of a text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Pattern(String);

impl Pattern {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The glob as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it matches the whole of `text`.
    pub fn matches(&self, text: &str) -> bool {
        WildMatch::new(&self.0).matches(text)
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("*", "", true)]
    #[case("", "", true)]
    #[case("", "a", false)]
    #[case("system:serviceaccount:*:mcm", "system:serviceaccount:shoot--a:mcm", true)]
    #[case("system:serviceaccount:*:mcm", "system:serviceaccount:shoot--a:mcm2", false)]
    #[case("worker-?", "worker-12", false)]
    #[case("*-a-*b", "x-a-a-b", true)]
    #[case("a*b*c", "abbc", true)]
    #[case("ä?", "äö", true)]
    fn a_glob_matches_the_whole_text(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(Pattern::new(pattern).matches(text), expected);
    }

    /// The definition of a glob as a recursive function.
    fn by_definition(pattern: &[char], text: &[char]) -> bool {
        match (pattern, text) {
            ([], []) => true,
            (['*', behind @ ..], _) => {
                by_definition(behind, text) || matches!(text, [_, rest @ ..] if by_definition(pattern, rest))
            }
            (['?', behind @ ..], [_, rest @ ..]) => by_definition(behind, rest),
            ([wanted, behind @ ..], [found, rest @ ..]) => wanted == found && by_definition(behind, rest),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn a_glob_agrees_with_its_definition(pattern in "[ab*?]{0,8}", text in "[ab]{0,8}") {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = by_definition(&chars(&pattern), &chars(&text));
            prop_assert_eq!(Pattern::new(pattern).matches(&text), expected);
        }
    }
}
