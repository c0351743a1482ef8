//! The resources of the API servers, which rules of API faults refer to.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use apiserver::faults::Match;

use super::glob::overlap;
use super::{NameOf, Reference};
use crate::Problem;
use crate::closest::closest;
use crate::kinds::{self, Kind, Kinds};

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
    kinds::all().for_each(|kind| resources.extend(names_of(kind)));
    resources
});

/// The resource of a kind with the subresources that every kind may have, with and without the group.
fn names_of(kind: &Kind) -> Vec<String> {
    let names = [kind.plural.to_owned(), format!("{}.{}", kind.plural, kind.group())];
    let with_subresources = names
        .iter()
        .flat_map(|name| ["", "/status", "/scale"].map(|end| format!("{name}{end}")));
    with_subresources.collect()
}

/// A pattern of resources that matches none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no resource matches {pattern:?}; the closest is {closest:?}")]
pub struct UnknownResource {
    /// The pattern.
    pub pattern: String,
    /// The resource with the most similar name.
    pub closest: String,
}

/// Checks that a pattern matches a resource, with or without its group; `kinds` are those of the world.
///
/// # Errors
/// No API server has such a resource.
pub fn check_resource(kinds: &Kinds, pattern: &str) -> Result<(), UnknownResource> {
    let own: Vec<String> = kinds.custom().flat_map(names_of).collect();
    let known = || RESOURCES.iter().chain(&own).map(String::as_str);
    if known().any(|known| overlap(pattern, known)) {
        return Ok(());
    }
    Err(UnknownResource {
        pattern: pattern.to_owned(),
        closest: closest(pattern, known()).unwrap_or_default().to_owned(),
    })
}

/// The references of an API rule's conditions; `kinds` are those of the world.
///
/// # Errors
/// No API server has the resource.
pub(crate) fn references_of_api_rule(kinds: &Kinds, path: &str, matches: &Match) -> Result<Vec<Reference>, Problem> {
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
    check_resource(kinds, resource).map_err(|error| (format!("{path}.match.resource"), error.to_string()))?;
    let plural = resource.split(['/', '.']).next().unwrap_or(resource);
    if let Some(object) = matches.object.as_ref().filter(|object| object.as_str() != PROBED)
        && let Some(kind) = kinds::all().chain(kinds.custom()).find(|kind| kind.plural == plural)
    {
        let of = NameOf::Object(kind.key);
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
        let message = references_of_api_rule(&Kinds::default(), "apiFault.rule", &matches)
            .err()
            .map(|(_, message)| message);
        match (message, expected) {
            (Some(message), Some(expected)) => assert!(message.ends_with(expected), "{message}"),
            (message, expected) => assert_eq!(message.as_deref(), expected),
        }
    }
}
