//! The listener: accepts connections, and closes all of them on shutdown or drop.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use clock::Clock;
use http::Request;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use serving::connections::{Connections, InUse, Usage, within_file_limit};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::{ServeError, kubeconfig, monitor};
use crate::authority::Authority;
use crate::http::Body;
use crate::identity::Identity;
use crate::inner::Inner;
use crate::life::{Disconnected, restarted};
use crate::server::Server;

/// The maximum number of open requests and watches per connection.
const STREAMS: u32 = 1000;
/// The maximum number of connections, if the process may open twice as many files.
const CONNECTIONS: usize = 10_000;
/// How long the header of an HTTP/1 request may take, and how long such a connection may wait for the next one.
const HEADER_LIMIT: Duration = Duration::from_secs(60);
/// The maximum size of the headers of an HTTP/2 request in bytes.
const HEADER_SIZE: u32 = 1024 * 1024;
/// A connection that no request uses during one to two of these periods ends.
const IDLE_PERIOD: Duration = Duration::from_secs(90);
/// The time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The time limit for connections to end by themselves on shutdown.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

/// A listening server. Dropping it cuts every connection; [`Serving::shutdown`] ends them gracefully.
#[derive(Debug)]
pub struct Serving {
    server: Server,
    address: SocketAddr,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on `address` (port 0: any free port) and serves HTTPS.
    ///
    /// # Errors
    /// If the address is in use or not available, and for a server on a simulated clock.
    pub async fn serve(&self, address: SocketAddr) -> Result<Serving, ServeError> {
        let authority = self.inner.authority.as_ref().ok_or(ServeError::Simulated)?;
        let tls = TlsAcceptor::from(Arc::new(authority.server_tls(address.ip())?));
        let refused = |source: io::Error| match source.kind() {
            io::ErrorKind::AddrInUse => ServeError::AddressInUse { address },
            _ => ServeError::Listen { address, source },
        };
        let listener = TcpListener::bind(address).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let stop = self.inner.life.child_token();
        let task = tokio::spawn(accept(Arc::clone(&self.inner), listener, tls, stop.clone()));
        Ok(Serving {
            server: self.clone(),
            address,
            stop,
            task: Some(task),
        })
    }
}

impl Serving {
    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// For instance `https://127.0.0.1:6443`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// A kubeconfig with a client certificate for that user. It contains a private key: write it into a file that only its
    /// owner can read, for example with `durable::private_files`.
    ///
    /// # Errors
    /// If the certificate cannot be created.
    pub fn kubeconfig(&self, identity: &Identity) -> Result<String, ServeError> {
        let authority = self.authority()?;
        let issued = authority.issue(identity)?;
        let (certificate, key) = (kubeconfig::data(&issued.certificate), kubeconfig::data(&issued.key));
        let credentials = [
            ("client-certificate-data", certificate.as_str()),
            ("client-key-data", key.as_str()),
        ];
        Ok(kubeconfig::text(
            &self.url(),
            &authority.pem(),
            &identity.user,
            &credentials,
        ))
    }

    /// A kubeconfig with a bearer token.
    ///
    /// # Errors
    /// None for a listening server.
    pub fn kubeconfig_with_token(&self, user: &str, token: &str) -> Result<String, ServeError> {
        let token = serde_json::Value::from(token).to_string();
        Ok(kubeconfig::text(
            &self.url(),
            &self.authority()?.pem(),
            user,
            &[("token", token.as_str())],
        ))
    }

    fn authority(&self) -> Result<&Authority, ServeError> {
        self.server.inner.authority.as_ref().ok_or(ServeError::Simulated)
    }

    /// Stops listening, ends every watch and waits until all connections have ended.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        self.server.shut_down();
        if let Some(task) = self.task.take() {
            // The task ends by itself, at the latest after `SHUTDOWN_LIMIT`.
            let _ = task.await;
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn accept(inner: Arc<Inner>, listener: TcpListener, tls: TlsAcceptor, stop: CancellationToken) {
    let _monitor = AbortOnDropHandle::new(tokio::spawn(monitor::run(Arc::clone(&inner))));
    let mut connections = Connections::new(within_file_limit(CONNECTIONS));
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = connections.one_ended() => {}
            accepted = listener.accept() => match accepted {
                // Act as a closed port: the client sees its connection refused or reset.
                Ok(_) if inner.faults.is_down(inner.registry.clock().now()) => {}
                Ok((stream, _)) => {
                    let (inner, tls, stop) = (Arc::clone(&inner), tls.clone(), stop.clone());
                    if !connections.spawn(|usage| connection(inner, stream, tls, usage, stop)) {
                        tracing::warn!("a connection is refused: requests use all connections");
                    }
                }
                Err(error) => {
                    // The most likely cause is a lack of file descriptors: retry soon.
                    tracing::warn!(%error, "a connection could not be accepted");
                    inner.registry.clock().sleep(Duration::from_millis(50)).await;
                }
            },
        }
    }
    drop(listener);
    let parting = inner.registry.clock().sleep(SHUTDOWN_LIMIT);
    tokio::select! {
        () = connections.all_ended() => {}
        () = parting => {}
    }
}

async fn connection(inner: Arc<Inner>, stream: TcpStream, tls: TlsAcceptor, usage: Usage, stop: CancellationToken) {
    let restarted = restarted(inner.life.follow());
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delay");
    }
    let stream = tokio::select! {
        () = inner.registry.clock().sleep(HANDSHAKE) => return,
        accepted = tls.accept(stream) => match accepted {
            Ok(stream) => stream,
            Err(error) => {
                tracing::debug!(%error, "a TLS handshake failed");
                return;
            }
        },
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let identity = certificate
        .zip(inner.authority.as_ref())
        .and_then(|(leaf, authority)| authority.identify(leaf));
    let service = service_fn(|request: Request<Incoming>| {
        let inner = Arc::clone(&inner);
        let connection = identity.clone();
        let in_use = usage.begin();
        async move {
            let response = inner.handle(connection.as_ref(), request).await?;
            Ok::<_, Disconnected>(response.map(|body| InUseBody { body, _in_use: in_use }))
        }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT);
    builder
        .http2()
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(HEADER_SIZE);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
        () = idle(&usage, inner.registry.clock()) => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = inner.registry.clock().sleep(SHUTDOWN_LIMIT) => return,
            }
        }
        // Dropping it closes the socket without a TLS close.
        () = restarted => return,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

/// Waits until no request has used the connection for a period.
async fn idle(usage: &Usage, clock: &Clock) {
    let mut before = None;
    loop {
        clock.sleep(IDLE_PERIOD).await;
        let since = usage.idle_since();
        if since.is_some() && since == before {
            return;
        }
        before = since;
    }
}

/// A response body during which its connection is in use.
struct InUseBody {
    body: Body,
    _in_use: InUse,
}

impl http_body::Body for InUseBody {
    type Data = Bytes;
    type Error = Disconnected;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Disconnected>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
