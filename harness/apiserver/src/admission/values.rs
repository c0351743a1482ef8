//! The values of variables in expressions of policies and webhooks.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Context;
use super::authorizer::authorizer;
use super::matching;
use super::request::{Kind, Request};
use crate::cel::{self, Budget, Failure, Lazy, Value};
use crate::policies::{Conditions, Parsed, Target, Variables};
use crate::reviewer::Subject;
use crate::status::ApiError;

/// The values of the variables of one request.
#[derive(Clone, Debug)]
pub(crate) struct Values(Vec<(String, Value)>);

impl Values {
    /// Those that every expression has. The request is seen as that kind and resource.
    pub(crate) fn of(
        context: &Arc<dyn Context>,
        request: &Request,
        subject: &Subject<'_>,
        (kind, target): &(Kind, Target),
    ) -> Self {
        let object = |object: Option<&Json>| object.map_or(Value::Null, cel::from_json);
        let described = Json::Object(request.describe(subject, kind, target));
        Self(vec![
            ("object".to_owned(), object(subject.new)),
            ("oldObject".to_owned(), object(subject.old)),
            ("request".to_owned(), cel::from_json(&described)),
            ("authorizer".to_owned(), authorizer(context, request, subject)),
        ])
    }

    /// Adds the namespace that the request is in.
    ///
    /// # Errors
    /// If it does not exist.
    pub(crate) fn with_namespace(mut self, context: &dyn Context, subject: &Subject<'_>) -> Result<Self, ApiError> {
        let namespace = match subject.namespace {
            "" => Value::Null,
            name => cel::from_json(&matching::namespace(context.registry(), name)?),
        };
        self.0.push(("namespaceObject".to_owned(), namespace));
        Ok(self)
    }

    /// Adds the parameter of a binding.
    pub(crate) fn with_params(&self, params: Option<&Json>) -> Self {
        let mut values = self.clone();
        let params = params.map_or(Value::Null, cel::from_json);
        values.0.push(("params".to_owned(), params));
        values
    }

    /// With another object.
    pub(crate) fn with_object(&self, object: &Json) -> Self {
        let mut values = self.clone();
        for (name, value) in &mut values.0 {
            if name == "object" {
                *value = cel::from_json(object);
            }
        }
        values
    }

    /// Evaluates an expression.
    ///
    /// # Errors
    /// The message of upstream.
    pub(crate) fn evaluate(&self, parsed: &Parsed, lazy: &mut Lazy, budget: &mut Budget) -> Result<Value, String> {
        cel::evaluate_with(&parsed.expression, self.0.clone(), Some(lazy), budget).map_err(|failure| match failure {
            Failure::CallLimit | Failure::ObjectLimit => {
                "validation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned()
            }
            Failure::Error(why) => format!("expression '{}' resulted in error: {why}", parsed.text),
        })
    }
}

/// Whether all conditions hold. One that does not hold matters more than errors of others.
///
/// # Errors
/// The errors of conditions.
pub(crate) fn hold(conditions: &Conditions, values: &Values) -> Result<bool, String> {
    let mut budget = Budget::new();
    let mut lazy = Variables::default().lazy();
    let mut errors = Vec::new();
    for (_, condition) in conditions.iter() {
        match values.evaluate(condition, &mut lazy, &mut budget) {
            Ok(Value::Bool(true)) => {}
            Ok(_) => return Ok(false),
            Err(why) => errors.push(why),
        }
    }
    match errors.as_slice() {
        [] => Ok(true),
        [only] => Err(only.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}
