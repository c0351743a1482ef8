//! Relays a request to another program, and its response to the client: streamed, and with the bytes of both after an
//! upgrade of the connection.

use bytes::Bytes;
use futures::stream;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::{Arrival, Body};
use crate::inner::Inner;
use crate::life::Disconnected;
use crate::network::{Connection, NotConnected};

/// Headers that belong to one connection.
const OF_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The request of a client for another program, which has that host and serves it at that path with its query. It has
/// neither the client's credentials nor its impersonation.
pub(super) fn request(arrival: &Arrival, host: &str, path: &str) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(arrival.body.clone()));
    *request.method_mut() = arrival.parts.method.clone();
    *request.uri_mut() = path.parse().unwrap_or_default();
    let headers = request.headers_mut();
    *headers = arrival.parts.headers.clone();
    let upgrade = headers.get(header::UPGRADE).cloned();
    remove_connection_headers(headers);
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::AUTHORIZATION);
    let of_impersonation = headers.keys().filter(|name| name.as_str().starts_with("impersonate-"));
    for name in of_impersonation.cloned().collect::<Vec<_>>() {
        headers.remove(name);
    }
    if let Ok(host) = host.parse() {
        headers.insert(header::HOST, host);
    }
    if let Some(protocol) = upgrade {
        add_upgrade(headers, protocol);
    }
    request
}

impl Inner {
    /// Sends a request, and answers the client with the response.
    ///
    /// # Errors
    /// The program did not respond.
    pub(super) async fn relay(
        &self,
        arrival: &Arrival,
        mut connection: Connection,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Body>, NotConnected> {
        let response = connection.send(request).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Ok(streamed(connection, response));
        }
        let protocol = response.headers().get(header::UPGRADE).cloned();
        let mut parts = response.headers().clone();
        let program = hyper::upgrade::on(response);
        let client = arrival.parts.extensions.get::<OnUpgrade>().cloned();
        let client = client.ok_or_else(|| NotConnected::new("the connection of the client cannot be upgraded"))?;
        let end = self.life.child_token();
        tokio::spawn(async move {
            let copied = end.run_until_cancelled(copy(client, program, connection)).await;
            if let Some(Err(error)) = copied {
                tracing::debug!(error = error.to_string(), "an upgraded connection ended early");
            }
        });
        remove_connection_headers(&mut parts);
        if let Some(protocol) = protocol {
            add_upgrade(&mut parts, protocol);
        }
        let mut response = Response::new(Body::whole(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        *response.headers_mut() = parts;
        Ok(response)
    }
}

/// Copies the bytes of two upgraded connections until both end.
async fn copy(
    client: OnUpgrade,
    program: OnUpgrade,
    _connection: Connection,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let (client, program) = (client.await?, program.await?);
    tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(program)).await?;
    Ok(())
}

fn streamed(connection: Connection, response: Response<Incoming>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    remove_connection_headers(&mut parts.headers);
    let data = stream::unfold(Some((body, connection)), |state| async {
        let (mut body, connection) = state?;
        loop {
            match body.frame().await? {
                // Trailers have no place in the body.
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Some((Ok(data), Some((body, connection))));
                    }
                }
                Err(_) => return Some((Err(Disconnected::new()), None)),
            }
        }
    });
    Response::from_parts(parts, Body::stream(data))
}

fn remove_connection_headers(headers: &mut HeaderMap) {
    for name in OF_CONNECTION {
        headers.remove(name);
    }
}

fn add_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, protocol);
}
