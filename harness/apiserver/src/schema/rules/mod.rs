//! The rules of `x-kubernetes-validations`: compiled with the schema, evaluated if the object matches its schema.
//! Unchanged values are tolerated, unless the rule uses `oldSelf`.

mod compile;
mod field_path;
mod values;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::cel::{self, Budget, Expression, Failure};
use crate::status::{FieldError, FieldErrorType};

use field_path::FieldPath;

const KEY: &str = "x-kubernetes-validations";
/// The maximum length of the result of a `messageExpression`.
const MAX_MESSAGE: usize = 5120;

/// All rules of a schema. Without rules a check has no cost.
#[derive(Clone, Default)]
pub(super) struct Rules(Option<Arc<Compiled>>);

struct Compiled {
    schema: Value,
    root: Node,
}

/// The rules of one value and of the values in it.
#[derive(Default)]
struct Node {
    /// The JSON type, for errors.
    type_: String,
    rules: Vec<Rule>,
    properties: BTreeMap<String, Node>,
    items: Option<Box<Node>>,
    additional: Option<Box<Node>>,
    /// The rules within `allOf` and similar.
    logical: Vec<Node>,
    /// The keys that identify an item of a list before and after an update.
    keys: Vec<String>,
    /// Whether a rule here or below uses `oldSelf`.
    transitions: bool,
}

struct Rule {
    text: String,
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    kind: FieldErrorType,
    /// Relative to the value, for instance `.name`.
    field_path: FieldPath,
    transition: bool,
    optional_old_self: bool,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Rules").field(&self.0.is_some()).finish()
    }
}

impl Rules {
    /// Compiles the rules.
    ///
    /// # Errors
    /// Each rule that is not valid or too expensive, with its path.
    pub(super) fn compile(schema: &Value) -> Result<Self, Vec<FieldError>> {
        let Some(root) = compile::root(schema)? else {
            return Ok(Self::default());
        };
        let schema = schema.clone();
        Ok(Self(Some(Arc::new(Compiled { schema, root }))))
    }

    /// The violations by an object that matches its schema.
    pub(super) fn check(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let Some(compiled) = &self.0 else { return Vec::new() };
        if !compiled.root.transitions && old == Some(new) {
            return Vec::new();
        }
        let convert = |json| values::value(json, &compiled.schema, true);
        let mut check = Check {
            budget: Budget::new(),
            errors: Vec::new(),
        };
        let pair = Pair {
            json: new,
            value: convert(new),
        };
        let before = old.map(|old| Pair {
            json: old,
            value: convert(old),
        });
        // An exhausted budget is one of the errors.
        let _ = check.node(&compiled.root, &pair, before.as_ref(), "");
        check.errors
    }

    /// The note for an object that violates its schema, so that no rule was evaluated.
    pub(super) fn unchecked(&self, errors: &[FieldError]) -> Option<FieldError> {
        use FieldErrorType::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
        let blocks =
            |error: &FieldError| matches!(error.kind, NotSupported | Required | TooLong | TooMany | TypeInvalid);
        let text = "some validation rules were not checked because the object was invalid; \
                    correct the existing errors to complete validation";
        (self.0.is_some() && errors.iter().any(blocks)).then(|| FieldError::invalid("<nil>", Value::Null, text))
    }
}

/// A part of the object in both forms.
struct Pair<'a> {
    json: &'a Value,
    value: cel::Value,
}

/// No further rules are evaluated.
struct Exhausted;

struct Check {
    budget: Budget,
    errors: Vec<FieldError>,
}

impl Check {
    fn node(&mut self, node: &Node, new: &Pair<'_>, old: Option<&Pair<'_>>, path: &str) -> Result<(), Exhausted> {
        let unchanged = old.is_some_and(|old| old.json == new.json);
        if unchanged && !node.transitions {
            return Ok(());
        }
        for rule in &node.rules {
            let applies = if rule.transition {
                old.is_some() || rule.optional_old_self
            } else {
                !unchanged
            };
            if applies {
                self.rule(rule, &node.type_, new, old, path)?;
            }
        }
        match new.json {
            Value::Object(members) => {
                for (name, json) in members {
                    let Some(inner) = node.properties.get(name).or(node.additional.as_deref()) else {
                        continue;
                    };
                    let escaped = if node.properties.contains_key(name) {
                        cel::escape(name)
                    } else {
                        Some(name.clone())
                    };
                    let Some(escaped) = escaped else { continue };
                    let Some(new) = new.member(&escaped, json) else {
                        continue;
                    };
                    let old = old.and_then(|old| old.member(&escaped, old.json.get(name)?));
                    let separator = if path.is_empty() { "" } else { "." };
                    let path = if node.properties.contains_key(name) {
                        format!("{path}{separator}{name}")
                    } else {
                        format!("{path}[{name}]")
                    };
                    self.node(inner, &new, old.as_ref(), &path)?;
                }
            }
            Value::Array(items) => {
                let Some(inner) = &node.items else { return Ok(()) };
                let before = old.map(|old| old.by_keys(&node.keys)).unwrap_or_default();
                for (index, json) in items.iter().enumerate() {
                    let Some(new) = new.item(index, json) else { continue };
                    let old = before
                        .get(&identity(json, &node.keys))
                        .and_then(|(index, json)| old?.item(*index, json));
                    self.node(inner, &new, old.as_ref(), &format!("{path}[{index}]"))?;
                }
            }
            _ => {}
        }
        node.logical
            .iter()
            .try_for_each(|inner| self.node(inner, new, old, path))
    }

    fn rule(
        &mut self,
        rule: &Rule,
        type_: &str,
        new: &Pair<'_>,
        old: Option<&Pair<'_>>,
        path: &str,
    ) -> Result<(), Exhausted> {
        let mut variables = vec![("self".to_owned(), new.value.clone())];
        let before = old.map(|old| old.value.clone());
        let before = if rule.optional_old_self {
            Some(cel::optional(before))
        } else {
            before
        };
        variables.extend(before.map(|before| ("oldSelf".to_owned(), before)));
        let shown = if rule.message.is_empty() {
            &rule.text
        } else {
            &rule.message
        };
        let shown = shown.trim();
        let (detail, over) = match cel::evaluate(&rule.expression, variables.clone(), &mut self.budget) {
            Ok(cel::Value::Bool(true)) => return Ok(()),
            Ok(_) => {
                let message = self.message(rule, variables);
                self.errors.push(violation(rule, new.json, path, message));
                return Ok(());
            }
            Err(Failure::ObjectLimit) => {
                let why =
                    "validation failed due to running out of cost budget, no further validation rules will be run";
                (why.to_owned(), true)
            }
            Err(Failure::CallLimit) => (
                format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due \
                     to call cost exceeds limit for rule: {shown}"
                ),
                true,
            ),
            Err(Failure::Error(why)) if why == "no such overload" => (
                format!(
                    "'{why}': call arguments did not match a supported operator, function or macro signature for \
                     rule: {shown}"
                ),
                false,
            ),
            Err(Failure::Error(why)) => (format!("{why} evaluating rule: {shown}"), false),
        };
        let field = if path.is_empty() { "<nil>" } else { path };
        self.errors.push(FieldError::invalid(field, type_, detail));
        if over { Err(Exhausted) } else { Ok(()) }
    }

    /// The result of the expression of the message, else the message, else one that quotes the rule.
    fn message(&mut self, rule: &Rule, variables: Vec<(String, cel::Value)>) -> String {
        let found = rule.message_expression.as_ref().map(|expression| {
            // An error, also of the budget, means that the other message is used.
            cel::evaluate(expression, variables, &mut self.budget)
        });
        match found {
            Some(Ok(cel::Value::String(text)))
                if !text.trim().is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE =>
            {
                text.trim().to_owned()
            }
            _ if rule.message.is_empty() => format!("failed rule: {}", rule.text.trim()),
            _ => rule.message.trim().to_owned(),
        }
    }
}

impl<'a> Pair<'a> {
    fn member(&self, escaped: &str, json: &'a Value) -> Option<Pair<'a>> {
        match &self.value {
            cel::Value::Map(map) => Some(Pair {
                json,
                value: map.map.get(&cel::Key::from(escaped))?.clone(),
            }),
            _ => None,
        }
    }

    fn item(&self, index: usize, json: &'a Value) -> Option<Pair<'a>> {
        match &self.value {
            cel::Value::List(items) => Some(Pair {
                json,
                value: items.get(index)?.clone(),
            }),
            _ => None,
        }
    }

    /// The items of a list by the values of their keys; none without keys.
    fn by_keys(&self, keys: &[String]) -> BTreeMap<String, (usize, &'a Value)> {
        let items = self.json.as_array().filter(|_| !keys.is_empty());
        let numbered = items.into_iter().flatten().enumerate();
        numbered
            .map(|(index, item)| (identity(item, keys), (index, item)))
            .collect()
    }
}

/// The values of the keys as text.
fn identity(item: &Value, keys: &[String]) -> String {
    let values = keys
        .iter()
        .map(|key| item.get(key).map(Value::to_string).unwrap_or_default());
    values.collect::<Vec<_>>().join("\n")
}

/// Shows scalar values, but not objects and lists.
fn violation(rule: &Rule, json: &Value, path: &str, detail: String) -> FieldError {
    let has_value = matches!(rule.kind, FieldErrorType::Invalid | FieldErrorType::Duplicate);
    let target = rule.field_path.target(json);
    let shown = target.filter(|json| has_value && !json.is_object() && !json.is_array());
    let field = format!("{path}{}", rule.field_path.text());
    let field = field.trim_start_matches('.');
    FieldError {
        kind: rule.kind,
        field: if field.is_empty() { "<nil>" } else { field }.to_owned(),
        value: shown.cloned(),
        detail,
    }
}
