//! The order of groups, versions and resources.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Remote;
use crate::resource::Resource;
use crate::syntax::compare_versions;

/// The priority of each version of a group of CustomResourceDefinitions.
const CUSTOM: u32 = 100;

/// Upstream's priorities of built-in groups; groups of CustomResourceDefinitions have 1000.
fn priority(group: &str) -> u32 {
    match group {
        "apiregistration.k8s.io" => 18000,
        "apps" => 17800,
        "events.k8s.io" => 17750,
        "authentication.k8s.io" => 17700,
        "authorization.k8s.io" => 17600,
        "autoscaling" => 17500,
        "batch" => 17400,
        "certificates.k8s.io" => 17300,
        "networking.k8s.io" => 17200,
        "policy" => 17100,
        "rbac.authorization.k8s.io" => 17000,
        "storage.k8s.io" => 16800,
        "admissionregistration.k8s.io" | "apiextensions.k8s.io" => 16700,
        "scheduling.k8s.io" => 16600,
        "coordination.k8s.io" => 16500,
        "node.k8s.io" => 16300,
        "discovery.k8s.io" | "resource.k8s.io" => 16200,
        "flowcontrol.apiserver.k8s.io" => 16100,
        _ => 1000,
    }
}

/// The priorities of the API service of a built-in group version: that of the group, and of the version in it.
pub(crate) fn priorities(group: &str, version: &str) -> (u32, u32) {
    match (group, version) {
        ("", _) => (18000, 1),
        ("autoscaling", "v2") => (priority(group), 30),
        ("flowcontrol.apiserver.k8s.io" | "resource.k8s.io", _) => (priority(group), 21),
        ("metrics.k8s.io", _) => (100, 100),
        _ => (priority(group), 15),
    }
}

/// All groups except the core group, by priority, then name.
pub(super) fn groups<'a>(resources: &'a [Arc<Resource>], remotes: &'a [Remote]) -> Vec<&'a str> {
    let own = resources.iter().map(|resource| resource.group.as_str());
    let own: BTreeSet<&str> = own.filter(|name| !name.is_empty()).collect();
    let mut priorities: BTreeMap<&str, u32> = own.into_iter().map(|name| (name, priority(name))).collect();
    for remote in remotes {
        let known = priorities.entry(&remote.group).or_default();
        *known = remote.priorities.0.max(*known);
    }
    let mut names: Vec<(&str, u32)> = priorities.into_iter().collect();
    names.sort_by_key(|(_, priority)| Reverse(*priority));
    names.into_iter().map(|(name, _)| name).collect()
}

/// The versions of a group, the preferred one first.
pub(super) fn versions<'a>(resources: &'a [Arc<Resource>], remotes: &'a [Remote], group: &str) -> Vec<&'a str> {
    let own = resources.iter().filter(|resource| resource.group == group);
    let own = own.map(|resource| {
        let priority = if resource.is_custom() {
            CUSTOM
        } else {
            priorities(group, &resource.version).1
        };
        (resource.version.as_str(), priority)
    });
    let mut found: BTreeMap<&str, u32> = own.collect();
    let others = remotes.iter().filter(|remote| remote.group == group);
    found.extend(others.map(|remote| (remote.version.as_str(), remote.priorities.1)));
    let mut versions: Vec<(&str, u32)> = found.into_iter().collect();
    versions.sort_by(|(one, first), (other, second)| second.cmp(first).then_with(|| compare_versions(one, other)));
    versions.into_iter().map(|(version, _)| version).collect()
}

/// The resources of a group and version, by plural name.
pub(super) fn in_version<'a>(resources: &'a [Arc<Resource>], group: &str, version: &str) -> Vec<&'a Resource> {
    let mut resources: Vec<&Resource> = resources
        .iter()
        .map(Arc::as_ref)
        .filter(|resource| resource.group == group && resource.version == version)
        .collect();
    resources.sort_by(|one, other| one.plural.cmp(&other.plural));
    resources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_then_number_then_name() {
        let mut versions = [
            "foo1",
            "v1alpha1",
            "v11beta2",
            "v10",
            "v1beta1",
            "v12alpha1",
            "v3beta1",
            "v2",
            "foo10",
            "v1",
        ];
        versions.sort_by(|one, other| compare_versions(one, other));
        let expected = [
            "v10",
            "v2",
            "v1",
            "v11beta2",
            "v3beta1",
            "v1beta1",
            "v12alpha1",
            "v1alpha1",
            "foo1",
            "foo10",
        ];
        assert_eq!(versions, expected);
    }
}
