//! Paths to fields of objects: JSON pointers with a part that selects an item of a list by one of its fields.

use serde_json::Value;

/// The value at a path such as `/spec/replicas`, `/spec/taints/0/key` or `/status/conditions/[type=Ready]/status`;
/// `None`: the object has no such field. A part `[type=Ready]` selects the first item of a list whose field `type` is
/// `Ready`. As in a JSON pointer, `~1` stands for `/` and `~0` for `~`.
pub fn value_at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    parts(path).try_fold(object, |value, part| match value {
        Value::Object(fields) => fields.get(&part),
        Value::Array(items) => match selector(&part) {
            Some((field, is)) => items.iter().find(|item| is_equal(&item[field], is)),
            None => items.get(part.parse::<usize>().ok()?),
        },
        _ => None,
    })
}

/// The parts of a path, without escapes.
pub(crate) fn parts(path: &str) -> impl Iterator<Item = String> {
    let parts = path.split('/').skip(1);
    parts.map(|part| part.replace("~1", "/").replace("~0", "~"))
}

/// The field and the value in a part that selects an item of a list.
pub(crate) fn selector(part: &str) -> Option<(&str, &str)> {
    part.strip_prefix('[')?.strip_suffix(']')?.split_once('=')
}

fn is_equal(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => value == text,
        Value::Number(number) => number.to_string() == text,
        Value::Bool(value) => text == if *value { "true" } else { "false" },
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::a_field("/spec/replicas", Some(json!(3)))]
    #[case::an_index("/conditions/1/type", Some(json!("example.com/Ready")))]
    #[case::an_item("/conditions/[type=Available]/status", Some(json!("True")))]
    #[case::the_first_of_two("/conditions/[status=True]/type", Some(json!("Available")))]
    #[case::an_escaped_value("/conditions/[type=example.com~1Ready]/status", Some(json!("True")))]
    #[case::a_number("/ports/[port=80]/name", Some(json!("http")))]
    #[case::a_key_like_a_selector("/labels/[a=b]", Some(json!("kept")))]
    #[case::no_such_item("/conditions/[type=Frozen]/status", None)]
    #[case::no_such_index("/conditions/2", None)]
    #[case::below_a_text("/conditions/0/type/name", None)]
    fn a_path_leads_to_a_value(#[case] path: &str, #[case] expected: Option<Value>) {
        let object = json!({
            "spec": { "replicas": 3 },
            "conditions": [
                { "type": "Available", "status": "True" },
                { "type": "example.com/Ready", "status": "True" },
            ],
            "ports": [{ "port": 80, "name": "http" }],
            "labels": { "[a=b]": "kept" },
        });
        assert_eq!(value_at(&object, path).cloned(), expected);
        assert_eq!(value_at(&object, ""), Some(&object));
    }
}
