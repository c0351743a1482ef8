//! Suggests valid values in place of an invalid one.

/// The valid value with the smallest edit distance from `value`; `None`: there is no valid value.
pub fn closest<'a>(value: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    valid
        .into_iter()
        .min_by_key(|candidate| (distance(value, candidate), *candidate))
}

/// The valid value that differs from `value` in one or two letters, so that `value` is probably a typing error.
pub(crate) fn mistyped<'a>(value: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = closest(value, valid)?;
    (1..=2).contains(&distance(value, near)).then_some(near)
}

/// Up to three valid values that are similar to `value`, the closest first.
pub fn similar<'a>(value: &str, valid: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut near: Vec<(usize, &str)> = valid
        .into_iter()
        .map(|candidate| (distance(value, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(value.len()) / 2)
        .collect();
    near.sort_unstable();
    near.dedup();
    near.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

/// The end of a message about an invalid value: the closest valid one, or all if none is similar.
pub fn suggestion<'a>(value: &str, valid: impl IntoIterator<Item = &'a str> + Clone) -> String {
    if let Some(near) = similar(value, valid.clone()).first() {
        return format!("did you mean {near:?}?");
    }
    let all: Vec<&str> = valid.into_iter().collect();
    match all.is_empty() {
        true => "no value is valid here".to_owned(),
        false => format!("valid are {}", all.join(", ")),
    }
}

/// The edit distance of two words, regardless of case.
fn distance(one: &str, other: &str) -> usize {
    strsim::damerau_levenshtein(&one.to_lowercase(), &other.to_lowercase())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const PHASES: [&str; 3] = ["Pending", "Running", "Failed"];

    #[rstest]
    #[case::a_letter_is_missing("Runing", "did you mean \"Running\"?")]
    #[case::another_case("failed", "did you mean \"Failed\"?")]
    #[case::nothing_similar("x", "valid are Pending, Running, Failed")]
    fn the_suggestion_is_the_closest_value_or_all(#[case] value: &str, #[case] expected: &str) {
        assert_eq!(suggestion(value, PHASES), expected);
    }

    #[rstest]
    #[case("Runing", Some("Running"))]
    #[case("Running", None)]
    #[case("Resting", None)]
    fn a_typing_error_is_at_most_two_letters(#[case] value: &str, #[case] expected: Option<&str>) {
        assert_eq!(mistyped(value, PHASES), expected);
    }

    #[test]
    fn the_closest_value_need_not_be_similar() {
        assert_eq!(closest("x", PHASES), Some("Failed"));
        assert_eq!(closest("x", []), None);
        assert_eq!(similar("vmdies", ["lifecycle", "vm_dies"]), ["vm_dies"]);
    }
}
