//! What changes from one object to another, as sets of fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::kind::{Granularity, Items, Kind, Structure};
use super::path::{Element, same};
use super::set::FieldSet;

/// The fields that differ between two objects. No field is in more than one set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Comparison {
    /// Only in the new object.
    pub(crate) added: FieldSet,
    /// In both, with different values.
    pub(crate) modified: FieldSet,
    /// Only in the old object.
    pub(crate) removed: FieldSet,
}

impl Comparison {
    /// Compares two objects of a type.
    pub(crate) fn of(kind: Kind<'_>, old: &Value, new: &Value) -> Self {
        let mut difference = Difference::default();
        difference.values(kind, Some(old), Some(new));
        difference.below
    }

    /// Ignores fields with all fields below them.
    pub(crate) fn without(mut self, ignored: &FieldSet) -> Self {
        self.added.subtract_trees(ignored);
        self.modified.subtract_trees(ignored);
        self.removed.subtract_trees(ignored);
        self
    }

    /// The added and modified fields.
    pub(crate) fn written(&self) -> FieldSet {
        let mut written = self.added.clone();
        written.extend(self.modified.clone());
        written
    }

    /// Whether nothing differs.
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }
}

/// How two values differ: the values themselves, and the fields below them.
#[derive(Debug, Default)]
struct Difference {
    is_added: bool,
    is_modified: bool,
    is_removed: bool,
    below: Comparison,
}

/// Whether a value was compared as a whole.
#[derive(PartialEq)]
enum Compared {
    AsWhole,
    ByParts,
}

impl Difference {
    fn values(&mut self, kind: Kind<'_>, old: Option<&Value>, new: Option<&Value>) {
        if old == new {
            return;
        }
        let (of_old, of_new) = (kind.structure(old), kind.structure(new));
        let compared = match (old, new) {
            (_, None) => self.structured(of_old, old, new),
            (None, _) => self.structured(of_new, old, new),
            _ if std::mem::discriminant(&of_old) == std::mem::discriminant(&of_new) => {
                self.structured(of_new, old, new)
            }
            _ => {
                self.structured(of_old, old, new);
                self.structured(of_new, old, new)
            }
        };
        if compared == Compared::ByParts {
            self.is_added |= old.is_none();
            self.is_removed |= old.is_some() && new.is_none();
        }
    }

    fn structured(&mut self, structure: Structure<'_>, old: Option<&Value>, new: Option<&Value>) -> Compared {
        match structure {
            Structure::Object(kind, Granularity::Members) => {
                let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
                if old.into_iter().chain(new).any(|members| !members.is_empty()) {
                    self.members(kind, old, new);
                    return Compared::ByParts;
                }
            }
            Structure::List(items) if items.is_associative() => {
                let (old, new) = (list(old), list(new));
                if !old.is_empty() || !new.is_empty() {
                    self.items(&items, old, new);
                    return Compared::ByParts;
                }
            }
            Structure::Scalar(_) | Structure::Object(..) | Structure::List(_) => {}
        }
        match (old, new) {
            (None, _) => self.is_added = true,
            (_, None) => self.is_removed = true,
            (Some(old), Some(new)) => self.is_modified |= !same(old, new),
        }
        Compared::AsWhole
    }

    fn members(&mut self, kind: Kind<'_>, old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) {
        let mut names = names(old, new);
        if old.is_none() || new.is_none() {
            names.extend(kind.nulls());
        }
        for name in names {
            let member = kind.member(name).map_or(Kind::Deduced, |(member, _)| member);
            let old = old.and_then(|members| members.get(name).or_else(|| kind.absent(name)));
            let new = new.and_then(|members| members.get(name).or_else(|| kind.absent(name)));
            let mut difference = Self::default();
            difference.values(member, old, new);
            self.include(&Element::Field(name.to_owned()), difference);
        }
    }

    fn items(&mut self, items: &Items<'_>, old: &[Value], new: &[Value]) {
        let (old, new) = (by_element(items, old), by_element(items, new));
        let elements: BTreeSet<&Element> = old.keys().chain(new.keys()).collect();
        for element in elements {
            let old = old.get(element).map(Vec::as_slice).unwrap_or_default();
            let new = new.get(element).map(Vec::as_slice).unwrap_or_default();
            let mut difference = Self::default();
            match (old, new) {
                ([] | [_], [] | [_]) => difference.values(items.kind, old.first().copied(), new.first().copied()),
                ([_, _, ..], [_, _, ..]) => {
                    let are_same = old.len() == new.len() && old.iter().zip(new).all(|(old, new)| same(old, new));
                    difference.is_modified = !are_same;
                }
                ([_, _, ..], _) => {
                    if let Some(new) = new.first() {
                        difference.values(items.kind, None, Some(new));
                    }
                    difference.is_removed = true;
                }
                _ => {
                    if let Some(old) = old.first() {
                        difference.values(items.kind, Some(old), None);
                    }
                    difference.is_added = true;
                }
            }
            self.include(element, difference);
        }
    }

    /// Adds the difference of a member or item.
    fn include(&mut self, element: &Element, part: Self) {
        let Comparison {
            added,
            modified,
            removed,
        } = part.below;
        self.below.added.insert_below(element, part.is_added, added);
        self.below.modified.insert_below(element, part.is_modified, modified);
        self.below.removed.insert_below(element, part.is_removed, removed);
    }
}

/// The names of the members of both objects, sorted.
pub(super) fn names<'a>(one: Option<&'a Map<String, Value>>, two: Option<&'a Map<String, Value>>) -> BTreeSet<&'a str> {
    one.into_iter()
        .chain(two)
        .flat_map(Map::keys)
        .map(String::as_str)
        .collect()
}

/// The items of a list; none for any other value.
pub(super) fn list(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Items by what identifies them; items without identity are ignored.
fn by_element<'a>(items: &Items<'_>, list: &'a [Value]) -> BTreeMap<Element, Vec<&'a Value>> {
    let mut found: BTreeMap<Element, Vec<&Value>> = BTreeMap::new();
    for item in list {
        if let Ok(element) = items.element(item) {
            found.entry(element).or_default().push(item);
        }
    }
    found
}
