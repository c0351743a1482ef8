//! CustomResourceDefinitions: checks, status, and the resources that a definition adds. The module `schema` validates
//! objects.

mod approval;
mod conversion;
mod establish;
mod names;
mod resources;
mod scale;
#[cfg(test)]
mod tests;
mod validate;
mod versions;

pub use self::establish::{establish, is_established, waits_for_names};
pub use self::names::TakenNames;
pub use self::resources::resources;
pub(crate) use self::scale::validate_scale;
pub use self::validate::validate;
pub(crate) use self::versions::versions;

use serde_json::Value;

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

fn texts(value: &Value, pointer: &str) -> Vec<String> {
    items(value, pointer)
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

fn is_true(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}
