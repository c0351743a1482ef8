//! Merges an applied configuration into an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::compare::{list, names};
use super::kind::{Granularity, Items, Kind, Structure};
use super::path::Element;

/// The object with the fields of the configuration. No field is removed. Lists have the order of the configuration as
/// far as it contains their items.
pub(crate) fn merge(kind: Kind<'_>, live: &Value, configuration: &Value) -> Value {
    values(kind, Some(live), Some(configuration)).unwrap_or(Value::Null)
}

/// `None` if nothing is left.
fn values(kind: Kind<'_>, live: Option<&Value>, applied: Option<&Value>) -> Option<Value> {
    let structure = kind.structure(applied.or(live));
    match structure {
        Structure::Object(kind, Granularity::Members) => {
            let (old, new) = (live.and_then(Value::as_object), applied.and_then(Value::as_object));
            if old.into_iter().chain(new).any(|members| !members.is_empty()) {
                return members(kind, old, new);
            }
        }
        Structure::List(items) if items.is_associative() => {
            let (old, new) = (live.and_then(Value::as_array), applied.and_then(Value::as_array));
            if old.into_iter().chain(new).any(|list| !list.is_empty()) {
                return merge_items(&items, list(live), list(applied));
            }
        }
        Structure::Scalar(_) | Structure::Object(..) | Structure::List(_) => {}
    }
    applied.or(live).cloned()
}

fn members(kind: Kind<'_>, live: Option<&Map<String, Value>>, applied: Option<&Map<String, Value>>) -> Option<Value> {
    let mut merged = Map::new();
    for name in names(live, applied) {
        let member = kind.member(name).map_or(Kind::Deduced, |(member, _)| member);
        let live = live.and_then(|members| members.get(name));
        let applied = applied.and_then(|members| members.get(name));
        if let Some(value) = values(member, live, applied) {
            merged.insert(name.to_owned(), value);
        }
    }
    (!merged.is_empty()).then_some(Value::Object(merged))
}

/// The items of a list with their identity; items without one are dropped.
fn identified<'a>(items: &Items<'_>, list: &'a [Value]) -> Vec<(Element, &'a Value)> {
    let found = list.iter().filter_map(|item| Some((items.element(item).ok()?, item)));
    found.collect()
}

/// Merges two lists. Items of both lists come in the order of the configuration; the others keep their neighbours.
fn merge_items(items: &Items<'_>, live: &[Value], applied: &[Value]) -> Option<Value> {
    let (live, applied) = (identified(items, live), identified(items, applied));
    // A live item that occurs twice is not merged with the applied one, but replaced.
    let mut in_live: BTreeMap<&Element, Option<&Value>> = BTreeMap::new();
    for (element, item) in &live {
        in_live
            .entry(element)
            .and_modify(|found| *found = None)
            .or_insert(Some(item));
    }
    let in_applied: BTreeMap<&Element, &Value> = applied.iter().map(|(element, item)| (element, *item)).collect();
    let mut shared = applied
        .iter()
        .map(|(element, _)| element)
        .filter(|element| in_live.contains_key(element));
    let mut next_shared = shared.next();
    let mut done: BTreeSet<&Element> = BTreeSet::new();
    let mut merged = Vec::new();
    let (mut left, mut right) = (live.iter().peekable(), applied.iter().peekable());
    loop {
        let (old, new) = (left.peek().copied(), right.peek().copied());
        if let (Some((old, _)), Some((new, item))) = (old, new) {
            if old == new {
                let live = in_live.get(old).copied().flatten();
                merged.extend(values(items.kind, live, Some(item)));
                done.insert(new);
                left.next();
                right.next();
                next_shared = shared.next();
                continue;
            }
            if in_applied.contains_key(old) && next_shared.is_some_and(|next| next != old) {
                left.next();
                continue;
            }
        }
        if let Some((old, item)) = old {
            if !in_applied.contains_key(old) {
                merged.extend(values(items.kind, Some(item), None));
                left.next();
                continue;
            }
            if done.contains(old) {
                left.next();
            }
        }
        match new {
            Some((new, item)) => {
                let live = in_live.get(new).copied().flatten();
                merged.extend(values(items.kind, live, Some(item)));
                done.insert(new);
                right.next();
                if next_shared == Some(new) {
                    next_shared = shared.next();
                }
            }
            None if left.peek().is_none() => break,
            None => {}
        }
    }
    (!merged.is_empty()).then_some(Value::Array(merged))
}
