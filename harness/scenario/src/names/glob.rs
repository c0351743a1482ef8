//! Decides whether two globs have a common match.

/// Maximum length of a glob that is compared. Names of objects are at most 253 characters long.
const LONGEST: usize = 300;

/// Whether a text exists that both globs match (`*` matches any characters, `?` one).
pub(super) fn overlap(one: &str, other: &str) -> bool {
    if one.len().max(other.len()) > LONGEST {
        return one == other;
    }
    let one: Vec<char> = one.chars().collect();
    let other: Vec<char> = other.chars().collect();
    // `row[j]`: whether `one[i..]` and `other[j..]` overlap.
    let mut below = vec![false; other.len() + 1];
    for i in (0..=one.len()).rev() {
        let mut row = vec![false; other.len() + 1];
        for j in (0..=other.len()).rev() {
            row[j] = match (one.get(i), other.get(j)) {
                (None, None) => true,
                // A star ends here, or takes the next character of the other glob.
                (Some('*'), next) => below[j] || next.is_some() && row[j + 1],
                (next, Some('*')) => row[j + 1] || next.is_some() && below[j],
                (Some(a), Some(b)) => (a == b || *a == '?' || *b == '?') && below[j + 1],
                (None, Some(_)) | (Some(_), None) => false,
            };
        }
        below = row;
    }
    below[0]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("m-1", "m-1", true)]
    #[case("m-1", "m-2", false)]
    #[case("m-*", "m-1", true)]
    #[case("typo-*", "md-*", false)]
    #[case("md-*-x", "md-a*", true)]
    #[case("m-?", "m-12", false)]
    #[case("*x", "y*", true)]
    #[case("", "*", true)]
    #[case("", "?", false)]
    fn two_globs_overlap_if_one_text_matches_both(#[case] one: &str, #[case] other: &str, #[case] expected: bool) {
        assert_eq!(overlap(one, other), expected);
        assert_eq!(overlap(other, one), expected);
    }

    /// All texts of up to six letters, more than two globs of three characters need.
    fn texts() -> Vec<String> {
        let mut texts = vec![String::new()];
        for length in 0..6 {
            let longest: Vec<String> = texts.iter().filter(|text| text.len() == length).cloned().collect();
            texts.extend(
                longest
                    .iter()
                    .flat_map(|text| ["a", "b"].map(|letter| format!("{text}{letter}"))),
            );
        }
        texts
    }

    proptest! {
        #[test]
        fn two_globs_overlap_exactly_if_one_of_all_texts_matches_both(one in "[ab*?]{0,3}", other in "[ab*?]{0,3}") {
            let matches = |glob: &str, text: &str| wildmatch::WildMatch::new(glob).matches(text);
            let common = texts().iter().any(|text| matches(&one, text) && matches(&other, text));
            prop_assert_eq!(overlap(&one, &other), common);
        }

        #[test]
        fn a_text_overlaps_exactly_the_globs_that_match_it(glob in "[ab*?]{0,6}", text in "[ab]{0,6}") {
            prop_assert_eq!(overlap(&glob, &text), wildmatch::WildMatch::new(&glob).matches(&text));
        }
    }
}
