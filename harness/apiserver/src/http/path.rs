//! The URL paths of the server.

use super::query::decode;

/// The target of a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// `/`
    Root,
    /// `/version`
    Version,
    /// `/metrics`
    Metrics,
    /// `/healthz`, `/livez`, `/readyz` and their checks.
    Health { check: String },
    /// `/api`
    CoreVersions,
    /// `/apis`
    Groups,
    /// `/apis/{group}`
    Group { group: String },
    /// `/api/v1`, `/apis/{group}/{version}`
    Resources { group: String, version: String },
    /// `/openapi/v3`
    OpenApiIndex,
    /// `/openapi/v2`.
    OpenApiV2,
    /// `/openapi/v3/{group and version}`
    OpenApiDocument { group_version: String },
    /// `/drydock/faults`, `/drydock/faults/{name}`
    Faults { name: Option<String> },
    /// A resource, an object or a subresource.
    Resource(Target),
    /// An unknown path.
    Unknown,
}

/// The path of a resource, object or subresource.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) namespace: Option<String>,
    pub(super) plural: String,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
}

/// The decoded segments of a path.
pub(super) fn segments(path: &str) -> Vec<String> {
    path.split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| decode(segment, false))
        .collect()
}

/// An old path of a watch, `/api/v1/watch/namespaces/x/pods/p`: the path of the list, and the name of the only object.
pub(super) fn watched_list<'a>(segments: &[&'a str]) -> Option<(Vec<&'a str>, Option<&'a str>)> {
    let (prefix, rest) = match segments {
        ["api", _, "watch", rest @ ..] => (segments.get(..2)?, rest),
        ["apis", _, _, "watch", rest @ ..] => (segments.get(..3)?, rest),
        _ => return None,
    };
    let (list, name) = match rest {
        ["namespaces", _, _] | [_] => (rest, None),
        ["namespaces", _, _, name] => (rest.get(..3)?, Some(*name)),
        [_, name] => (rest.get(..1)?, Some(*name)),
        _ => return None,
    };
    Some((prefix.iter().chain(list).copied().collect(), name))
}

impl Route {
    pub(super) fn of(segments: &[&str]) -> Self {
        match segments {
            [] => Self::Root,
            ["version"] => Self::Version,
            ["metrics"] => Self::Metrics,
            ["healthz" | "livez" | "readyz"] => Self::Health { check: String::new() },
            ["healthz" | "livez" | "readyz", check] => Self::Health {
                check: (*check).to_owned(),
            },
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group {
                group: (*group).to_owned(),
            },
            ["api", version] => Self::Resources {
                group: String::new(),
                version: (*version).to_owned(),
            },
            ["apis", group, version] => Self::Resources {
                group: (*group).to_owned(),
                version: (*version).to_owned(),
            },
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3"] => Self::OpenApiIndex,
            ["openapi", "v3", rest @ ..] => Self::OpenApiDocument {
                group_version: rest.join("/"),
            },
            ["drydock", "faults"] => Self::Faults { name: None },
            ["drydock", "faults", name] => Self::Faults {
                name: Some((*name).to_owned()),
            },
            ["api", version, rest @ ..] => Self::target("", version, rest),
            ["apis", group, version, rest @ ..] => Self::target(group, version, rest),
            _ => Self::Unknown,
        }
    }

    fn target(group: &str, version: &str, rest: &[&str]) -> Self {
        let (namespace, rest) = match rest {
            // The segments after a namespace name a resource in it, except for the namespace's own subresources.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize", ..] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            _ => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            // The rest of the path belongs to the target of the proxy.
            [plural, name, subresource @ "proxy", ..] | [plural, name, subresource] => {
                (*plural, Some(*name), Some(*subresource))
            }
            _ => return Self::Unknown,
        };
        Self::Resource(Target {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace,
            plural: plural.to_owned(),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parse(path: &str) -> Route {
        let segments = segments(path);
        Route::of(&segments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn target(texts: [&str; 6]) -> Route {
        let [group, version, namespace, plural, name, subresource] = texts.map(str::to_owned);
        let some = |text: String| (!text.is_empty()).then_some(text);
        Route::Resource(Target {
            group,
            version,
            namespace: some(namespace),
            plural,
            name: some(name),
            subresource: some(subresource),
        })
    }

    #[rstest]
    #[case("/api/v1/nodes", ["", "v1", "", "nodes", "", ""])]
    #[case("/api/v1/nodes/n/status", ["", "v1", "", "nodes", "n", "status"])]
    #[case("/api/v1/namespaces", ["", "v1", "", "namespaces", "", ""])]
    #[case("/api/v1/namespaces/x", ["", "v1", "", "namespaces", "x", ""])]
    #[case("/api/v1/namespaces/x/finalize", ["", "v1", "", "namespaces", "x", "finalize"])]
    #[case("/api/v1/namespaces/x/pods", ["", "v1", "x", "pods", "", ""])]
    #[case("/api/v1/namespaces/x/pods/p/eviction", ["", "v1", "x", "pods", "p", "eviction"])]
    #[case("/apis/apps/v1/namespaces/x/deployments/d/scale", ["apps", "v1", "x", "deployments", "d", "scale"])]
    #[case("/api/v1/nodes/a%2Fb", ["", "v1", "", "nodes", "a/b", ""])]
    fn a_path_addresses_a_resource(#[case] path: &str, #[case] expected: [&str; 6]) {
        assert_eq!(parse(path), target(expected));
    }

    #[rstest]
    #[case("/api/v1/watch/pods", Some(("/api/v1/pods", None)))]
    #[case("/api/v1/watch/nodes/n", Some(("/api/v1/nodes", Some("n"))))]
    #[case("/api/v1/watch/namespaces/x", Some(("/api/v1/namespaces", Some("x"))))]
    #[case("/apis/apps/v1/watch/namespaces/x/deployments", Some(("/apis/apps/v1/namespaces/x/deployments", None)))]
    #[case("/api/v1/watch/namespaces/x/pods/p", Some(("/api/v1/namespaces/x/pods", Some("p"))))]
    #[case("/api/v1/pods", None)]
    #[case("/api/v1/watch", None)]
    fn old_paths_of_watches_name_a_list(#[case] path: &str, #[case] expected: Option<(&str, Option<&str>)>) {
        let segments = segments(path);
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let found = watched_list(&segments).map(|(list, name)| (format!("/{}", list.join("/")), name));
        assert_eq!(found, expected.map(|(list, name)| (list.to_owned(), name)));
    }

    #[rstest]
    #[case("/", Route::Root)]
    #[case("/metrics", Route::Metrics)]
    #[case("/readyz/ping", Route::Health { check: "ping".to_owned() })]
    #[case("/apis/apps/v1/", Route::Resources { group: "apps".to_owned(), version: "v1".to_owned() })]
    #[case("/openapi/v3/apis/apps/v1", Route::OpenApiDocument { group_version: "apis/apps/v1".to_owned() })]
    #[case("/api/v1/a/b/c/d", Route::Unknown)]
    #[case("/apis/example.com/v1/namespaces/x/status/y", Route::Unknown)]
    #[case("/openapi/v2", Route::OpenApiV2)]
    #[case("/openapi/v4", Route::Unknown)]
    fn a_path_addresses_a_document(#[case] path: &str, #[case] expected: Route) {
        assert_eq!(parse(path), expected);
    }
}
