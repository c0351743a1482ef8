//! Checks that apply to all built-in resources.

use super::*;
use crate::resource::{Endpoint, Shape};

#[test]
fn every_resource_names_the_type_of_its_kind() {
    // Computed objects are never decoded, and have no type.
    for resource in builtin()
        .into_iter()
        .filter(|resource| resource.endpoint != Endpoint::Computed)
    {
        let Shape::BuiltIn(type_) = resource.shape else {
            panic!("{} is not built in", resource.kind)
        };
        assert_eq!(
            crate::types::name_of(&resource.api_version(), &resource.kind),
            Some(type_),
            "{}",
            resource.kind
        );
    }
}

#[test]
fn no_two_resources_share_a_path_or_a_short_name() {
    let resources = builtin();
    for (index, resource) in resources.iter().enumerate() {
        for other in resources.iter().skip(index + 1) {
            assert!(
                (&resource.group, &resource.version, &resource.plural) != (&other.group, &other.version, &other.plural),
                "{} is defined twice",
                resource.plural
            );
            let shared = resource
                .short_names
                .iter()
                .find(|name| other.short_names.contains(name) && resource.plural != other.plural);
            assert_eq!(shared, None, "{} and {}", resource.plural, other.plural);
        }
    }
}

#[test]
fn defaults_are_stable_for_every_kind() {
    for resource in builtin() {
        let Some(prepare) = resource.prepare else { continue };
        let mut value = serde_json::json!({ "metadata": { "name": "a", "namespace": "b", "uid": "u" } });
        prepare(&mut value, None);
        let once = value.clone();
        prepare(&mut value, Some(&once));
        assert_eq!(value, once, "{}", resource.kind);
    }
}
