//! Expressions of policies and webhooks: parsed, with the variables that they can use.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::request;
use crate::cel::{self, Environment, Expression, Lazy, Type};

/// The functions of the authorizer, which expressions of other places do not have, and the types of their results.
const AUTHORIZER: &[(&str, Type)] = &[
    ("allowed", Type::Bool),
    ("check", Type::Dynamic),
    ("error", Type::any_text()),
    ("errored", Type::Bool),
    ("fieldSelector", Type::Dynamic),
    ("group", Type::Dynamic),
    ("labelSelector", Type::Dynamic),
    ("name", Type::Dynamic),
    ("namespace", Type::Dynamic),
    ("path", Type::Dynamic),
    ("reason", Type::any_text()),
    ("resource", Type::Dynamic),
    ("serviceAccount", Type::Dynamic),
    ("subresource", Type::Dynamic),
];
/// The maximum nesting of an expression together with the variables that it uses.
const MAX_HEIGHT: usize = 250;

/// A parsed expression and its text.
#[derive(Clone, Debug)]
pub(crate) struct Parsed {
    pub(crate) text: String,
    pub(crate) expression: Expression,
}

/// The variables of a policy, which are expressions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Variables {
    expressions: Arc<Vec<(String, Expression)>>,
    heights: BTreeMap<String, usize>,
    types: Arc<BTreeMap<String, Type>>,
}

/// What is known of the value of an expression.
#[derive(Clone, Debug)]
struct Known {
    /// How deeply the expression is nested, with the variables that it uses.
    height: usize,
    type_: Type,
}

/// The type that the value of an expression must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Bool,
    Text,
    /// An applied configuration.
    Object,
    /// The operations of a JSON patch.
    Operations,
}

/// The types of messages in mutations.
const MESSAGES: &[&str] = &["Object", "JSONPatch"];

/// Which variables an expression has beside the objects and the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    pub(crate) params: bool,
    pub(crate) namespace: bool,
    pub(crate) authorizer: bool,
    pub(crate) messages: bool,
}

impl Variables {
    /// Parses an expression that can use these variables.
    ///
    /// # Errors
    /// The reason why it does not compile, or has another type.
    pub(crate) fn parse(&self, text: &str, expected: Expected, scope: Scope) -> Result<Parsed, String> {
        let (parsed, known) = self.parse_any(text, scope)?;
        let (name, has_type) = match expected {
            Expected::Bool => ("bool", matches!(known.type_, Type::Bool)),
            Expected::Text => ("string", matches!(known.type_, Type::Text { .. })),
            Expected::Object => ("Object", is_message(&known.type_, "Object")),
            Expected::Operations => (
                "list(JSONPatch)",
                is_operations(&known.type_) && !parsed.expression.is_empty_list(),
            ),
        };
        // The type of an operator or function can be unknown here and known upstream; that of a part cannot.
        let is_unknown = matches!(known.type_, Type::Dynamic) && !parsed.expression.is_part();
        if has_type || is_unknown {
            return Ok(parsed);
        }
        Err(format!("must evaluate to {name} but got {}", known.type_.name()))
    }

    fn parse_any(&self, text: &str, scope: Scope) -> Result<(Parsed, Known), String> {
        let compilation = |why: String| format!("compilation failed: {why}");
        let expression = cel::parse(text).map_err(|error| compilation(error.to_string()))?;
        let mut names = vec!["object", "oldObject"];
        names.extend(scope.authorizer.then_some("authorizer"));
        names.extend(scope.params.then_some("params"));
        names.extend(scope.namespace.then_some("namespaceObject"));
        let given = names.into_iter().map(|name| (name.to_owned(), Type::Dynamic));
        let typed = [
            ("variables".to_owned(), Type::Object(Arc::clone(&self.types))),
            ("request".to_owned(), request::type_of_request()),
        ];
        let estimate = Environment::new(text, given.chain(typed).collect())
            .with_functions(AUTHORIZER)
            .with_messages(if scope.messages { MESSAGES } else { &[] })
            .estimate(&expression)
            .map_err(|problem| compilation(problem.to_string()))?;
        let used = expression.members_of("variables");
        let heights = used.iter().filter_map(|name| self.heights.get(*name));
        let below = heights.copied().max().unwrap_or_default();
        let height = expression.height().saturating_add(below);
        if height > MAX_HEIGHT {
            return Err(format!(
                "the expression and the variables that it uses are nested more than {MAX_HEIGHT} times"
            ));
        }
        let text = text.trim().to_owned();
        let type_ = estimate.type_;
        Ok((Parsed { text, expression }, Known { height, type_ }))
    }

    /// Adds a variable, which can use those before it.
    ///
    /// # Errors
    /// The reason why it does not compile.
    pub(crate) fn add(&mut self, name: &str, text: &str, scope: Scope) -> Result<(), String> {
        let (parsed, known) = self.parse_any(text, scope)?;
        Arc::make_mut(&mut self.expressions).push((name.to_owned(), parsed.expression));
        self.heights.insert(name.to_owned(), known.height);
        Arc::make_mut(&mut self.types).insert(name.to_owned(), known.type_);
        Ok(())
    }

    /// The variables for one evaluation.
    pub(crate) fn lazy(&self) -> Lazy {
        Lazy::new(Arc::clone(&self.expressions))
    }
}

fn is_message(type_: &Type, name: &str) -> bool {
    matches!(type_, Type::Message(own) if own == name)
}

fn is_operations(type_: &Type) -> bool {
    match type_ {
        Type::List { items, .. } => matches!(items.as_ref(), Type::Dynamic) || is_message(items, "JSONPatch"),
        _ => false,
    }
}

/// Conditions that must all hold for a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions(Vec<(String, Parsed)>);

impl Conditions {
    /// Parses `matchConditions`.
    ///
    /// # Errors
    /// The index of a condition, and the reason why it does not compile.
    pub(crate) fn parse(conditions: Option<&Value>, scope: Scope) -> Result<Self, (usize, String)> {
        let variables = Variables::default();
        let conditions = conditions.and_then(Value::as_array).into_iter().flatten();
        let parsed = conditions.enumerate().map(|(index, condition)| {
            let text = |field: &str| condition.get(field).and_then(Value::as_str).unwrap_or_default();
            let parsed = variables
                .parse(text("expression"), Expected::Bool, scope)
                .map_err(|why| (index, why))?;
            Ok((text("name").to_owned(), parsed))
        });
        parsed.collect::<Result<_, _>>().map(Self)
    }

    /// The conditions with their names.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(String, Parsed)> {
        self.0.iter()
    }
}
