//! Building blocks of structural schemas.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool, ValidationRule,
};

/// Non-negative durations in Go's syntax: `0`, `90s`, `1h30m`, `1.5h`.
pub(super) const DURATION: &str = r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// Kubernetes' pattern of quantities.
pub(super) const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The largest signed 32-bit integer.
const MAX_INT32: f64 = 2_147_483_647.0;
/// 2^53 - 1.
const MAX_EXACT: f64 = 9_007_199_254_740_991.0;

fn typed(type_: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        type_: Some(type_.to_owned()),
        ..JSONSchemaProps::default()
    }
}

fn formatted(type_: &str, format: &str) -> JSONSchemaProps {
    JSONSchemaProps {
        format: Some(format.to_owned()),
        ..typed(type_)
    }
}

/// An object with these fields; the API server drops others.
pub(super) fn object<const N: usize>(fields: [(&str, JSONSchemaProps); N]) -> JSONSchemaProps {
    let properties = fields
        .into_iter()
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect();
    JSONSchemaProps {
        properties: Some(properties),
        ..typed("object")
    }
}

/// The schema of a kind with a spec, which is required, and a status.
pub(super) fn root(spec: JSONSchemaProps, status: JSONSchemaProps) -> JSONSchemaProps {
    object([
        ("apiVersion", string()),
        ("kind", string()),
        ("metadata", typed("object")),
        ("spec", spec),
        ("status", status),
    ])
    .required(&["spec"])
}

/// An object with arbitrary content.
pub(super) fn any_object() -> JSONSchemaProps {
    JSONSchemaProps {
        x_kubernetes_preserve_unknown_fields: Some(true),
        ..typed("object")
    }
}

/// A map with arbitrary keys.
pub(super) fn map_of(values: JSONSchemaProps) -> JSONSchemaProps {
    let values = JSONSchemaPropsOrBool::Schema(Box::new(values));
    JSONSchemaProps {
        additional_properties: Some(values),
        ..typed("object")
    }
}

pub(super) fn list_of(items: JSONSchemaProps) -> JSONSchemaProps {
    JSONSchemaProps {
        items: Some(JSONSchemaPropsOrArray::Schema(Box::new(items))),
        ..typed("array")
    }
}

pub(super) fn string() -> JSONSchemaProps {
    typed("string")
}

/// A text of at least `minimum` and at most `maximum` characters.
pub(super) fn bounded_text(minimum: i64, maximum: i64) -> JSONSchemaProps {
    JSONSchemaProps {
        min_length: Some(minimum),
        max_length: Some(maximum),
        ..typed("string")
    }
}

pub(super) fn boolean() -> JSONSchemaProps {
    typed("boolean")
}

/// A number of things, which a signed 32-bit integer can hold. The API server does not enforce formats of numbers.
pub(super) fn count() -> JSONSchemaProps {
    JSONSchemaProps {
        minimum: Some(0.0),
        maximum: Some(MAX_INT32),
        ..formatted("integer", "int32")
    }
}

/// A generation or revision. The maximum is the largest integer that JSON parsers represent exactly.
pub(super) fn revision() -> JSONSchemaProps {
    JSONSchemaProps {
        minimum: Some(0.0),
        maximum: Some(MAX_EXACT),
        ..formatted("integer", "int64")
    }
}

/// The metadata of a template. All fields of ObjectMeta have their types, so that the controllers can decode it; absent
/// values may be written as null.
pub(super) fn template_metadata(labels: JSONSchemaProps) -> JSONSchemaProps {
    let text = || string().nullable();
    object([
        ("name", text()),
        ("generateName", text()),
        ("namespace", text()),
        ("selfLink", text()),
        ("uid", text()),
        ("resourceVersion", text()),
        ("generation", revision().nullable()),
        ("creationTimestamp", time().nullable()),
        ("deletionTimestamp", time().nullable()),
        ("deletionGracePeriodSeconds", revision().nullable()),
        ("labels", labels.nullable()),
        ("annotations", map_of(string()).nullable()),
        ("finalizers", list_of(string()).nullable()),
    ])
    .open()
}

pub(super) fn time() -> JSONSchemaProps {
    formatted("string", "date-time")
}

/// A duration in Go's syntax.
pub(super) fn duration() -> JSONSchemaProps {
    JSONSchemaProps {
        pattern: Some(DURATION.to_owned()),
        ..typed("string")
    }
}

/// A number or a percentage.
pub(super) fn count_or_percentage() -> JSONSchemaProps {
    JSONSchemaProps {
        // A pattern applies to strings only, and the limits to numbers only.
        pattern: Some("^[0-9]+%$".to_owned()),
        minimum: Some(0.0),
        maximum: Some(MAX_INT32),
        ..int_or_string()
    }
}

/// A number, or text such as `25%`.
fn int_or_string() -> JSONSchemaProps {
    JSONSchemaProps {
        any_of: Some(vec![typed("integer"), typed("string")]),
        x_kubernetes_int_or_string: Some(true),
        ..JSONSchemaProps::default()
    }
}

/// Quantities by resource name.
pub(super) fn quantities() -> JSONSchemaProps {
    map_of(JSONSchemaProps {
        pattern: Some(QUANTITY.to_owned()),
        ..int_or_string()
    })
}

/// Adds constraints and documentation to a schema, as a builder.
pub(super) trait Refine {
    /// Makes these fields required.
    fn required(self, fields: &[&str]) -> Self;
    /// Sets the description, which `kubectl explain` shows.
    fn described(self, text: &str) -> Self;
    /// Makes server-side apply replace the object as a whole.
    fn atomic_map(self) -> Self;
    /// Sets how server-side apply merges the list.
    fn list_type(self, kind: &str) -> Self;
    /// Keeps fields that the schema does not name.
    fn open(self) -> Self;
    /// Sets the default value.
    fn defaulting(self, value: serde_json::Value) -> Self;
    /// Permits null, which means absent.
    fn nullable(self) -> Self;
    /// Limits the number of a list's items.
    fn at_most(self, items: i64) -> Self;
    /// Limits the length of a text, which also limits the cost of its rules.
    fn at_most_long(self, characters: i64) -> Self;
    /// Sets the pattern of a text.
    fn with_pattern(self, pattern: &str) -> Self;
    /// Adds a CEL rule; the API server returns `message` if it evaluates to false.
    fn rule(self, rule: &str, message: &str) -> Self;
}

impl Refine for JSONSchemaProps {
    fn required(self, fields: &[&str]) -> Self {
        Self {
            required: Some(fields.iter().map(|field| (*field).to_owned()).collect()),
            ..self
        }
    }

    fn described(self, text: &str) -> Self {
        Self {
            description: Some(text.to_owned()),
            ..self
        }
    }

    fn atomic_map(self) -> Self {
        Self {
            x_kubernetes_map_type: Some("atomic".to_owned()),
            ..self
        }
    }

    fn list_type(self, kind: &str) -> Self {
        Self {
            x_kubernetes_list_type: Some(kind.to_owned()),
            ..self
        }
    }

    fn open(self) -> Self {
        Self {
            x_kubernetes_preserve_unknown_fields: Some(true),
            ..self
        }
    }

    fn defaulting(self, value: serde_json::Value) -> Self {
        Self {
            default: Some(JSON(value)),
            ..self
        }
    }

    fn nullable(self) -> Self {
        Self {
            nullable: Some(true),
            ..self
        }
    }

    fn at_most(self, items: i64) -> Self {
        Self {
            max_items: Some(items),
            ..self
        }
    }

    fn at_most_long(self, characters: i64) -> Self {
        Self {
            max_length: Some(characters),
            ..self
        }
    }

    fn with_pattern(self, pattern: &str) -> Self {
        Self {
            pattern: Some(pattern.to_owned()),
            ..self
        }
    }

    fn rule(mut self, rule: &str, message: &str) -> Self {
        let rule = ValidationRule {
            rule: rule.to_owned(),
            message: Some(message.to_owned()),
            ..ValidationRule::default()
        };
        self.x_kubernetes_validations.get_or_insert_default().push(rule);
        self
    }
}

#[cfg(test)]
mod tests {
    use regex::Regex;
    use rstest::rstest;

    use super::*;
    use crate::GoDuration;

    #[test]
    fn the_duration_pattern_accepts_what_go_duration_parses() {
        let good = ["0", "+0", "2h", "1h30m", "1.5h", ".5h", "1.h", "300ms", "1µs", "1us"];
        let bad = ["", "10", "3d", "h", ".s", "-5s", "1h 30m", "1h30", "three days"];
        let pattern = Regex::new(DURATION).unwrap();
        for text in good.into_iter().chain(bad) {
            assert_eq!(pattern.is_match(text), good.contains(&text), "{text}");
            assert_eq!(text.parse::<GoDuration>().is_ok(), good.contains(&text), "{text}");
        }
    }

    #[rstest]
    #[case("8Gi", true)]
    #[case("100m", true)]
    #[case("1e3", true)]
    #[case("lots", false)]
    #[case("8 Gi", false)]
    fn the_quantity_pattern_matches_quantities_only(#[case] text: &str, #[case] expected: bool) {
        assert_eq!(Regex::new(QUANTITY).unwrap().is_match(text), expected);
    }
}
