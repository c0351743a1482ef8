//! Makes cloud calls fail or slow.

use std::borrow::Cow;
use std::fmt;

use fakecloud_api::{FaultRule, RuleReader};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use super::{CloudRequest, DisturbanceChange, Request, StepDefinition, Targets};
use crate::Problem;
use crate::duration::{DurationExpression, Timeouts};
use crate::kinds::Kinds;
use crate::latency::Latency;
use crate::names::{NameOf, Names, Reference, references_of_cloud_rule};

/// A rule by which cloud calls fail (`docs/reference/cloud-faults.md`). Its name is required: reports count its hits by
/// name, and `lift` removes it by name.
pub type Fault = FaultRule<Latency, DurationExpression>;

/// The field that is not part of the rule.
const MAY_MISS: &str = "mayMiss";

/// Adds a fault rule to the cloud.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Inject {
    /// The rule.
    #[serde(flatten)]
    pub rule: Fault,
    /// Whether the rule may hit no call.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_miss: bool,
}

impl From<Fault> for Inject {
    fn from(rule: Fault) -> Self {
        Self { rule, may_miss: false }
    }
}

/// The rule with the durations of a stage.
pub fn resolve(fault: &Fault, timeouts: &Timeouts) -> FaultRule {
    fault.clone().map(
        |latency| latency.value(timeouts),
        |duration| duration.value(timeouts).into(),
    )
}

/// Why the rule is invalid; `None`: it is valid.
pub(crate) fn problem(fault: &Fault) -> Option<String> {
    let problem = resolve(fault, &Timeouts::production()).check().err();
    problem.map(|problem| problem.to_string())
}

/// What the rule does to a call, with the fields of its file: `at: afterCommit, code: Internal`.
pub(crate) fn action_text(fault: &Fault) -> String {
    let action = serde_json::to_value(&fault.action).unwrap_or_default();
    let fields = action.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, _)| *name != "message");
    let texts = fields.map(|(name, value)| match value {
        Value::Bool(true) => name.clone(),
        Value::String(text) => format!("{name}: {text}"),
        value => format!("{name}: {value}"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// The rule, if it has a name.
pub(crate) fn named<E: Error>(fault: Fault) -> Result<Fault, E> {
    match fault.name.is_empty() {
        true => Err(E::missing_field("name")),
        false => Ok(fault),
    }
}

/// The schema of the rule, with `mayMiss`. A scenario's rule needs a name.
impl JsonSchema for Inject {
    fn schema_name() -> Cow<'static, str> {
        "Inject".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Fault::json_schema(generator);
        let description = "Whether the rule may hit no call.";
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            let may_miss = json!({ "description": description, "type": "boolean", "default": false });
            properties.insert(MAY_MISS.to_owned(), may_miss);
        }
        schema.insert("required".to_owned(), json!(["name", "action"]));
        schema
    }
}

/// Reads the fields of a rule, and `mayMiss` beside them.
struct InjectVisitor;

impl<'de> Visitor<'de> for InjectVisitor {
    type Value = Inject;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fault rule with name, match and action")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Inject, A::Error> {
        let mut reader = RuleReader::<Latency, DurationExpression>::default();
        let mut may_miss = false;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                MAY_MISS => may_miss = map.next_value()?,
                other => reader.read(other, &mut map)?,
            }
        }
        let rule = named(reader.finish())?;
        Ok(Inject { rule, may_miss })
    }
}

impl<'de> Deserialize<'de> for Inject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(InjectVisitor)
    }
}

impl StepDefinition for Inject {
    fn description(&self) -> String {
        format!(
            "inject fault {} into {} ({})",
            self.rule.name,
            self.rule.call_name(),
            action_text(&self.rule)
        )
    }

    fn request(&self) -> Request<'_> {
        Request::Cloud(CloudRequest::Inject(&self.rule))
    }

    fn targets(&self) -> Targets {
        Targets::fault(self.rule.call_name())
    }

    fn disturbance(&self) -> Option<DisturbanceChange> {
        Some(DisturbanceChange::begins(&self.rule.name, self.rule.matches.times))
    }

    fn validate(&self) -> Result<(), Problem> {
        match problem(&self.rule) {
            Some(message) => Err(("inject".to_owned(), message)),
            None => Ok(()),
        }
    }

    fn references(&self, _: &Kinds) -> Result<Vec<Reference>, Problem> {
        Ok(references_of_cloud_rule("inject", &self.rule.matches))
    }

    fn add_names(&self, names: &mut Names) {
        names.add(NameOf::CloudFault, &self.rule.name);
    }

    fn may_miss(&self) -> Option<bool> {
        Some(self.may_miss)
    }

    fn let_miss(&mut self) {
        self.may_miss = true;
    }
}
