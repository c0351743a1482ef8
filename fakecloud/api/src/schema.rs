//! JSON Schemas of types of the machine API that are texts in files.

use std::borrow::Cow;

use mcm_api::cloud::Code;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// The schema of [`mcm_api::GoDuration`].
#[derive(Debug)]
pub struct DurationText;

impl JsonSchema for DurationText {
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

/// The schema of [`Code`] by its name.
#[derive(Debug)]
pub struct CodeText;

impl JsonSchema for CodeText {
    fn schema_name() -> Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        json_schema!({ "description": "The outcome of a driver call.", "type": "string", "enum": names })
    }
}
