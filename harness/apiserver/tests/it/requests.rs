//! Single requests and their responses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apiserver::observe::{Observer, RequestRecord};
use apiserver::{Identity, Options, Server};
use bytes::Bytes;
use clock::{Clock, Seed};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use parking_lot::Mutex;
use rstest::rstest;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::cluster::Cluster;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str, value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "key": value } })
}

#[tokio::test(start_paused = true)]
async fn an_object_is_created_read_changed_and_deleted() {
    let cluster = Cluster::new();
    let created = cluster.post(CONFIG_MAPS, config_map("a", "1")).await;
    assert_eq!(created.code, 201);
    assert_eq!(created.body["metadata"]["namespace"], "default");
    let path = format!("{CONFIG_MAPS}/a");
    let read = cluster.get(&path).await;
    assert_eq!((read.code, &read.body), (200, &created.body));
    assert_eq!(read.headers["cache-control"], "no-cache, private");
    assert!(read.headers.contains_key("audit-id"));

    let mut changed = read.body;
    changed["data"]["key"] = "2".into();
    assert_eq!(cluster.put(&path, changed.clone()).await.body["data"]["key"], "2");
    let conflict = cluster.put(&path, changed).await;
    assert_eq!((conflict.code, &conflict.body["reason"]), (409, &json!("Conflict")));
    assert_eq!(conflict.body["details"], json!({ "name": "a", "kind": "configmaps" }));

    let deleted = cluster.delete(&path, Value::Null).await;
    assert_eq!((deleted.code, &deleted.body["status"]), (200, &json!("Success")));
    let missing = cluster.get(&path).await;
    assert_eq!(
        (missing.code, &missing.body["message"]),
        (404, &json!("configmaps \"a\" not found"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_cluster_has_its_namespaces_and_their_content() {
    let cluster = Cluster::new();
    let list = cluster.get("/api/v1/namespaces").await.body;
    let names: Vec<&str> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|item| item["metadata"]["name"].as_str())
        .collect();
    assert_eq!(names, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    assert_eq!(list["kind"], "NamespaceList");
    assert_eq!(list["items"][0]["status"]["phase"], "Active");
    assert_eq!(
        cluster
            .get("/api/v1/namespaces/default/serviceaccounts/default")
            .await
            .code,
        200
    );
}

#[tokio::test(start_paused = true)]
async fn all_pages_of_a_list_have_one_revision() {
    let cluster = Cluster::new();
    cluster
        .delete(&format!("{CONFIG_MAPS}/kube-root-ca.crt"), Value::Null)
        .await;
    for name in ["a", "b", "c"] {
        cluster.post(CONFIG_MAPS, config_map(name, "1")).await;
    }
    let first = cluster.get(&format!("{CONFIG_MAPS}?limit=2")).await.body;
    assert_eq!(first["items"].as_array().unwrap().len(), 2);
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let token = first["metadata"]["continue"].as_str().unwrap();
    cluster.delete(&format!("{CONFIG_MAPS}/c"), Value::Null).await;
    let second = cluster
        .get(&format!("{CONFIG_MAPS}?limit=2&continue={token}"))
        .await
        .body;
    assert_eq!(second["items"][0]["metadata"]["name"], "c");
    assert_eq!(
        second["metadata"]["resourceVersion"],
        first["metadata"]["resourceVersion"]
    );
    assert!(second["metadata"].get("continue").is_none());

    cluster.server.compact();
    let expired = cluster.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await;
    assert_eq!((expired.code, &expired.body["reason"]), (410, &json!("Expired")));
    let token = expired.body["metadata"]["continue"].as_str().unwrap();
    let rest = cluster
        .get(&format!("{CONFIG_MAPS}?limit=2&continue={token}"))
        .await
        .body;
    assert_eq!(rest["items"], json!([]));
}

#[rstest]
#[case::field(
    "?fieldSelector=spec.colour%3Dred",
    400,
    "\"spec.colour\" is not a known field selector"
)]
#[case::revision("?resourceVersion=abc", 400, "")]
#[case::token("?continue=abc", 400, "invalid continue token")]
#[case::exact_zero(
    "?resourceVersion=0&resourceVersionMatch=Exact",
    422,
    "is forbidden for resourceVersion"
)]
#[case::match_alone("?resourceVersionMatch=Exact", 422, "forbidden unless resourceVersion is provided")]
#[case::old("?resourceVersion=5&resourceVersionMatch=Exact", 410, "too old")]
#[case::future("?resourceVersion=999999", 504, "Too large resource version: 999999")]
#[tokio::test(start_paused = true)]
async fn an_invalid_list_request_states_the_reason(#[case] query: &str, #[case] code: u16, #[case] message: &str) {
    let cluster = Cluster::new();
    let answer = cluster.get(&format!("{CONFIG_MAPS}{query}")).await;
    assert_eq!(answer.code, code);
    let text = answer.body["message"].as_str().unwrap();
    assert!(text.contains(message), "{text}");
}

#[tokio::test(start_paused = true)]
async fn lists_select_by_label_and_field() {
    let cluster = Cluster::new();
    for (name, app) in [("a", "web"), ("b", "db")] {
        let mut object = config_map(name, "1");
        object["metadata"]["labels"] = json!({ "app": app });
        cluster.post(CONFIG_MAPS, object).await;
    }
    for query in [
        "labelSelector=app+in+(web)",
        "fieldSelector=metadata.name%3Da",
        "labelSelector=app,app!%3Ddb",
    ] {
        let list = cluster.get(&format!("/api/v1/configmaps?{query}")).await.body;
        let items = list["items"].as_array().unwrap();
        assert_eq!(items.len(), 1, "{query}");
        assert_eq!(items[0]["metadata"]["name"], "a");
    }
}

#[rstest]
#[case("GET", "/api/v1/colours", 404, "the server could not find the requested resource")]
#[case(
    "GET",
    "/api/v1/namespaces/default/nodes",
    404,
    "the server could not find the requested resource"
)]
#[case(
    "POST",
    "/api/v1/configmaps",
    405,
    "the server does not allow this method on the requested resource"
)]
#[case(
    "POST",
    "/api/v1/nodes/n",
    405,
    "the server does not allow this method on the requested resource"
)]
#[tokio::test(start_paused = true)]
async fn unserved_paths_and_methods_have_errors(
    #[case] method: &str,
    #[case] path: &str,
    #[case] code: u16,
    #[case] message: &str,
) {
    let answer = Cluster::new().request_as(method, path, "", &Value::Null).await;
    assert_eq!((answer.code, answer.body["message"].as_str()), (code, Some(message)));
    assert_eq!(answer.body["kind"], "Status");
}

#[tokio::test(start_paused = true)]
async fn bodies_can_be_yaml_and_have_a_size_limit() {
    let cluster = Cluster::new();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  key: value\n";
    let request = Request::post(CONFIG_MAPS).header("content-type", "application/yaml");
    assert_eq!(
        cluster.send(request.body(Full::from(yaml)).unwrap()).await.status(),
        201
    );
    let huge = Request::post(CONFIG_MAPS)
        .body(Full::from("x".repeat(3 * 1024 * 1024 + 1)))
        .unwrap();
    assert_eq!(cluster.send(huge).await.status(), 413);
    let broken = cluster
        .request_as("POST", CONFIG_MAPS, "application/json", &json!("text"))
        .await;
    assert_eq!(broken.code, 400);
}

#[tokio::test(start_paused = true)]
async fn unknown_and_duplicate_fields_are_warnings_or_errors() {
    let cluster = Cluster::new();
    let text = r#"{"metadata":{"name":"a"},"data":{"k":"1"},"data":{"k":"2"},"colour":"red"}"#;
    let post = |query: &str| {
        Request::post(format!("{CONFIG_MAPS}{query}"))
            .body(Full::from(text))
            .unwrap()
    };
    let strict = cluster.send(post("?fieldValidation=Strict")).await;
    assert_eq!(strict.status(), 400);
    let body = strict.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&body).unwrap();
    let message = status["message"].as_str().unwrap();
    assert!(
        message.ends_with(r#"strict decoding error: unknown field "colour", duplicate field "data""#),
        "{message}"
    );
    let warned = cluster.send(post("")).await;
    let warnings: Vec<_> = warned.headers().get_all("warning").iter().collect();
    assert_eq!(
        warnings,
        [
            r#"299 - "duplicate field \"data\"""#,
            r#"299 - "unknown field \"colour\"""#
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_is_deleted_gracefully() {
    let cluster = Cluster::new();
    let pods = "/api/v1/namespaces/default/pods";
    let spec = json!({ "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] });
    let created = cluster
        .post(pods, json!({ "metadata": { "name": "p" }, "spec": spec }))
        .await;
    assert_eq!(created.code, 201, "{:?}", created.body);
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p", "namespace": "default" },
        "deleteOptions": { "gracePeriodSeconds": 5 },
    });
    let evicted = cluster.post(&format!("{pods}/p/eviction"), eviction).await;
    assert_eq!((evicted.code, &evicted.body["status"]), (201, &json!("Success")));
    let pod = cluster.get(&format!("{pods}/p")).await.body;
    assert_eq!(pod["metadata"]["deletionTimestamp"], "2026-01-01T00:00:05Z");
    let gone = cluster
        .delete(&format!("{pods}/p?gracePeriodSeconds=0"), Value::Null)
        .await;
    assert_eq!((gone.code, &gone.body["kind"]), (200, &json!("Pod")));
    assert_eq!(cluster.get(&format!("{pods}/p")).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn anonymous_clients_can_read_only_health_and_version() {
    let cluster = Cluster::new();
    for (path, code) in [
        ("/healthz", 200),
        ("/readyz?verbose", 200),
        ("/version", 200),
        ("/api/v1/nodes", 401),
    ] {
        let request = Request::get(path).body(bytes::Bytes::new()).unwrap();
        assert_eq!(
            cluster.server.handle(None, request).await.unwrap().status(),
            code,
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_receives_commits_and_requests_in_order() {
    let cluster = Cluster::new();
    let before = cluster.seen.lines().len();
    let revision = cluster.server.revision() + 1;
    cluster.post(CONFIG_MAPS, config_map("a", "1")).await;
    let lines = cluster.seen.lines().split_off(before);
    let expected = [
        format!("commit configmaps ADDED a {revision}"),
        format!("request tester create {CONFIG_MAPS} 201 {revision}"),
    ];
    assert_eq!(lines, expected);
}

#[tokio::test(start_paused = true)]
async fn clients_can_request_only_metadata() {
    let cluster = Cluster::new();
    cluster.post(CONFIG_MAPS, config_map("a", "1")).await;
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    let request = Request::get(format!("{CONFIG_MAPS}/a"))
        .header("accept", accept)
        .body(Full::default())
        .unwrap();
    let body = cluster
        .send(request)
        .await
        .into_body()
        .collect()
        .await
        .unwrap()
        .to_bytes();
    let object: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(object["kind"], "PartialObjectMetadata");
    assert_eq!((&object["metadata"]["name"], object.get("data")), (&json!("a"), None));
}

#[tokio::test(start_paused = true)]
async fn extreme_numbers_in_requests_are_answered() {
    let cluster = Cluster::new();
    let numbers = [
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "99999999999999999999",
        "-1",
        "1e400",
    ];
    for number in numbers {
        for query in ["limit", "timeoutSeconds", "resourceVersion"] {
            for watch in ["", "&watch=true"] {
                let path = format!("{CONFIG_MAPS}?{query}={number}{watch}");
                let request = Request::get(path).body(Full::default()).unwrap();
                let code = cluster.send(request).await.status().as_u16();
                assert!(
                    [200, 400, 422, 500, 504].contains(&code),
                    "{query}={number}{watch}: {code}"
                );
            }
        }
        let map = json!({ "metadata": { "name": "a", "finalizers": ["example.com/a"] } });
        assert_eq!(cluster.post(CONFIG_MAPS, map).await.code, 201);
        let path = format!("{CONFIG_MAPS}/a");
        let deleted = cluster
            .delete(&format!("{path}?gracePeriodSeconds={number}"), Value::Null)
            .await;
        assert!([200, 400].contains(&deleted.code), "{number}: {}", deleted.body);
        let number: Value = serde_json::from_str(number).unwrap_or_else(|_| number.into());
        cluster.delete(&path, json!({ "gracePeriodSeconds": number })).await;
        let request = json!({ "spec": { "expirationSeconds": number } });
        let token = cluster
            .post("/api/v1/namespaces/default/serviceaccounts/default/token", request)
            .await;
        assert!([201, 400, 422].contains(&token.code), "{number}: {}", token.body);
        let patch = json!({ "metadata": { "finalizers": null, "generation": number } });
        assert!([200, 422].contains(&cluster.merge(&path, patch).await.code));
        let patch = json!({ "metadata": { "finalizers": null } });
        cluster.merge(&path, patch).await;
        cluster.delete(&path, Value::Null).await;
    }
}

/// Panics at the first record of a request for `panic`, and at each for `panics`; records the codes of the others.
#[derive(Debug, Default)]
struct Panics {
    panicked: AtomicBool,
    codes: Mutex<Vec<u16>>,
}

impl Observer for Panics {
    fn request(&self, record: &RequestRecord<'_>) {
        let once = record.path.ends_with("/configmaps/panic") && !self.panicked.swap(true, Ordering::Relaxed);
        assert!(!once && !record.path.ends_with("/configmaps/panics"), "a planted bug");
        self.codes.lock().push(record.code);
    }
}

/// The code of a response, its ID, its body, and the recorded codes.
async fn answered(clock: Clock, path: &str) -> (u16, Option<String>, Value, Vec<u16>) {
    let observer = Arc::new(Panics::default());
    let options = Options {
        observer: Some(Arc::clone(&observer) as Arc<dyn Observer>),
        ..Options::new(clock, Seed::new(7))
    };
    let server = Server::new(options).unwrap();
    let request = Request::get(path)
        .header("audit-id", "my-id")
        .body(Bytes::new())
        .unwrap();
    let response = server.handle(Some(&Identity::admin()), request).await.unwrap();
    let (parts, body) = response.into_parts();
    let id = parts.headers.get("audit-id").map(|id| id.to_str().unwrap().to_owned());
    let body = body.collect().await.unwrap().to_bytes();
    let recorded = observer.codes.lock().clone();
    (
        parts.status.as_u16(),
        id,
        serde_json::from_slice(&body).unwrap(),
        recorded,
    )
}

#[tokio::test]
async fn a_panic_is_a_500_with_an_id() {
    for (name, recorded) in [("panic", vec![500]), ("panics", vec![])] {
        let (code, id, body, codes) = answered(Clock::wall(), &format!("{CONFIG_MAPS}/{name}")).await;
        assert_eq!((code, id.as_deref(), codes), (500, Some("my-id"), recorded));
        assert_eq!(body["reason"], "InternalError");
        assert!(body["message"].as_str().unwrap().contains("my-id"), "{body}");
    }
    let (code, _, _, codes) = answered(Clock::wall(), &format!("{CONFIG_MAPS}/other")).await;
    assert_eq!((code, codes), (404, vec![404]));
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a planted bug")]
async fn a_panic_fails_a_simulated_run() {
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    answered(clock, &format!("{CONFIG_MAPS}/panic")).await;
}

/// A body that fails the test when it is read.
struct Unread;

impl http_body::Body for Unread {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        panic!("the body was read")
    }
}

#[rstest]
#[case::an_invalid_token(Some("Bearer wrong"), 401)]
#[case::without_rights(None, 403)]
#[tokio::test(start_paused = true)]
async fn a_body_is_not_read_without_rights(#[case] token: Option<&str>, #[case] expected: u16) {
    let mut options = Options::new(Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap()), Seed::new(7));
    options.authorization = apiserver::Authorization::Rbac;
    let server = Server::new(options).unwrap();
    let mut request = Request::post(CONFIG_MAPS);
    if let Some(token) = token {
        request = request.header("authorization", token);
    }
    let response = server
        .open_service()
        .oneshot(request.body(Unread).unwrap())
        .await
        .unwrap();
    assert_eq!(response.status().as_u16(), expected);
}

/// A body of unknown length that never arrives.
struct Pending;

impl http_body::Body for Pending {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn bodies_in_flight_are_limited() {
    let cluster = Cluster::new();
    let service = cluster.server.service(Identity::admin());
    let slow = || {
        let request = Request::post(CONFIG_MAPS).body(Pending).unwrap();
        Box::pin(service.clone().oneshot(request))
    };
    let mut waiting: Vec<_> = (0..32).map(|_| slow()).collect();
    for request in &mut waiting {
        assert!(futures::poll!(request).is_pending());
    }
    let refused = cluster.post(CONFIG_MAPS, config_map("a", "1")).await;
    assert_eq!(
        (refused.code, &refused.headers["retry-after"]),
        (429, &http::HeaderValue::from_static("1"))
    );
    let line = format!("request tester create {CONFIG_MAPS} 429 {}", cluster.server.revision());
    assert_eq!(cluster.seen.lines().last(), Some(&line));
    assert_eq!(cluster.get("/healthz").await.code, 200);
    waiting.pop();
    assert_eq!(cluster.post(CONFIG_MAPS, config_map("a", "1")).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_too_large_is_recorded_and_its_error_is_readable() {
    let cluster = Cluster::new();
    let request = Request::post(format!("{CONFIG_MAPS}?pretty=true"));
    let response = cluster
        .send(request.body(Full::from(vec![b' '; 4 << 20])).unwrap())
        .await;
    assert_eq!(response.status().as_u16(), 413);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(b"{\n"), "{body:?}");
    let line = format!(
        "request tester create {CONFIG_MAPS}?pretty=true 413 {}",
        cluster.server.revision()
    );
    assert_eq!(cluster.seen.lines().last(), Some(&line));
}

#[tokio::test(start_paused = true)]
async fn a_role_that_is_granted_while_a_request_waits_does_not_admit_it_without_its_body() {
    let cluster = Cluster::with(|options| options.authorization = apiserver::Authorization::Rbac);
    let admin = cluster.server.service(Identity::admin());
    let post = async |path: &str, object: Value| {
        let body = Full::<Bytes>::from(object.to_string());
        let request = Request::post(path).body(body).unwrap();
        let response = admin.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status().as_u16(), 201);
    };
    post(CONFIG_MAPS, config_map("a", "1")).await;
    let delays = "{name: slow, match: {client: tester}, action: {delay: {by: 10s}}}";
    let rules = apiserver::faults::parse(delays).unwrap();
    cluster.server.faults().add_all(rules).unwrap();
    let path = format!("{CONFIG_MAPS}/a");
    let deletion = json!({ "preconditions": { "uid": "another" } });
    let (deleted, ()) = tokio::join!(biased; cluster.delete(&path, deletion), async {
        let binding = json!({
            "metadata": { "name": "late" },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "tester" }],
        });
        post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    });
    assert_eq!(deleted.code, 403);
    assert_eq!(cluster.get(&path).await.code, 200);
}

#[rstest]
#[case("beforeCommit")]
#[case("afterCommit")]
#[tokio::test(start_paused = true)]
async fn an_error_of_a_fault_rule_has_the_usual_headers(#[case] at: &str) {
    let cluster = Cluster::new();
    let rule = format!("{{name: lie, match: {{verbs: [create]}}, action: {{fail: {{code: 504, at: {at}}}}}}}");
    let rules = apiserver::faults::parse(&rule).unwrap();
    cluster.server.faults().add_all(rules).unwrap();
    let refused = cluster.post(CONFIG_MAPS, config_map("a", "1")).await;
    assert_eq!(
        (refused.code, &refused.headers["cache-control"]),
        (504, &"no-cache, private".parse().unwrap())
    );
    assert!(refused.headers.contains_key("audit-id"));
}

#[rstest]
#[case::too_large(json!(2_147_483_648_i64), "cannot unmarshal number 2147483648 into Go struct field ScaleSpec.spec.replicas of type int32")]
#[case::the_largest(json!(i64::MAX), "cannot unmarshal number 9223372036854775807 into Go struct field")]
#[case::a_fraction(json!(1.5), "cannot unmarshal number 1.5 into Go struct field")]
#[case::a_text(json!("3"), "cannot unmarshal string into Go struct field")]
#[tokio::test(start_paused = true)]
async fn a_scale_that_its_object_cannot_have_is_rejected(#[case] replicas: Value, #[case] why: &str) {
    let cluster = Cluster::new();
    let labels = json!({ "app": "a" });
    let deployment = json!({
        "metadata": { "name": "d" },
        "spec": {
            "selector": { "matchLabels": labels },
            "template": { "metadata": { "labels": labels }, "spec": { "containers": [{ "name": "c", "image": "i" }] } },
        },
    });
    let path = "/apis/apps/v1/namespaces/default/deployments";
    assert_eq!(cluster.post(path, deployment).await.code, 201);
    let before = cluster.get(&format!("{path}/d")).await.body;
    let scale = json!({ "metadata": { "name": "d" }, "spec": { "replicas": replicas } });
    let put = cluster.put(&format!("{path}/d/scale"), scale.clone()).await;
    let patched = cluster.merge(&format!("{path}/d/scale"), scale).await;
    for (code, answer) in [(400, put), (422, patched)] {
        assert_eq!(answer.code, code, "{}", answer.body);
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains(why), "{message}");
    }
    assert_eq!(cluster.get(&format!("{path}/d")).await.body, before);
}
