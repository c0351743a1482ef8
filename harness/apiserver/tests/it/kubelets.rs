//! Logs of containers and connections into them: the kubelet of the pod's node answers.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use apiserver::serve::Serving;
use apiserver::{Identity, Options, Server};
use bytes::Bytes;
use clock::{Clock, Seed};
use futures::AsyncBufReadExt as _;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{LogParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

use crate::tls::acceptor;

/// A kubelet that logs the path of the request, and turns the bytes of other connections round.
struct Kubelet {
    port: u16,
    _task: AbortOnDropHandle<()>,
}

impl Kubelet {
    async fn start() -> Self {
        let (acceptor, _) = acceptor("some-node");
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let _ended = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service_fn(respond))
                        .with_upgrades()
                        .await;
                });
            }
        });
        Self {
            port,
            _task: AbortOnDropHandle::new(task),
        }
    }
}

async fn respond(mut request: Request<Incoming>) -> hyper::Result<Response<Full<Bytes>>> {
    let target = request.uri().to_string();
    assert!(!request.headers().contains_key(header::AUTHORIZATION));
    let Some(protocol) = request.headers().get(header::UPGRADE).cloned() else {
        return Ok(Response::new(Full::from(format!("{target}\nsecond line\n"))));
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut stream = TokioIo::new(upgrade.await.unwrap());
        stream.write_all(format!("{target}\n").as_bytes()).await.unwrap();
        let mut word = [0; 5];
        stream.read_exact(&mut word).await.unwrap();
        word.reverse();
        stream.write_all(&word).await.unwrap();
        stream.shutdown().await.unwrap();
    });
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(header::UPGRADE, protocol);
    response
        .headers_mut()
        .insert(header::CONNECTION, "Upgrade".parse().unwrap());
    Ok(response)
}

/// A server with a pod on the node of a kubelet.
async fn start(kubelet: &Kubelet, runtime: &str) -> (Server, Serving, Client) {
    let server = Server::new(Options::new(Clock::wall(), Seed::new(7))).unwrap();
    server.add_token("secret", Identity::admin());
    let serving = server.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let kubeconfig = serving.kubeconfig_with_token("admin", "secret").unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let client = Client::try_from(config.unwrap()).unwrap();
    let node: Node = serde_json::from_value(json!({
        "metadata": { "name": "some-node" },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": "127.0.0.1" }],
            "daemonEndpoints": { "kubeletEndpoint": { "Port": kubelet.port } },
            "nodeInfo": {
                "architecture": "", "bootID": "", "containerRuntimeVersion": runtime, "kernelVersion": "", "kubeProxyVersion": "",
                "kubeletVersion": "", "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": "",
            },
        },
    }))
    .unwrap();
    let post = PostParams::default();
    Api::<Node>::all(client.clone()).create(&post, &node).await.unwrap();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "p" },
        "spec": { "nodeName": "some-node", "containers": [{ "name": "main", "image": "image" }] },
    }))
    .unwrap();
    Api::<Pod>::default_namespaced(client.clone())
        .create(&post, &pod)
        .await
        .unwrap();
    (server, serving, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_comes_from_the_kubelet() {
    let kubelet = Kubelet::start().await;
    let (_server, _serving, client) = start(&kubelet, "containerd://2.0.0").await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let log = pods.logs("p", &LogParams::default()).await.unwrap();
    assert_eq!(log, "/containerLogs/default/p/main\nsecond line\n");
    let follow = LogParams {
        follow: true,
        tail_lines: Some(3),
        ..LogParams::default()
    };
    let mut lines = pods.log_stream("p", &follow).await.unwrap().lines();
    let first = futures::StreamExt::next(&mut lines).await.unwrap().unwrap();
    assert_eq!(first, "/containerLogs/default/p/main?follow=true&tailLines=3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_on_a_simulated_node_has_the_log_of_its_life() {
    let kubelet = Kubelet::start().await;
    let (_server, _serving, client) = start(&kubelet, "fakecloud://1.0.0").await;
    let pods: Api<Pod> = Api::default_namespaced(client);
    let log = pods.logs("p", &LogParams::default()).await.unwrap();
    assert!(log.starts_with("This pod is simulated"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_into_a_container_is_a_connection_to_the_kubelet() {
    let kubelet = Kubelet::start().await;
    let (server, serving, _client) = start(&kubelet, "containerd://2.0.0").await;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(server.certificate_authority().as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(serving.address()).await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector
        .connect("localhost".try_into().unwrap(), stream)
        .await
        .unwrap();
    let (mut sender, driver) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .unwrap();
    let _driver = AbortOnDropHandle::new(tokio::spawn(driver.with_upgrades()));
    let path = "/api/v1/namespaces/default/pods/p/exec?command=ls&stdin=true&stdout=true";
    let request = Request::post(path)
        .header(header::HOST, "localhost")
        .header(header::AUTHORIZATION, "Bearer secret")
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "SPDY/3.1")
        .body(Full::<Bytes>::default())
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    assert_eq!(response.headers()[header::UPGRADE], "SPDY/3.1");
    let mut stream = TokioIo::new(hyper::upgrade::on(response).await.unwrap());
    stream.write_all(b"hello").await.unwrap();
    let mut received = String::new();
    stream.read_to_string(&mut received).await.unwrap();
    assert_eq!(received, "/exec/default/p/main?command=ls&input=1&output=1\nolleh");
}
