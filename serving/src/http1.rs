//! Accepts connections and serves HTTP/1 on each, with limits for their number, for headers, and for lifetimes.

use std::io;
use std::pin::pin;
use std::time::Duration;

use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::connections::{Connections, Usage, within_file_limit};

/// The number of open connections. For another one, the one that is idle longest is closed.
pub(crate) const CONNECTIONS: usize = 64;
/// How long the header of a request may take, and how long a connection may wait for the next request.
const HEADER_LIMIT: Duration = Duration::from_secs(10);
/// The maximum size of a header in bytes.
pub(crate) const HEADER_SIZE: usize = 16 * 1024;
/// How long the last request of a connection may take.
const LAST_REQUEST: Duration = Duration::from_secs(10);
/// The pause after a connection could not be accepted, most likely because of a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves each connection until `cancel`, then waits for the responses in progress. `service` makes the service of a connection,
/// which marks it as used. A connection that is older than `lifetime` ends after its request.
pub(crate) async fn accept<F, S, B>(
    listener: TcpListener,
    service: F,
    lifetime: Option<Duration>,
    cancel: CancellationToken,
) where
    F: Fn(Usage) -> S,
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut connections = Connections::new(within_file_limit(CONNECTIONS));
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => break,
            () = connections.one_ended() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    let cancel = cancel.clone();
                    if !connections.spawn(|usage| connection(stream, service(usage), lifetime, cancel)) {
                        tracing::warn!("a connection is refused: all others are in use");
                    }
                }
                Err(error) => report(&error).await,
            },
        }
    }
    drop(listener);
    connections.all_ended().await;
}

async fn report(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(PAUSE).await;
}

async fn connection<S, B>(stream: TcpStream, service: S, lifetime: Option<Duration>, cancel: CancellationToken)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_LIMIT)
        .max_buf_size(HEADER_SIZE);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = cancel.cancelled() => None,
        () = passed(lifetime) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(LAST_REQUEST, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn passed(lifetime: Option<Duration>) {
    match lifetime {
        Some(lifetime) => tokio::time::sleep(lifetime).await,
        None => std::future::pending().await,
    }
}
