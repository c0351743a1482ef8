//! The parts of a node template that an API server would refuse. They are left out and reported, so that they keep neither
//! the valid parts nor the finalizer from the Node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;

/// The longest name and the longest value.
const LONGEST: usize = 63;
/// The longest prefix of a key.
const LONGEST_PREFIX: usize = 253;

/// Removes invalid labels, annotations and taints, and returns a sentence about each of them.
pub(super) fn remove_invalid(
    labels: &mut BTreeMap<String, String>,
    annotations: &mut BTreeMap<String, String>,
    taints: &mut Vec<Taint>,
) -> Vec<String> {
    let mut problems = Vec::new();
    labels.retain(|key, value| {
        let problem = key_problem(key).or_else(|| value_problem(value));
        keep(&mut problems, || format!("metadata.labels[{key:?}]"), problem)
    });
    annotations.retain(|key, _| {
        keep(
            &mut problems,
            || format!("metadata.annotations[{key:?}]"),
            key_problem(key),
        )
    });
    taints.retain(|taint| {
        keep(
            &mut problems,
            || format!("spec.taints[{:?}]", taint.key),
            taint_problem(taint),
        )
    });
    problems
}

fn keep(problems: &mut Vec<String>, field: impl Fn() -> String, problem: Option<String>) -> bool {
    let valid = problem.is_none();
    problems.extend(problem.map(|problem| format!("{}: {problem}", field())));
    valid
}

fn taint_problem(taint: &Taint) -> Option<String> {
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let effect = (!effects.contains(&taint.effect.as_str()))
        .then(|| format!("the effect {:?} is not one of {}", taint.effect, effects.join(", ")));
    let value = taint.value.as_deref().and_then(value_problem);
    key_problem(&taint.key).or(value).or(effect)
}

/// Why a key is not valid: an optional DNS subdomain and a slash, then a name.
fn key_problem(key: &str) -> Option<String> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    let valid = prefix.is_none_or(is_subdomain) && !name.is_empty() && is_name(name);
    (!valid).then(|| {
        format!("the key must be a name of at most {LONGEST} letters, digits, '-', '_' and '.', after an optional prefix such as example.com/")
    })
}

fn value_problem(value: &str) -> Option<String> {
    (!is_name(value)).then(|| {
        format!("the value {value:?} must have at most {LONGEST} letters, digits, '-', '_' and '.', and begin and end with a letter or digit")
    })
}

/// Whether a text is empty, or has only letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_name(text: &str) -> bool {
    let ends = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= LONGEST
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

fn is_subdomain(text: &str) -> bool {
    let is_part = |part: &str| {
        let bytes = part.as_bytes();
        let ends = [bytes.first(), bytes.last()];
        ends.iter().all(|byte| byte.is_some_and(u8::is_ascii_alphanumeric))
            && bytes
                .iter()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
    };
    text.len() <= LONGEST_PREFIX && text.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use mcm_api::machine::NodeTemplateSpec;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn invalid_parts_are_left_out_and_reported() {
        let template: NodeTemplateSpec = serde_json::from_value(json!({
            "metadata": {
                "labels": { "team": "a b", "pool": "p", "example.com/zone": "", "-": "x" },
                "annotations": { "note": "any text is valid", "a b": "x" },
            },
            "spec": { "taints": [
                { "key": "ok", "effect": "NoSchedule" },
                { "key": "ok", "effect": "Sometimes" },
                { "key": "not ok", "effect": "NoExecute" },
            ] },
        }))
        .unwrap();
        let (metadata, spec) = (template.metadata, template.spec);
        let (mut labels, mut annotations) = (metadata.labels.unwrap(), metadata.annotations.unwrap());
        let mut taints = spec.taints.unwrap();
        let problems = remove_invalid(&mut labels, &mut annotations, &mut taints);
        assert_eq!(labels.into_keys().collect::<Vec<_>>(), ["example.com/zone", "pool"]);
        assert_eq!((annotations.len(), taints.len()), (1, 1));
        let fields: Vec<&str> = problems
            .iter()
            .map(|problem| problem.split(": ").next().unwrap())
            .collect();
        assert_eq!(
            fields,
            [
                "metadata.labels[\"-\"]",
                "metadata.labels[\"team\"]",
                "metadata.annotations[\"a b\"]",
                "spec.taints[\"ok\"]",
                "spec.taints[\"not ok\"]",
            ]
        );
        assert!(problems[1].contains("\"a b\""), "{problems:?}");
    }

    #[rstest]
    #[case::name("pool", true)]
    #[case::prefix("node.example.com/pool", true)]
    #[case::longest(&"a".repeat(63), true)]
    #[case::too_long(&"a".repeat(64), false)]
    #[case::empty("", false)]
    #[case::no_name("example.com/", false)]
    #[case::no_prefix("/pool", false)]
    #[case::two_slashes("a/b/c", false)]
    #[case::upper_case_prefix("Example.com/pool", false)]
    #[case::space("a b", false)]
    #[case::dash_at_the_end("a-", false)]
    fn keys_have_the_syntax_of_kubernetes(#[case] key: &str, #[case] valid: bool) {
        assert_eq!(key_problem(key).is_none(), valid, "{key}");
    }
}
