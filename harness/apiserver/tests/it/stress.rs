//! Many concurrent clients on several threads.

use std::sync::Arc;

use apiserver::{Identity, Options, Server};
use clock::{Clock, Seed};
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use rstest::rstest;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower::ServiceExt as _;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn server() -> Server {
    Server::new(Options::new(Clock::wall(), Seed::new(7))).unwrap()
}

async fn request(server: &Server, method: Method, path: &str, body: &Value) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path);
    let text = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let service = server.service(Identity::admin());
    let response = service
        .oneshot(request.body(Full::<bytes::Bytes>::from(text)).unwrap())
        .await
        .unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

/// Increments the value and retries until the server accepts the update.
async fn increment(server: &Server) {
    let path = format!("{MAPS}/counter");
    loop {
        let (_, mut map) = request(server, Method::GET, &path, &Value::Null).await;
        let count: u64 = map["data"]["count"].as_str().unwrap().parse().unwrap();
        map["data"]["count"] = (count + 1).to_string().into();
        match request(server, Method::PUT, &path, &map).await.0 {
            200 => return,
            409 => tokio::task::yield_now().await,
            code => panic!("{code}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_updates_are_not_lost_and_watches_see_each_once_in_order() {
    const WRITERS: u64 = 8;
    const WRITES: u64 = 50;
    let server = server();
    let map = json!({ "metadata": { "name": "counter" }, "data": { "count": "0" } });
    let (_, created) = request(&server, Method::POST, MAPS, &map).await;
    let revision = created["metadata"]["resourceVersion"].as_str().unwrap();
    let path = format!("{MAPS}?watch=true&resourceVersion={revision}&fieldSelector=metadata.name%3Dcounter");
    let mut tasks = JoinSet::new();
    for _ in 0..4 {
        let watch = Request::builder()
            .uri(&path)
            .body(Full::<bytes::Bytes>::default())
            .unwrap();
        let response = server.service(Identity::admin()).oneshot(watch).await.unwrap();
        tasks.spawn(async move {
            let mut body = response.into_body();
            let mut last = 0;
            for count in 1..=WRITERS * WRITES {
                let frame = body.frame().await.unwrap().unwrap();
                let event: Value = serde_json::from_slice(frame.data_ref().unwrap()).unwrap();
                let object = &event["object"];
                assert_eq!(object["data"]["count"], count.to_string());
                let revision: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                assert!(revision > last);
                last = revision;
            }
        });
    }
    for _ in 0..WRITERS {
        let server = server.clone();
        tasks.spawn(async move {
            for _ in 0..WRITES {
                increment(&server).await;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let (_, map) = request(&server, Method::GET, &format!("{MAPS}/counter"), &Value::Null).await;
    assert_eq!(map["data"]["count"], (WRITERS * WRITES).to_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_watches_receive_one_change() {
    let server = Arc::new(server());
    let revision = server.revision();
    let path = format!("{MAPS}?watch=true&resourceVersion={revision}");
    let mut tasks = JoinSet::new();
    for _ in 0..1000 {
        let watch = Request::builder()
            .uri(&path)
            .body(Full::<bytes::Bytes>::default())
            .unwrap();
        let response = server.service(Identity::admin()).oneshot(watch).await.unwrap();
        tasks.spawn(async move { response.into_body().frame().await.is_some() });
    }
    let map = json!({ "metadata": { "name": "news" } });
    assert_eq!(request(&server, Method::POST, MAPS, &map).await.0, 201);
    while let Some(heard) = tasks.join_next().await {
        assert!(heard.unwrap());
    }
}

#[rstest]
#[case::json("application/json", b"{\"metadata\":{\"name\":\"a\"".to_vec())]
#[case::no_object("application/json", b"[1,2]".to_vec())]
#[case::not_text("application/json", vec![0xff, 0xfe, 0x00])]
#[case::deep("application/json", vec![b'['; 200_000])]
#[case::deep_in_data("application/json", [b"{\"data\":".as_slice(), &[b'{'; 100_000]].concat())]
#[case::yaml("application/yaml", b"a: [b\n  c: &x".to_vec())]
#[case::yaml_bomb("application/yaml", b"a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\ndata: [*c,*c]\n".to_vec())]
#[case::protobuf_without_its_magic("application/vnd.kubernetes.protobuf", b"k8s".to_vec())]
#[case::protobuf_cut_off("application/vnd.kubernetes.protobuf", b"k8s\0\x0a\xff\xff\xff\xff\x0f".to_vec())]
#[case::protobuf_nonsense("application/vnd.kubernetes.protobuf", b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09ConfigMap\x12\x03\xff\xff\xff".to_vec())]
#[tokio::test]
async fn an_invalid_body_is_a_bad_request(#[case] media_type: &str, #[case] body: Vec<u8>) {
    let request = Request::post(MAPS).header("content-type", media_type);
    let service = server().service(Identity::admin());
    let response = service
        .oneshot(request.body(Full::<bytes::Bytes>::from(body)).unwrap())
        .await
        .unwrap();
    assert_eq!(response.status(), 400);
}

/// Of concurrent creations a quota admits as many as it allows.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_quota_admits_no_more_objects_than_it_allows() {
    const ALLOWED: usize = 5;
    const CREATIONS: usize = 64;
    let server = server();
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let hard = json!({ "count/configmaps": ALLOWED.to_string() });
    let quota = json!({ "metadata": { "name": "few" }, "spec": { "hard": hard }, "status": { "hard": hard, "used": { "count/configmaps": "0" } } });
    let (code, _) = request(&server, Method::POST, quotas, &quota).await;
    assert_eq!(code, 201);
    let status = format!("{quotas}/few/status");
    let (code, text) = request(&server, Method::PUT, &status, &quota).await;
    assert_eq!(code, 200, "{text}");
    let mut creations = JoinSet::new();
    for number in 0..CREATIONS {
        let server = server.clone();
        creations.spawn(async move {
            let map = json!({ "metadata": { "name": format!("m-{number}") } });
            request(&server, Method::POST, MAPS, &map).await.0
        });
    }
    let codes = creations.join_all().await;
    let created = codes.iter().filter(|code| **code == 201).count();
    assert_eq!(created, ALLOWED, "{codes:?}");
    let (_, quota) = request(&server, Method::GET, &format!("{quotas}/few"), &Value::Null).await;
    assert_eq!(quota["status"]["used"]["count/configmaps"], ALLOWED.to_string());
}
