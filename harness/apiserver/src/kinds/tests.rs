//! Checks that apply to all built-in resources.

use super::*;
use crate::resource::Shape;

#[test]
fn every_resource_names_the_type_of_its_kind() {
    for row in builtin() {
        let Shape::BuiltIn(type_) = row.shape else {
            panic!("{} is not built in", row.kind)
        };
        assert_eq!(
            crate::types::name_of(&row.api_version(), &row.kind),
            Some(type_),
            "{}",
            row.kind
        );
    }
}

#[test]
fn no_two_resources_share_a_path_or_a_short_name() {
    let rows = builtin();
    for (index, row) in rows.iter().enumerate() {
        for other in rows.iter().skip(index + 1) {
            assert!(
                (&row.group, &row.plural) != (&other.group, &other.plural),
                "{} is defined twice",
                row.plural
            );
            let shared = row.short_names.iter().find(|name| other.short_names.contains(name));
            assert_eq!(shared, None, "{} and {}", row.plural, other.plural);
        }
    }
}

#[test]
fn defaults_are_stable_for_every_kind() {
    for row in builtin() {
        let Some(prepare) = row.prepare else { continue };
        let mut value = serde_json::json!({ "metadata": { "name": "a", "namespace": "b", "uid": "u" } });
        prepare(&mut value, None);
        let once = value.clone();
        prepare(&mut value, Some(&once));
        assert_eq!(value, once, "{}", row.kind);
    }
}
