//! Connections through an HTTP proxy (CONNECT), as grpc-go opens them.

use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;
use proxy::Proxies;
use tokio::net::TcpStream;
use tower::ServiceExt;

use crate::connect_error::ConnectError;

/// The proxy for a driver; `None`: connect directly. `names` are the names of one host, of which any may be excluded by
/// `NO_PROXY`: its address, and the name in its certificate.
pub(crate) fn proxy_for<'a>(
    proxies: &Proxies,
    names: impl IntoIterator<Item = &'a str>,
    port: u16,
) -> Result<Option<Uri>, ConnectError> {
    let mut proxy = None;
    for name in names {
        let target = target(name, port)?;
        match proxies.of(&target).map_err(|error| ConnectError(error.to_string()))? {
            None => return Ok(None),
            found => proxy = found,
        }
    }
    Ok(proxy)
}

/// Opens a connection to `host` through `proxy`, which resolves the name.
pub(crate) async fn open(proxy: &Uri, host: &str, port: u16) -> Result<TcpStream, ConnectError> {
    let place = match (proxy.host(), proxy.port_u16()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (host, _) => host.unwrap_or_default().to_owned(),
    };
    if proxy.scheme_str() != Some("http") {
        return Err(ConnectError(format!(
            "the proxy {place} speaks https, which connections to drivers do not support: set HTTPS_PROXY to a proxy \
             http://HOST:PORT, or add {host} to NO_PROXY"
        )));
    }
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let tunnel = Tunnel::new(proxy.clone(), connector);
    let tunnel = match credentials(proxy) {
        Some(credentials) => tunnel.with_auth(credentials),
        None => tunnel,
    };
    let opened = tunnel.oneshot(target(host, port)?).await;
    let stream = opened.map_err(|error| {
        ConnectError(format!(
            "the proxy {place} does not connect to {host}:{port}: {error}; check HTTPS_PROXY and NO_PROXY"
        ))
    })?;
    Ok(stream.into_inner())
}

/// The user and password in the URL of a proxy, as a header.
fn credentials(proxy: &Uri) -> Option<HeaderValue> {
    let matcher = Matcher::builder().http(proxy.to_string()).build();
    let intercept = matcher.intercept(&Uri::from_static("http://any.example/"))?;
    intercept.basic_auth().cloned()
}

fn target(host: &str, port: u16) -> Result<Uri, ConnectError> {
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    };
    let url = format!("https://{host}:{port}");
    url.parse().map_err(|_| ConnectError(format!("{url} is not a URL")))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    fn proxies(no: &str) -> Proxies {
        let no = no.to_owned();
        Proxies::read(move |name| match name {
            "HTTPS_PROXY" => Some("http://proxy.example:1".to_owned()),
            "NO_PROXY" => Some(no.clone()),
            _ => None,
        })
    }

    #[rstest]
    #[case::elsewhere(&["cloud.example"], "", true)]
    #[case::loopback(&["127.0.0.1"], "", false)]
    #[case::excluded(&["cloud.example"], "example", false)]
    #[case::excluded_by_the_name_in_the_certificate(&["10.0.0.1", "mcm.drydock.svc"], ".svc", false)]
    #[case::excluded_by_the_address(&["10.0.0.1", "mcm.drydock.svc"], "10.0.0.0/8", false)]
    fn a_proxy_is_used_unless_a_name_is_excluded(#[case] names: &[&str], #[case] no: &str, #[case] used: bool) {
        let proxy = proxy_for(&proxies(no), names.iter().copied(), 5000).unwrap();
        assert_eq!(proxy.is_some(), used);
    }

    /// A proxy that returns the request and answers with `status`.
    async fn proxy_with(status: &'static str) -> (Uri, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxy = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                request.push(stream.read_u8().await.unwrap());
            }
            let answer = format!("HTTP/1.1 {status}\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(request).unwrap()
        });
        (format!("http://me:secret@127.0.0.1:{port}").parse().unwrap(), proxy)
    }

    #[tokio::test]
    async fn the_proxy_receives_the_name_and_the_credentials() {
        let (url, proxy) = proxy_with("200 OK").await;
        open(&url, "cloud.example", 5000).await.unwrap();
        let request = proxy.await.unwrap();
        assert!(
            request.starts_with("CONNECT cloud.example:5000 HTTP/1.1\r\n"),
            "{request}"
        );
        assert!(
            request.to_lowercase().contains("proxy-authorization: basic "),
            "{request}"
        );
    }

    #[tokio::test]
    async fn a_refusal_names_the_variables_but_not_the_password() {
        let (url, _proxy) = proxy_with("403 Forbidden").await;
        let error = open(&url, "cloud.example", 5000).await.unwrap_err().to_string();
        assert!(
            error.contains("cloud.example:5000") && error.contains("HTTPS_PROXY"),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
}
