//! Serves a service on a port of this machine, for the requests of a separate process that have to pass its gate.

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use kube::client::Body as ApiBody;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tonic::body::Body as CloudBody;
use tonic::transport::Channel;
use tower::{BoxError, Service, service_fn};

use super::ports::PortError;

/// Listens on a free port of this machine. Returns the listener and its port.
pub(super) async fn listen() -> Result<(TcpListener, u16), PortError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(PortError::Bind)?;
    let port = listener.local_addr().map_err(PortError::Bind)?.port();
    Ok((listener, port))
}

/// Serves all connections over HTTP/1.1 or HTTP/2 without TLS, and never returns. Dropping the future closes all
/// connections.
pub(super) async fn serve<S, B>(listener: TcpListener, service: S) -> std::convert::Infallible
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let service = TowerToHyperService::new(service.clone());
                connections.spawn(async move {
                    let builder = Builder::new(TokioExecutor::new());
                    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
                        tracing::debug!(error, "a connection through a gate failed");
                    }
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// A service that forwards requests to the API server through `client`.
pub(super) fn api(
    client: kube::Client,
) -> impl Service<
    Request<Incoming>,
    Response = Response<ApiBody>,
    Error = BoxError,
    Future = impl Future<Output = Result<Response<ApiBody>, BoxError>> + Send,
> + Clone
+ Send {
    service_fn(move |request: Request<Incoming>| {
        let client = client.clone();
        async move {
            let (mut parts, body) = request.into_parts();
            parts.headers.remove(http::header::HOST);
            let body = body.collect().await?.to_bytes();
            let response = client.send(Request::from_parts(parts, ApiBody::from(body))).await?;
            Ok(response)
        }
    })
}

/// A service that forwards calls to the driver over `channel`.
pub(super) fn cloud(
    channel: Channel,
) -> impl Service<
    Request<Incoming>,
    Response = Response<CloudBody>,
    Error = BoxError,
    Future = impl Future<Output = Result<Response<CloudBody>, BoxError>> + Send,
> + Clone
+ Send {
    service_fn(move |request: Request<Incoming>| {
        let mut channel = channel.clone();
        async move {
            std::future::poll_fn(|context| channel.poll_ready(context)).await?;
            Ok(channel.call(request.map(CloudBody::new)).await?)
        }
    })
}
