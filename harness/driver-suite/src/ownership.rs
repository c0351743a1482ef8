//! The ownership tags in a provider spec, whose format the suite does not know otherwise.

use serde_json::Value;

/// Prefixes of the tag that names the cluster. Clouds that forbid slashes use the second form.
const CLUSTER_TAGS: [&str; 2] = ["kubernetes.io/cluster/", "kubernetes-io-cluster-"];

/// The provider spec of another cluster: in every cluster tag, as a key of an object or as an item of a list, the name
/// of the cluster is replaced. `None`: there is no such tag.
pub(crate) fn of_another_cluster(spec: &Value, cluster: &str) -> Option<Value> {
    let mut other = spec.clone();
    rename(&mut other, cluster).then_some(other)
}

fn rename(value: &mut Value, cluster: &str) -> bool {
    match value {
        Value::Object(fields) => {
            let mut renamed = false;
            for (key, mut value) in std::mem::take(fields) {
                renamed |= rename(&mut value, cluster);
                let other = other_tag(&key, cluster);
                renamed |= other.is_some();
                fields.insert(other.unwrap_or(key), value);
            }
            renamed
        }
        // Every item, so no short circuit.
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |renamed, item| rename(item, cluster) | renamed),
        Value::String(text) => match other_tag(text, cluster) {
            Some(other) => {
                *text = other;
                true
            }
            None => false,
        },
        _ => false,
    }
}

fn other_tag(tag: &str, cluster: &str) -> Option<String> {
    let prefix = CLUSTER_TAGS.iter().find(|prefix| tag.starts_with(**prefix))?;
    Some(format!("{prefix}{cluster}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_cluster_is_replaced_in_tags_of_both_forms() {
        let spec = json!({
            "tags": { "kubernetes.io/cluster/a": "1", "kubernetes.io/role/node": "1" },
            "networkTags": ["kubernetes-io-cluster-a", "web"],
        });
        let expected = json!({
            "tags": { "kubernetes.io/cluster/b": "1", "kubernetes.io/role/node": "1" },
            "networkTags": ["kubernetes-io-cluster-b", "web"],
        });
        assert_eq!(of_another_cluster(&spec, "b"), Some(expected));
    }

    #[test]
    fn a_spec_without_cluster_tags_has_no_other_cluster() {
        assert_eq!(of_another_cluster(&json!({ "tags": { "a": "b" } }), "b"), None);
    }
}
