//! The parts of an object that decide whether a change contradicts a write, and the change between two states. Pure.

use serde_json::Value;

use crate::store::{Change, ChangeKind};

/// The parts of one state of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// The uid of the controller owner.
    pub(super) owner: Option<String>,
    pub(super) generation: Option<i64>,
    pub(super) deleting: bool,
    pub(super) phase: Option<String>,
    pub(super) ready: Option<bool>,
}

/// The kind of a change, as far as rules distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Created,
    Deleted,
    DeletionBegan,
    SpecChanged,
    Other,
}

/// The facts of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChangeFacts {
    pub(super) owner: Option<String>,
    pub(super) step: Step,
    /// What happened to the object, as the end of a sentence: `became Ready`.
    pub(super) text: String,
}

impl Facts {
    pub(super) fn of(object: &Value) -> Self {
        let owners = object
            .pointer("/metadata/ownerReferences")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let controller = owners
            .filter(|owner| owner["controller"] == true)
            .find_map(|owner| owner["uid"].as_str());
        let conditions = object
            .pointer("/status/conditions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let ready = conditions
            .filter(|condition| condition["type"] == "Ready")
            .find_map(|condition| condition["status"].as_str());
        Self {
            owner: controller.map(str::to_owned),
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64),
            deleting: object.pointer("/metadata/deletionTimestamp").is_some(),
            phase: object
                .pointer("/status/phase")
                .and_then(Value::as_str)
                .map(str::to_owned),
            ready: ready.map(|status| status == "True"),
        }
    }
}

impl ChangeFacts {
    /// The facts of a committed change. A state that cannot be parsed, which does not happen, has no facts.
    pub(super) fn of(change: &Change) -> Self {
        let after = change
            .object
            .value()
            .map(|object| Facts::of(&object))
            .unwrap_or_default();
        let before = change.previous.as_ref().and_then(|previous| previous.value().ok());
        Self::between(change.kind, before.as_ref().map(Facts::of).as_ref(), after)
    }

    fn between(kind: ChangeKind, before: Option<&Facts>, after: Facts) -> Self {
        let (step, text) = match (kind, before) {
            (ChangeKind::Added, _) => (Step::Created, "was created".to_owned()),
            (ChangeKind::Deleted, _) => (Step::Deleted, "was deleted".to_owned()),
            (ChangeKind::Modified, None) => (Step::Other, "changed".to_owned()),
            (ChangeKind::Modified, Some(before)) => modified(before, &after),
        };
        Self {
            owner: after.owner,
            step,
            text,
        }
    }
}

fn modified(before: &Facts, after: &Facts) -> (Step, String) {
    if after.deleting && !before.deleting {
        return (Step::DeletionBegan, "began to be deleted".to_owned());
    }
    if let (Some(old), Some(new)) = (before.generation, after.generation)
        && new > old
    {
        return (Step::SpecChanged, format!("got a new spec (generation {new})"));
    }
    let text = match (before.ready, after.ready) {
        (Some(true), Some(false) | None) => "is no longer Ready".to_owned(),
        (Some(false) | None, Some(true)) => "became Ready".to_owned(),
        _ => match &after.phase {
            Some(phase) if before.phase.as_ref() != Some(phase) => format!("became {phase}"),
            _ => "changed".to_owned(),
        },
    };
    (Step::Other, text)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn facts(deleting: bool, generation: i64, phase: &str, ready: &str) -> Facts {
        let mut object = json!({
            "metadata": { "generation": generation, "ownerReferences": [
                { "uid": "other" }, { "uid": "set", "controller": true },
            ] },
            "status": { "phase": phase, "conditions": [
                { "type": "Initialized", "status": "True" }, { "type": "Ready", "status": ready },
            ] },
        });
        if deleting {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        }
        Facts::of(&object)
    }

    #[rstest]
    #[case::ready(facts(false, 1, "Running", "True"), Step::Other, "became Ready")]
    #[case::phase(facts(false, 1, "Running", "False"), Step::Other, "became Running")]
    #[case::spec(
        facts(false, 2, "Running", "True"),
        Step::SpecChanged,
        "got a new spec (generation 2)"
    )]
    #[case::deletion(facts(true, 2, "Running", "True"), Step::DeletionBegan, "began to be deleted")]
    #[case::other(facts(false, 1, "Pending", "False"), Step::Other, "changed")]
    fn a_change_is_described_by_its_most_important_part(#[case] after: Facts, #[case] step: Step, #[case] text: &str) {
        let before = facts(false, 1, "Pending", "False");
        let change = ChangeFacts::between(ChangeKind::Modified, Some(&before), after);
        assert_eq!((change.step, change.text.as_str()), (step, text));
        assert_eq!(change.owner.as_deref(), Some("set"));
    }

    #[test]
    fn values_of_other_types_are_no_facts() {
        let object =
            json!({ "metadata": { "ownerReferences": "x" }, "status": { "phase": { "a": 1 }, "conditions": 3 } });
        assert_eq!(Facts::of(&object), Facts::default());
    }

    #[test]
    fn a_pod_that_loses_its_readiness_is_no_longer_ready() {
        let before = facts(false, 1, "Running", "True");
        let change = ChangeFacts::between(ChangeKind::Modified, Some(&before), facts(false, 1, "Running", "False"));
        assert_eq!(change.text, "is no longer Ready");
    }
}
