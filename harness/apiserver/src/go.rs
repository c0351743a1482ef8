//! Values as Go prints them, for messages of upstream that contain them.

use serde_json::Value;

/// The name of a value's type in Go.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go formats it with `%v`.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| format!("{name}:{}", text(value)));
            format!("map[{}]", members.collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case(json!(null), "<nil>", "<nil>")]
    #[case(json!(true), "bool", "true")]
    #[case(json!(1.5), "float64", "1.5")]
    #[case(json!(2), "int64", "2")]
    #[case(json!("a"), "string", "a")]
    #[case(json!(["a", 1]), "[]interface {}", "[a 1]")]
    #[case(json!({ "a": [null], "b": {} }), "map[string]interface {}", "map[a:[<nil>] b:map[]]")]
    fn a_value_has_the_type_and_the_text_of_go(#[case] value: Value, #[case] name: &str, #[case] printed: &str) {
        assert_eq!((type_name(&value), &*text(&value)), (name, printed));
    }
}
