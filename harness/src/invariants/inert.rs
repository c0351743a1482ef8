//! I17: inert features. A feature that no object uses changes nothing: a run with it does the same writes as one with the
//! feature switched off.
//!
//! What lives here: the comparison of two runs' writes. It is no watch over one run; tests of a feature call it.

use std::collections::BTreeMap;

/// Where two lists of writes differ first, in words; `None`: nowhere. `mask` makes alike what every run has of its own,
/// such as generated names and uids.
pub fn difference<'a>(
    off: impl IntoIterator<Item = &'a str>,
    on: impl IntoIterator<Item = &'a str>,
    mask: impl Fn(&str) -> String,
) -> Option<String> {
    let masked = |writes: Vec<&str>| -> Vec<String> { writes.into_iter().map(&mask).collect() };
    let (off, on) = (masked(off.into_iter().collect()), masked(on.into_iter().collect()));
    let (counted_off, counted_on) = (counted(&off), counted(&on));
    if counted_off == counted_on {
        return None;
    }
    let differs = |write: &&String| counted_off.get(write.as_str()) != counted_on.get(write.as_str());
    let write = on.iter().chain(&off).find(differs)?;
    let count = |counted: &BTreeMap<&str, u64>| counted.get(write.as_str()).copied().unwrap_or_default();
    Some(format!(
        "{write}: {} times without the feature, {} times with it",
        count(&counted_off),
        count(&counted_on)
    ))
}

fn counted(writes: &[String]) -> BTreeMap<&str, u64> {
    let mut counted = BTreeMap::new();
    for write in writes {
        *counted.entry(write.as_str()).or_default() += 1;
    }
    counted
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::another_order(&["POST m-1", "PATCH m-1"], &["PATCH m-1", "POST m-1"], false)]
    #[case::another_name_that_is_masked(&["PATCH m-1"], &["PATCH m-2"], false)]
    #[case::another_name_that_is_not(&["PATCH m-1"], &["PATCH m-3"], true)]
    #[case::one_more(&["PATCH m-1"], &["PATCH m-1", "PATCH m-1"], true)]
    #[case::one_less(&["PATCH m-1", "PATCH m-1"], &["PATCH m-1"], true)]
    #[case::one_of_another_kind(&["PATCH m-1"], &["PUT m-1"], true)]
    #[case::none_at_all(&[], &[], false)]
    fn two_runs_may_differ_in_order_and_in_what_is_masked(
        #[case] off: &[&str],
        #[case] on: &[&str],
        #[case] differ: bool,
    ) {
        let mask = |write: &str| write.replace("m-1", "NAME").replace("m-2", "NAME");
        let found = difference(off.iter().copied(), on.iter().copied(), mask);
        assert_eq!(found.is_some(), differ, "{found:?}");
    }

    #[test]
    fn what_differs_after_masking_is_named() {
        let mask = |write: &str| write.replace("m-1", "NAME").replace("m-2", "NAME");
        assert_eq!(
            difference(["PATCH m-1", "PUT lease"], ["PUT lease", "PATCH m-2"], mask),
            None
        );
        let found = difference(["PATCH m-1"], ["PATCH m-1", "PATCH m-1/status"], mask);
        assert_eq!(
            found.as_deref(),
            Some("PATCH NAME/status: 0 times without the feature, 1 times with it")
        );
    }
}
