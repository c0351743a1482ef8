//! The schemas that this process compiled last. A definition is compiled when it is checked and when it is served, and
//! the simulated worlds of a campaign have the same definitions.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::StructuralSchema;
use crate::status::FieldError;

/// The number of schemas that stay in memory without a definition.
const CAPACITY: usize = 16;

static RECENT: Recent = Recent(Mutex::new(VecDeque::new()));

/// The compiled schema, which is shared with earlier callers if it is a recent one.
///
/// # Errors
/// Those of [`StructuralSchema::compile`].
pub(super) fn schema(raw: &Value) -> Result<Arc<StructuralSchema>, Vec<FieldError>> {
    RECENT.schema(raw)
}

/// Compiled schemas; the most recently used one is the last.
struct Recent(Mutex<VecDeque<Arc<StructuralSchema>>>);

impl Recent {
    fn schema(&self, raw: &Value) -> Result<Arc<StructuralSchema>, Vec<FieldError>> {
        if let Some(known) = self.known(raw) {
            return Ok(known);
        }
        let compiled = Arc::new(StructuralSchema::compile(raw)?);
        let mut schemas = self.0.lock();
        if schemas.len() >= CAPACITY {
            schemas.pop_front();
        }
        schemas.push_back(Arc::clone(&compiled));
        Ok(compiled)
    }

    fn known(&self, raw: &Value) -> Option<Arc<StructuralSchema>> {
        let mut schemas = self.0.lock();
        let position = schemas.iter().rposition(|schema| schema.raw() == raw)?;
        let known = schemas.remove(position)?;
        schemas.push_back(Arc::clone(&known));
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn numbered(number: usize) -> Value {
        json!({ "type": "object", "description": format!("schema {number} of this test") })
    }

    #[test]
    fn equal_schemas_are_shared_and_others_are_not() {
        let recent = Recent(Mutex::default());
        let first = recent.schema(&numbered(1)).unwrap();
        assert!(Arc::ptr_eq(&first, &recent.schema(&numbered(1)).unwrap()));
        assert!(!Arc::ptr_eq(&first, &recent.schema(&numbered(2)).unwrap()));
    }

    #[test]
    fn an_invalid_schema_is_refused_each_time() {
        let recent = Recent(Mutex::default());
        let errors = || recent.schema(&json!({ "type": "thing" })).unwrap_err();
        assert_eq!(errors(), errors());
    }

    #[test]
    fn old_schemas_are_released() {
        let recent = Recent(Mutex::default());
        let old = Arc::downgrade(&recent.schema(&numbered(0)).unwrap());
        for number in 1..=CAPACITY {
            recent.schema(&numbered(number)).unwrap();
        }
        assert!(old.upgrade().is_none());
    }
}
