//! The simple JSONPath of CustomResourceDefinitions: printer columns, selectable fields, scale paths.
//!
//! Supports `.a.b`, `['a.b/c']`, `[0]`, `[1:-1:2]`, `[*]`, `[?(@.type=="Ready")]`. Does not know the use of a path.

use quantity::Saturating as _;
use serde_json::{Number, Value};

/// A compiled path.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

/// The text is not a path that this server supports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the JSONPath {path:?}: {reason}")]
pub struct InvalidPath {
    path: String,
    reason: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Member(String),
    Index(i64),
    Slice(Slice),
    All,
    Filter(Filter),
}

/// A part of a list: `[start:end:step]`. Negative numbers count from the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    step: Option<i64>,
}

#[derive(Clone, Debug, PartialEq)]
struct Filter {
    path: Vec<Step>,
    /// `None`: the path must only exist.
    test: Option<(Operator, Value)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses a path; enclosing braces are optional.
    ///
    /// # Errors
    /// The first syntax error.
    pub fn parse(path: &str) -> Result<Self, InvalidPath> {
        let invalid = |reason: String| InvalidPath {
            path: path.to_owned(),
            reason,
        };
        let inner = path.trim();
        let inner = inner
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'))
            .unwrap_or(inner);
        let inner = inner.strip_prefix('$').unwrap_or(inner);
        let mut parser = Parser {
            rest: inner,
            filters: 0,
        };
        let steps = parser.steps().map_err(invalid)?;
        if parser.rest.is_empty() {
            Ok(Self { steps })
        } else {
            Err(invalid(format!(
                "{:?} is left over; a step starts with '.' or '['",
                parser.rest
            )))
        }
    }

    /// Whether the path consists of members joined by dots, as required for scales and selectable fields.
    pub fn is_plain(&self) -> bool {
        !self.steps.is_empty() && self.steps.iter().all(|step| matches!(step, Step::Member(_)))
    }

    /// The members of a plain path.
    pub fn members(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match step {
            Step::Member(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// A plain path as a JSON pointer.
    pub fn pointer(&self) -> String {
        self.members()
            .map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1")))
            .collect()
    }

    /// All values at the path.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        walk(&self.steps, value)
    }

    /// The first value at the path.
    pub fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.find(value).into_iter().next()
    }
}

fn walk<'a>(steps: &[Step], value: &'a Value) -> Vec<&'a Value> {
    let mut found = vec![value];
    for step in steps {
        found = found.into_iter().flat_map(|value| step.apply(value)).collect();
    }
    found
}

impl Step {
    fn apply<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Member(name) => value.get(name).into_iter().collect(),
            Self::Index(index) => value
                .as_array()
                .and_then(|items| item(items, *index))
                .into_iter()
                .collect(),
            Self::Slice(slice) => value.as_array().map(|items| slice.of(items)).unwrap_or_default(),
            Self::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(members) => members.values().collect(),
                _ => Vec::new(),
            },
            Self::Filter(filter) => value
                .as_array()
                .into_iter()
                .flatten()
                .filter(|item| filter.holds(item))
                .collect(),
        }
    }
}

/// Negative indexes count from the end.
fn item(items: &[Value], index: i64) -> Option<&Value> {
    let place = usize::try_from(index.unsigned_abs()).ok()?;
    if index < 0 {
        items.get(items.len().checked_sub(place)?)
    } else {
        items.get(place)
    }
}

impl Slice {
    /// The items of the slice; as upstream, none if it goes beyond the list.
    fn of<'a>(&self, items: &'a [Value]) -> Vec<&'a Value> {
        let place = |number: i64| match usize::try_from(number.unsigned_abs()) {
            Ok(back) if number < 0 => items.len().checked_sub(back),
            place => place.ok(),
        };
        let start = self.start.map_or(Some(0), place);
        let end = self.end.map_or(Some(items.len()), place);
        let step = usize::try_from(self.step.unwrap_or(1)).ok().filter(|step| *step > 0);
        let (Some(start), Some(end), Some(step)) = (start, end, step) else {
            return Vec::new();
        };
        items.get(start..end).into_iter().flatten().step_by(step).collect()
    }
}

impl Filter {
    fn holds(&self, item: &Value) -> bool {
        let found = walk(&self.path, item);
        match (&self.test, found.first()) {
            (None, found) => found.is_some(),
            (Some(_), None) => false,
            (Some((operator, expected_value)), Some(found)) => operator.holds(found, expected_value),
        }
    }
}

impl Operator {
    fn holds(self, found: &Value, expected_value: &Value) -> bool {
        let order = match (found, expected_value) {
            (Value::Number(found), Value::Number(expected_value)) => {
                found.as_f64().partial_cmp(&expected_value.as_f64())
            }
            (Value::String(found), Value::String(expected_value)) => Some(found.cmp(expected_value)),
            _ => None,
        };
        match self {
            Self::Equal => order.map_or(found == expected_value, |order| order.is_eq()),
            Self::NotEqual => order.map_or(found != expected_value, |order| order.is_ne()),
            Self::Less => order.is_some_and(|order| order.is_lt()),
            Self::LessOrEqual => order.is_some_and(|order| order.is_le()),
            Self::Greater => order.is_some_and(|order| order.is_gt()),
            Self::GreaterOrEqual => order.is_some_and(|order| order.is_ge()),
        }
    }
}

/// The maximum nesting of filters.
const MAX_FILTERS: usize = 10;

struct Parser<'a> {
    rest: &'a str,
    /// How many filters enclose the rest.
    filters: usize,
}

impl Parser<'_> {
    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn need(&mut self, text: &str) -> Result<(), String> {
        if self.take(text) {
            Ok(())
        } else {
            Err(format!("expected {text:?} before {:?}", self.rest))
        }
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn steps(&mut self) -> Result<Vec<Step>, String> {
        let mut steps = Vec::new();
        loop {
            if self.take("[") {
                steps.push(self.bracket()?);
            } else if self.take(".") {
                if self.take("*") {
                    steps.push(Step::All);
                } else if !self.rest.starts_with('[') {
                    steps.push(Step::Member(self.name()?));
                }
            } else {
                return Ok(steps);
            }
        }
    }

    /// A member name; a backslash escapes the next character.
    fn name(&mut self) -> Result<String, String> {
        let mut name = String::new();
        let mut characters = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
                '.' | '[' | ']' | '(' | ')' | '=' | '!' | '<' | '>' | ' ' | '{' | '}' => {
                    end = at;
                    break;
                }
                other => name.push(other),
            }
        }
        self.rest = self.rest.get(end..).unwrap_or_default();
        if name.is_empty() {
            Err(format!("a name is missing before {:?}", self.rest))
        } else {
            Ok(name)
        }
    }

    /// The content of brackets, after the opening one.
    fn bracket(&mut self) -> Result<Step, String> {
        self.space();
        let step = if self.take("*") {
            Step::All
        } else if self.take("?(") {
            if self.filters == MAX_FILTERS {
                return Err(format!("filters are nested more than {MAX_FILTERS} times"));
            }
            self.filters.raise(1);
            let filter = self.filter()?;
            self.filters.lower(1);
            self.space();
            self.need(")")?;
            Step::Filter(filter)
        } else if let Some(slice) = self.slice()? {
            Step::Slice(slice)
        } else {
            match self.literal()? {
                Value::String(name) => Step::Member(name),
                Value::Number(number) => Step::Index(
                    number
                        .as_i64()
                        .ok_or_else(|| format!("the index {number} is not a whole number"))?,
                ),
                other => return Err(format!("{other} is neither an index nor a quoted name")),
            }
        };
        self.space();
        self.need("]")?;
        Ok(step)
    }

    /// A slice, if the brackets contain a colon outside of quotes.
    fn slice(&mut self) -> Result<Option<Slice>, String> {
        let end = self.rest.find([']', '\'', '"']).unwrap_or(self.rest.len());
        let (content, rest) = self.rest.split_at(end);
        if !content.contains(':') {
            return Ok(None);
        }
        let number = |text: &str| match text.trim() {
            "" => Ok(None),
            text => text
                .parse::<i64>()
                .map(Some)
                .map_err(|_| format!("{text:?} is not a whole number")),
        };
        let mut parts = content.split(':').map(number);
        let mut next = || parts.next().unwrap_or(Ok(None));
        let (start, end, step) = (next()?, next()?, next()?);
        if parts.next().is_some() {
            return Err(format!("{content:?} has more than a start, an end and a step"));
        }
        self.rest = rest;
        Ok(Some(Slice { start, end, step }))
    }

    fn filter(&mut self) -> Result<Filter, String> {
        const OPERATORS: [(&str, Operator); 6] = [
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
            ("<=", Operator::LessOrEqual),
            (">=", Operator::GreaterOrEqual),
            ("<", Operator::Less),
            (">", Operator::Greater),
        ];
        self.space();
        self.need("@")?;
        let path = self.steps()?;
        self.space();
        for (text, operator) in OPERATORS {
            if self.take(text) {
                self.space();
                return Ok(Filter {
                    path,
                    test: Some((operator, self.literal()?)),
                });
            }
        }
        Ok(Filter { path, test: None })
    }

    fn literal(&mut self) -> Result<Value, String> {
        for quote in ['\'', '"'] {
            if let Some(rest) = self.rest.strip_prefix(quote) {
                let (text, rest) = rest.split_once(quote).ok_or("a quote is not closed")?;
                self.rest = rest;
                return Ok(text.into());
            }
        }
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.')
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        let value = match word {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            // As upstream, brackets without a number select the first item.
            "" if rest.starts_with(']') => 0.into(),
            word => match (word.parse::<i64>(), word.parse::<f64>().ok().and_then(Number::from_f64)) {
                (Ok(whole), _) => whole.into(),
                (_, Some(number)) => number.into(),
                _ => return Err(format!("expected a quoted text or a number before {:?}", self.rest)),
            },
        };
        self.rest = rest;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn machine() -> Value {
        json!({
            "metadata": { "labels": { "a.b/c": "dotted" } },
            "spec": { "replicas": 3, "names": ["one", "two", "three"] },
            "status": { "conditions": [
                { "type": "Ready", "status": "True", "weight": 1 },
                { "type": "Disk", "status": "False", "weight": 5 },
            ] },
        })
    }

    #[rstest]
    #[case(".spec.replicas", json!([3]))]
    #[case("{.spec.replicas}", json!([3]))]
    #[case("$.spec.replicas", json!([3]))]
    #[case(".spec.missing.deeper", json!([]))]
    #[case(".metadata.labels['a.b/c']", json!(["dotted"]))]
    #[case(r".metadata.labels.a\.b/c", json!(["dotted"]))]
    #[case(".spec.names[0]", json!(["one"]))]
    #[case(".spec.names[-1]", json!(["three"]))]
    #[case(".spec.names[-4]", json!([]))]
    #[case(".spec.names[-1:]", json!(["three"]))]
    #[case(".spec.names[:2]", json!(["one", "two"]))]
    #[case(".spec.names[1:-1]", json!(["two"]))]
    #[case(".spec.names[::2]", json!(["one", "three"]))]
    #[case(".spec.names[2:1]", json!([]))]
    #[case(".spec.names[1:9]", json!([]))]
    #[case(".status.conditions[-1:].type", json!(["Disk"]))]
    #[case(".spec.names[*]", json!(["one", "two", "three"]))]
    #[case(r#".status.conditions[?(@.type=="Ready")].status"#, json!(["True"]))]
    #[case(".status.conditions[?(@.type == 'Disk')].status", json!(["False"]))]
    #[case(".status.conditions[?(@.weight>2)].type", json!(["Disk"]))]
    #[case(".status.conditions[?(@.weight!=5)].type", json!(["Ready"]))]
    #[case(".status.conditions[?(@.reason)].type", json!([]))]
    fn paths_select_values(#[case] path: &str, #[case] expected: Value) {
        let found: Vec<Value> = JsonPath::parse(path)
            .unwrap()
            .find(&machine())
            .into_iter()
            .cloned()
            .collect();
        assert_eq!(Value::from(found), expected);
    }

    #[rstest]
    #[case("spec.replicas")]
    #[case(".spec..replicas")]
    #[case(".spec[")]
    #[case(".spec['a]")]
    #[case(".spec[?(type==1)]")]
    #[case(".spec[1.5]")]
    fn invalid_paths_are_rejected(#[case] path: &str) {
        let error = JsonPath::parse(path).unwrap_err();
        assert!(error.to_string().contains(path.trim()), "{error}");
    }

    #[test]
    fn the_nesting_of_filters_is_limited() {
        let nested = |times: usize| format!("{}.b{}", ".a[?(@".repeat(times), ")]".repeat(times));
        let mut value = json!({ "b": 1 });
        for _ in 0..MAX_FILTERS {
            value = json!({ "a": [value] });
        }
        assert_eq!(JsonPath::parse(&nested(MAX_FILTERS)).unwrap().find(&value).len(), 1);
        for times in [MAX_FILTERS + 1, 500_000] {
            JsonPath::parse(&nested(times)).unwrap_err();
        }
    }

    #[test]
    fn plain_paths_become_pointers() {
        let path = JsonPath::parse(".spec.a~b/c").unwrap();
        assert!(path.is_plain());
        assert_eq!(path.pointer(), "/spec/a~0b~1c");
        assert!(!JsonPath::parse(".spec.names[0]").unwrap().is_plain());
    }
}
