//! Actions of requests for authorization, and the error for denied ones.

use serde_json::{Map, Value};

use crate::status::ApiError;

/// The action of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// An action on objects of a resource.
    Resource(ResourceAction),
    /// An action on a path that is not a resource.
    Path {
        /// The HTTP method in lower case.
        verb: String,
        /// The path.
        path: String,
    },
}

/// An action on objects of a resource. Fields that do not apply are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceAction {
    /// One of `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, `impersonate`.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural, for instance `pods`.
    pub resource: String,
    /// The subresource, for instance `eviction`.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Action {
    /// The action of a request: `segments` are the decoded segments of its path, `name` is the name that its field
    /// selector requires.
    pub(crate) fn of_request(method: &str, path: &str, segments: &[&str], watch: bool, name: Option<&str>) -> Self {
        let (group, rest) = match segments {
            ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => {
                return Self::Path {
                    verb: method.to_lowercase(),
                    path: path.to_owned(),
                };
            }
        };
        // A namespace belongs to itself: a role in it can allow reading it.
        let (namespace, rest) = match rest {
            ["namespaces", namespace] | ["namespaces", namespace, "status" | "finalize", ..] => (*namespace, rest),
            ["namespaces", namespace, rest @ ..] => (*namespace, rest),
            _ => ("", rest),
        };
        let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        let mut action = ResourceAction {
            verb: String::new(),
            group: group.to_owned(),
            resource: part(0),
            subresource: part(2),
            namespace: namespace.to_owned(),
            name: part(1),
        };
        let collection = action.name.is_empty();
        let verb = match method {
            "GET" | "HEAD" if collection && watch => "watch",
            "GET" | "HEAD" if collection => "list",
            "GET" | "HEAD" => "get",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if collection => "deletecollection",
            "DELETE" => "delete",
            _ => "",
        };
        action.verb = verb.to_owned();
        if matches!(verb, "list" | "watch") {
            action.name = name.unwrap_or_default().to_owned();
        }
        Self::Resource(action)
    }

    /// The namespace of roles that can allow the action; empty for the whole cluster.
    pub(super) fn namespace(&self) -> &str {
        match self {
            Self::Resource(action) => &action.namespace,
            Self::Path { .. } => "",
        }
    }

    /// 403: the user may not perform the action. `reason` may be empty.
    pub fn refusal(&self, user: &str, reason: &str) -> ApiError {
        let mut why = match self {
            Self::Path { verb, path } => format!("User {user:?} cannot {verb} path {path:?}"),
            Self::Resource(action) => {
                let slash = if action.subresource.is_empty() { "" } else { "/" };
                let place = if action.namespace.is_empty() {
                    "at the cluster scope".to_owned()
                } else {
                    format!("in the namespace {:?}", action.namespace)
                };
                format!(
                    "User {user:?} cannot {} resource \"{}{slash}{}\" in API group {:?} {place}",
                    action.verb, action.resource, action.subresource, action.group
                )
            }
        };
        if !reason.is_empty() {
            why = format!("{why}: {reason}");
        }
        let mut details = Map::new();
        let message = match self {
            Self::Path { .. } => format!("forbidden: {why}"),
            Self::Resource(action) => {
                let qualified = if action.group.is_empty() {
                    action.resource.clone()
                } else {
                    format!("{}.{}", action.resource, action.group)
                };
                for (field, text) in [
                    ("name", &action.name),
                    ("group", &action.group),
                    ("kind", &action.resource),
                ] {
                    if !text.is_empty() {
                        details.insert(field.to_owned(), text.as_str().into());
                    }
                }
                if action.name.is_empty() {
                    format!("{qualified} is forbidden: {why}")
                } else {
                    format!("{qualified} {:?} is forbidden: {why}", action.name)
                }
            }
        };
        ApiError {
            details: Some(Value::Object(details)),
            ..ApiError::new(403, "Forbidden", message)
        }
    }
}
