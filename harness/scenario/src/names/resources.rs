//! The resources of the API servers, which rules of API faults refer to.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use apiserver::faults::Match;

use super::glob::overlap;
use super::{NameOf, Reference};
use crate::closest::closest;
use crate::{Problem, kinds};

/// The object that mcm reads to find out whether an API server answers. It does not exist.
const PROBED: &str = "dummy_name";

/// The resources and their subresources, with and without the group.
static RESOURCES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let mut resources = BTreeSet::new();
    let mut add = |name: String, subresources: &[&str]| {
        resources.extend(subresources.iter().map(|subresource| format!("{name}/{subresource}")));
        resources.insert(name);
    };
    for resource in apiserver::kinds::builtin() {
        let subresources: Vec<&str> = resource
            .subresources
            .iter()
            .map(|subresource| subresource.name())
            .collect();
        add(resource.plural.clone(), &subresources);
        add(resource.qualified(), &subresources);
    }
    for kind in kinds::all() {
        let group = kind.api_version.split_once('/').map_or("", |(group, _)| group);
        add(kind.plural.to_owned(), &["status", "scale"]);
        add(format!("{}.{group}", kind.plural), &["status", "scale"]);
    }
    resources
});

/// The references of an API rule's conditions.
///
/// # Errors
/// No API server has the resource.
pub(crate) fn references_of_api_rule(path: &str, matches: &Match) -> Result<Vec<Reference>, Problem> {
    let mut references = Vec::new();
    if let Some(namespace) = &matches.namespace {
        let namespaces = NameOf::Object("Namespace");
        references.push(Reference::glob(
            format!("{path}.match.namespace"),
            namespaces,
            namespace.as_str(),
        ));
    }
    let Some(resource) = matches.resource.as_ref().map(|resource| resource.as_str()) else {
        return Ok(references);
    };
    if !RESOURCES.iter().any(|known| overlap(resource, known)) {
        let near = closest(resource, RESOURCES.iter().map(String::as_str)).unwrap_or_default();
        let message = format!("no resource matches {resource:?}; the closest is {near:?}");
        return Err((format!("{path}.match.resource"), message));
    }
    let plural = resource.split(['/', '.']).next().unwrap_or(resource);
    if let Some(object) = matches.object.as_ref().filter(|object| object.as_str() != PROBED)
        && let Some(kind) = kinds::all().find(|kind| kind.plural == plural)
    {
        let of = NameOf::Object(kind.kind);
        references.push(Reference::glob(format!("{path}.match.object"), of, object.as_str()));
    }
    Ok(references)
}

#[cfg(test)]
mod tests {
    use apiserver::faults::Pattern;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("machines", None)]
    #[case("machines.machine.sapcloud.io", None)]
    #[case("machinedeployments*", None)]
    #[case("pods/eviction", None)]
    #[case("*/status", None)]
    #[case("machine", Some("the closest is \"machines\""))]
    #[case("pods/evict", Some("the closest is \"pods/eviction\""))]
    fn a_resource_must_exist(#[case] resource: &str, #[case] expected: Option<&str>) {
        let matches = Match {
            resource: Some(Pattern::new(resource)),
            ..Match::default()
        };
        let message = references_of_api_rule("apiFault.rule", &matches)
            .err()
            .map(|(_, message)| message);
        match (message, expected) {
            (Some(message), Some(expected)) => assert!(message.ends_with(expected), "{message}"),
            (message, expected) => assert_eq!(message.as_deref(), expected),
        }
    }
}
