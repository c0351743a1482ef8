//! The channel to a driver: its address, and connections that are established on demand.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use hyper_util::rt::TokioIo;
use proxy::Proxies;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};

pub use crate::connect_error::ConnectError;
use crate::tls::{FileError, Tls};
use crate::tunnel::{self, proxy_for};

/// The timeout for establishing a connection, including TLS; the call then fails with Unavailable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of a short call; it then fails with DeadlineExceeded.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The interval and the timeout of keep-alive probes during a call: a dead peer is detected within twice
/// this time. Idle connections are not probed, because drivers may treat that as an attack and close the
/// connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// How long to wait for the server's first bytes. HTTP/2 servers begin with their settings; one that
/// rejects the client's certificate sends the reason instead, after a successful handshake.
const GREETING: Duration = Duration::from_secs(1);

/// The host name of the loopback interface.
const LOCALHOST: &str = "localhost";

/// Why an address is not the address of a driver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address:?} is not the address of a driver: write {form} ({reason})")]
pub struct AddressError {
    address: String,
    form: &'static str,
    reason: String,
}

impl From<AddressError> for ConnectError {
    fn from(error: AddressError) -> Self {
        Self(error.to_string())
    }
}

impl From<FileError> for ConnectError {
    fn from(error: FileError) -> Self {
        Self(error.to_string())
    }
}

/// Opens a channel to `address`: `grpc://HOST:PORT`, which must be on loopback, without `tls`, and
/// `grpcs://HOST:PORT` with it. The first call establishes the connection, and the next call after a
/// loss establishes it again with the current files. Must be called within a Tokio runtime. Suited to
/// short calls, such as those of a cloud's control API.
///
/// # Errors
/// If the address is invalid.
pub fn channel(address: &str, tls: Option<Tls>) -> Result<Channel, AddressError> {
    open(address, tls, Some(CALL_TIMEOUT))
}

/// Opens a channel without a call timeout, for streams and for calls that their caller limits. A dead peer is detected
/// nevertheless.
///
/// # Errors
/// If the address is invalid.
pub fn patient(address: &str, tls: Option<Tls>) -> Result<Channel, AddressError> {
    open(address, tls, None)
}

fn open(address: &str, tls: Option<Tls>, limit: Option<Duration>) -> Result<Channel, AddressError> {
    let dialler = Arc::new(Dialler::new(address, tls)?);
    let endpoint = Endpoint::from_shared(format!("http://{}", dialler.authority))
        .map_err(|error| wrong(address, dialler.tls.is_some(), error.to_string()))?
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE);
    let endpoint = match limit {
        Some(limit) => endpoint.timeout(limit),
        None => endpoint,
    };
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| Arc::clone(&dialler).dial())))
}

/// Checks that `address` is a valid driver address and matches `tls`, without connecting and without
/// reading files.
///
/// # Errors
/// If it is not.
pub fn check_address(address: &str, tls: Option<&Tls>) -> Result<(), AddressError> {
    Dialler::new(address, tls.cloned()).map(drop)
}

/// Connects to the driver at `address`, with TLS if `tls` is given, and closes the connection.
///
/// # Errors
/// If the address is invalid, or nothing at it accepts the connection.
pub async fn check_connection(address: &str, tls: Option<Tls>) -> Result<(), ConnectError> {
    Arc::new(Dialler::new(address, tls)?).dial().await.map(drop)
}

/// The addresses of all hosts that the name in `address` resolves to, each with the TLS configuration that expects the
/// name in the certificate. An IP address and `localhost` stand for themselves.
///
/// # Errors
/// If the address is invalid or its name cannot be resolved.
pub async fn replicas(address: &str, tls: Option<&Tls>) -> Result<BTreeMap<String, Option<Tls>>, ConnectError> {
    let dialler = Dialler::new(address, tls.cloned())?;
    if dialler.stands_for_itself() {
        return Ok([(address.to_owned(), tls.cloned())].into());
    }
    let hosts = dialler.resolve().await?;
    Ok(hosts.into_iter().map(|host| dialler.at(host)).collect())
}

/// Whether the address requires TLS.
pub fn is_encrypted(address: &str) -> bool {
    address.starts_with("grpcs://")
}

fn wrong(address: &str, encrypted: bool, reason: String) -> AddressError {
    AddressError {
        address: address.to_owned(),
        form: if encrypted {
            "grpcs://HOST:PORT"
        } else {
            "grpc://HOST:PORT"
        },
        reason,
    }
}

/// Connects to one driver.
#[derive(Debug)]
struct Dialler {
    address: String,
    authority: Authority,
    host: String,
    port: u16,
    tls: Option<Tls>,
}

trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

type Connection = TokioIo<Box<dyn Io>>;

impl Dialler {
    fn new(address: &str, tls: Option<Tls>) -> Result<Self, AddressError> {
        let encrypted = is_encrypted(address);
        let wrong = |reason: String| wrong(address, encrypted, reason);
        let authority = ["grpc://", "grpcs://"]
            .into_iter()
            .find_map(|scheme| address.strip_prefix(scheme))
            .ok_or_else(|| wrong("it must begin with grpc:// or grpcs://".to_owned()))?;
        let authority: Authority = authority
            .parse()
            .map_err(|error| wrong(format!("what follows the scheme is not HOST:PORT: {error}")))?;
        let port = authority.port_u16().filter(|port| *port > 0);
        let port = port.ok_or_else(|| wrong("the port is missing".to_owned()))?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        match &tls {
            None if encrypted => {
                return Err(wrong("it needs a CA, a client certificate and its key".to_owned()));
            }
            Some(_) if !encrypted => {
                return Err(wrong("certificates apply to grpcs:// only".to_owned()));
            }
            None if !proxy::is_loopback(&host) => {
                return Err(wrong(format!(
                    "{host} is not on loopback and the connection would not be encrypted: use grpcs://{authority} with certificates"
                )));
            }
            None => {}
            Some(tls) => drop(tls.name_of(&host).map_err(|error| wrong(error.to_string()))?),
        }
        Ok(Self {
            address: address.to_owned(),
            authority,
            host,
            port,
            tls,
        })
    }

    async fn dial(self: Arc<Self>) -> Result<Connection, ConnectError> {
        match tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await {
            Ok(result) => result,
            Err(_) => Err(ConnectError(format!(
                "no connection within {} s",
                CONNECT_TIMEOUT.as_secs()
            ))),
        }
    }

    async fn connect(&self) -> Result<Connection, ConnectError> {
        let stream = self.reach().await?;
        let Some(tls) = &self.tls else {
            return Ok(TokioIo::new(Box::new(stream)));
        };
        let config = Arc::new(tls.files.client_config()?);
        let name = tls
            .name_of(&self.host)
            .map_err(|error| ConnectError(error.to_string()))?;
        let explain = |error| ConnectError(tls.explain(&self.address, &error));
        let mut stream = TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(explain)?;
        let mut greeting = vec![0; 1024];
        let length = match tokio::time::timeout(GREETING, stream.read(&mut greeting)).await {
            Ok(Ok(0)) => return Err(ConnectError(tls.closed(&self.address))),
            Ok(read) => read.map_err(explain)?,
            Err(_) => 0,
        };
        greeting.truncate(length);
        let (reader, writer) = tokio::io::split(stream);
        let stream = tokio::io::join(Cursor::new(greeting).chain(reader), writer);
        Ok(TokioIo::new(Box::new(stream)))
    }

    async fn reach(&self) -> Result<TcpStream, ConnectError> {
        let certified = self.tls.as_ref().and_then(|tls| tls.server_name.as_deref());
        let names = std::iter::once(self.host.as_str()).chain(certified);
        if let Some(proxy) = proxy_for(&Proxies::from_environment(), names, self.port)? {
            return tunnel::open(&proxy, &self.host, self.port).await;
        }
        let mut reason = "it has no address".to_owned();
        for address in self.resolve().await? {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    // Avoids delays of small messages; a failure only makes calls slower.
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(error) => reason = format!("{address}: {error}"),
            }
        }
        Err(ConnectError(reason))
    }

    fn stands_for_itself(&self) -> bool {
        self.host == LOCALHOST || self.host.parse::<IpAddr>().is_ok()
    }

    /// The address and the TLS configuration of one of its hosts.
    fn at(&self, host: SocketAddr) -> (String, Option<Tls>) {
        let scheme = if self.tls.is_some() { "grpcs" } else { "grpc" };
        let tls = self.tls.clone().map(|mut tls| {
            tls.server_name.get_or_insert_with(|| self.host.clone());
            tls
        });
        (format!("{scheme}://{host}"), tls)
    }

    async fn resolve(&self) -> Result<Vec<SocketAddr>, ConnectError> {
        if let Ok(address) = self.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, self.port)]);
        }
        if self.host == LOCALHOST {
            // Resolved without a resolver (RFC 6761, section 6.3), because a container image may not contain one.
            let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
            return Ok(loopback.map(|address| SocketAddr::new(address, self.port)).to_vec());
        }
        match tokio::net::lookup_host((self.host.as_str(), self.port)).await {
            Ok(addresses) => Ok(addresses.collect()),
            Err(error) => Err(ConnectError(format!(
                "the name {} cannot be resolved ({error}); a statically linked program may have no resolver: \
                 use the IP address, and set --driver-tls-server-name to the name in the certificate",
                self.host
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::tls::TlsFiles;

    fn tls() -> Tls {
        Tls {
            files: TlsFiles {
                ca: "/tls/ca.crt".into(),
                cert: "/tls/tls.crt".into(),
                key: "/tls/tls.key".into(),
            },
            server_name: None,
        }
    }

    #[rstest]
    #[case::no_scheme("localhost:1")]
    #[case::another_scheme("http://localhost:1")]
    #[case::no_port("grpc://localhost")]
    #[case::port_is_not_a_number("grpc://localhost:x")]
    #[case::no_host_and_port("grpc://")]
    fn an_invalid_address_is_rejected_with_the_expected_form(#[case] address: &str) {
        let error = check_address(address, None).unwrap_err().to_string();
        assert!(error.contains("grpc://HOST:PORT") && error.contains(address), "{error}");
    }

    #[rstest]
    #[case::plain_on_loopback("grpc://127.0.0.1:1", None, "")]
    #[case::plain_on_ipv6_loopback("grpc://[::1]:1", None, "")]
    #[case::plain_by_name("grpc://localhost:1", None, "")]
    #[case::plain_elsewhere("grpc://10.0.0.1:1", None, "use grpcs://10.0.0.1:1")]
    #[case::plain_elsewhere_by_name("grpc://cloud:1", None, "use grpcs://cloud:1")]
    #[case::encrypted("grpcs://cloud:1", Some(tls()), "")]
    #[case::encrypted_without_files("grpcs://cloud:1", None, "it needs a CA")]
    #[case::files_without_encryption("grpc://localhost:1", Some(tls()), "grpcs:// only")]
    #[case::invalid_server_name("grpcs://cloud:1", Some(Tls { server_name: Some("a b".into()), ..tls() }), "\"a b\"")]
    fn an_address_off_loopback_needs_certificates(
        #[case] address: &str,
        #[case] tls: Option<Tls>,
        #[case] expected: &str,
    ) {
        let problem = check_address(address, tls.as_ref())
            .err()
            .map(|error| error.to_string());
        assert_eq!(problem.is_none(), expected.is_empty(), "{problem:?}");
        assert!(problem.unwrap_or_default().contains(expected));
    }

    #[rstest]
    #[case::of_the_host(None, "mcm.drydock.svc")]
    #[case::given(Some("mcm"), "mcm")]
    fn each_host_of_a_name_is_an_address_with_the_name_in_its_certificate(
        #[case] given: Option<&str>,
        #[case] expected: &str,
    ) {
        let given = Tls {
            server_name: given.map(str::to_owned),
            ..tls()
        };
        let dialler = Dialler::new("grpcs://mcm.drydock.svc:5000", Some(given)).unwrap();
        for (host, address) in [
            ("10.0.0.1:5000", "grpcs://10.0.0.1:5000"),
            ("[fd00::1]:5000", "grpcs://[fd00::1]:5000"),
        ] {
            let (found, tls) = dialler.at(host.parse().unwrap());
            assert_eq!(found, address);
            assert_eq!(tls.clone().unwrap().server_name.as_deref(), Some(expected));
            assert_eq!(check_address(&found, tls.as_ref()), Ok(()));
        }
    }

    #[rstest]
    #[case::an_ip_address("grpc://127.0.0.1:5000")]
    #[case::localhost("grpc://localhost:5000")]
    #[tokio::test]
    async fn an_address_without_a_name_to_resolve_stands_for_itself(#[case] address: &str) {
        let found = replicas(address, None).await.unwrap();
        assert_eq!(found, [(address.to_owned(), None)].into());
    }

    #[tokio::test]
    async fn an_unresolvable_name_is_reported_with_the_alternative() {
        let dialler = Dialler::new("grpcs://cloud.invalid:1", Some(tls())).unwrap();
        let error = dialler.resolve().await.unwrap_err().to_string();
        assert!(
            error.contains("cloud.invalid") && error.contains("IP address"),
            "{error}"
        );
    }
}
