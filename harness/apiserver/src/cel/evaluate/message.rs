//! Values of message types, such as `Object{...}`: maps of their fields.

use std::collections::HashMap;

use super::super::cost::NEW_MAP;
use super::super::expression::Field;
use super::super::{Map, Value};
use super::access::flattened;
use super::{Evaluated, Evaluator};

impl Evaluator<'_> {
    pub(super) fn message(&mut self, fields: &[Field]) -> Evaluated {
        self.budget.spend(NEW_MAP)?;
        let mut map = HashMap::new();
        for field in fields {
            let value = self.value(&field.value)?;
            let value = if field.is_optional {
                flattened(value)
            } else {
                Some(value)
            };
            if let Some(value) = value {
                map.insert(field.name.as_str().into(), value);
            }
        }
        Ok(Value::Map(Map { map: map.into() }))
    }
}
