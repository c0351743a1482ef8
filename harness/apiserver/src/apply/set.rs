//! Sets of fields, as trees.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};

use super::path::{Element, InvalidElement, Position};
use crate::types::paths::Paths;

/// A set of fields and list items. A set contains a field independently of the fields below it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    nodes: BTreeMap<Element, Node>,
}

/// Never both absent and childless.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Node {
    /// Whether the set contains the field itself.
    member: bool,
    children: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// A set of fields, each given by the names on its path.
    pub(crate) fn of_fields(paths: &[&[&str]]) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| Element::Field((*name).to_owned())).collect();
            set.insert(&path);
        }
        set
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a field, but not those above it. The empty path, the object as a whole, belongs to no set.
    pub(crate) fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else {
            return;
        };
        let mut children = Self::default();
        children.insert(rest);
        self.insert_below(first, rest.is_empty(), children);
    }

    /// Adds the fields of another set below an element, and the element itself if it is a member.
    pub(crate) fn insert_below(&mut self, element: &Element, member: bool, children: Self) {
        if member || !children.is_empty() {
            let node = self.nodes.entry(element.clone()).or_default();
            node.member |= member;
            node.children.extend(children);
        }
    }

    pub(crate) fn contains(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.has(last),
            [first, rest @ ..] => self.below(first).is_some_and(|children| children.contains(rest)),
        }
    }

    /// Whether the element itself is a member.
    pub(crate) fn has(&self, element: &Element) -> bool {
        self.nodes.get(element).is_some_and(|node| node.member)
    }

    /// The fields below an element; `None` if there are none.
    pub(crate) fn below(&self, element: &Element) -> Option<&Self> {
        let node = self.nodes.get(element)?;
        (!node.children.is_empty()).then_some(&node.children)
    }

    /// The elements with whether they are members, and the fields below them.
    pub(crate) fn elements(&self) -> impl Iterator<Item = (&Element, bool, &Self)> {
        self.nodes
            .iter()
            .map(|(element, node)| (element, node.member, &node.children))
    }

    /// Adds all fields of another set.
    pub(crate) fn extend(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
            return;
        }
        for (element, node) in other.nodes {
            match self.nodes.entry(element) {
                Entry::Vacant(entry) => {
                    entry.insert(node);
                }
                Entry::Occupied(mut entry) => {
                    entry.get_mut().member |= node.member;
                    entry.get_mut().children.extend(node.children);
                }
            }
        }
    }

    /// The fields in both sets.
    pub(crate) fn intersection(&self, other: &Self) -> Self {
        let nodes = self.nodes.iter().filter_map(|(element, node)| {
            let of_other = other.nodes.get(element)?;
            let common = Node {
                member: node.member && of_other.member,
                children: node.children.intersection(&of_other.children),
            };
            (!common.is_empty()).then(|| (element.clone(), common))
        });
        Self { nodes: nodes.collect() }
    }

    /// Removes the fields of another set, but not those below them.
    pub(crate) fn subtract(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.nodes.retain(|element, node| {
            if let Some(removed) = other.nodes.get(element) {
                node.member &= !removed.member;
                node.children.subtract(&removed.children);
            }
            !node.is_empty()
        });
    }

    /// Removes the fields of another set with all fields below them.
    pub(crate) fn subtract_trees(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.nodes.retain(|element, node| match other.nodes.get(element) {
            Some(removed) if removed.member => false,
            Some(removed) => {
                node.children.subtract_trees(&removed.children);
                !node.is_empty()
            }
            None => true,
        });
    }

    /// The number of fields.
    pub(crate) fn len(&self) -> usize {
        let counts = self
            .elements()
            .map(|(_, is_member, children)| usize::from(is_member).saturating_add(children.len()));
        counts.fold(0, usize::saturating_add)
    }

    /// Collects the paths of the fields, those of a level before those below it.
    pub(crate) fn collect_paths(&self, paths: &mut Paths) {
        self.collect_below(Position::Root, paths);
    }

    fn collect_below(&self, position: Position<'_>, paths: &mut Paths) {
        for (element, _, _) in self.elements().filter(|(_, is_member, _)| *is_member) {
            paths.push(Position::Element(&position, element));
        }
        for (element, _, children) in self.elements() {
            children.collect_below(Position::Element(&position, element), paths);
        }
    }

    /// Parses `fieldsV1`.
    ///
    /// # Errors
    /// For the first invalid element; a value that is not an object contains none.
    pub(crate) fn parse(value: &Value) -> Result<Self, InvalidElement> {
        let mut set = Self::default();
        for (name, below) in value.as_object().into_iter().flatten() {
            if name == "." {
                continue;
            }
            let children = Self::parse(below)?;
            let member = below.get(".").is_some() || children.is_empty();
            set.insert_below(&Element::parse(name)?, member, children);
        }
        Ok(set)
    }

    /// The form in `fieldsV1`.
    pub(crate) fn encode(&self) -> Value {
        let nodes = self.nodes.iter().map(|(element, node)| {
            let mut below = node.children.encode();
            if node.member
                && !node.children.is_empty()
                && let Some(below) = below.as_object_mut()
            {
                below.insert(".".to_owned(), Value::Object(Map::new()));
            }
            (element.encode(), below)
        });
        Value::Object(nodes.collect())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn set(value: Value) -> FieldSet {
        FieldSet::parse(&value).unwrap()
    }

    #[test]
    fn a_parent_is_independent_of_its_children() {
        let parent = set(json!({ "f:a": {} }));
        let child = set(json!({ "f:a": { "f:b": {} } }));
        let both = set(json!({ "f:a": { ".": {}, "f:b": {} } }));
        let mut left = both.clone();
        left.subtract(&parent);
        assert_eq!(left, child);
        let mut left = both.clone();
        left.subtract(&child);
        assert_eq!(left, parent);
        let mut left = child.clone();
        left.subtract_trees(&parent);
        assert!(left.is_empty());
        let mut joined = parent.clone();
        joined.extend(child.clone());
        assert_eq!(joined, both);
        assert_eq!(both.intersection(&child), child);
    }

    #[test]
    fn paths_of_a_level_come_first() {
        let fields = set(json!({ "f:a": { ".": {}, "f:z": {} }, "f:b": {} }));
        let mut paths = Paths::default();
        fields.collect_paths(&mut paths);
        assert_eq!(paths.into_texts(), [".a", ".b", ".a.z"]);
        assert_eq!(fields.len(), 3);
    }

    fn set_of(paths: &[Vec<Element>]) -> FieldSet {
        let mut set = FieldSet::default();
        paths.iter().for_each(|path| set.insert(path));
        set
    }

    fn any_set() -> impl Strategy<Value = FieldSet> {
        any_paths().prop_map(|paths| set_of(&paths))
    }

    fn any_paths() -> impl Strategy<Value = Vec<Vec<Element>>> {
        let element = prop_oneof![
            prop::sample::select(vec!["a", "b", "c"]).prop_map(|name| Element::Field(name.to_owned())),
            (0..3).prop_map(|number| Element::Item(Value::from(number).into())),
            (0..2).prop_map(|number| Element::Key([("name".to_owned(), Value::from(number).into())].into())),
        ];
        prop::collection::vec(prop::collection::vec(element, 1..4), 0..8)
    }

    proptest! {
        #[test]
        fn a_set_keeps_its_encoding(set in any_set()) {
            prop_assert_eq!(FieldSet::parse(&set.encode()).unwrap(), set);
        }

        #[test]
        fn a_set_contains_what_was_inserted(paths in any_paths()) {
            let set = set_of(&paths);
            prop_assert!(paths.iter().all(|path| set.contains(path)));
            prop_assert_eq!(set.len(), paths.iter().collect::<BTreeSet<_>>().len());
        }

        #[test]
        fn sets_obey_the_laws_of_algebra(one in any_set(), two in any_set()) {
            let common = one.intersection(&two);
            prop_assert_eq!(&common, &two.intersection(&one));
            let mut rest = one.clone();
            rest.subtract(&two);
            prop_assert!(rest.intersection(&two).is_empty());
            let mut joined = rest;
            joined.extend(common);
            prop_assert_eq!(&joined, &one);
            prop_assert_eq!(joined.len(), one.len());
        }
    }
}
