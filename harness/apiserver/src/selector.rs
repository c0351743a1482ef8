//! Label selectors: the text form of query parameters, and matching.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::status::ApiError;
use crate::syntax::{is_label_value, is_qualified_name, qualified_name_rule};

/// All requirements must hold; without requirements everything matches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    Exists,
    Missing,
    In(Vec<String>),
    NotIn(Vec<String>),
    Above(i64),
    Below(i64),
}

impl LabelSelector {
    /// Parses `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>1,m<2`.
    ///
    /// # Errors
    /// 400 with the unexpected token.
    pub fn parse(text: &str) -> Result<Self, ApiError> {
        let mut parser = Parser { rest: text };
        let mut requirements = Vec::new();
        parser.space();
        while !parser.rest.is_empty() {
            if parser.rest.starts_with(',') {
                return Err(ApiError::bad_request(
                    "found ',', expected: !, identifier, or 'end of string'",
                ));
            }
            requirements.push(parser.requirement().map_err(|why| refuse(&why))?);
            parser.space();
            if parser.rest.is_empty() {
                break;
            }
            if !parser.take(",") {
                return Err(ApiError::bad_request(format!(
                    "found '{}', expected: ',' or 'end of string'",
                    parser.rest
                )));
            }
            parser.space();
            if parser.rest.is_empty() {
                return Err(ApiError::bad_request("found '', expected: identifier after ','"));
            }
        }
        Ok(Self(requirements))
    }

    /// Whether there are no requirements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the labels match.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.operator {
                Operator::Exists => value.is_some(),
                Operator::Missing => value.is_none(),
                Operator::In(values) => value.is_some_and(|value| values.contains(value)),
                Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Operator::Above(bound) => number(value).is_some_and(|value| value > *bound),
                Operator::Below(bound) => number(value).is_some_and(|value| value < *bound),
            }
        })
    }
}

/// The text form of a `LabelSelector` object (`matchLabels`, `matchExpressions`) or of a plain map of labels, as in
/// `status.selector` of a Scale.
pub fn text_of(selector: &Value) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    let empty = serde_json::Map::new();
    let structured = selector.get("matchLabels").is_some() || selector.get("matchExpressions").is_some();
    let labels = if structured {
        selector.get("matchLabels")
    } else {
        Some(selector)
    };
    let mut parts: Vec<String> = labels
        .and_then(Value::as_object)
        .unwrap_or(&empty)
        .iter()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    for expression in selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let key = expression.get("key").and_then(Value::as_str).unwrap_or_default();
        let values: Vec<&str> = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        parts.push(match expression.get("operator").and_then(Value::as_str) {
            Some("In") => format!("{key} in ({})", values.join(",")),
            Some("NotIn") => format!("{key} notin ({})", values.join(",")),
            Some("DoesNotExist") => format!("!{key}"),
            _ => key.to_owned(),
        });
    }
    parts.join(",")
}

fn number(value: Option<&String>) -> Option<i64> {
    value?.parse().ok()
}

fn refuse(why: &str) -> ApiError {
    ApiError::bad_request(format!("unable to parse requirement: {why}"))
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// A key, value or operator; may be empty.
    fn word(&mut self) -> String {
        let end = self
            .rest
            .find(|character: char| character.is_whitespace() || "=!<>,()".contains(character))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        let negated = self.take("!");
        self.space();
        let key = self.word();
        if !is_qualified_name(&key) {
            return Err(format!("<nil>: Invalid value: {key:?}: {}", qualified_name_rule(&key)));
        }
        self.space();
        if negated {
            return Ok(Requirement {
                key,
                operator: Operator::Missing,
            });
        }
        let operator = self.operator()?;
        Ok(Requirement { key, operator })
    }

    fn operator(&mut self) -> Result<Operator, String> {
        if self.rest.is_empty() || self.rest.starts_with(',') {
            return Ok(Operator::Exists);
        }
        if self.take("!=") {
            return Ok(Operator::NotIn(vec![self.value()?]));
        }
        if self.take("==") || self.take("=") {
            return Ok(Operator::In(vec![self.value()?]));
        }
        if self.take(">") {
            return self.bound().map(Operator::Above);
        }
        if self.take("<") {
            return self.bound().map(Operator::Below);
        }
        match self.word().as_str() {
            "in" => self.set().map(Operator::In),
            "notin" => self.set().map(Operator::NotIn),
            other => Err(format!("found '{other}', expected: in, notin, =, ==, !=, gt, lt")),
        }
    }

    fn value(&mut self) -> Result<String, String> {
        self.space();
        if let Some(operator) = self.rest.chars().next().filter(|next| "=!<>".contains(*next)) {
            return Err(format!("found '{operator}', expected: identifier"));
        }
        let value = self.word();
        if is_label_value(&value) {
            Ok(value)
        } else {
            Err(format!("Invalid value: {value:?}: not a label value"))
        }
    }

    fn bound(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value.parse().map_err(|_| {
            format!("values[0]: Invalid value: {value:?}: for 'Gt', 'Lt' operators, the value must be an integer")
        })
    }

    fn set(&mut self) -> Result<Vec<String>, String> {
        self.space();
        if !self.take("(") {
            return Err(format!("found '{}' expected: '('", self.rest));
        }
        let mut values = Vec::new();
        loop {
            values.push(self.value()?);
            self.space();
            if self.take(")") {
                return Ok(values);
            }
            if !self.take(",") {
                return Err(format!("found {:?}, expected: ',' or ')'", self.rest));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn labels() -> BTreeMap<String, String> {
        [("app", "web"), ("example.com/tier", "1"), ("empty", "")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into()
    }

    #[rstest]
    #[case("", true)]
    #[case("app=web", true)]
    #[case("app==web", true)]
    #[case("app = web , !missing", true)]
    #[case("app=db", false)]
    #[case("app!=db", true)]
    #[case("missing!=x", true)]
    #[case("missing=x", false)]
    #[case("app in (db, web)", true)]
    #[case("app in (db)", false)]
    #[case("app notin (db),app", true)]
    #[case("missing notin (db)", true)]
    #[case("missing", false)]
    #[case("!app", false)]
    #[case("! missing", true)]
    #[case("example.com/tier>0,example.com/tier<2", true)]
    #[case("example.com/tier>1", false)]
    #[case("app>1", false)]
    #[case("empty=", true)]
    #[case("empty in ()", true)]
    fn selectors_match_labels(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(LabelSelector::parse(text).unwrap().matches(&labels()), expected);
    }

    #[rstest]
    #[case("app=web,")]
    #[case(",")]
    #[case("app=web app=db")]
    #[case("app in web")]
    #[case("app in (web")]
    #[case("app>many")]
    #[case("-bad=x")]
    #[case("app=-bad")]
    #[case("app within (x)")]
    fn an_invalid_selector_is_a_bad_request(#[case] text: &str) {
        assert_eq!(LabelSelector::parse(text).unwrap_err().code, 400);
    }

    #[rstest]
    #[case(serde_json::json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2")]
    #[case(serde_json::json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["x", "y"]}]}), "a in (x,y)")]
    #[case(serde_json::json!({"a": "1"}), "a=1")]
    #[case(serde_json::json!("a=1"), "a=1")]
    fn selectors_have_a_text_form(#[case] selector: Value, #[case] text: &str) {
        assert_eq!(text_of(&selector), text);
    }
}
