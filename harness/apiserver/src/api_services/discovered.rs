//! What the server of a registration says about its resources.

use serde_json::{Map, Value, json};

/// The resources of a group version of another server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Discovered {
    /// The items of its list of resources (APIResourceList), subresources included.
    resources: Vec<Value>,
    /// The URL of its OpenAPI v3 document, with its hash; `None` if it has none.
    pub(crate) openapi: Option<String>,
}

impl Discovered {
    /// Reads a list of resources, and the index of OpenAPI documents, in which `document` is the name.
    pub(crate) fn read(resources: &Value, index: &Value, document: &str) -> Self {
        let resources = resources["resources"].as_array().cloned().unwrap_or_default();
        let url = index["paths"][document]["serverRelativeURL"].as_str();
        Self {
            resources,
            openapi: url.map(str::to_owned),
        }
    }

    /// The resources as items of the aggregated discovery document.
    pub(crate) fn items(&self) -> Vec<Value> {
        let name = |entry: &Value| entry["name"].as_str().unwrap_or_default().to_owned();
        // As upstream, a kind in the group and version of the list has neither.
        let kind = |entry: &Value| {
            let of = |field: &str| entry[field].as_str().unwrap_or_default();
            json!({ "group": of("group"), "version": of("version"), "kind": entry["kind"] })
        };
        let (subresources, resources): (Vec<&Value>, Vec<&Value>) =
            self.resources.iter().partition(|entry| name(entry).contains('/'));
        let item = |entry: &&Value| {
            let resource = name(entry);
            let is_namespaced = entry["namespaced"] == true;
            let mut item = json!({
                "resource": resource,
                "responseKind": kind(entry),
                "scope": if is_namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": entry["singularName"],
                "verbs": entry["verbs"],
            });
            copy(entry, &mut item, &["shortNames", "categories"]);
            let own = subresources.iter().filter_map(|entry| {
                let name = name(entry);
                let (owner, subresource) = name.split_once('/')?;
                (owner == resource).then(
                    || json!({ "subresource": subresource, "responseKind": kind(entry), "verbs": entry["verbs"] }),
                )
            });
            let own: Vec<Value> = own.collect();
            if !own.is_empty() {
                item["subresources"] = own.into();
            }
            item
        };
        resources.iter().map(item).collect()
    }
}

/// Copies members that exist.
fn copy(from: &Value, to: &mut Value, names: &[&str]) {
    let empty = Map::new();
    let from = from.as_object().unwrap_or(&empty);
    for name in names {
        if let Some(value) = from.get(*name) {
            to[*name] = value.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subresources_are_parts_of_their_resource() {
        let list = json!({ "resources": [
            {
                "name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder",
                "verbs": ["get"], "shortNames": ["fl"],
            },
            {
                "name": "flunders/scale", "singularName": "", "namespaced": true, "group": "autoscaling", "version": "v1",
                "kind": "Scale", "verbs": ["get"],
            },
        ] });
        let index =
            json!({ "paths": { "apis/e.com/v1": { "serverRelativeURL": "/openapi/v3/apis/e.com/v1?hash=A" } } });
        let found = Discovered::read(&list, &index, "apis/e.com/v1");
        assert_eq!(found.openapi.as_deref(), Some("/openapi/v3/apis/e.com/v1?hash=A"));
        let expected = json!([{
            "resource": "flunders", "singularResource": "flunder", "scope": "Namespaced", "verbs": ["get"],
            "shortNames": ["fl"],
            "responseKind": { "group": "", "version": "", "kind": "Flunder" },
            "subresources": [{
                "subresource": "scale", "verbs": ["get"],
                "responseKind": { "group": "autoscaling", "version": "v1", "kind": "Scale" },
            }],
        }]);
        assert_eq!(Value::from(found.items()), expected);
    }
}
