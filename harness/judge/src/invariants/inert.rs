//! I17: inert features. A feature that no object uses changes nothing: a run with the feature makes the same writes to
//! every object and the same calls for every VM, byte by byte and in the same order, as a run with the feature switched
//! off. The order between two objects may differ.
//!
//! This is not a `Check` over one run; tests of a feature call it.

use std::collections::{BTreeMap, BTreeSet};

use scenario::result::Write;

/// The writes of each object, each with its position among all writes of the run.
type WritesByObject = BTreeMap<String, Vec<(usize, String)>>;

/// Describes the first difference of two lists of writes; `None`: they are equal. `mask` replaces what is specific to
/// one run, such as generated names and uids.
pub fn difference(off: &[Write], on: &[Write], mask: impl Fn(&str) -> String) -> Option<String> {
    let (off, on) = (by_object(off, &mask), by_object(on, &mask));
    let objects: BTreeSet<&String> = off.keys().chain(on.keys()).collect();
    let of_object = |object: &String| {
        let [off, on] = [&off, &on].map(|run| run.get(object).map(Vec::as_slice).unwrap_or_default());
        let number = (0..off.len().max(on.len())).find(|number| write_at(off, *number) != write_at(on, *number))?;
        let both = [off, on]
            .into_iter()
            .filter_map(|writes_of_object| writes_of_object.get(number));
        let position = both.map(|(position, _)| *position).min();
        let (without, with) = both_at_difference(write_at(off, number), write_at(on, number));
        let count = number + 1;
        let message = format!("{object}: {count}. without the feature {without}, with it {with}");
        Some((position, message))
    };
    let differences = objects.into_iter().filter_map(of_object);
    differences.min().map(|(_, message)| message)
}

fn by_object(writes: &[Write], mask: impl Fn(&str) -> String) -> WritesByObject {
    let mut objects = WritesByObject::new();
    for (position, write) in writes.iter().enumerate() {
        let writes_of_object = objects.entry(mask(&write.object)).or_default();
        writes_of_object.push((position, mask(&write.what)));
    }
    objects
}

/// The object's write number `number`; `None`: it has fewer.
fn write_at(writes_of_object: &[(usize, String)], number: usize) -> Option<&str> {
    writes_of_object.get(number).map(|(_, what)| what.as_str())
}

/// How many equal characters are shown before a difference, and how many characters after it.
const BEFORE: usize = 40;
const AFTER: usize = 200;

/// Both texts, cut to the place where they begin to differ.
fn both_at_difference(one: Option<&str>, other: Option<&str>) -> (String, String) {
    let pairs = one.unwrap_or_default().chars().zip(other.unwrap_or_default().chars());
    let common_length = pairs.take_while(|(one, other)| one == other).count();
    let shown = |text: Option<&str>| text.map_or_else(|| "nothing".to_owned(), |text| excerpt(text, common_length));
    (shown(one), shown(other))
}

/// The beginning of a text, and its surroundings of `place`.
fn excerpt(text: &str, place: usize) -> String {
    let shown = |from: usize, count: usize| text.chars().skip(from).take(count).collect::<String>();
    if place <= 2 * BEFORE {
        return shown(0, place + AFTER);
    }
    format!("{} ... {}", shown(0, BEFORE), shown(place - BEFORE, BEFORE + AFTER))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Writes from lines such as `PATCH m-1 BODY`.
    fn writes(all: &[&str]) -> Vec<Write> {
        let write = |text: &&str| {
            let (method, rest) = text.split_once(' ').unwrap();
            let (object, body) = rest.split_once(' ').unwrap_or((rest, ""));
            Write {
                object: object.to_owned(),
                what: format!("{method} {body}"),
            }
        };
        all.iter().map(write).collect()
    }

    fn masked(text: &str) -> String {
        text.replace("m-1", "NAME").replace("m-2", "NAME")
    }

    #[rstest]
    #[case::other_order_between_objects(&["POST m-1", "PATCH m-4"], &["PATCH m-4", "POST m-1"], false)]
    #[case::other_order(&["POST m-1", "PATCH m-1"], &["PATCH m-1", "POST m-1"], true)]
    #[case::other_body(&["PATCH m-1 a"], &["PATCH m-1 b"], true)]
    #[case::other_order_of_bodies(&["PATCH m-1 a", "PATCH m-1 b"], &["PATCH m-1 b", "PATCH m-1 a"], true)]
    #[case::other_masked_name(&["PATCH m-1"], &["PATCH m-2"], false)]
    #[case::other_masked_body(&["PATCH m-3 m-1"], &["PATCH m-3 m-2"], false)]
    #[case::other_unmasked_name(&["PATCH m-1"], &["PATCH m-3"], true)]
    #[case::one_write_more(&["PATCH m-1"], &["PATCH m-1", "PATCH m-1"], true)]
    #[case::one_write_less(&["PATCH m-1", "PATCH m-1"], &["PATCH m-1"], true)]
    #[case::other_method(&["PATCH m-1"], &["PUT m-1"], true)]
    #[case::no_writes(&[], &[], false)]
    fn two_runs_may_differ_in_the_order_of_objects_and_in_masked_text(
        #[case] off: &[&str],
        #[case] on: &[&str],
        #[case] differ: bool,
    ) {
        let found = difference(&writes(off), &writes(on), masked);
        assert_eq!(found.is_some(), differ, "{found:?}");
    }

    #[rstest]
    #[case::one_write_more(&["PATCH m-1 a"], &["PATCH m-1 a", "PATCH m-1 b"], "NAME: 2. without the feature nothing, with it PATCH b")]
    #[case::one_write_less(&["PUT lease"], &[], "lease: 1. without the feature PUT , with it nothing")]
    #[case::the_first_of_all(&["PUT b a", "PUT a a"], &["PUT b c", "PUT a c"], "b: 1. without the feature PUT a, with it PUT c")]
    fn the_message_shows_the_difference_after_masking(#[case] off: &[&str], #[case] on: &[&str], #[case] named: &str) {
        let found = difference(&writes(off), &writes(on), masked);
        assert_eq!(found.as_deref(), Some(named));
    }

    #[test]
    fn the_message_cuts_long_bodies_to_the_place_where_they_differ() {
        let body = |end: &str| format!("PUT m {}{end}{}", "a".repeat(1000), "z".repeat(1000));
        let (off, on) = (body("off"), body("on"));
        let found = difference(&writes(&[&off]), &writes(&[&on]), str::to_owned).unwrap();
        assert!(found.contains("aoffz") && found.contains("aonz"), "{found}");
        assert!(found.len() < 1000, "{found}");
    }
}
