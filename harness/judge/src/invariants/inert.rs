//! I17: inert features. A feature that no object uses changes nothing: to every object and every VM a run with it does the
//! same, word by word and in the same order, as one with the feature switched off. Between two objects the order may differ.
//!
//! It is no watch over one run; tests of a feature call it.

use std::collections::{BTreeMap, BTreeSet};

use scenario::result::Write;

/// What was done to each object, and as the how manieth of all.
type Done = BTreeMap<String, Vec<(usize, String)>>;

/// Where two lists of writes differ first, in words; `None`: nowhere. `mask` makes alike what every run has of its own,
/// such as generated names and uids.
pub fn difference(off: &[Write], on: &[Write], mask: impl Fn(&str) -> String) -> Option<String> {
    let (off, on) = (by_object(off, &mask), by_object(on, &mask));
    let objects: BTreeSet<&String> = off.keys().chain(on.keys()).collect();
    let of_object = |object: &String| {
        let [off, on] = [&off, &on].map(|run| run.get(object).map(Vec::as_slice).unwrap_or_default());
        let number = (0..off.len().max(on.len())).find(|number| what(off, *number) != what(on, *number))?;
        let both = [off, on].into_iter().filter_map(|done| done.get(number));
        let position = both.map(|(position, _)| *position).min();
        let (without, with) = apart(what(off, number), what(on, number));
        let count = number + 1;
        let words = format!("{object}: {count}. without the feature {without}, with it {with}");
        Some((position, words))
    };
    let differences = objects.into_iter().filter_map(of_object);
    differences.min().map(|(_, words)| words)
}

fn by_object(writes: &[Write], mask: impl Fn(&str) -> String) -> Done {
    let mut objects = Done::new();
    for (position, write) in writes.iter().enumerate() {
        let done = objects.entry(mask(&write.object)).or_default();
        done.push((position, mask(&write.what)));
    }
    objects
}

/// What was done to an object as that one of all that was; `None`: no more was.
fn what(done: &[(usize, String)], number: usize) -> Option<&str> {
    done.get(number).map(|(_, what)| what.as_str())
}

/// How much is shown of what is alike before a difference, and of what comes after that.
const BEFORE: usize = 40;
const AFTER: usize = 200;

/// Two texts about where they begin to differ.
fn apart(one: Option<&str>, other: Option<&str>) -> (String, String) {
    let pairs = one.unwrap_or_default().chars().zip(other.unwrap_or_default().chars());
    let alike = pairs.take_while(|(one, other)| one == other).count();
    let shown = |text: Option<&str>| text.map_or_else(|| "nothing".to_owned(), |text| cut(text, alike));
    (shown(one), shown(other))
}

/// A text's beginning, and what stands about that place of it.
fn cut(text: &str, place: usize) -> String {
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

    /// Each as `PATCH m-1 BODY`.
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
    #[case::another_order_between_objects(&["POST m-1", "PATCH m-4"], &["PATCH m-4", "POST m-1"], false)]
    #[case::another_order(&["POST m-1", "PATCH m-1"], &["PATCH m-1", "POST m-1"], true)]
    #[case::another_body(&["PATCH m-1 a"], &["PATCH m-1 b"], true)]
    #[case::another_order_of_bodies(&["PATCH m-1 a", "PATCH m-1 b"], &["PATCH m-1 b", "PATCH m-1 a"], true)]
    #[case::another_name_that_is_masked(&["PATCH m-1"], &["PATCH m-2"], false)]
    #[case::another_body_that_is_masked(&["PATCH m-3 m-1"], &["PATCH m-3 m-2"], false)]
    #[case::another_name_that_is_not(&["PATCH m-1"], &["PATCH m-3"], true)]
    #[case::one_more(&["PATCH m-1"], &["PATCH m-1", "PATCH m-1"], true)]
    #[case::one_less(&["PATCH m-1", "PATCH m-1"], &["PATCH m-1"], true)]
    #[case::one_of_another_kind(&["PATCH m-1"], &["PUT m-1"], true)]
    #[case::none_at_all(&[], &[], false)]
    fn two_runs_may_differ_between_objects_and_in_what_is_masked(
        #[case] off: &[&str],
        #[case] on: &[&str],
        #[case] differ: bool,
    ) {
        let found = difference(&writes(off), &writes(on), masked);
        assert_eq!(found.is_some(), differ, "{found:?}");
    }

    #[rstest]
    #[case::one_more(&["PATCH m-1 a"], &["PATCH m-1 a", "PATCH m-1 b"], "NAME: 2. without the feature nothing, with it PATCH b")]
    #[case::one_less(&["PUT lease"], &[], "lease: 1. without the feature PUT , with it nothing")]
    #[case::the_first_of_all(&["PUT b a", "PUT a a"], &["PUT b c", "PUT a c"], "b: 1. without the feature PUT a, with it PUT c")]
    fn what_differs_after_masking_is_named(#[case] off: &[&str], #[case] on: &[&str], #[case] named: &str) {
        let found = difference(&writes(off), &writes(on), masked);
        assert_eq!(found.as_deref(), Some(named));
    }

    #[test]
    fn of_long_bodies_the_place_is_shown_where_they_differ() {
        let body = |end: &str| format!("PUT m {}{end}{}", "a".repeat(1000), "z".repeat(1000));
        let (off, on) = (body("off"), body("on"));
        let found = difference(&writes(&[&off]), &writes(&[&on]), str::to_owned).unwrap();
        assert!(found.contains("aoffz") && found.contains("aonz"), "{found}");
        assert!(found.len() < 1000, "{found}");
    }
}
