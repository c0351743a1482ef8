//! The gate as a tower layer around the transports of the API client and of the cloud client.

use std::future::{Future, pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::Either;
use http::{HeaderMap, Method, Request, Response, Uri};
use tower::{Layer, Service};

use super::body::{Exchange, GateBody};
use super::{EffectKind, Gate, Passage};

/// Wraps a transport of one incarnation of a process.
#[derive(Clone, Debug)]
pub struct GateLayer {
    gate: Gate,
    kind: EffectKind,
    incarnation: u64,
}

/// A transport behind a gate.
#[derive(Clone, Debug)]
pub struct GateService<S> {
    inner: S,
    layer: GateLayer,
}

impl GateLayer {
    pub(super) fn new(gate: Gate, kind: EffectKind, incarnation: u64) -> Self {
        Self {
            gate,
            kind,
            incarnation,
        }
    }

    fn effect(&self, method: &Method, uri: &Uri) -> Option<(EffectKind, String)> {
        let description = match self.kind {
            EffectKind::CloudCall => operation(uri).to_owned(),
            EffectKind::ApiWrite if is_write(method) => format!("{method} {}", uri.path()),
            EffectKind::ApiWrite => return None,
        };
        Some((self.kind, description))
    }

    /// Polls `future` while its incarnation is the current one and not paused. Never completes if the incarnation has
    /// ended.
    async fn while_current<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            if self.gate.is_current(self.incarnation) && self.gate.poll_resumed(context).is_ready() {
                future.as_mut().poll(context)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Records the head of the response. The returned [`Exchange`] records its body.
    fn record_response_head(&self, method: &Method, uri: &Uri, code: u16, headers: &HeaderMap) -> Exchange {
        let (gate, client) = (&self.gate, self.gate.name());
        match self.kind {
            EffectKind::ApiWrite => {
                let path = uri.path_and_query().map_or(uri.path(), |path| path.as_str());
                let verb = if is_watch(method, uri) {
                    "WATCH"
                } else {
                    method.as_str()
                };
                gate.trace().api_request(client, verb, path, code, gate.revision());
                if is_watch(method, uri) {
                    Exchange::watch()
                } else {
                    Exchange::Plain
                }
            }
            EffectKind::CloudCall => match headers.get("grpc-status") {
                Some(status) => {
                    let status = String::from_utf8_lossy(status.as_bytes());
                    gate.trace().cloud_call(client, operation(uri), None, &status);
                    Exchange::Plain
                }
                None => Exchange::CloudCall {
                    operation: operation(uri).to_owned(),
                },
            },
        }
    }
}

impl<S> Layer<S> for GateLayer {
    type Service = GateService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        GateService {
            inner,
            layer: self.clone(),
        }
    }
}

impl<S, B, R> Service<Request<B>> for GateService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Send + 'static,
    B: Send + 'static,
    R: http_body::Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<GateBody<R>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let layer = self.layer.clone();
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let Passage::Open { crash_after } = layer.gate.enter(layer.incarnation, layer.effect(&method, &uri)) else {
            return Box::pin(pending());
        };
        let response = if layer.gate.is_paused() {
            // `call` must go to the service that was polled ready; its clone replaces it.
            let next = self.inner.clone();
            let mut ready = std::mem::replace(&mut self.inner, next);
            let gate = layer.gate.clone();
            Either::Left(async move {
                poll_fn(|context| gate.poll_resumed(context)).await;
                ready.call(request).await
            })
        } else {
            Either::Right(self.inner.call(request))
        };
        Box::pin(async move {
            let response = layer.while_current(response).await;
            let exchange = match &response {
                Ok(response) => {
                    layer.record_response_head(&method, &uri, response.status().as_u16(), response.headers())
                }
                Err(_) => layer.record_response_head(&method, &uri, 0, &HeaderMap::new()),
            };
            if let Some(point) = crash_after {
                layer.gate.crash(point);
                return pending().await;
            }
            response.map(|response| response.map(|body| GateBody::new(body, layer.gate, layer.incarnation, exchange)))
        })
    }
}

fn is_write(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method)
}

fn is_watch(method: &Method, uri: &Uri) -> bool {
    let is_watch_parameter = |parameter: &str| parameter == "watch=true" || parameter == "watch=1";
    method == Method::GET
        && uri
            .query()
            .is_some_and(|query| query.split('&').any(is_watch_parameter))
}

/// The method name in a gRPC path: `/package.Service/Method`.
fn operation(uri: &Uri) -> &str {
    uri.path().rsplit('/').next().unwrap_or_default()
}
