//! Fuzzing with a bounded budget on stable Rust.
//!
//! A [`Target`] takes bytes and reports a [`Violation`] of its properties. Inputs are mutations that depend only on target,
//! corpus, seed and round, so that the input that ended a process is known afterwards. [`campaign`] runs each target in
//! another process with bounded memory, and watches its progress. [`attack`] sends hostile requests to a running system.

pub mod attack;
pub mod campaign;
pub mod corpus;
pub mod mutate;
pub mod target;
mod targets;
pub mod worker;

pub use target::{Outcome, Target, Violation};
pub use targets::ALL;
use targets::{DEFINITIONS, definition_of, encode, is_expected_error, parse_request, request_objects, selectors};

/// The target with that name.
pub fn target(name: &str) -> Option<&'static Target> {
    ALL.iter().find(|target| target.name == name)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// Runs every input of the corpus.
    #[rstest]
    #[case::json("json")]
    #[case::yaml("yaml")]
    #[case::protobuf("protobuf")]
    #[case::patches("patches")]
    #[case::selectors("selectors")]
    #[case::jsonpath("jsonpath")]
    #[case::cel("cel")]
    #[case::schemas("schemas")]
    #[case::scenarios("scenarios")]
    #[case::plans("plans")]
    #[case::grpc("grpc")]
    #[case::ledger("ledger")]
    fn no_input_of_the_corpus_violates_a_property(#[case] name: &str) {
        let target = target(name).unwrap();
        target::on_small_stack(move || {
            let mut runner = (target.start)().unwrap();
            let mut refused = Vec::new();
            let (files, inputs) = (corpus::files(target).unwrap(), corpus::inputs(target).unwrap());
            // Another process writes the input of a round.
            assert!(inputs == corpus::inputs(target).unwrap());
            for (number, input) in inputs.iter().enumerate() {
                let name = files.get(number).map_or("built from types", |(name, _)| name);
                let outcome = runner(input).unwrap_or_else(|violation| panic!("{} {name}: {violation}", target.name));
                if outcome == Outcome::Refused {
                    refused.push(name);
                }
            }
            // Otherwise the target reaches only the parser's errors.
            assert!(4 * refused.len() < 3 * inputs.len(), "refused: {refused:?}");
        })
        .unwrap();
    }

    #[test]
    fn the_corpus_has_no_folder_without_a_target() {
        let root = corpus::folder(&ALL[0]);
        for folder in std::fs::read_dir(root.parent().unwrap()).unwrap() {
            let name = folder.unwrap().file_name().into_string().unwrap();
            assert!(target(&name).is_some(), "{name}");
        }
    }

    #[test]
    fn a_panic_is_a_violation() {
        let mut runner: target::Runner = Box::new(|input| panic!("{}", input.len()));
        assert_eq!(target::execute(&mut runner, b"ab"), Err(Violation::new("panic: 2")));
    }
}
