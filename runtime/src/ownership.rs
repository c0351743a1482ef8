//! Owner references: which object controls another one.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

/// The reference to the object's controller, if it has one.
pub fn controller(metadata: &ObjectMeta) -> Option<&OwnerReference> {
    let references = metadata.owner_references.as_deref().unwrap_or_default();
    references.iter().find(|reference| reference.controller == Some(true))
}

/// Whether the object with that uid controls the one with `metadata`.
pub fn is_controlled_by(metadata: &ObjectMeta, uid: &str) -> bool {
    controller(metadata).is_some_and(|reference| reference.uid == uid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_is_not_necessarily_a_controller() {
        let reference = |uid: &str, controller: Option<bool>| OwnerReference {
            uid: uid.to_owned(),
            controller,
            ..OwnerReference::default()
        };
        let mut metadata = ObjectMeta::default();
        assert_eq!(controller(&metadata), None);
        metadata.owner_references = Some(vec![reference("a", None), reference("b", Some(false))]);
        assert_eq!(controller(&metadata), None);
        metadata
            .owner_references
            .get_or_insert_default()
            .push(reference("c", Some(true)));
        assert!(is_controlled_by(&metadata, "c") && !is_controlled_by(&metadata, "a"));
    }
}
