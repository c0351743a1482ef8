//! Delays answers until the changes that they report are durable.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Request, Response};
use tonic::Status;
use tonic::body::Body;
use tower::{Layer, Service};

use crate::Fakecloud;

/// Delays the answers of a service until the cloud's ledger is durable.
#[derive(Clone, Debug)]
pub(crate) struct SettledLayer(pub(crate) Fakecloud);

/// See [`SettledLayer`].
#[derive(Clone, Debug)]
pub(crate) struct Settled<S> {
    inner: S,
    cloud: Fakecloud,
}

impl<S> Layer<S> for SettledLayer {
    type Service = Settled<S>;

    fn layer(&self, inner: S) -> Settled<S> {
        Settled {
            inner,
            cloud: self.0.clone(),
        }
    }
}

impl<S, B> Service<Request<B>> for Settled<S>
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (answer, cloud) = (self.inner.call(request), self.cloud.clone());
        Box::pin(async move {
            let answer = answer.await;
            match cloud.settled().await {
                Ok(()) => answer,
                Err(error) => Ok(Status::unavailable(error.to_string()).into_http()),
            }
        })
    }
}
