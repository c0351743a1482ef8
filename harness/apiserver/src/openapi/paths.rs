//! The paths of a resource and their operations.

use serde_json::{Map, Value, json};

use super::{document_name, schemas};
use crate::resource::{Resource, Subresource};

pub(super) fn of(resource: &Resource) -> Map<String, Value> {
    let root = format!("/{}", document_name(resource));
    let collection = if resource.namespaced {
        format!("{root}/namespaces/{{namespace}}/{}", resource.plural)
    } else {
        format!("{root}/{}", resource.plural)
    };
    let object = Body::of_resource(resource);
    let mut paths = Map::new();
    if resource.namespaced {
        paths.insert(format!("{root}/{}", resource.plural), json!({ "get": list(resource) }));
    }
    let with_names = |names: &[&str], mut item: Value| {
        let names = names.iter().filter(|name| resource.namespaced || **name != "namespace");
        item["parameters"] = names.map(|name| path_parameter(name)).collect();
        item
    };
    let operations = json!({
        "get": list(resource),
        "post": object.write("post", "create"),
        "delete": object.write("deletecollection", "delete"),
    });
    paths.insert(collection.clone(), with_names(&["namespace"], operations));
    let operations = json!({
        "get": object.read(),
        "put": object.write("put", "replace"),
        "patch": object.write("patch", "patch"),
        "delete": object.write("delete", "delete"),
    });
    let item = format!("{collection}/{{name}}");
    paths.insert(item.clone(), with_names(&["name", "namespace"], operations));
    for subresource in &resource.subresources {
        let body = Body::of_subresource(resource, subresource);
        let operations = match subresource {
            Subresource::Status
            | Subresource::Scale { .. }
            | Subresource::Approval
            | Subresource::EphemeralContainers
            | Subresource::Resize => json!({
                "get": body.read(),
                "put": body.write("put", "replace"),
                "patch": body.write("patch", "patch"),
            }),
            Subresource::Log => json!({ "get": text_of(resource) }),
            // A connection has no schema.
            Subresource::Connect { .. } => continue,
            Subresource::Finalize => json!({ "put": body.write("put", "replace") }),
            Subresource::Eviction | Subresource::Binding | Subresource::Token => {
                json!({ "post": body.write("post", "create") })
            }
        };
        let path = format!("{item}/{}", subresource.name());
        paths.insert(path, with_names(&["name", "namespace"], operations));
    }
    paths
}

/// The request and response schemas of an operation.
struct Body {
    gvk: Value,
    reference: Value,
    custom: bool,
}

impl Body {
    fn of_resource(resource: &Resource) -> Self {
        Self {
            gvk: json!({ "group": resource.group, "version": resource.version, "kind": resource.kind }),
            reference: schemas::reference(&schemas::name(resource)),
            custom: resource.is_custom(),
        }
    }

    fn of_subresource(resource: &Resource, subresource: &Subresource) -> Self {
        let foreign = |group: &str, kind: &str, type_: &str| Self {
            gvk: json!({ "group": group, "version": "v1", "kind": kind }),
            reference: schemas::reference(type_),
            custom: false,
        };
        match subresource {
            Subresource::Status
            | Subresource::Finalize
            | Subresource::Approval
            | Subresource::EphemeralContainers
            | Subresource::Resize
            | Subresource::Log
            | Subresource::Connect { .. } => Self::of_resource(resource),
            Subresource::Scale { .. } => foreign("autoscaling", "Scale", schemas::SCALE),
            Subresource::Eviction => foreign("policy", "Eviction", schemas::EVICTION),
            Subresource::Token => foreign("authentication.k8s.io", "TokenRequest", schemas::TOKEN_REQUEST),
            Subresource::Binding => foreign("", "Binding", schemas::BINDING),
        }
    }

    fn read(&self) -> Value {
        json!({
            "x-kubernetes-action": "get",
            "x-kubernetes-group-version-kind": self.gvk,
            "responses": { "200": answer(&self.reference) },
        })
    }

    /// An operation that modifies objects; `method` is its HTTP method in lower case.
    fn write(&self, method: &str, action: &str) -> Value {
        let mut parameters = vec![query("dryRun", "string")];
        let mut operation = json!({ "x-kubernetes-action": method, "x-kubernetes-group-version-kind": self.gvk });
        if action == "delete" {
            operation["requestBody"] = content(&["application/json"], &schemas::reference(schemas::DELETE_OPTIONS));
            parameters.push(query("gracePeriodSeconds", "integer"));
            parameters.push(query("propagationPolicy", "string"));
        } else {
            parameters.push(query("fieldManager", "string"));
            parameters.push(query("fieldValidation", "string"));
            operation["requestBody"] = content(&["application/json"], &self.reference);
        }
        if method == "patch" {
            parameters.push(query("force", "boolean"));
            let strategic = if self.custom {
                &[][..]
            } else {
                &["application/strategic-merge-patch+json"]
            };
            let types = [
                &[
                    "application/json-patch+json",
                    "application/merge-patch+json",
                    "application/apply-patch+yaml",
                ],
                strategic,
            ];
            operation["requestBody"] = content(&types.concat(), &schemas::reference(schemas::PATCH));
        }
        operation["parameters"] = parameters.into();
        let code = if method == "post" { "201" } else { "200" };
        let given = if action == "delete" {
            schemas::reference(schemas::STATUS)
        } else {
            self.reference.clone()
        };
        operation["responses"] = json!({ code: answer(&given) });
        operation
    }
}

fn list(resource: &Resource) -> Value {
    let parameters = [
        ("allowWatchBookmarks", "boolean"),
        ("continue", "string"),
        ("fieldSelector", "string"),
        ("labelSelector", "string"),
        ("limit", "integer"),
        ("resourceVersion", "string"),
        ("resourceVersionMatch", "string"),
        ("sendInitialEvents", "boolean"),
        ("timeoutSeconds", "integer"),
        ("watch", "boolean"),
    ];
    json!({
        "x-kubernetes-action": "list",
        "x-kubernetes-group-version-kind": { "group": resource.group, "version": resource.version, "kind": resource.kind },
        "parameters": parameters.map(|(name, type_)| query(name, type_)),
        "responses": { "200": answer(&schemas::reference(&schemas::list_name(resource))) },
    })
}

/// An operation that answers with text.
fn text_of(resource: &Resource) -> Value {
    let parameters = [
        ("container", "string"),
        ("follow", "boolean"),
        ("limitBytes", "integer"),
        ("previous", "boolean"),
        ("sinceSeconds", "integer"),
        ("tailLines", "integer"),
        ("timestamps", "boolean"),
    ];
    let text = json!({ "schema": { "type": "string" } });
    json!({
        "x-kubernetes-action": "get",
        "x-kubernetes-group-version-kind": { "group": resource.group, "version": resource.version, "kind": resource.kind },
        "parameters": parameters.map(|(name, type_)| query(name, type_)),
        "responses": { "200": { "description": "OK", "content": { "text/plain": text } } },
    })
}

fn query(name: &str, type_: &str) -> Value {
    json!({ "name": name, "in": "query", "schema": { "type": type_, "uniqueItems": true } })
}

fn path_parameter(name: &str) -> Value {
    json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string", "uniqueItems": true } })
}

fn content(media_types: &[&str], schema: &Value) -> Value {
    let content: Map<String, Value> = media_types
        .iter()
        .map(|media_type| ((*media_type).to_owned(), json!({ "schema": schema })))
        .collect();
    json!({ "content": content })
}

fn answer(schema: &Value) -> Value {
    let mut answer = content(&["application/json"], schema);
    answer["description"] = "OK".into();
    answer
}
