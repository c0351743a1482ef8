//! JSON Schemas of types that are texts in files, for editors.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{Code, GoDuration, Phase};

impl JsonSchema for GoDuration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A duration such as 90s, 1h30m or 250ms.",
            "type": "string",
            "pattern": r"^[+-]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$",
        })
    }
}

impl JsonSchema for Phase {
    fn schema_name() -> Cow<'static, str> {
        "Phase".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "description": "The phase of a machine.", "type": "string", "enum": Self::TEXTS })
    }
}

impl JsonSchema for Code {
    fn schema_name() -> Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Self::ALL.iter().map(|code| code.name()).collect();
        json_schema!({ "description": "The outcome of a driver call.", "type": "string", "enum": names })
    }
}
