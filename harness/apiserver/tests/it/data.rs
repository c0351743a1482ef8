//! A server with a data folder: a restarted one continues where the previous one ended.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use apiserver::authorization::Authorization;
use apiserver::{Identity, Options, Server};
use bytes::Bytes;
use clock::{Clock, Seed};
use http::Request;
use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cluster::{Cluster, Seen};

const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";

fn options(folder: &Path) -> Options {
    let mut options = Options::new(Clock::wall(), Seed::new(1));
    options.data = Some(folder.to_owned());
    options
}

fn start_with(options: Options) -> Cluster {
    Cluster {
        server: Server::new(options).unwrap(),
        seen: Arc::new(Seen::default()),
        identity: Identity::admin(),
    }
}

fn start(folder: &Path) -> Cluster {
    start_with(options(folder))
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn definition() -> Value {
    json!({
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object",
                "properties": { "spec": { "type": "object", "properties": { "size": { "type": "integer" } } } },
            } } }],
        },
    })
}

fn named(name: &str) -> Value {
    json!({ "metadata": { "name": name } })
}

async fn created(cluster: &Cluster, path: &str, object: Value) -> Value {
    let answer = cluster.post(path, object).await;
    assert_eq!(answer.code, 201, "{}", answer.body);
    answer.body
}

/// All objects, by the path of their list.
async fn everything(cluster: &Cluster) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    let mut versions = vec!["/api/v1".to_owned()];
    for group in cluster.get("/apis").await.body["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            versions.push(format!("/apis/{}", version["groupVersion"].as_str().unwrap()));
        }
    }
    for version in versions {
        let resources = cluster.get(&version).await.body;
        for resource in resources["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            let verbs = resource["verbs"].as_array().unwrap();
            if !name.contains('/') && verbs.contains(&"list".into()) && verbs.contains(&"create".into()) {
                let path = format!("{version}/{name}");
                let list = cluster.get(&path).await;
                assert_eq!(list.code, 200, "{path}");
                all.insert(path, list.body["items"].clone());
            }
        }
    }
    all
}

#[tokio::test]
async fn objects_definitions_and_the_revision_survive_a_restart() {
    let folder = folder();
    let cluster = start(folder.path());
    created(&cluster, DEFINITIONS, definition()).await;
    let widget =
        json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" }, "spec": { "size": 3 } });
    created(&cluster, WIDGETS, widget).await;
    created(&cluster, "/api/v1/namespaces", named("other")).await;
    created(&cluster, CONFIG_MAPS, named("kept")).await;
    let uid = created(&cluster, CONFIG_MAPS, named("gone")).await["metadata"]["uid"].clone();
    cluster.delete(&format!("{CONFIG_MAPS}/gone"), Value::Null).await;
    let before = (everything(&cluster).await, cluster.server.revision());
    drop(cluster);

    let cluster = start(folder.path());
    assert_eq!((everything(&cluster).await, cluster.server.revision()), before);
    let invalid = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "b" }, "spec": { "size": "x" } });
    assert_eq!(cluster.post(WIDGETS, invalid).await.code, 422);
    let again = created(&cluster, CONFIG_MAPS, named("gone")).await;
    assert_ne!(again["metadata"]["uid"], uid, "a new object has a new uid");
    let uids = |all: &BTreeMap<String, Value>| -> Vec<String> {
        let items = all.values().flat_map(|items| items.as_array().unwrap());
        items.map(|item| item["metadata"]["uid"].to_string()).collect()
    };
    let mut found = uids(&everything(&cluster).await);
    let number = found.len();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), number);
}

#[tokio::test]
async fn a_watch_continues_at_its_revision_after_a_restart() {
    let folder = folder();
    let cluster = start(folder.path());
    let seen = created(&cluster, CONFIG_MAPS, named("a")).await["metadata"]["resourceVersion"].clone();
    created(&cluster, CONFIG_MAPS, named("b")).await;
    cluster.delete(&format!("{CONFIG_MAPS}/a"), Value::Null).await;
    drop(cluster);
    let cluster = start(folder.path());
    let seen = seen.as_str().unwrap();
    let mut watch = cluster
        .watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={seen}"))
        .await;
    created(&cluster, CONFIG_MAPS, named("c")).await;
    let mut events = Vec::new();
    for _ in 0..3 {
        let (event, name, _) = watch.brief().await.unwrap();
        events.push(format!("{event} {name}"));
    }
    assert_eq!(events, ["ADDED b", "DELETED a", "ADDED c"]);
}

#[tokio::test]
async fn kubeconfigs_and_tokens_stay_valid() {
    let folder = folder();
    let address = "127.0.0.1:0".parse().unwrap();
    let cluster = start(folder.path());
    let path = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let token = created(&cluster, path, json!({ "spec": {} })).await["status"]["token"].clone();
    let serving = cluster.server.serve(address).await.unwrap();
    let before = serving.kubeconfig(&Identity::admin()).unwrap();
    let other = serving.kubeconfig(&Identity::user("other")).unwrap();
    serving.shutdown().await;
    drop(cluster);

    let cluster = start(folder.path());
    let serving = cluster.server.serve(address).await.unwrap();
    let credentials = |kubeconfig: &str| {
        let lines = kubeconfig.lines().filter(|line| line.contains("-data:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        credentials(&serving.kubeconfig(&Identity::admin()).unwrap()),
        credentials(&before)
    );
    assert_ne!(credentials(&other), credentials(&before));
    let request = Request::get("/version").header("authorization", format!("Bearer {}", token.as_str().unwrap()));
    let answer = cluster
        .server
        .handle(None, request.body(Bytes::new()).unwrap())
        .await
        .unwrap();
    assert_eq!(answer.status(), 200);
    serving.shutdown().await;
}

/// The names of the objects that the operations of the next test change.
async fn names(cluster: &Cluster) -> Vec<String> {
    let mut names = Vec::new();
    let kinds = [
        "/api/v1/namespaces",
        "/api/v1/configmaps",
        "/api/v1/serviceaccounts",
        "/api/v1/pods",
    ];
    for path in kinds.into_iter().chain([DEFINITIONS, WIDGETS, ROLES]) {
        let list = cluster.get(path).await.body;
        for item in list["items"].as_array().into_iter().flatten() {
            let metadata = &item["metadata"];
            names.push(format!("{path} {} {}", metadata["namespace"], metadata["name"]));
        }
    }
    names
}

/// A server with something that each operation of the next test changes.
async fn prepared(folder: &Path) -> Cluster {
    let cluster = start(folder);
    let pod = json!({ "metadata": { "name": "waiting" }, "spec": { "containers": [{ "name": "a", "image": "b" }] } });
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" } });
    created(&cluster, "/api/v1/namespaces", named("full")).await;
    for name in ["a", "b"] {
        created(&cluster, "/api/v1/namespaces/full/configmaps", named(name)).await;
    }
    created(&cluster, "/api/v1/namespaces/default/pods", pod).await;
    created(&cluster, DEFINITIONS, definition()).await;
    created(&cluster, WIDGETS, widget).await;
    cluster
}

/// A request can consist of several changes, and the process can end between any two of them.
#[rstest]
#[case::a_new_namespace("POST", "/api/v1/namespaces", named("new"))]
#[case::a_namespace_with_objects("DELETE", "/api/v1/namespaces/full", Value::Null)]
#[case::a_pod("DELETE", "/api/v1/namespaces/default/pods/waiting", Value::Null)]
#[case::a_definition_with_objects(
    "DELETE",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com",
    Value::Null
)]
#[tokio::test]
async fn a_request_that_the_end_of_the_process_interrupted_is_completed_or_has_no_effect(
    #[case] method: &str,
    #[case] path: &str,
    #[case] body: Value,
) {
    let folder = folder();
    let cluster = prepared(folder.path()).await;
    let log = folder.path().join("changes-1");
    let (before, began) = (names(&cluster).await, std::fs::read(&log).unwrap().len());
    let answer = cluster.request_as(method, path, "application/json", &body).await;
    assert!(answer.code < 300, "{}", answer.body);
    let after = names(&cluster).await;
    assert_ne!(before, after);
    drop(cluster);
    let whole = std::fs::read(&log).unwrap();
    let places = whole.iter().zip(1..).filter(|(byte, _)| **byte == b'\n');
    let ends: Vec<usize> = places.map(|(_, end)| end).filter(|end| *end >= began).collect();
    assert!(ends.len() > 2, "the request consists of several changes");
    for end in ends {
        std::fs::write(&log, &whole[..end]).unwrap();
        let expected = if end == began { &before } else { &after };
        assert_eq!(names(&start(folder.path())).await, *expected, "until byte {end}");
    }
}

fn with_authorization(folder: &Path) -> Cluster {
    start_with(Options {
        authorization: Authorization::Rbac,
        ..options(folder)
    })
}

#[tokio::test]
async fn deleted_default_roles_return_and_changed_ones_stay_changed() {
    let folder = folder();
    let cluster = with_authorization(folder.path());
    let roles = names(&cluster).await;
    assert_eq!(cluster.delete(&format!("{ROLES}/view"), Value::Null).await.code, 200);
    let changed = json!({ "metadata": { "name": "system:node" }, "rules": [] });
    assert_eq!(cluster.put(&format!("{ROLES}/system:node"), changed).await.code, 200);
    drop(cluster);
    let cluster = with_authorization(folder.path());
    assert_eq!(names(&cluster).await, roles);
    assert_eq!(
        cluster.get(&format!("{ROLES}/system:node")).await.body["rules"],
        json!([])
    );
}

#[tokio::test]
async fn one_folder_has_one_server_at_a_time() {
    let folder = folder();
    let first = start(folder.path());
    let error = Server::new(options(folder.path())).unwrap_err().to_string();
    assert!(error.contains("another API server uses the data folder"), "{error}");
    drop(first);
    start(folder.path());
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_named() {
    let folder = folder();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path(), &link).unwrap();
    for (path, reason) in [(file, "not a folder"), (link, "symbolic link")] {
        let error = Server::new(options(&path)).unwrap_err().to_string();
        assert!(
            error.contains(path.to_str().unwrap()) && error.contains(reason),
            "{error}"
        );
    }
    let simulated = Options {
        clock: Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap()),
        ..options(folder.path())
    };
    assert!(Server::new(simulated).is_err());
}

/// The webhook needs this server, for instance, and is not there when the server starts.
#[tokio::test]
async fn a_server_starts_with_deleted_objects_that_cannot_be_converted() {
    let folder = folder();
    let cluster = start(folder.path());
    created(&cluster, "/api/v1/namespaces", named("full")).await;
    let mut versions = definition()["spec"]["versions"].take();
    let mut second = versions[0].clone();
    (second["name"], second["storage"]) = ("v2".into(), false.into());
    versions.as_array_mut().unwrap().push(second);
    let mut both = definition();
    both["spec"]["versions"] = versions.clone();
    created(&cluster, DEFINITIONS, both).await;
    let widgets = "/apis/example.com/v1/namespaces/full/widgets";
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" } });
    created(&cluster, widgets, widget).await;
    (versions[0]["storage"], versions[1]["storage"]) = (false.into(), true.into());
    let conversion = json!({ "strategy": "Webhook", "webhook": {
        "conversionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1/" },
    } });
    let change = json!({ "spec": { "versions": versions, "conversion": conversion } });
    let changed = cluster
        .merge(&format!("{DEFINITIONS}/widgets.example.com"), change)
        .await;
    assert_eq!(changed.code, 200, "{}", changed.body);
    let namespace = "/api/v1/namespaces/full";
    let answer = cluster.delete(namespace, Value::Null).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    drop(cluster);

    let cluster = start(folder.path());
    assert_eq!(
        cluster.get(namespace).await.body["status"]["phase"],
        json!("Terminating")
    );
    // It can be deleted in the version in which it is stored.
    let answer = cluster.delete(&format!("{widgets}/a"), Value::Null).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    assert_eq!(cluster.get(namespace).await.code, 404);
}

/// A definition that is not served any more, in a log that ends before its objects are dropped.
#[tokio::test]
async fn objects_that_a_start_drops_do_not_return_at_the_next_one() {
    let folder = folder();
    let cluster = prepared(folder.path()).await;
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let served = async |cluster: &Cluster, served: bool| {
        let mut versions = definition()["spec"]["versions"].take();
        versions[0]["served"] = served.into();
        let answer = cluster.merge(&path, json!({ "spec": { "versions": versions } })).await;
        assert_eq!(answer.code, 200, "{}", answer.body);
    };
    served(&cluster, false).await;
    drop(cluster);
    let log = folder.path().join("changes-1");
    let whole = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let retired = lines.iter().rposition(|line| line.contains("retire")).unwrap();
    std::fs::write(&log, lines[..retired].join("\n") + "\n").unwrap();
    for _ in 0..2 {
        let cluster = start(folder.path());
        served(&cluster, true).await;
        assert_eq!(cluster.get(WIDGETS).await.body["items"], json!([]));
    }
}

/// The process ended after it removed a definition, and before it gave its names to another one.
#[tokio::test]
async fn a_definition_gets_names_that_became_free_before_the_start() {
    let folder = folder();
    let cluster = start(folder.path());
    let named = |plural: &str| {
        let mut definition = definition();
        definition["metadata"]["name"] = format!("{plural}.example.com").into();
        definition["spec"]["names"]["plural"] = plural.into();
        definition["spec"]["names"]["singular"] = plural.into();
        definition
    };
    created(&cluster, DEFINITIONS, named("ones")).await;
    created(&cluster, DEFINITIONS, named("twos")).await;
    let log = folder.path().join("changes-1");
    cluster
        .delete(&format!("{DEFINITIONS}/ones.example.com"), Value::Null)
        .await;
    drop(cluster);
    let whole = std::fs::read_to_string(&log).unwrap();
    let removed = whole.rfind(r#"{"delete""#).unwrap();
    let end = removed + whole[removed..].find('\n').unwrap() + 1;
    std::fs::write(&log, &whole[..end]).unwrap();
    let cluster = start(folder.path());
    let path = "/apis/example.com/v1/namespaces/default/twos";
    assert_eq!(cluster.get(path).await.code, 200);
}

#[tokio::test]
async fn damaged_keys_are_refused() {
    let folder = folder();
    drop(start(folder.path()));
    let keys = folder.path().join("keys");
    let mut text = std::fs::read(&keys).unwrap();
    let last = text.len() - 20;
    text[last] ^= 1;
    std::fs::write(&keys, text).unwrap();
    let error = Server::new(options(folder.path())).unwrap_err().to_string();
    assert!(
        error.contains("keys: the checksum is wrong; restore the file"),
        "{error}"
    );
}
