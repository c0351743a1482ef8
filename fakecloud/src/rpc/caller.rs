//! Who calls over gRPC: what a call says of itself, for the log and for fault rules.

use std::convert::Infallible;
use std::future::Future;
use std::task::{Context, Poll};

use http::{HeaderMap, Request};
use tower::{Layer, Service};

use super::driver::calling_as;

/// The header by which a client says who it is. A user agent says which program it is, not who, and is not taken for it.
const CLIENT: &str = "x-client";
/// The most characters that are kept of it.
const LENGTH: usize = 100;

/// Makes the calls of a service on behalf of who they say that they are from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallerLayer;

/// See [`CallerLayer`].
#[derive(Clone, Debug)]
pub(crate) struct CallerService<S>(S);

impl<S> Layer<S> for CallerLayer {
    type Service = CallerService<S>;

    fn layer(&self, inner: S) -> CallerService<S> {
        CallerService(inner)
    }
}

impl<S, B> Service<Request<B>> for CallerService<S>
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

/// Who a call says that it is from. Only what can stand in a log is kept.
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
    fn a_call_says_who_it_is_from_by_its_header_alone() {
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
