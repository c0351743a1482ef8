//! Flags and probes of `serve`.

use clap::{Command, FromArgMatches};
use rstest::rstest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

fn parse(arguments: &[&str]) -> Result<ServeOptions, String> {
    let arguments = std::iter::once("serve").chain(arguments.iter().copied());
    let matches = ServeOptions::augment_args(Command::new("serve"))
        .try_get_matches_from(arguments)
        .map_err(|error| error.to_string())?;
    ServeOptions::from_arg_matches(&matches).map_err(|error| error.to_string())
}

#[rstest]
#[case::no_key(&["--tls-cert=/x", "--tls-client-ca=/x"], "--tls-key")]
#[case::no_authority(&["--tls-cert=/x", "--tls-key=/x"], "--tls-client-ca")]
#[case::no_certificate(&["--tls-key=/x"], "--tls-cert")]
#[case::no_server(&["--tls-control-ca=/x", "--control-address=127.0.0.1:1"], "--tls-cert")]
#[case::nowhere(&["--tls-control-ca=/x", "--tls-cert=/x", "--tls-key=/x", "--tls-client-ca=/x"], "--control-address")]
fn the_tls_flags_require_each_other(#[case] arguments: &[&str], #[case] missing: &str) {
    let error = parse(arguments).unwrap_err();
    assert!(error.contains(missing), "{error}");
}

#[rstest]
#[case::not_encrypted(&["--address=0.0.0.0:0"], "--tls-cert, --tls-key and --tls-client-ca")]
#[case::unreadable(
    &["--address=0.0.0.0:0", "--tls-cert=/no/crt", "--tls-key=/no/key", "--tls-client-ca=/no/ca"],
    "/no/ca"
)]
#[case::control_not_encrypted(
    &["--address=127.0.0.1:0", "--control-address=0.0.0.0:0", "--tls-cert=/no/crt", "--tls-key=/no/key", "--tls-client-ca=/no/ca"],
    "--control-address 0.0.0.0:0"
)]
#[tokio::test]
async fn other_addresses_than_loopback_require_valid_certificates(#[case] arguments: &[&str], #[case] expected: &str) {
    let options = parse(&[arguments, &["--without-kubelets"]].concat()).unwrap();
    let error = format!("{:#}", serve(options, CancellationToken::new()).await.unwrap_err());
    assert!(error.contains(expected) && !error.contains('\n'), "{error}");
}

async fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Addresses in announcements.
fn addresses(announcements: &[String], names: &[&str]) -> Vec<SocketAddr> {
    let pairs = announcements.iter().zip(names);
    let parsed = pairs.map(|(text, name)| text.strip_prefix(&format!("{name}: http://")).unwrap().parse().unwrap());
    parsed.collect()
}

#[tokio::test]
async fn readiness_follows_the_grpc_server() {
    let pages = probes::Listeners::bind(Some("127.0.0.1:0".parse().unwrap()), None)
        .await
        .unwrap();
    let address = addresses(&pages.announcements(), &["probes and metrics"])[0];
    let cloud = Fakecloud::new(Config::default(), Clock::wall(), Seed::new(1));
    let (readiness, token) = (Readiness::default(), CancellationToken::new());
    let story = async {
        assert!(get(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 503"));
        readiness.set(true);
        assert!(get(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        let metrics = get(address, "/metrics").await;
        assert!(
            metrics.contains("fakecloud_vms{state=\"pending\"} 0") && metrics.ends_with("# EOF\n"),
            "{metrics}"
        );
        token.cancel();
    };
    let serving = pages.serve(readiness.clone(), Metrics::new(cloud), token.clone());
    tokio::join!(serving, story);
}

#[tokio::test]
async fn metrics_can_have_an_address_of_their_own() {
    let any = Some("127.0.0.1:0".parse().unwrap());
    let pages = probes::Listeners::bind(any, any).await.unwrap();
    let addresses = addresses(&pages.announcements(), &["probes", "metrics"]);
    let cloud = Fakecloud::new(Config::default(), Clock::wall(), Seed::new(1));
    let token = CancellationToken::new();
    let story = async {
        for (path, served_by) in [("/healthz", 0), ("/readyz", 0), ("/metrics", 1)] {
            assert!(
                !get(addresses[served_by], path).await.starts_with("HTTP/1.1 404"),
                "{path}"
            );
            assert!(
                get(addresses[1 - served_by], path).await.starts_with("HTTP/1.1 404"),
                "{path}"
            );
        }
        token.cancel();
    };
    let serving = pages.serve(Readiness::default(), Metrics::new(cloud), token.clone());
    tokio::join!(serving, story);
}

#[rstest]
#[case::driver("--address")]
#[case::control("--control-address")]
#[case::probes("--health-address")]
#[case::metrics("--metrics-address")]
#[tokio::test]
async fn the_error_for_an_address_in_use_is_one_line_and_names_the_flag(#[case] flag: &str) {
    let taken = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let argument = format!("{flag}={}", taken.local_addr().unwrap());
    let free = ["--address=127.0.0.1:0"];
    let free = if flag == "--address" { &[][..] } else { &free[..] };
    let options = parse(&[&["--without-kubelets", &argument], free].concat()).unwrap();
    let error = format!("{:#}", serve(options, CancellationToken::new()).await.unwrap_err());
    assert!(error.contains(flag) && !error.contains('\n'), "{error}");
}
