//! The rule by which a change contradicts a write whose client had not been sent the change. Pure.

use serde::Serialize;

use super::facts::Step;
use crate::store::Key;

/// How a change contradicts a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Rule {
    /// The write changes or deletes an object that has changed or is gone.
    Object,
    /// The write creates or deletes an object whose controller owner is being deleted, is gone, or has a new
    /// specification.
    Owner,
    /// The write creates an object, and its controller owner has got another one of this kind; or it deletes one, and
    /// the owner has lost another one.
    Sibling,
}

/// What a write does to its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Create,
    Change,
    Delete,
}

/// The written object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written<'a> {
    pub(super) effect: Effect,
    pub(super) resource: &'a str,
    pub(super) key: &'a Key,
    /// The uid of its controller owner.
    pub(super) owner: Option<&'a str>,
}

/// A change by another client that the writing client had not been sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsent<'a> {
    pub(super) resource: &'a str,
    pub(super) key: &'a Key,
    pub(super) uid: &'a str,
    /// The uid of its controller owner.
    pub(super) owner: Option<&'a str>,
    pub(super) step: Step,
}

/// The rule by which the change contradicts the write; `None`: it does not.
pub(super) fn rule(written: &Written<'_>, change: &Unsent<'_>) -> Option<Rule> {
    if change.resource == written.resource && change.key == written.key {
        return (written.effect != Effect::Create).then_some(Rule::Object);
    }
    let owner = written.owner?;
    if written.effect == Effect::Change {
        return None;
    }
    if change.uid == owner {
        let concerns = matches!(change.step, Step::Deleted | Step::DeletionBegan | Step::SpecChanged);
        return concerns.then_some(Rule::Owner);
    }
    let is_sibling = change.resource == written.resource && change.owner == Some(owner);
    let opposes = match written.effect {
        Effect::Create => change.step == Step::Created,
        _ => matches!(change.step, Step::Deleted | Step::DeletionBegan),
    };
    (is_sibling && opposes).then_some(Rule::Sibling)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const SET: Option<&str> = Some("uid-of-set");

    #[rstest]
    // The same object.
    #[case::patch_of_a_changed_object(Effect::Change, SET, "pods", "a", SET, Step::Other, Some(Rule::Object))]
    #[case::delete_of_a_changed_object(Effect::Delete, None, "pods", "a", None, Step::Other, Some(Rule::Object))]
    #[case::delete_of_a_deleted_object(Effect::Delete, SET, "pods", "a", SET, Step::Deleted, Some(Rule::Object))]
    #[case::create_of_a_name_that_was_deleted(Effect::Create, SET, "pods", "a", SET, Step::Deleted, None)]
    #[case::another_kind_of_that_name(Effect::Delete, None, "nodes", "a", None, Step::Other, None)]
    // The owner, whose uid is uid-of-set.
    #[case::create_for_a_scaled_owner(
        Effect::Create,
        SET,
        "replicasets.apps",
        "set",
        None,
        Step::SpecChanged,
        Some(Rule::Owner)
    )]
    #[case::delete_for_a_deleted_owner(
        Effect::Delete,
        SET,
        "replicasets.apps",
        "set",
        None,
        Step::DeletionBegan,
        Some(Rule::Owner)
    )]
    #[case::create_for_an_owner_with_a_new_status(
        Effect::Create,
        SET,
        "replicasets.apps",
        "set",
        None,
        Step::Other,
        None
    )]
    #[case::patch_for_a_scaled_owner(Effect::Change, SET, "replicasets.apps", "set", None, Step::SpecChanged, None)]
    // Siblings.
    #[case::create_after_a_creation(Effect::Create, SET, "pods", "b", SET, Step::Created, Some(Rule::Sibling))]
    #[case::create_after_a_deletion(Effect::Create, SET, "pods", "b", SET, Step::Deleted, None)]
    #[case::delete_after_a_deletion(Effect::Delete, SET, "pods", "b", SET, Step::DeletionBegan, Some(Rule::Sibling))]
    #[case::delete_after_a_creation(Effect::Delete, SET, "pods", "b", SET, Step::Created, None)]
    #[case::patch_after_a_deletion(Effect::Change, SET, "pods", "b", SET, Step::Deleted, None)]
    #[case::of_another_owner(Effect::Create, SET, "pods", "b", Some("uid-of-other"), Step::Created, None)]
    #[case::without_an_owner(Effect::Create, None, "pods", "b", None, Step::Created, None)]
    fn a_change_contradicts_a_write_by_a_rule(
        #[case] effect: Effect,
        #[case] owner: Option<&str>,
        #[case] resource: &str,
        #[case] name: &str,
        #[case] of: Option<&str>,
        #[case] step: Step,
        #[case] expected: Option<Rule>,
    ) {
        let key = Key::new("default", "a");
        let written = Written {
            effect,
            resource: "pods",
            key: &key,
            owner,
        };
        let changed = Key::new("default", name);
        let change = Unsent {
            resource,
            key: &changed,
            uid: if name == "set" { "uid-of-set" } else { "uid-of-pod" },
            owner: of,
            step,
        };
        assert_eq!(rule(&written, &change), expected);
    }
}
