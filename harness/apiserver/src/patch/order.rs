//! The order of merged lists. Items of the patch follow the patch's order; other items of the server keep their
//! position relative to their neighbors.

use std::collections::HashMap;

use serde_json::Value;

/// The first position of each item. Items are the same by the key, or by value without a key.
pub(super) struct Positions<'a> {
    places: HashMap<Identity<'a>, usize>,
    key: &'a str,
}

/// What identifies an item: scalars by their value, others by their text, which has sorted keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity<'a> {
    Text(&'a str),
    Other(String),
}

impl<'a> Positions<'a> {
    pub(super) fn new(items: &'a [Value], key: &'a str) -> Self {
        let mut places = HashMap::with_capacity(items.len());
        for (place, item) in items.iter().enumerate() {
            if let Some(identity) = identity(item, key) {
                places.entry(identity).or_insert(place);
            }
        }
        Self { places, key }
    }

    /// The position of an item; `None` if there is none, or if it has no key.
    pub(super) fn of(&self, item: &Value) -> Option<usize> {
        self.places.get(&identity(item, self.key)?).copied()
    }
}

fn identity<'a>(item: &'a Value, key: &str) -> Option<Identity<'a>> {
    let value = if key.is_empty() { item } else { item.get(key)? };
    Some(match value {
        Value::String(text) => Identity::Text(text),
        other => Identity::Other(other.to_string()),
    })
}

/// Sorts `merged`: items of `wanted` in its order, the others as in `before`; if both orders are possible, `before`
/// decides, otherwise the wanted items come first.
pub(super) fn arrange(merged: Vec<Value>, wanted: &[Value], before: &[Value], key: &str) -> Vec<Value> {
    let (wanted, before) = (Positions::new(wanted, key), Positions::new(before, key));
    let (mut named, mut others): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|item| wanted.of(item).is_some());
    named.sort_by_cached_key(|item| wanted.of(item));
    others.sort_by_cached_key(|item| before.of(item).unwrap_or(usize::MAX));
    let mut arranged = Vec::with_capacity(named.len().saturating_add(others.len()));
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(one), Some(other)) = (named.peek(), others.peek()) {
        let other_first = match (before.of(other), before.of(one)) {
            (Some(other), Some(one)) => other < one,
            _ => false,
        };
        arranged.extend(if other_first { others.next() } else { named.next() });
    }
    arranged.extend(named);
    arranged.extend(others);
    arranged
}

/// Checks that an order names all items of the patch's list, in the same order.
pub(super) fn validate(items: &[Value], wanted: &[Value], key: &str) -> Result<(), String> {
    let wanted = Positions::new(wanted, key);
    let mut last = 0;
    for item in items {
        if item.get("$patch").is_some() {
            continue;
        }
        let Some(place) = wanted.of(item) else {
            return Err(format!(
                "invalid patch format of setElementOrder list: it does not name {item}"
            ));
        };
        if place < last {
            return Err(format!(
                "invalid patch format of setElementOrder list: {item} stands elsewhere in the patch"
            ));
        }
        last = place;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn letters(text: &str) -> Vec<Value> {
        text.chars().map(|letter| letter.to_string().into()).collect()
    }

    #[rstest]
    #[case::wanted_items_follow_the_wanted_order("abc", "cba", "abc", "cba")]
    #[case::items_of_the_server_keep_their_place("axb", "ab", "axb", "axb")]
    #[case::new_items_come_before_those_of_the_server("xyn", "n", "xy", "nxy")]
    #[case::all_new("ab", "ba", "", "ba")]
    fn orders(#[case] merged: &str, #[case] wanted: &str, #[case] before: &str, #[case] arranged: &str) {
        assert_eq!(
            arrange(letters(merged), &letters(wanted), &letters(before), ""),
            letters(arranged)
        );
    }

    /// [`arrange`] in the words of its description, in quadratic time.
    fn described(merged: Vec<Value>, wanted: &[Value], before: &[Value], key: &str) -> Vec<Value> {
        let same = |one: &Value, other: &Value| {
            if key.is_empty() {
                one == other
            } else {
                one.get(key).is_some() && one.get(key) == other.get(key)
            }
        };
        let position = |items: &[Value], item: &Value| items.iter().position(|other| same(other, item));
        let (mut named, mut others): (Vec<Value>, Vec<Value>) =
            merged.into_iter().partition(|item| position(wanted, item).is_some());
        named.sort_by_key(|item| position(wanted, item));
        others.sort_by_key(|item| position(before, item).unwrap_or(usize::MAX));
        let mut arranged = Vec::new();
        while let (Some(one), Some(other)) = (named.first(), others.first()) {
            let other_first = match (position(before, other), position(before, one)) {
                (Some(other), Some(one)) => other < one,
                _ => false,
            };
            arranged.push(if other_first { others.remove(0) } else { named.remove(0) });
        }
        arranged.extend(named);
        arranged.extend(others);
        arranged
    }

    fn any_items() -> impl Strategy<Value = Vec<Value>> {
        let key = prop_oneof![
            (0..5).prop_map(Value::from),
            "[a-c]".prop_map(Value::from),
            Just(json!(1.0)),
            Just(json!({ "b": 1, "a": [2] })),
            Just(Value::Null),
        ];
        let item = prop_oneof![key.clone().prop_map(|key| json!({ "k": key })), Just(json!({})), key];
        prop::collection::vec(item, 0..8)
    }

    proptest! {
        #[test]
        fn items_are_arranged_as_described(merged in any_items(), wanted in any_items(), before in any_items()) {
            for key in ["", "k"] {
                let expected = described(merged.clone(), &wanted, &before, key);
                prop_assert_eq!(arrange(merged.clone(), &wanted, &before, key), expected);
            }
        }
    }
}
