//! Clients on a socket: TLS, identities, and the end of connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use apiserver::observe::{Observer, RequestRecord};
use apiserver::serve::{ServeError, Serving};
use apiserver::{Identity, Options, Server};
use clock::{Clock, Seed};
use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{ListParams, PostParams, WatchEvent, WatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use parking_lot::Mutex;
use serde_json::json;

async fn serve() -> (Server, Serving) {
    let server = Server::new(Options::new(Clock::wall(), Seed::new(7))).unwrap();
    let serving = server.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    (server, serving)
}

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

async fn namespaces(client: Client) -> Result<usize, kube::Error> {
    Ok(Api::<Namespace>::all(client)
        .list(&ListParams::default())
        .await?
        .items
        .len())
}

#[tokio::test]
async fn a_kubeconfig_with_a_certificate_gives_access() {
    let (_server, serving) = serve().await;
    let client = client(&serving.kubeconfig(&Identity::admin()).unwrap()).await;
    assert_eq!(namespaces(client.clone()).await.unwrap(), 4);
    assert_eq!(client.apiserver_version().await.unwrap().major, "1");
}

#[tokio::test]
async fn tokens_are_accepted_after_they_are_added() {
    let (server, serving) = serve().await;
    let client = client(&serving.kubeconfig_with_token("bob", "abc").unwrap()).await;
    let refused = namespaces(client.clone()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 401));
    server.add_token("abc", Identity::user("bob"));
    assert_eq!(namespaces(client).await.unwrap(), 4);
}

#[tokio::test]
async fn a_bootstrap_token_is_valid_while_its_secret_is() {
    let (_server, serving) = serve().await;
    let joining = client(
        &serving
            .kubeconfig_with_token("node", "abcdef.0123456789abcdef")
            .unwrap(),
    )
    .await;
    assert!(namespaces(joining.clone()).await.is_err());
    let admin = client(&serving.kubeconfig(&Identity::admin()).unwrap()).await;
    let secret = json!({
        "metadata": { "name": "bootstrap-token-abcdef" }, "type": "bootstrap.kubernetes.io/token",
        "stringData": {
            "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
        },
    });
    let secrets: Api<Secret> = Api::namespaced(admin, "kube-system");
    secrets
        .create(&PostParams::default(), &serde_json::from_value(secret).unwrap())
        .await
        .unwrap();
    assert_eq!(namespaces(joining).await.unwrap(), 4);
}

#[tokio::test]
async fn shutting_down_ends_open_watches() {
    let (_server, serving) = serve().await;
    let client = client(&serving.kubeconfig(&Identity::admin()).unwrap()).await;
    let namespaces: Api<Namespace> = Api::all(client);
    let mut watch = namespaces.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    for _ in 0..4 {
        assert!(matches!(watch.next().await, Some(Ok(WatchEvent::Added(_)))));
    }
    let (end, ()) = tokio::join!(watch.next(), serving.shutdown());
    assert!(end.is_none(), "{end:?}");
}

#[tokio::test]
async fn the_error_for_a_port_in_use_names_it() {
    let (server, serving) = serve().await;
    let error = server.serve(serving.address()).await.unwrap_err();
    assert!(matches!(error, ServeError::AddressInUse { .. }));
    assert!(error.to_string().contains(&serving.address().to_string()));
}

/// Blocks in each write until the test continues.
#[derive(Debug)]
struct Blocking {
    started: Mutex<mpsc::Sender<()>>,
    continues: Mutex<mpsc::Receiver<()>>,
}

impl Observer for Blocking {
    fn request(&self, record: &RequestRecord<'_>) {
        if record.verb == "create" {
            self.started.lock().send(()).unwrap();
            let waited = self.continues.lock().recv_timeout(Duration::from_secs(20));
            waited.expect("other requests are served meanwhile");
        }
    }
}

/// The server has one thread, on which a small request would block all others.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn other_requests_are_served_while_a_large_one_is_processed() {
    let (started, start) = mpsc::channel();
    let (resume, continues) = mpsc::channel();
    let mut options = Options::new(Clock::wall(), Seed::new(7));
    options.observer = Some(Arc::new(Blocking {
        started: Mutex::new(started),
        continues: Mutex::new(continues),
    }));
    let server = Server::new(options).unwrap();
    let serving = server.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await.unwrap();
    let kubeconfig = serving.kubeconfig(&Identity::admin()).unwrap();
    let writer: Api<Secret> = Api::namespaced(client(&kubeconfig).await, "default");
    let reader = client(&kubeconfig).await;
    let secret: Secret = serde_json::from_value(json!({
        "metadata": { "name": "large" },
        "stringData": { "key": "x".repeat(200_000) },
    }))
    .unwrap();
    let write = tokio::spawn(async move { writer.create(&PostParams::default(), &secret).await });
    tokio::task::spawn_blocking(move || start.recv().unwrap())
        .await
        .unwrap();
    assert_eq!(namespaces(reader).await.unwrap(), 4);
    resume.send(()).unwrap();
    write.await.unwrap().unwrap();
}
