//! `/metrics`: what is counted, and who may read it.

use std::fmt;
use std::sync::Arc;

use apiserver::metrics::Collector;
use apiserver::observe::{Observer, RequestRecord};
use apiserver::{Authorization, Identity, Options, Server};
use bytes::Bytes;
use clock::{Clock, Seed};
use http::Request;
use http_body_util::BodyExt;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use serde_json::{Value, json};

/// Panics for one ConfigMap.
#[derive(Debug)]
struct Panics;

impl Observer for Panics {
    fn request(&self, record: &RequestRecord<'_>) {
        assert!(!record.path.ends_with("/configmaps/panics"), "a planted bug");
    }
}

/// A metric of another part of the process.
#[derive(Debug)]
struct Other;

impl Collector for Other {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counter = encoder.encode_descriptor("other", "Another metric", None, MetricType::Counter)?;
        ConstCounter::new(7_u64).encode(counter)
    }
}

fn server(clock: Clock) -> Server {
    Server::new(Options {
        authorization: Authorization::Rbac,
        observer: Some(Arc::new(Panics)),
        metrics: vec![Arc::new(Other)],
        ..Options::new(clock, Seed::new(7))
    })
    .unwrap()
}

fn user(name: &str, groups: &[&str]) -> Identity {
    let groups = groups.iter().copied().chain(["system:authenticated"]);
    Identity {
        user: name.to_owned(),
        groups: groups.map(str::to_owned).collect(),
        ..Identity::admin()
    }
}

async fn send(server: &Server, identity: Option<&Identity>, method: &str, path: &str, body: &Value) -> (u16, String) {
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    let response = server.handle(identity, request).await.unwrap();
    let code = response.status().as_u16();
    let text = response.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8_lossy(&text).into_owned())
}

/// The samples of a metric: their labels, and their value.
async fn metrics(server: &Server, name: &str) -> Vec<(String, f64)> {
    let (code, text) = send(server, Some(&Identity::admin()), "GET", "/metrics", &Value::Null).await;
    assert_eq!(code, 200);
    let samples = text
        .lines()
        .filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
    let samples = samples.filter(|(labels, _)| labels.is_empty() || labels.starts_with('{'));
    samples
        .map(|(labels, value)| (labels.to_owned(), value.parse().unwrap()))
        .collect()
}

/// The sum of a metric's samples with these labels.
async fn sum(server: &Server, name: &str, labels: &[(&str, &str)]) -> f64 {
    let wanted: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{value}\""))
        .collect();
    let found = metrics(server, name).await.into_iter();
    let matches = found.filter(|(labels, _)| wanted.iter().all(|label| labels.contains(label)));
    matches.map(|(_, value)| value).sum()
}

/// The number of requests with this verb, resource, subresource, scope and code.
async fn requests(server: &Server, labels: [&str; 5]) -> f64 {
    let names = [",verb", ",resource", ",subresource", ",scope", ",code"];
    let labels: Vec<_> = names.into_iter().zip(labels).collect();
    sum(server, "apiserver_request_total", &labels).await
}

#[tokio::test]
async fn requests_are_counted_by_verb_resource_and_code() {
    let server = server(Clock::wall());
    let admin = Identity::admin();
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({ "metadata": { "name": "one" } });
    let stranger = user("stranger", &[]);
    for (who, method, path, body, code) in [
        (&admin, "POST", maps.to_owned(), &map, 201),
        (&admin, "POST", maps.to_owned(), &map, 409),
        (&admin, "GET", maps.to_owned(), &Value::Null, 200),
        (&admin, "GET", format!("{maps}/one"), &Value::Null, 200),
        (&stranger, "GET", format!("{maps}/one"), &Value::Null, 403),
        (&admin, "GET", "/api/v1/nodes/x/status".to_owned(), &Value::Null, 404),
        (&admin, "GET", "/readyz/ping".to_owned(), &Value::Null, 200),
    ] {
        assert_eq!(
            send(&server, Some(who), method, &path, body).await.0,
            code,
            "{method} {path}"
        );
    }
    for (labels, count) in [
        (["POST", "configmaps", "", "namespace", "201"], 1.0),
        (["POST", "configmaps", "", "namespace", "409"], 1.0),
        (["LIST", "configmaps", "", "namespace", "200"], 1.0),
        (["GET", "configmaps", "", "resource", "200"], 1.0),
        (["GET", "configmaps", "", "resource", "403"], 1.0),
        (["GET", "nodes", "status", "resource", "404"], 1.0),
        (["GET", "", "/readyz", "", "200"], 1.0),
    ] {
        assert_eq!(requests(&server, labels).await, count, "{labels:?}");
    }
    let read_only = [("request_kind", "readOnly")];
    let in_flight = sum(&server, "apiserver_current_inflight_requests", &read_only).await;
    assert_eq!(in_flight, 1.0, "the request for metrics itself");
    let gets = [("verb", "GET"), ("resource", "configmaps"), ("le", "60.0")];
    assert_eq!(
        sum(&server, "apiserver_request_duration_seconds_bucket", &gets).await,
        2.0
    );
}

#[tokio::test]
async fn clients_cannot_create_series() {
    let server = server(Clock::wall());
    let before = metrics(&server, "apiserver_request_total").await.len();
    for number in 0..20 {
        for path in [
            format!("/apis/group{number}/v1/things"),
            format!("/api/v1/things{number}"),
            format!("/api/v1/namespaces/default/pods/p/part{number}"),
            format!("/path{number}"),
        ] {
            for who in [None, Some(&Identity::admin())] {
                send(&server, who, "GET", &path, &Value::Null).await;
            }
        }
    }
    let after = metrics(&server, "apiserver_request_total").await.len();
    // At most the codes 403, 404 and 405 of two series, and that of the first request for metrics.
    assert!(after - before <= 6, "{before} {after}");
}

#[tokio::test]
async fn open_watches_are_counted() {
    let server = server(Clock::wall());
    let watch = Request::get("/api/v1/nodes?watch=true").body(Bytes::new());
    let response = server.handle(Some(&Identity::admin()), watch.unwrap()).await.unwrap();
    let watches = [("verb", "WATCH"), ("resource", "nodes")];
    let open = || sum(&server, "apiserver_longrunning_requests", &watches);
    assert_eq!(open().await, 1.0);
    drop(response);
    assert_eq!(open().await, 0.0);
    let requests = sum(&server, "apiserver_request_total", &watches).await;
    let durations = sum(&server, "apiserver_request_duration_seconds_count", &watches).await;
    assert_eq!((requests, durations), (1.0, 0.0));
}

#[tokio::test]
async fn a_panic_is_counted_with_its_response() {
    let server = server(Clock::wall());
    let path = "/api/v1/namespaces/default/configmaps/panics";
    let (code, _) = send(&server, Some(&Identity::admin()), "GET", path, &Value::Null).await;
    assert_eq!(code, 500);
    let of_configmaps = [("verb", "GET"), ("resource", "configmaps")];
    assert_eq!(sum(&server, "drydock_request_panics_total", &of_configmaps).await, 1.0);
    assert_eq!(metrics(&server, "drydock_request_panics_total").await.len(), 1);
    assert_eq!(
        requests(&server, ["GET", "configmaps", "", "resource", "500"]).await,
        1.0
    );
}

#[tokio::test]
async fn metrics_need_a_permission_for_their_path() {
    let server = server(Clock::wall());
    let (scraper, monitoring) = (user("scraper", &[]), user("prometheus", &["system:monitoring"]));
    let get = |who| send(&server, who, "GET", "/metrics", &Value::Null);
    assert_eq!(get(None).await.0, 403);
    let (code, text) = get(Some(&scraper)).await;
    assert_eq!(code, 403);
    assert!(text.contains(r#"cannot get path \"/metrics\""#), "{text}");
    assert_eq!(get(Some(&monitoring)).await.0, 200);
    let name = json!({ "name": "scrapes" });
    let role = json!({ "metadata": name, "rules": [{ "verbs": ["get"], "nonResourceURLs": ["/metrics"] }] });
    let binding = json!({
        "metadata": name,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "scrapes" },
        "subjects": [{ "kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "scraper" }],
    });
    for (kind, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{kind}");
        let (code, text) = send(&server, Some(&Identity::admin()), "POST", &path, &object).await;
        assert_eq!(code, 201, "{text}");
    }
    assert_eq!(get(Some(&scraper)).await.0, 200);
}

#[tokio::test]
async fn other_parts_of_the_process_add_their_metrics() {
    assert_eq!(sum(&server(Clock::wall()), "other_total", &[]).await, 7.0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_counted_in_virtual_time() {
    let server = server(Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap()));
    send(&server, Some(&Identity::admin()), "GET", "/api/v1/nodes", &Value::Null).await;
    assert_eq!(metrics(&server, "apiserver_request_total").await, []);
}
