//! Mutating policies: operations of patches, updates and deletions, parameters, what follows a mutation.

use serde_json::{Value, json};

use super::super::mutations::{configuration, create, enforce, only, patch, policy};
use super::super::site::{Site, with};
use super::{MAPS, PODS, contract};

fn map(name: &str, data: Value) -> Value {
    json!({ "metadata": { "name": name }, "data": data })
}

#[test]
fn operations_of_a_patch() {
    contract!(async |site: &Site| {
        let named = |name: &'static str, expression: &str| (name, policy(name, &[patch(expression)], only(name)));
        enforce(site, [
            named("remove", "[JSONPatch{op: 'remove', path: '/data/a'}]"),
            named("move", "[JSONPatch{op: 'move', from: '/data/a', path: '/data/b'}]"),
            named("copy", "[JSONPatch{op: 'copy', from: '/data/a', path: '/data/b'}]"),
            named("test", "[JSONPatch{op: 'test', path: '/data/a', value: '1'}, JSONPatch{op: 'replace', path: '/data/a', value: '2'}]"),
            named("fails", "[JSONPatch{op: 'test', path: '/data/a', value: '9'}]"),
            named("escaped", "[JSONPatch{op: 'add', path: '/metadata/labels', value: {}}, JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('x.io/a'), value: '1'}]"),
        ]).await;
        for name in ["remove", "move", "copy", "test", "fails"] {
            create(site, MAPS, map(name, json!({ "a": "1" })), "/data").await;
        }
        create(site, MAPS, map("escaped", json!({})), "/metadata/labels").await;
    });
}

#[test]
fn updates_are_mutated() {
    contract!(async |site: &Site| {
        site.step("POST", MAPS, map("a", json!({ "count": "1" }))).await;
        let data = configuration("Object{data: {'previous': oldObject == null ? 'none' : oldObject.data['count']}}");
        enforce(site, [("update", policy("update", &[data], only("a")))]).await;
        let path = format!("{MAPS}/a");
        let merge = [("content-type", "application/merge-patch+json")];
        for count in ["2", "3"] {
            let answer = site
                .quietly("PATCH", &path, &merge, json!({ "data": { "count": count } }))
                .await;
            site.note(&format!("{} {}", answer.code, answer.body["data"]));
        }
        let answer = site.quietly("PUT", &path, &[], map("a", json!({ "count": "4" }))).await;
        site.note(&format!("{} {}", answer.code, answer.body["data"]));
    });
}

#[test]
fn a_mutation_that_undoes_an_update() {
    contract!(async |site: &Site| {
        let created = site.step("POST", MAPS, map("a", json!({ "k": "1" }))).await;
        let data = configuration("Object{data: {'k': '1'}}");
        enforce(site, [("undo", policy("undo", &[data], only("a")))]).await;
        let merge = [("content-type", "application/merge-patch+json")];
        let answer = site
            .quietly("PATCH", &format!("{MAPS}/a"), &merge, json!({ "data": { "k": "2" } }))
            .await;
        site.note(&format!(
            "{} {} {}",
            answer.code,
            answer.body["data"],
            answer.revision() == created.revision()
        ));
    });
}

#[test]
fn mutated_objects_are_validated() {
    contract!(async |site: &Site| {
        let label = configuration("Object{metadata: Object.metadata{labels: {'a': 'not valid!'}}}");
        let key = configuration("Object{data: {'not a key': '1'}}");
        let name = patch("[JSONPatch{op: 'replace', path: '/metadata/name', value: 'other'}]");
        enforce(
            site,
            [
                ("label", policy("label", &[label], only("label"))),
                ("key", policy("key", &[key], only("key"))),
                ("name", policy("name", &[name], only("name"))),
            ],
        )
        .await;
        for name in ["label", "key", "name"] {
            create(site, MAPS, map(name, json!({ "a": "1" })), "/metadata/name").await;
        }
    });
}

#[test]
fn a_container_is_added_to_pods() {
    contract!(async |site: &Site| {
        let sidecar = patch(
            "[JSONPatch{op: 'add', path: '/spec/containers/-', value: Object.spec.containers{name: 'proxy', image: 'proxy:1'}}]",
        );
        let init = configuration(
            "Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'init', image: 'init:1', restartPolicy: 'Always'}]}}",
        );
        enforce(
            site,
            [
                ("proxy", policy("proxy", &[sidecar], only("a"))),
                ("init", policy("init", &[init], only("b"))),
            ],
        )
        .await;
        let pod = |name: &str| json!({ "metadata": { "name": name }, "spec": { "containers": [{ "name": "c", "image": "i:1" }] } });
        create(site, PODS, pod("a"), "/spec/containers").await;
        create(site, PODS, pod("b"), "/spec/initContainers").await;
    });
}

#[test]
fn a_conditional_mutation() {
    contract!(async |site: &Site| {
        let expression = "has(object.metadata.labels) && 'skip' in object.metadata.labels ? [] : [JSONPatch{op: 'add', path: '/data/added', value: string('system:masters' in request.userInfo.groups)}]";
        enforce(
            site,
            [(
                "maybe",
                policy(
                    "maybe",
                    &[patch(expression)],
                    json!({ "matchConditions": [{ "name": "c", "expression": "object.metadata.name in ['a', 'b']" }] }),
                ),
            )],
        )
        .await;
        create(site, MAPS, map("a", json!({ "a": "1" })), "/data").await;
        let skipped = with(
            &map("b", json!({ "a": "1" })),
            json!({ "metadata": { "name": "b", "labels": { "skip": "" } } }),
        );
        create(site, MAPS, skipped, "/data").await;
        create(site, MAPS, map("c", json!({ "a": "1" })), "/data").await;
    });
}

#[test]
fn a_dry_run_is_mutated() {
    contract!(async |site: &Site| {
        let data = configuration("Object{data: {'dry': string(request.dryRun)}}");
        enforce(site, [("dry", policy("dry", &[data], only("a")))]).await;
        create(
            site,
            &format!("{MAPS}?dryRun=All"),
            map("a", json!({ "a": "1" })),
            "/data",
        )
        .await;
        create(site, MAPS, map("a", json!({ "a": "1" })), "/data").await;
    });
}

#[test]
fn an_applied_configuration_keeps_what_a_mutation_adds() {
    contract!(async |site: &Site| {
        let label = configuration("Object{metadata: Object.metadata{labels: {'added': 'yes'}}}");
        enforce(site, [("apply", policy("apply", &[label], only("a")))]).await;
        let configuration =
            |data: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data });
        let path = format!("{MAPS}/a?fieldManager=me");
        let apply = [("content-type", "application/apply-patch+yaml")];
        for data in [json!({ "k": "1" }), json!({ "l": "2" })] {
            let answer = site.quietly("PATCH", &path, &apply, configuration(data)).await;
            site.note(&format!(
                "{} {} {}",
                answer.code, answer.body["data"], answer.body["metadata"]["labels"]
            ));
        }
    });
}
