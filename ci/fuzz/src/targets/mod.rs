//! The targets, one file for each kind of input.

mod expressions;
mod files;
mod grpc;
mod ledger;
mod requests;
mod schemas;
pub(crate) mod selectors;
mod stored;
mod world;

pub(crate) use self::requests::{parse_request, request_objects};
pub(crate) use self::world::{DEFINITIONS, definition_of, encode, is_expected_error};
use crate::Target;
use crate::mutate::Form;

fn no_seeds() -> Vec<Vec<u8>> {
    Vec::new()
}

const fn target(
    name: &'static str,
    form: Form,
    start: fn() -> Result<crate::target::Runner, crate::Violation>,
) -> Target {
    Target {
        name,
        form,
        seeds: no_seeds,
        start,
    }
}

/// All targets.
pub const ALL: [Target; 12] = [
    target("json", Form::Request, requests::start),
    target("yaml", Form::Request, requests::start),
    target("protobuf", Form::Request, requests::start),
    target("patches", Form::Request, requests::start),
    target("selectors", Form::Text, selectors::start),
    target("jsonpath", Form::Text, expressions::start_jsonpath),
    target("cel", Form::Text, expressions::start_cel),
    target("schemas", Form::Json, schemas::start),
    target("scenarios", Form::Yaml, files::start_scenarios),
    target("plans", Form::Yaml, files::start_plans),
    Target {
        seeds: grpc::seeds,
        ..target("grpc", Form::Message, grpc::start)
    },
    Target {
        seeds: ledger::seeds,
        ..target("ledger", Form::Lines, ledger::start)
    },
];
