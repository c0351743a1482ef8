//! The JSON Schemas of the files that users write, and of records, for editors and other programs. The types of the files are their
//! source; the committed copies are in `docs/reference/schemas`.

use apiserver::faults::Rule;
use clap::ValueEnum;
use fakecloud::{Delay, DurationText};
use record::RunRecord;
use scenario::plan::Plan;
use scenario::stale::StaleScenario;
use scenario::{FaultRule, Scenario};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FileKind {
    /// A scenario
    Scenario,
    /// A plan
    Plan,
    /// A scenario of `drydock stale`
    Stale,
    /// Fault rules of the API server
    ApiFaults,
    /// Fault rules of the cloud
    CloudFaults,
    /// The configuration of fakecloud
    Fakecloud,
    /// The record of a run
    Record,
}

/// A file with one rule or a list of them.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum Rules<R> {
    /// One rule.
    One(R),
    /// Several rules.
    Several(Vec<R>),
}

impl FileKind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Scenario,
        Self::Plan,
        Self::Stale,
        Self::ApiFaults,
        Self::CloudFaults,
        Self::Fakecloud,
        Self::Record,
    ];

    /// The name on the command line and in file names.
    pub fn name(self) -> &'static str {
        match self {
            Self::Scenario => "scenario",
            Self::Plan => "plan",
            Self::Stale => "stale",
            Self::ApiFaults => "api-faults",
            Self::CloudFaults => "cloud-faults",
            Self::Fakecloud => "fakecloud",
            Self::Record => "record",
        }
    }

    /// A description of such a file.
    pub fn description(self) -> &'static str {
        match self {
            Self::Scenario => "a scenario",
            Self::Plan => "a plan",
            Self::Stale => "a scenario of drydock stale",
            Self::ApiFaults => "fault rules of the API server",
            Self::CloudFaults => "fault rules of the cloud",
            Self::Fakecloud => "a configuration of fakecloud",
            Self::Record => "the record of a run",
        }
    }

    /// The name of the file with its schema.
    pub fn file_name(self) -> String {
        format!("{}.schema.json", self.name())
    }

    /// Its schema. Deprecated spellings, which are still read, are not part of it.
    pub fn schema(self) -> Schema {
        // The draft that the YAML plugins of editors support best.
        let generator = SchemaSettings::draft07().into_generator();
        let mut schema = match self {
            Self::Scenario => generator.into_root_schema_for::<Scenario>(),
            Self::Plan => generator.into_root_schema_for::<Plan>(),
            Self::Stale => generator.into_root_schema_for::<StaleScenario>(),
            Self::ApiFaults => generator.into_root_schema_for::<Rules<Rule>>(),
            Self::CloudFaults => generator.into_root_schema_for::<Rules<FaultRule<Delay, DurationText>>>(),
            Self::Fakecloud => generator.into_root_schema_for::<fakecloud::Config>(),
            Self::Record => generator.into_root_schema_for::<RunRecord>(),
        };
        schema.insert("title".to_owned(), format!("Drydock: {}", self.description()).into());
        schema
    }

    /// Its schema as the text of a file.
    pub fn text(self) -> String {
        format!("{:#}\n", self.schema().to_value())
    }
}
