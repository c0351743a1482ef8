//! The caller of a gRPC call, as the call names it, for the log and for fault rules.

use std::convert::Infallible;
use std::future::Future;
use std::task::{Context, Poll};

use http::{HeaderMap, Request};
use tower::{Layer, Service};

use super::driver::calling_as;

/// The header with which a client names itself. A user agent identifies a program, not a caller, and is ignored.
const CLIENT: &str = "x-client";
/// Maximum length of the name.
const LENGTH: usize = 100;

/// Runs the calls of a service with the caller in their context.
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

/// The caller that a call names. Only characters that are legal in a log are kept.
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
    fn only_the_header_names_the_caller() {
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
