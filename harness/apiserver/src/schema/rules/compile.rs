//! Compiles the rules of a schema, with the checks and cost limits of upstream.

use serde_json::Value;

use super::field_path::FieldPath;
use super::{KEY, Node, Rule};
use crate::cel::{self, Environment, Estimate, Expression, MAX_REQUEST, Type};
use crate::status::{FieldError, FieldErrorType};

/// The maximum estimated cost of one rule in all places of an object.
const RULE_LIMIT: u64 = 10_000_000;
/// The maximum estimated cost of all rules of a schema.
const SCHEMA_LIMIT: u64 = 100_000_000;
/// How many of the most expensive rules are named if the schema exceeds its limit, as far as each costs more than a
/// hundredth of it.
const NAMED: usize = 4;

/// The rules of a schema; `None` if there are none.
///
/// # Errors
/// All invalid rules.
pub(super) fn root(schema: &Value) -> Result<Option<Node>, Vec<FieldError>> {
    let mut compiler = Compiler::default();
    let place = Place {
        times: Some(1),
        ..Place::default()
    };
    let node = compiler.node(schema, schema, &place, Some(Type::of_root(schema)));
    compiler.check_total();
    if compiler.errors.is_empty() {
        Ok(node)
    } else {
        Err(compiler.errors)
    }
}

/// The place of a schema within the whole one.
#[derive(Clone, Default)]
struct Place {
    path: String,
    /// How often an object can contain such a value; `None` if only the size of a request limits it.
    times: Option<u64>,
    /// The list whose items cannot be identified after an update.
    uncorrelatable: Option<String>,
}

impl Place {
    fn inner(&self, part: &str) -> Self {
        let separator = if self.path.is_empty() { "" } else { "." };
        Self {
            path: format!("{}{separator}{part}", self.path),
            ..self.clone()
        }
    }

    fn repeated(self, limit: Option<&Value>) -> Self {
        let limit = limit.and_then(Value::as_u64);
        Self {
            times: self.times.zip(limit).map(|(times, limit)| times.saturating_mul(limit)),
            ..self
        }
    }
}

/// The value to which rules apply.
struct Scene<'a> {
    schema: &'a Value,
    /// `None` if expressions cannot use the value.
    type_: Option<Type>,
    /// How often an object can contain the value.
    times: u64,
    /// See [`Place::uncorrelatable`].
    uncorrelatable: Option<&'a str>,
}

#[derive(Default)]
struct Compiler {
    errors: Vec<FieldError>,
    total: u64,
    /// The cost and the path of each expression.
    costs: Vec<(u64, String)>,
}

impl Compiler {
    /// `typed` is the schema with the types: that around `allOf` and similar, otherwise the schema itself.
    fn node(&mut self, schema: &Value, typed: &Value, place: &Place, type_: Option<Type>) -> Option<Node> {
        let mut node = Node {
            type_: typed.get("type").and_then(Value::as_str).unwrap_or_default().to_owned(),
            ..Node::default()
        };
        if let Some(rules) = schema.get(KEY).and_then(Value::as_array) {
            let times = place
                .times
                .unwrap_or_else(|| fitting(cel::least_size(typed).saturating_add(1)));
            let scene = Scene {
                schema: typed,
                type_: type_.clone(),
                times,
                uncorrelatable: place.uncorrelatable.as_deref(),
            };
            for (index, rule) in rules.iter().enumerate() {
                let path = place.inner(&format!("{KEY}[{index}]")).path;
                node.rules.extend(self.rule(rule, &scene, &path));
            }
        }
        for (name, inner) in schema
            .get("properties")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
        {
            let typed = typed.get("properties").and_then(|properties| properties.get(name));
            let place = place.inner(&format!("properties[{name}]"));
            let found = self.node(inner, typed.unwrap_or(inner), &place, typed.and_then(Type::of_schema));
            node.properties.extend(found.map(|found| (name.clone(), found)));
        }
        if let Some(inner) = schema.get("additionalProperties").filter(|inner| inner.is_object()) {
            let outer = typed.get("additionalProperties").unwrap_or(inner);
            let place = place.inner("additionalProperties").repeated(typed.get("maxProperties"));
            node.additional = self.node(inner, outer, &place, Type::of_schema(outer)).map(Box::new);
        }
        if let Some(inner) = schema.get("items") {
            let outer = typed.get("items").unwrap_or(inner);
            let keys = typed.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys = keys.into_iter().flatten().filter_map(Value::as_str);
            node.keys = keys.map(str::to_owned).collect();
            let list = place.path.clone();
            let mut place = place.inner("items").repeated(typed.get("maxItems"));
            if node.keys.is_empty() {
                place.uncorrelatable.get_or_insert(list);
            }
            node.items = self.node(inner, outer, &place, Type::of_schema(outer)).map(Box::new);
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            for (index, inner) in schema
                .get(key)
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .enumerate()
            {
                let place = place.inner(&format!("{key}[{index}]"));
                node.logical.extend(self.node(inner, typed, &place, type_.clone()));
            }
        }
        let below = node
            .properties
            .values()
            .chain(node.items.as_deref())
            .chain(node.additional.as_deref())
            .chain(&node.logical);
        node.transitions =
            below.clone().any(|inner| inner.transitions) || node.rules.iter().any(|rule| rule.transition);
        (below.count() > 0 || !node.rules.is_empty()).then_some(node)
    }

    fn rule(&mut self, rule: &Value, scene: &Scene<'_>, path: &str) -> Option<Rule> {
        let before = self.errors.len();
        let text = |field: &str| rule.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (source, message, dynamic) = (text("rule"), text("message"), text("messageExpression"));
        self.check_texts(rule, path, &source, &message, &dynamic);
        let kind = self.kind(path, &text("reason"));
        let field_path = FieldPath::parse(&text("fieldPath"), scene.schema);
        if field_path.is_none() {
            let field = format!("{path}.fieldPath");
            self.errors
                .push(FieldError::invalid(field, text("fieldPath"), "must be a valid path"));
        }
        if self.errors.len() > before {
            return None;
        }
        let optional_old_self = rule.get("optionalOldSelf") == Some(&Value::Bool(true));
        let mut variables = Vec::new();
        if let Some(type_) = &scene.type_ {
            let old = if optional_old_self {
                Type::Optional(type_.clone().into())
            } else {
                type_.clone()
            };
            variables = vec![("self".to_owned(), type_.clone()), ("oldSelf".to_owned(), old)];
        }
        let field = format!("{path}.rule");
        let (expression, estimate) = self.expression(&source, "compilation failed", &field, variables.clone())?;
        if !matches!(estimate.type_, Type::Bool | Type::Dynamic) {
            let why = "cel expression must evaluate to a bool";
            self.errors.push(FieldError::invalid(field, source.as_str(), why));
            return None;
        }
        let transition = expression.uses("oldSelf");
        if let (true, Some(list)) = (transition, scene.uncorrelatable) {
            let why = format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {list}");
            self.errors.push(FieldError::invalid(field, source.as_str(), why));
            return None;
        }
        self.check_cost(estimate.cost.saturating_mul(scene.times), "rule", field);
        let mut message_expression = None;
        if !dynamic.is_empty() {
            let field = format!("{path}.messageExpression");
            let (expression, estimate) =
                self.expression(&dynamic, "messageExpression compilation failed", &field, variables)?;
            if !matches!(estimate.type_, Type::Text { .. } | Type::Dynamic) {
                let why = "messageExpression must evaluate to a string";
                self.errors.push(FieldError::invalid(field, dynamic.as_str(), why));
                return None;
            }
            self.check_cost(estimate.cost.saturating_mul(scene.times), "messageExpression", field);
            message_expression = Some(expression);
        }
        Some(Rule {
            text: source,
            expression,
            message,
            message_expression,
            kind,
            field_path: field_path?,
            transition,
            optional_old_self,
        })
    }

    fn check_texts(&mut self, rule: &Value, path: &str, source: &str, message: &str, dynamic: &str) {
        let at = |field: &str| format!("{path}.{field}");
        let blank = |text: &str| text.trim().is_empty();
        if blank(source) {
            self.errors
                .push(FieldError::required(at("rule"), "rule is not specified"));
        }
        if !message.is_empty() && blank(message) {
            let why = "must be non-empty if specified";
            self.errors.push(FieldError::invalid(at("message"), message, why));
        } else if message.trim().contains('\n') {
            let why = "must not contain line breaks";
            self.errors.push(FieldError::invalid(at("message"), message, why));
        } else if message.is_empty() && source.trim().contains('\n') {
            let why = "message must be specified if rule contains line breaks";
            self.errors.push(FieldError::required(at("message"), why));
        }
        if !dynamic.is_empty() && blank(dynamic) {
            let why = "messageExpression must be non-empty if specified";
            self.errors.push(FieldError::required(at("messageExpression"), why));
        }
        if !rule.is_object() {
            self.errors
                .push(FieldError::invalid(path, rule.clone(), "must be an object"));
        }
    }

    fn kind(&mut self, path: &str, reason: &str) -> FieldErrorType {
        match reason {
            "" | "FieldValueInvalid" => FieldErrorType::Invalid,
            "FieldValueForbidden" => FieldErrorType::Forbidden,
            "FieldValueRequired" => FieldErrorType::Required,
            "FieldValueDuplicate" => FieldErrorType::Duplicate,
            other => {
                let supported = [
                    "FieldValueDuplicate",
                    "FieldValueForbidden",
                    "FieldValueInvalid",
                    "FieldValueRequired",
                ];
                let field = format!("{path}.reason");
                self.errors.push(FieldError::not_supported(field, other, &supported));
                FieldErrorType::Invalid
            }
        }
    }

    fn expression(
        &mut self,
        text: &str,
        failed: &str,
        field: &str,
        variables: Vec<(String, Type)>,
    ) -> Option<(Expression, Estimate)> {
        let parsed = cel::parse(text).map_err(|error| error.to_string());
        let estimated = parsed.and_then(|expression| {
            let estimate = Environment::new(text, variables).estimate(&expression);
            estimate
                .map(|estimate| (expression, estimate))
                .map_err(|problem| problem.to_string())
        });
        match estimated {
            Ok(found) => Some(found),
            Err(why) => {
                let detail = format!("{failed}: {why}");
                self.errors.push(FieldError::invalid(field, text, detail));
                None
            }
        }
    }

    fn check_cost(&mut self, cost: u64, what: &str, field: String) {
        if cost > RULE_LIMIT {
            let why = exceeds(&format!("estimated {what} cost"), cost, RULE_LIMIT);
            self.errors.push(FieldError::forbidden(field.clone(), why));
        }
        self.total = self.total.saturating_add(cost);
        self.costs.push((cost, field));
    }

    fn check_total(&mut self) {
        if self.total <= SCHEMA_LIMIT {
            return;
        }
        self.costs.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        self.costs.retain(|(cost, _)| *cost > SCHEMA_LIMIT / 100);
        for (_, field) in self.costs.drain(..).take(NAMED) {
            let why = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            self.errors.push(FieldError::forbidden(field, why));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        let why = exceeds(what, self.total, SCHEMA_LIMIT);
        self.errors.push(FieldError::forbidden("", why));
    }
}

/// How many values of that size a request can contain.
fn fitting(size: u64) -> u64 {
    MAX_REQUEST.checked_div(size).unwrap_or(MAX_REQUEST)
}

/// The message of upstream.
fn exceeds(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and \
         maxLength where arrays, maps, and strings are declared)"
    )
}
