//! The field that a rule names for its errors: `.spec.name`, or `.labels['example.com/name']`.

use serde_json::Value;

/// A path below the value of a rule; empty for the value itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FieldPath {
    names: Vec<String>,
    text: String,
}

impl FieldPath {
    /// Parses a path to a property of the schema; `None` if it is invalid.
    pub(super) fn parse(path: &str, schema: &Value) -> Option<Self> {
        let mut found = Self::default();
        let mut schema = schema;
        let mut rest = path;
        while !rest.is_empty() {
            let (name, after) = step(rest)?;
            rest = after;
            let properties = schema.get("properties").and_then(Value::as_object);
            let additional = schema.get("additionalProperties").filter(|inner| inner.is_object());
            (schema, found.text) = match (properties, additional) {
                (Some(properties), _) => (properties.get(&name)?, format!("{}.{name}", found.text)),
                (None, Some(values)) => (values, format!("{}[{name}]", found.text)),
                (None, None) => return None,
            };
            found.names.push(name);
        }
        Some(found)
    }

    /// The value at the path.
    pub(super) fn target<'a>(&self, json: &'a Value) -> Option<&'a Value> {
        self.names.iter().try_fold(json, |json, name| json.get(name))
    }

    /// The path as errors show it.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// The first name of a path and the rest.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at_checked(end)?;
        return (!name.is_empty()).then(|| (name.to_owned(), rest));
    }
    let mut letters = path.strip_prefix("['")?.char_indices();
    let mut name = String::new();
    let quoted = path.strip_prefix("['")?;
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => return Some((name, quoted.get(at..)?.strip_prefix("']")?)),
            '\\' => name.push(letters.next()?.1),
            letter => name.push(letter),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(".a", Some(".a"))]
    #[case(".map['a.b']", Some(".map.a.b"))]
    #[case(".labels['x.io/a'].size", Some(".labels[x.io/a].size"))]
    #[case(".labels['it\\'s']", Some(".labels[it's]"))]
    #[case(".b", None)]
    #[case("a", None)]
    #[case(".a.b", None)]
    #[case(".map['a.b'", None)]
    #[case(".map[a.b]", None)]
    fn a_path_names_a_property(#[case] path: &str, #[case] expected: Option<&str>) {
        let schema = json!({ "properties": {
            "a": { "type": "string" },
            "map": { "properties": { "a.b": { "type": "string" } } },
            "labels": { "additionalProperties": { "properties": { "size": { "type": "integer" } } } },
        } });
        let found = FieldPath::parse(path, &schema);
        assert_eq!(found.as_ref().map(FieldPath::text), expected);
    }

    #[test]
    fn a_path_leads_to_a_value() {
        let schema = json!({ "properties": { "map": { "properties": { "a.b": {} } } } });
        let path = FieldPath::parse(".map['a.b']", &schema).unwrap();
        assert_eq!(path.target(&json!({ "map": { "a.b": 5 } })), Some(&json!(5)));
        assert_eq!(path.target(&json!({})), None);
    }
}
