//! Controller references: adoption of orphans that match a selector, and release of objects that no longer match.
//!
//! The rules are the same for sets of a deployment and machines of a set.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use serde_json::{Value, json};

use crate::selector::matches;

/// The relation of an object to a potential owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Controlled by the owner, and it matches.
    Mine,
    /// An orphan that matches.
    Adopt,
    /// Controlled by the owner, and it no longer matches.
    Release,
    /// Neither controlled by the owner nor adoptable.
    Foreign,
}

/// The object's controller.
pub fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    metadata
        .owner_references
        .iter()
        .flatten()
        .find(|reference| reference.controller == Some(true))
}

/// Whether the object's controller has that uid.
pub fn is_controlled_by(metadata: &ObjectMeta, owner: &ObjectMeta) -> bool {
    owner.uid.is_some() && controller(metadata).map(|reference| &reference.uid) == owner.uid.as_ref()
}

/// The relation of `object` to `owner`, whose selector is `selector`.
pub fn claim(owner: &ObjectMeta, selector: &LabelSelector, object: &ObjectMeta) -> Claim {
    let matching = matches(selector, object.labels.as_ref());
    let deleting = owner.deletion_timestamp.is_some();
    match controller(object) {
        Some(_) if !is_controlled_by(object, owner) => Claim::Foreign,
        Some(_) if matching => Claim::Mine,
        Some(_) if deleting => Claim::Foreign,
        Some(_) => Claim::Release,
        None if deleting || !matching || object.deletion_timestamp.is_some() => Claim::Foreign,
        None => Claim::Adopt,
    }
}

/// The controller reference of an object to its owner.
pub fn reference(kind: &str, owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: "machine.sapcloud.io/v1alpha1".to_owned(),
        kind: kind.to_owned(),
        name: owner.name.clone().unwrap_or_default(),
        uid: owner.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The patch that adds the controller reference to an orphan; others stay.
pub fn adoption(object: &ObjectMeta, kind: &str, owner: &ObjectMeta) -> Value {
    let mut references: Vec<OwnerReference> = object.owner_references.clone().unwrap_or_default();
    references.retain(|one| Some(&one.uid) != owner.uid.as_ref());
    references.push(reference(kind, owner));
    references_patch(object, &references)
}

/// The patch that removes the owner's reference; others stay.
pub fn release(object: &ObjectMeta, owner: &ObjectMeta) -> Value {
    let mut references: Vec<OwnerReference> = object.owner_references.clone().unwrap_or_default();
    references.retain(|one| Some(&one.uid) != owner.uid.as_ref());
    references_patch(object, &references)
}

/// A merge patch replaces the whole list, so it carries uid and resourceVersion: the API server rejects it if the
/// object has changed or was recreated.
fn references_patch(object: &ObjectMeta, references: &[OwnerReference]) -> Value {
    json!({ "metadata": {
        "ownerReferences": references,
        "uid": object.uid,
        "resourceVersion": object.resource_version,
    } })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use rstest::rstest;

    use super::*;

    fn owner(deleting: bool) -> ObjectMeta {
        ObjectMeta {
            name: Some("owner".to_owned()),
            uid: Some("u".to_owned()),
            deletion_timestamp: deleting.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        }
    }

    fn object(controller: Option<&str>, label: &str, deleting: bool) -> ObjectMeta {
        let owner = |uid: &str| ObjectMeta {
            uid: Some(uid.to_owned()),
            ..ObjectMeta::default()
        };
        ObjectMeta {
            labels: Some(BTreeMap::from([("a".to_owned(), label.to_owned())])),
            owner_references: controller.map(|uid| vec![reference("MachineSet", &owner(uid))]),
            deletion_timestamp: deleting.then_some(Time(jiff::Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        }
    }

    #[rstest]
    #[case::mine(owner(false), object(Some("u"), "1", false), Claim::Mine)]
    #[case::mine_while_the_owner_is_deleted(owner(true), object(Some("u"), "1", false), Claim::Mine)]
    #[case::another_owners(owner(false), object(Some("v"), "1", false), Claim::Foreign)]
    #[case::no_longer_matching(owner(false), object(Some("u"), "2", false), Claim::Release)]
    #[case::no_longer_matching_while_the_owner_is_deleted(owner(true), object(Some("u"), "2", false), Claim::Foreign)]
    #[case::orphan(owner(false), object(None, "1", false), Claim::Adopt)]
    #[case::orphan_of_another_kind(owner(false), object(None, "2", false), Claim::Foreign)]
    #[case::orphan_being_deleted(owner(false), object(None, "1", true), Claim::Foreign)]
    #[case::orphan_while_the_owner_is_deleted(owner(true), object(None, "1", false), Claim::Foreign)]
    fn claims_follow_controller_and_selector(
        #[case] owner: ObjectMeta,
        #[case] object: ObjectMeta,
        #[case] expected: Claim,
    ) {
        let selector = LabelSelector {
            match_labels: Some(BTreeMap::from([("a".to_owned(), "1".to_owned())])),
            ..LabelSelector::default()
        };
        assert_eq!(claim(&owner, &selector, &object), expected);
    }

    #[test]
    fn adoption_and_release_keep_other_owners() {
        let mut orphan = object(None, "1", false);
        let other = OwnerReference {
            controller: None,
            ..reference("Shoot", &owner(false))
        };
        orphan.owner_references = Some(vec![OwnerReference {
            uid: "other".to_owned(),
            ..other
        }]);
        let adopted = adoption(&orphan, "MachineSet", &owner(false));
        let references: Vec<OwnerReference> =
            serde_json::from_value(adopted["metadata"]["ownerReferences"].clone()).unwrap();
        assert_eq!(
            references.iter().map(|one| one.uid.as_str()).collect::<Vec<_>>(),
            ["other", "u"]
        );
        orphan.owner_references = Some(references);
        let released = release(&orphan, &owner(false));
        assert_eq!(released["metadata"]["ownerReferences"][0]["uid"], "other");
        assert_eq!(released["metadata"]["ownerReferences"].as_array().unwrap().len(), 1);
    }
}
