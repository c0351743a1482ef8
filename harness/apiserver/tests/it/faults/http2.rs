//! A client that sends all its requests on one HTTP/2 connection.

use std::sync::Arc;

use apiserver::Identity;
use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::world::{CONFIG_MAPS, Transport, World, run_story};

const TOKEN: &str = "abc";

async fn connect(world: &World) -> SendRequest<Full<Bytes>> {
    let address = world.serving.as_ref().unwrap().address();
    let mut roots = RootCertStore::empty();
    let authority = CertificateDer::from_pem_slice(world.server.certificate_authority().as_bytes()).unwrap();
    roots.add(authority).unwrap();
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::from(address.ip());
    let stream = TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
        .unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(world: &World, name: &str) -> Request<Full<Bytes>> {
    let url = format!("{}{CONFIG_MAPS}", world.serving.as_ref().unwrap().url());
    let body = format!("{{\"metadata\":{{\"name\":{name:?}}}}}");
    let request = Request::post(url).header("authorization", format!("Bearer {TOKEN}"));
    request.body(Full::from(body)).unwrap()
}

#[test]
fn over_http2_a_dropped_request_ends_alone_and_the_next_one_is_served() {
    run_story(Transport::Https, async |world: World| {
        world.server.add_token(TOKEN, Identity::user("mcm"));
        world.rules("{name: lose, match: {object: a, times: 1}, action: {drop: {at: afterCommit}}}");
        let mut sender = connect(&world).await;
        let lost = sender.send_request(request(&world, "a")).await;
        assert!(lost.is_err(), "{lost:?}");
        assert!(world.is_there("a").await);
        let answer = sender.send_request(request(&world, "b")).await.unwrap();
        assert_eq!(answer.status(), 201);
    });
}

#[test]
fn over_http2_a_restart_ends_the_connection() {
    run_story(Transport::Https, async |world: World| {
        world.server.add_token(TOKEN, Identity::user("mcm"));
        world.rules("{name: again, match: {object: a, times: 1}, action: {restart: {}}}");
        let mut sender = connect(&world).await;
        let lost = sender.send_request(request(&world, "a")).await;
        assert!(lost.is_err(), "{lost:?}");
        let gone = sender.send_request(request(&world, "b")).await;
        assert!(gone.is_err(), "{gone:?}");
        let answer = connect(&world).await.send_request(request(&world, "b")).await.unwrap();
        assert_eq!(answer.status(), 201);
    });
}
