//! Cells of custom resources: the value at a column's JSONPath, in the column's type.

use serde_json::Value;

use super::age;
use crate::jsonpath::JsonPath;
use crate::resource::Column;

/// The cell; null if the path has no value or one of another type.
pub(super) fn cell(column: &Column, object: &Value, now_unix: i64) -> Value {
    let found = JsonPath::parse(&column.json_path)
        .ok()
        .and_then(|path| path.first(object).cloned());
    let Some(found) = found.filter(|found| !found.is_null()) else {
        return Value::Null;
    };
    match (column.type_.as_str(), found) {
        ("integer", Value::Number(number)) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number
                .as_f64()
                .map_or(Value::Null, |number| (number.trunc() as i64).into()),
        },
        ("number", number @ Value::Number(_)) => number,
        ("boolean", truth @ Value::Bool(_)) => truth,
        ("string", Value::String(text)) => text.into(),
        ("string", other) => other.to_string().into(),
        ("date", time @ Value::String(_)) => age::since(Some(&time), now_unix)
            .unwrap_or("<invalid>".to_owned())
            .into(),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("integer", ".spec.replicas", json!(3))]
    #[case("integer", ".spec.share", json!(1))]
    #[case("integer", ".spec.text", json!(null))]
    #[case("number", ".spec.share", json!(1.5))]
    #[case("boolean", ".spec.on", json!(true))]
    #[case("string", ".spec.text", json!("a"))]
    #[case("string", ".spec.replicas", json!("3"))]
    #[case("string", ".spec.map", json!(r#"{"b":1}"#))]
    #[case("string", ".spec.missing", json!(null))]
    #[case("date", ".spec.since", json!("5m"))]
    #[case("date", ".spec.text", json!("<invalid>"))]
    fn cells_have_the_type_of_their_column(#[case] type_: &str, #[case] path: &str, #[case] expected: Value) {
        let object = json!({ "spec": {
            "replicas": 3, "share": 1.5, "on": true, "text": "a", "map": { "b": 1 }, "since": "1970-01-01T00:00:00Z",
        } });
        let column = Column {
            name: "C".into(),
            type_: type_.into(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            json_path: path.into(),
        };
        assert_eq!(cell(&column, &object, 300), expected);
    }
}
