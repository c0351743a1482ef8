//! Parses rules from files: YAML or JSON, one rule or a list, in one or several documents.

use serde_json::Value;

use super::{Invalid, Rule};
use crate::json;

/// The reason why a text contains no valid rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is neither YAML nor JSON.
    #[error("the rules are neither YAML nor JSON: {0}")]
    Text(String),
    /// It is empty.
    #[error("there are no rules in it; write a list of rules, each with a name and an action")]
    Empty,
    /// A rule is invalid.
    #[error(transparent)]
    Rule(#[from] Invalid),
}

/// Parses rules. Each document is a rule or a list of rules.
///
/// # Errors
/// Names the invalid rule and field and the fix.
pub fn parse(text: &str) -> Result<Vec<Rule>, Unreadable> {
    let documents = json::parse_yaml_documents(text).map_err(|error| Unreadable::Text(error.to_string()))?;
    let mut rules: Vec<Rule> = Vec::new();
    for document in documents {
        let values = match document {
            Value::Array(values) => values,
            Value::Null => continue,
            value => vec![value],
        };
        for value in values {
            let rule = read(value, rules.len().saturating_add(1))?;
            rule.check()?;
            rules.push(rule);
        }
    }
    if rules.is_empty() {
        return Err(Unreadable::Empty);
    }
    Ok(rules)
}

/// Parses one rule; `place` is the name in errors of a rule without a name.
fn read(value: Value, place: usize) -> Result<Rule, Invalid> {
    let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
    serde_path_to_error::deserialize(value).map_err(|error| {
        let field = match error.path().to_string() {
            whole if whole == "." => "the rule".to_owned(),
            field => field,
        };
        Invalid {
            rule: name.unwrap_or_else(|| format!("number {place}")),
            field,
            problem: error.into_inner().to_string(),
            fix: "see docs/using/api-server-faults.md".to_owned(),
        }
    })
}

#[cfg(test)]
mod tests;
