//! Tests of rules, coverage, the index, and the table of default roles.

use std::collections::BTreeMap;
use std::sync::Arc;

use clock::{Clock, Seed};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use super::index::{Binding, Index, Role, Verdict};
use super::rule::{description, missing};
use super::*;
use crate::{Options, Server};

fn resource(verb: &str, group: &str, resource: &str, name: &str) -> Action {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Action::Resource(ResourceAction {
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: String::new(),
        name: name.to_owned(),
    })
}

fn rule(verbs: &[&str], groups: &[&str], resources: &[&str], names: &[&str]) -> Rule {
    let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    Rule {
        verbs: owned(verbs),
        groups: owned(groups),
        resources: owned(resources),
        names: owned(names),
        paths: Vec::new(),
    }
}

fn paths(paths: &[&str]) -> Rule {
    Rule {
        verbs: vec!["get".to_owned()],
        paths: paths.iter().map(ToString::to_string).collect(),
        ..Rule::default()
    }
}

#[rstest]
#[case::verb(&["get"], &[""], &["pods"], &[], ("get", "", "pods", "a"), true)]
#[case::other_verb(&["get"], &[""], &["pods"], &[], ("list", "", "pods", ""), false)]
#[case::other_group(&["get"], &["apps"], &["pods"], &[], ("get", "", "pods", "a"), false)]
#[case::any_verb(&["*"], &[""], &["pods"], &[], ("sing", "", "pods", "a"), true)]
#[case::any_group(&["get"], &["*"], &["pods"], &[], ("get", "x.io", "pods", "a"), true)]
#[case::any_resource(&["get"], &[""], &["*"], &[], ("get", "", "pods/log", "a"), true)]
#[case::parent_is_not_subresource(&["get"], &[""], &["pods"], &[], ("get", "", "pods/log", "a"), false)]
#[case::subresource_is_not_parent(&["get"], &[""], &["pods/log"], &[], ("get", "", "pods", "a"), false)]
#[case::subresource(&["create"], &[""], &["pods/eviction"], &[], ("create", "", "pods/eviction", "a"), true)]
#[case::any_scale(&["get"], &["apps"], &["*/scale"], &[], ("get", "apps", "deployments/scale", "a"), true)]
#[case::any_scale_is_no_resource(&["get"], &["apps"], &["*/scale"], &[], ("get", "apps", "deployments", "a"), false)]
#[case::no_star_of_subresources(&["get"], &[""], &["pods/*"], &[], ("get", "", "pods/log", "a"), false)]
#[case::nested_subresource(&["impersonate"], &[""], &["userextras/a/b"], &[], ("impersonate", "", "userextras/a/b", "v"), true)]
#[case::name(&["get"], &[""], &["pods"], &["a"], ("get", "", "pods", "a"), true)]
#[case::other_name(&["get"], &[""], &["pods"], &["a"], ("get", "", "pods", "b"), false)]
#[case::no_name(&["list"], &[""], &["pods"], &["a"], ("list", "", "pods", ""), false)]
fn a_rule_allows_its_actions(
    #[case] verbs: &[&str],
    #[case] groups: &[&str],
    #[case] resources: &[&str],
    #[case] names: &[&str],
    #[case] (verb, group, plural, name): (&str, &str, &str, &str),
    #[case] allowed: bool,
) {
    let rule = rule(verbs, groups, resources, names);
    assert_eq!(rule.allows(&resource(verb, group, plural, name)), allowed);
}

#[rstest]
#[case("/healthz", "/healthz", true)]
#[case("/healthz", "/healthz/ping", false)]
#[case("/api/*", "/api/v1", true)]
#[case("/api/*", "/api", false)]
#[case("*", "/anything", true)]
#[case("/a*c", "/abc", false)]
fn paths_are_matched_by_prefix(#[case] own: &str, #[case] path: &str, #[case] allowed: bool) {
    let action = |verb: &str| Action::Path {
        verb: verb.to_owned(),
        path: path.to_owned(),
    };
    assert_eq!(paths(&[own]).allows(&action("get")), allowed);
    assert!(!paths(&[own]).allows(&action("post")));
}

#[rstest]
#[case("GET", "/api/v1/pods", "", ("list", "", "pods", "", "", ""))]
#[case("GET", "/api/v1/pods", "a", ("list", "", "pods", "", "", "a"))]
#[case("HEAD", "/api/v1/namespaces/x/pods/p", "a", ("get", "", "pods", "", "x", "p"))]
#[case("GET", "/api/v1/namespaces/x", "", ("get", "", "namespaces", "", "x", "x"))]
#[case("PUT", "/api/v1/namespaces/x/finalize", "", ("update", "", "namespaces", "finalize", "x", "x"))]
#[case("DELETE", "/apis/apps/v1/namespaces/x/deployments", "a", ("deletecollection", "apps", "deployments", "", "x", ""))]
#[case("POST", "/api/v1/namespaces/x/pods/p/eviction", "", ("create", "", "pods", "eviction", "x", "p"))]
fn a_request_is_an_action(
    #[case] method: &str,
    #[case] path: &str,
    #[case] selected: &str,
    #[case] (verb, group, resource, subresource, namespace, name): (&str, &str, &str, &str, &str, &str),
) {
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let selected = (!selected.is_empty()).then_some(selected);
    let expected = ResourceAction {
        verb: verb.to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        subresource: subresource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let action = Action::of_request(method, path, &segments, false, selected);
    assert_eq!(action, Action::Resource(expected));
}

#[test]
fn missing_rules_are_described_by_resource() {
    let owned = [rule(&["get"], &[""], &["pods"], &[])];
    let wanted = [
        rule(&["get", "list", "watch"], &[""], &["secrets", "pods"], &[]),
        paths(&["/a"]),
    ];
    let text = description(&missing(&owned, &wanted));
    let expected = "{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"list\" \"watch\"]}\n\
                    {APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\" \"list\" \"watch\"]}\n\
                    {NonResourceURLs:[\"/a\"], Verbs:[\"get\"]}";
    assert_eq!(text, expected);
}

#[test]
fn a_server_accepts_the_table_of_defaults() {
    let objects = seeds().unwrap();
    assert_eq!(objects.len(), 133);
    for kind in crate::kinds::builtin().iter().filter(|row| row.group == GROUP) {
        for object in objects.iter().filter(|object| object["kind"] == kind.kind.as_str()) {
            let errors = kind.validate.map(|validate| validate(object, None)).unwrap_or_default();
            assert!(errors.is_empty(), "{object}: {errors:?}");
        }
    }
}

#[test]
fn the_default_user_roles_are_aggregated() {
    let objects = seeds().unwrap();
    let rules = |name: &str| {
        let role = objects.iter().find(|object| object["metadata"]["name"] == name);
        Rule::of_role(role.unwrap())
    };
    let [admin, edit, view] = ["admin", "edit", "view"].map(rules);
    assert!(missing(&edit, &view).is_empty());
    assert!(missing(&admin, &edit).is_empty());
    assert!(!missing(&view, &edit).is_empty());
    assert!(!missing(&edit, &admin).is_empty());
}

fn server(mode: Authorization) -> Server {
    let mut options = Options::new(Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap()), Seed::new(7));
    options.authorization = mode;
    Server::new(options).unwrap()
}

#[test]
fn the_default_roles_are_not_in_the_history() {
    let [open, strict] = [Authorization::AlwaysAllow, Authorization::Rbac].map(server);
    assert_eq!(open.revision(), strict.revision());
    let listed = |server: &Server| {
        let namespaces = server
            .inner
            .registry
            .store()
            .list("namespaces", &Scope::default(), None);
        let objects = namespaces.unwrap().objects;
        objects.iter().map(|object| object.bytes().clone()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&open), listed(&strict));
    let roles = strict
        .inner
        .registry
        .store()
        .list(ROLE_TABLES[0], &Scope::default(), Some(strict.revision()));
    assert_eq!(roles.unwrap().objects.len(), 69);
}

#[test]
fn the_index_is_rebuilt_only_if_a_role_or_binding_changes() {
    let server = server(Authorization::Rbac);
    let inner = &server.inner;
    let index = || inner.authorizer.index(inner.registry.store()).unwrap();
    let create = |group: &str, plural: &str, namespace: &str, object: Value| {
        let catalog = inner.registry.catalog();
        let entry = catalog.any_version(group, plural).unwrap();
        inner
            .registry
            .create(entry, namespace, object, &Default::default())
            .unwrap();
    };
    let first = index();
    create("", "configmaps", "default", json!({ "metadata": { "name": "a" } }));
    assert!(Arc::ptr_eq(&first, &index()));
    create(GROUP, "roles", "default", json!({ "metadata": { "name": "a" } }));
    let second = index();
    assert!(!Arc::ptr_eq(&first, &second));
    assert!(Arc::ptr_eq(&second, &index()));
}

/// Roles and bindings over few names, so that they often refer to each other.
#[derive(Clone, Debug)]
struct World {
    roles: Vec<(Key, Vec<Rule>)>,
    bindings: Vec<(Key, Value)>,
}

fn pick(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(texts).prop_map(str::to_owned)
}

fn any_rule() -> impl Strategy<Value = Rule> {
    let some = |texts| prop::collection::vec(pick(texts), 1..3);
    let names = prop::collection::vec(pick(&["a", "b"]), 0..2);
    (
        some(&["get", "list", "*"]),
        some(&["", "apps", "*"]),
        some(&["pods", "pods/log", "*/log", "*"]),
        names,
    )
        .prop_map(|(verbs, groups, resources, names)| Rule {
            verbs,
            groups,
            resources,
            names,
            paths: Vec::new(),
        })
}

fn any_binding() -> impl Strategy<Value = (Key, Value)> {
    let subject = prop_oneof![
        pick(&["u", "v"]).prop_map(|name| json!({ "kind": "User", "name": name })),
        pick(&["g", "h"]).prop_map(|name| json!({ "kind": "Group", "name": name })),
        pick(&["s"]).prop_map(|name| json!({ "kind": "ServiceAccount", "name": name })),
        pick(&["s"]).prop_map(|name| json!({ "kind": "ServiceAccount", "name": name, "namespace": "x" })),
    ];
    let subjects = prop::collection::vec(subject, 0..3);
    let place = (pick(&["", "x", "y"]), pick(&["b1", "b2", "b3"]));
    (
        place,
        pick(&["Role", "ClusterRole"]),
        pick(&["r1", "r2", "none"]),
        subjects,
    )
        .prop_map(|((namespace, name), kind, role, subjects)| {
            let kind = if namespace.is_empty() {
                "ClusterRole".to_owned()
            } else {
                kind
            };
            let value = json!({ "roleRef": { "kind": kind, "name": role }, "subjects": subjects });
            (Key::new(&namespace, &name), value)
        })
}

fn any_world() -> impl Strategy<Value = World> {
    let role = (
        pick(&["", "x", "y"]),
        pick(&["r1", "r2"]),
        prop::collection::vec(any_rule(), 0..3),
    )
        .prop_map(|(namespace, name, rules)| (Key::new(&namespace, &name), rules));
    let roles = prop::collection::vec(role, 0..5);
    (roles, prop::collection::vec(any_binding(), 0..5)).prop_map(|(roles, bindings)| World { roles, bindings })
}

/// Evaluates every binding of the world, as the RBAC documentation defines it.
fn naive(world: &World, who: &Identity, action: &Action) -> bool {
    let Action::Resource(requested) = action else {
        return false;
    };
    let roles: BTreeMap<&Key, &Vec<Rule>> = world.roles.iter().map(|(key, rules)| (key, rules)).collect();
    let bindings: BTreeMap<&Key, &Value> = world.bindings.iter().map(|(key, value)| (key, value)).collect();
    bindings.into_iter().any(|(key, binding)| {
        let here = key.namespace.is_empty() || key.namespace == requested.namespace;
        let named = binding["subjects"].as_array().unwrap().iter().any(|subject| {
            let name = subject["name"].as_str().unwrap();
            match subject["kind"].as_str().unwrap() {
                "User" => who.user == name,
                "Group" => who.groups.iter().any(|group| group == name),
                _ => {
                    let namespace = subject["namespace"].as_str().unwrap_or(&key.namespace);
                    !namespace.is_empty() && who.user == format!("system:serviceaccount:{namespace}:{name}")
                }
            }
        });
        let scope = if binding["roleRef"]["kind"] == "Role" {
            &key.namespace
        } else {
            ""
        };
        let role = roles.get(&Key::new(scope, binding["roleRef"]["name"].as_str().unwrap()));
        here && named && role.is_some_and(|rules| rules.iter().any(|rule| rule.allows(action)))
    })
}

proptest! {
    #[test]
    fn the_index_decides_like_an_evaluation_of_every_binding(
        world in any_world(),
        user in pick(&["u", "w", "system:serviceaccount:x:s", "system:serviceaccount:y:s"]),
        groups in prop::collection::vec(pick(&["g", "i"]), 0..2),
        place in pick(&["", "x", "y"]),
        (verb, group, plural, name) in (pick(&["get", "list"]), pick(&["", "apps"]), pick(&["pods", "pods/log"]), pick(&["a", "c", ""])),
    ) {
        let roles = world.roles.iter().map(|(key, rules)| (key.clone(), Arc::new(Role { rules: rules.clone() })));
        let bindings: BTreeMap<Key, Value> = world.bindings.iter().cloned().collect();
        let bindings = bindings.iter().map(|(key, value)| Arc::new(Binding::new(key, value)));
        let index = Index::new(roles.collect(), bindings);
        let who = Identity { groups, ..Identity::user(user) };
        let mut action = resource(&verb, &group, &plural, &name);
        if let Action::Resource(action) = &mut action {
            action.namespace = place;
        }
        let allowed = !matches!(index.decide(&who, &action, true), Verdict::Denied(_));
        prop_assert_eq!(allowed, naive(&world, &who, &action));
    }

    #[test]
    fn a_user_that_covers_a_rule_has_its_permissions(
        owned in prop::collection::vec(any_rule(), 0..4),
        wanted in any_rule(),
        (verb, group, plural, name) in (pick(&["get", "list"]), pick(&["", "apps"]), pick(&["pods", "pods/log"]), pick(&["a", "c"])),
    ) {
        let action = resource(&verb, &group, &plural, &name);
        let covered = missing(&owned, std::slice::from_ref(&wanted)).is_empty();
        if covered && wanted.allows(&action) {
            prop_assert!(owned.iter().any(|rule| rule.allows(&action)));
        }
        prop_assert!(missing(&owned, &owned).is_empty());
    }
}
