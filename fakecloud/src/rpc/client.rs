//! The name that the client of a gRPC call gives, for the log and for fault rules.

use std::convert::Infallible;
use std::future::Future;
use std::task::{Context, Poll};

use http::{HeaderMap, Request};
use tower::{Layer, Service};

use super::driver::calling_as;

/// The header with which a client names itself. A user agent identifies a program, not one of its processes, and is ignored.
const CLIENT: &str = "x-client";
/// Maximum length of the name.
const LENGTH: usize = 100;

/// Runs the calls of a service with the name of their client in their context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientLayer;

/// See [`ClientLayer`].
#[derive(Clone, Debug)]
pub(crate) struct ClientService<S>(S);

impl<S> Layer<S> for ClientLayer {
    type Service = ClientService<S>;

    fn layer(&self, inner: S) -> ClientService<S> {
        ClientService(inner)
    }
}

impl<S, B> Service<Request<B>> for ClientService<S>
where
    S: Service<Request<B>, Error = Infallible>,
    S::Future: Send + 'static,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<S::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let client = client(request.headers());
        Box::pin(calling_as(client, self.0.call(request)))
    }
}

/// The name in the headers of a call. Only characters that are legal in a log are kept.
fn client(headers: &HeaderMap) -> String {
    let text = headers
        .get(CLIENT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    text.chars()
        .filter(|character| !character.is_control())
        .take(LENGTH)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_header_names_the_client() {
        let mut headers = HeaderMap::new();
        assert_eq!(client(&headers), "");
        headers.insert("user-agent", "grpc-python/1".parse().unwrap());
        assert_eq!(client(&headers), "");
        headers.insert("x-client", "mcm-0".parse().unwrap());
        assert_eq!(client(&headers), "mcm-0");
        headers.insert("x-client", "x".repeat(500).parse().unwrap());
        assert_eq!(client(&headers).len(), LENGTH);
    }
}
