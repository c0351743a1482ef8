//! The parts of a node template that an API server would refuse. They are left out and reported, so that they keep neither
//! the valid parts nor the finalizer from the Node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Taint;

use crate::label_syntax::{key_problem, value_problem};

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

#[cfg(test)]
mod tests {
    use mcm_api::machine::NodeTemplateSpec;
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
}
