//! The examples of steps and conditions in the documents: there is one of each, and all run.

use std::collections::BTreeSet;
use std::path::Path;

use harness::schema::FileKind;
use serde_json::Value;

use crate::drydock::{drydock, printed};

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/scenario-examples.md");
    std::fs::read_to_string(path).unwrap()
}

/// The examples as files of scenarios.
fn examples() -> Vec<String> {
    let page = page();
    let blocks = page
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next());
    let scenario = |(number, block): (usize, &str)| {
        let steps = if block.starts_with("- ") { "steps:\n" } else { "" };
        format!("name: example-{number}\nabout: An example.\n{steps}{block}")
    };
    (1..).zip(blocks).map(scenario).collect()
}

/// The names of the variants of an enum.
fn variants(name: &str) -> BTreeSet<String> {
    let schema = FileKind::Scenario.schema().to_value();
    let definition = &schema["definitions"][name];
    let variants = definition["oneOf"].as_array().unwrap_or_else(|| panic!("{definition}"));
    let names = |variant: &Value| -> Vec<String> {
        let texts = |list: &Value| -> Vec<String> {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let constant = variant["const"].as_str().map(str::to_owned);
        [
            texts(&variant["required"]),
            texts(&variant["enum"]),
            Vec::from_iter(constant),
        ]
        .concat()
    };
    variants.iter().flat_map(names).collect()
}

/// All keys, and all texts without a key.
fn collect_words(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                words.insert(name.clone());
                collect_words(value, words);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect_words(item, words)),
        Value::String(text) => drop(words.insert(text.clone())),
        _ => {}
    }
}

#[test]
fn every_step_and_condition_has_an_example() {
    let mut words = BTreeSet::new();
    for example in examples() {
        collect_words(&serde_saphyr::from_str(&example).unwrap(), &mut words);
    }
    // The numbers are lower bounds, so that a schema that is read wrongly does not pass as one without steps.
    for (kind, least) in [("Step", 27), ("Condition", 21), ("Temporal", 6), ("Apply", 9)] {
        let all = variants(kind);
        assert!(all.len() >= least, "{kind}: {all:?}");
        let missing: Vec<&String> = all.difference(&words).collect();
        assert!(missing.is_empty(), "no example of {kind} {missing:?}");
    }
}

#[test]
fn every_example_passes() {
    let folder = tempfile::tempdir().unwrap();
    let mut arguments = vec!["run".to_owned(), "--stage".to_owned(), "sim".to_owned()];
    let examples = examples();
    for (number, example) in (1..).zip(&examples) {
        let file = format!("example-{number}.yaml");
        std::fs::write(folder.path().join(&file), example).unwrap();
        arguments.extend(["--file".to_owned(), file]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = drydock(folder.path(), &arguments);
    assert!(output.status.success(), "{}", printed(&output));
    let passed = format!("{} passed, 0 failed", examples.len());
    assert!(printed(&output).contains(&passed), "{}", printed(&output));
}
