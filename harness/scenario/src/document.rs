//! A YAML document with the positions of its nodes: finds the position of a field, and the field at a position.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::{Location, Spanned};

/// The parser follows 64 levels, and with positions uses up to 50 KiB of stack for each: more than a thread has.
const STACK: usize = 16 << 20;

/// A position in a text, from line 1 and column 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

impl Position {
    /// The position of a node; `None`: the parser does not know it.
    pub(crate) fn of(location: &Location) -> Option<Self> {
        let (line, column) = (location.line(), location.column());
        (*location != Location::UNKNOWN).then_some(Self { line, column })
    }
}

/// The content of a node.
#[derive(Debug)]
enum Content {
    Mapping(Vec<(String, Node)>),
    List(Vec<Node>),
    Scalar,
}

/// A node and its position.
type Node = Spanned<Content>;

/// A document.
#[derive(Debug)]
pub(crate) struct Document(Node);

/// A part of a field's path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Key(String),
    Index(usize),
}

impl Document {
    /// Parses a text; `None`: it is not valid YAML.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let parse = || serde_saphyr::from_str(text).ok().map(Self);
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK);
            thread.spawn_scoped(scope, parse).ok()?.join().ok()?
        })
    }

    /// The position of a field such as `steps[3].vm.machine`, and its path in the file's spelling; `old` returns the
    /// old name of a renamed field. A field that is missing has the position of the innermost existing one around it.
    pub(crate) fn locate(&self, field: &str, old: impl Fn(&str) -> Option<&'static str>) -> (Option<Position>, String) {
        let mut node = &self.0;
        let mut path = String::new();
        let mut parts = parts(field).into_iter().peekable();
        while let Some(part) = parts.peek() {
            let next = match (part, &node.value) {
                (Part::Index(index), Content::List(items)) => items.get(*index).map(|item| (part.clone(), item)),
                (Part::Key(key), Content::Mapping(entries)) => {
                    entry(entries, key).or_else(|| entry(entries, old(key)?))
                }
                _ => None,
            };
            let Some((spelled, below)) = next else {
                // In deprecated spellings the fields of `match` and `action` are beside them.
                if let (Content::Mapping(entries), Some(Part::Key(after))) = (&node.value, parts.clone().nth(1))
                    && entries.iter().any(|(name, _)| *name == after)
                {
                    parts.next();
                    continue;
                }
                break;
            };
            push(&mut path, &spelled);
            node = below;
            parts.next();
        }
        parts.for_each(|part| push(&mut path, &part));
        (Position::of(&node.referenced), path)
    }

    /// The path of the field at a position. `name` is the key of the field, or its value; `None`: it is unknown.
    pub(crate) fn field_at(&self, position: Position, name: Option<&str>) -> Option<String> {
        let mut all = Vec::new();
        collect(&self.0, String::new(), None, &mut all);
        let named =
            |(_, key, at): &&(String, Option<&str>, Position)| name.is_some() && *key == name && *at >= position;
        let found = all.iter().find(named);
        let exact = || all.iter().rev().find(|(_, _, at)| *at == position);
        found.or_else(exact).map(|(path, ..)| path.clone())
    }
}

/// The entry of that key.
fn entry<'a>(entries: &'a [(String, Node)], key: &str) -> Option<(Part, &'a Node)> {
    let found = entries.iter().find(|(name, _)| name == key);
    found.map(|(name, node)| (Part::Key(name.clone()), node))
}

/// Collects the paths, keys and positions of all nodes in the order of the text.
fn collect<'a>(node: &'a Node, path: String, key: Option<&'a str>, all: &mut Vec<(String, Option<&'a str>, Position)>) {
    if let Some(position) = Position::of(&node.referenced) {
        all.push((path.clone(), key, position));
    }
    let below = |part: &Part| {
        let mut path = path.clone();
        push(&mut path, part);
        path
    };
    match &node.value {
        Content::Mapping(entries) => {
            for (name, node) in entries {
                collect(node, below(&Part::Key(name.clone())), Some(name), all);
            }
        }
        Content::List(items) => {
            for (index, item) in items.iter().enumerate() {
                collect(item, below(&Part::Index(index)), None, all);
            }
        }
        Content::Scalar => {}
    }
}

/// The parts of a path such as `steps[3].vm`.
fn parts(field: &str) -> Vec<Part> {
    let words = field.split(['.', '[', ']']).filter(|word| !word.is_empty());
    words
        .map(|word| word.parse().map_or_else(|_| Part::Key(word.to_owned()), Part::Index))
        .collect()
}

fn push(path: &mut String, part: &Part) {
    match part {
        Part::Key(key) if path.is_empty() => path.push_str(key),
        Part::Key(key) => {
            path.push('.');
            path.push_str(key);
        }
        Part::Index(index) => path.push_str(&format!("[{index}]")),
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML node")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Content::Mapping(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Content::List(items))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_i128<E>(self, _: i128) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_u128<E>(self, _: u128) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_str<E>(self, _: &str) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_bytes<E>(self, _: &[u8]) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const TEXT: &str = "\
name: story
steps:
- someone: {called: a, among: typo-*}
- inject: {name: q, machine: m-1}
- apply:
    object:
      spec:
        replica: 3
";

    /// On a thread of the usual size.
    #[test]
    fn a_deep_document_does_not_overflow_the_stack() {
        for levels in [60, 70, 10_000] {
            let document = Document::parse(&format!("a: {}{}", "[".repeat(levels), "]".repeat(levels)));
            assert_eq!(document.is_some(), levels < 64, "{levels} levels");
        }
    }

    #[rstest]
    #[case::a_value("name", 1, 7, "name")]
    #[case::a_renamed_step("steps[0].deferred.among", 3, 31, "steps[0].someone.among")]
    #[case::a_moved_field("steps[1].inject.match.machine", 4, 30, "steps[1].inject.machine")]
    #[case::a_nested_field("steps[2].apply.object.spec.replica", 8, 18, "steps[2].apply.object.spec.replica")]
    #[case::a_missing_field("steps[2].apply.object.metadata.name", 7, 7, "steps[2].apply.object.metadata.name")]
    fn a_field_has_the_position_of_its_value(
        #[case] field: &str,
        #[case] line: u64,
        #[case] column: u64,
        #[case] spelled: &str,
    ) {
        let document = Document::parse(TEXT).unwrap();
        let old = |name: &str| (name == "deferred").then_some("someone");
        let (position, path) = document.locate(field, old);
        assert_eq!(path, spelled);
        assert_eq!(position, Some(Position { line, column }));
    }

    #[rstest]
    #[case::by_its_key(8, 9, Some("replica"), "steps[2].apply.object.spec.replica")]
    #[case::by_its_value(1, 7, Some("story"), "name")]
    #[case::by_its_position(3, 21, None, "steps[0].someone.called")]
    fn a_position_is_that_of_a_field(
        #[case] line: u64,
        #[case] column: u64,
        #[case] name: Option<&str>,
        #[case] expected: &str,
    ) {
        let document = Document::parse(TEXT).unwrap();
        let field = document.field_at(Position { line, column }, name);
        assert_eq!(field.as_deref(), Some(expected));
    }
}
