//! Globs on names: `*` matches any characters, `?` one character.

use wildmatch::WildMatch;

/// Whether `pattern` matches the whole of `text`.
pub fn matches(pattern: &str, text: &str) -> bool {
    WildMatch::new(pattern).matches(text)
}

/// Whether `pattern` matches a machine, by `NAME` or by `NAMESPACE/NAME`.
pub fn matches_machine(pattern: &str, machine: &str) -> bool {
    let name = machine.rsplit('/').next().unwrap_or(machine);
    matches(pattern, machine) || matches(pattern, name)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("*", "", true)]
    #[case("", "", true)]
    #[case("", "a", false)]
    #[case("worker-*", "worker-1", true)]
    #[case("worker-?", "worker-12", false)]
    #[case("*-a-*b", "x-a-a-b", true)]
    #[case("*-a", "x-a-b", false)]
    #[case("a*b*c", "abbc", true)]
    fn a_glob_matches_the_whole_text(#[case] pattern: &str, #[case] text: &str, #[case] expected: bool) {
        assert_eq!(matches(pattern, text), expected);
    }

    #[rstest]
    #[case("worker-1", true)]
    #[case("default/worker-1", true)]
    #[case("other/*", false)]
    fn a_machine_is_matched_with_or_without_its_namespace(#[case] pattern: &str, #[case] expected: bool) {
        assert_eq!(matches_machine(pattern, "default/worker-1"), expected);
    }
}
