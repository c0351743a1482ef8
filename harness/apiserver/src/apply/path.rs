//! Positions of fields and list items, with the text form in conflicts and in `fieldsV1`.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Number, Value};

/// One step from a value to a member or item. The order is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Element {
    /// A member of an object: `f:name`.
    Field(String),
    /// The item of a list with these keys: `k:{"name":"x"}`.
    Key(BTreeMap<String, Scalar>),
    /// The item of a set: `v:"x"`.
    Item(Scalar),
    /// The item at a position: `i:0`.
    Index(i64),
}

/// A value that identifies a list item.
#[derive(Clone, Debug)]
pub(crate) struct Scalar(Value);

/// The text of a step is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a path element: expected f:, k:, v: or i: with its value")]
pub(crate) struct InvalidElement(String);

impl Element {
    /// Parses a member name of `fieldsV1`.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidElement> {
        let invalid = || InvalidElement(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(invalid)?;
        match kind {
            "f" => Ok(Self::Field(rest.to_owned())),
            "v" => Ok(Self::Item(Scalar(serde_json::from_str(rest).map_err(|_| invalid())?))),
            "i" => Ok(Self::Index(rest.parse().map_err(|_| invalid())?)),
            "k" => {
                let keys: Map<String, Value> = serde_json::from_str(rest).map_err(|_| invalid())?;
                let keys = keys.into_iter().map(|(name, value)| (name, Scalar(value)));
                Ok(Self::Key(keys.collect()))
            }
            _ => Err(invalid()),
        }
    }

    /// The member name in `fieldsV1`.
    pub(crate) fn encode(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Item(Scalar(value)) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
            Self::Key(keys) => {
                let keys = keys.iter().map(|(name, Scalar(value))| (name.clone(), value.clone()));
                format!("k:{}", Value::Object(keys.collect()))
            }
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Item(value) => write!(f, "[={value}]"),
            Self::Index(index) => write!(f, "[{index}]"),
            Self::Key(keys) => {
                let texts: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(f, "[{}]", texts.join(","))
            }
        }
    }
}

/// The position of a walk through an object, kept on the stack and formatted only for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Position<'a> {
    /// The object itself.
    Root,
    /// A member of an object.
    Field(&'a Position<'a>, &'a str),
    /// A member or an item.
    Element(&'a Position<'a>, &'a Element),
}

impl fmt::Display for Position<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::Field(above, name) => write!(f, "{above}.{name}"),
            Self::Element(above, element) => write!(f, "{above}{element}"),
        }
    }
}

impl From<Value> for Scalar {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Numbers before texts before truth values; numbers by size, however they are written.
impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        fn class(value: &Value) -> u8 {
            match value {
                Value::Number(_) => 0,
                Value::String(_) => 1,
                Value::Bool(_) => 2,
                Value::Array(_) => 3,
                Value::Object(_) => 4,
                Value::Null => 5,
            }
        }
        match (&self.0, &other.0) {
            (Value::Number(one), Value::Number(two)) => compare_numbers(one, two),
            (Value::String(one), Value::String(two)) => one.cmp(two),
            (Value::Bool(one), Value::Bool(two)) => one.cmp(two),
            (one, two) if class(one) == class(two) => one.to_string().cmp(&two.to_string()),
            (one, two) => class(one).cmp(&class(two)),
        }
    }
}

fn compare_numbers(one: &Number, two: &Number) -> Ordering {
    let whole = |number: &Number| number.as_i64().map(i128::from).or(number.as_u64().map(i128::from));
    match (whole(one), whole(two)) {
        (Some(one), Some(two)) => one.cmp(&two),
        _ => {
            let float = |number: &Number| number.as_f64().unwrap_or_default();
            float(one).total_cmp(&float(two))
        }
    }
}

/// Whether two values are equal, however their numbers are written.
pub(crate) fn same(one: &Value, two: &Value) -> bool {
    match (one, two) {
        (Value::Number(one), Value::Number(two)) => compare_numbers(one, two).is_eq(),
        (Value::Array(one), Value::Array(two)) => {
            one.len() == two.len() && one.iter().zip(two).all(|(one, two)| same(one, two))
        }
        (Value::Object(one), Value::Object(two)) => {
            one.len() == two.len()
                && one
                    .iter()
                    .all(|(name, value)| two.get(name).is_some_and(|other| same(value, other)))
        }
        (one, two) => one == two,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("f:spec", ".spec")]
    #[case("f:app.kubernetes.io/name", ".app.kubernetes.io/name")]
    #[case(r#"k:{"containerPort":80,"protocol":"TCP"}"#, r#"[containerPort=80,protocol="TCP"]"#)]
    #[case(r#"v:"example.com/x""#, r#"[="example.com/x"]"#)]
    #[case("v:5", "[=5]")]
    #[case("i:3", "[3]")]
    fn an_element_keeps_its_text(#[case] encoded: &str, #[case] shown: &str) {
        let element = Element::parse(encoded).unwrap();
        assert_eq!(element.encode(), encoded);
        assert_eq!(element.to_string(), shown);
    }

    #[rstest]
    #[case("spec")]
    #[case("x:spec")]
    #[case("i:one")]
    #[case("k:[]")]
    #[case("v:{")]
    fn other_texts_are_rejected(#[case] text: &str) {
        assert_eq!(Element::parse(text), Err(InvalidElement(text.to_owned())));
    }

    #[test]
    fn numbers_are_compared_by_size() {
        let number = |text: &str| Scalar(serde_json::from_str(text).unwrap());
        assert_eq!(number("80"), number("80.0"));
        assert!(number("9") < number("10"));
        assert!(number("1.5") < number("2"));
        assert!(number("18446744073709551615") > number("-1"));
    }
}
