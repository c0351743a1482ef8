//! The order of merged lists. Items of the patch follow the patch's order; other items of the server keep their
//! position relative to their neighbors.

use serde_json::Value;

/// Whether two items are the same: by the key, or by value without a key.
fn same(one: &Value, other: &Value, key: &str) -> bool {
    if key.is_empty() {
        one == other
    } else {
        one.get(key).is_some() && one.get(key) == other.get(key)
    }
}

fn position(items: &[Value], item: &Value, key: &str) -> Option<usize> {
    items.iter().position(|other| same(other, item, key))
}

/// Sorts `merged`: items of `wanted` in its order, the others as in `before`; if both orders are possible, `before`
/// decides, otherwise the wanted items come first.
pub(super) fn arrange(merged: Vec<Value>, wanted: &[Value], before: &[Value], key: &str) -> Vec<Value> {
    let (mut named, mut others): (Vec<Value>, Vec<Value>) = merged
        .into_iter()
        .partition(|item| position(wanted, item, key).is_some());
    named.sort_by_key(|item| position(wanted, item, key));
    others.sort_by_key(|item| position(before, item, key).unwrap_or(usize::MAX));
    let mut arranged = Vec::with_capacity(named.len().saturating_add(others.len()));
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(one), Some(other)) = (named.peek(), others.peek()) {
        let other_first = match (position(before, other, key), position(before, one, key)) {
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
    let mut last = 0;
    for item in items {
        if item.get("$patch").is_some() {
            continue;
        }
        let Some(place) = position(wanted, item, key) else {
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
    use rstest::rstest;

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
}
