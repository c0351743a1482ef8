//! The gate as a tower layer: one service around the API client's transport, one around the cloud's.

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

    /// Polls `future` for as long as its incarnation is the present one and does not stand still; pending for ever when
    /// the incarnation is over.
    async fn while_present<F: Future>(&self, future: F) -> F::Output {
        let mut future = pin!(future);
        poll_fn(|context| {
            if self.gate.is_present(self.incarnation) && self.gate.poll_going(context).is_ready() {
                future.as_mut().poll(context)
            } else {
                Poll::Pending
            }
        })
        .await
    }

    /// Records the answer as far as its head tells; what its body tells is the [`Exchange`] returned.
    fn record_answer(&self, method: &Method, uri: &Uri, code: u16, headers: &HeaderMap) -> Exchange {
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
        let answer = if layer.gate.is_paused() {
            // The service that was found ready answers; a clone of it takes its place.
            let next = self.inner.clone();
            let mut ready = std::mem::replace(&mut self.inner, next);
            let gate = layer.gate.clone();
            Either::Left(async move {
                poll_fn(|context| gate.poll_going(context)).await;
                ready.call(request).await
            })
        } else {
            Either::Right(self.inner.call(request))
        };
        Box::pin(async move {
            let answer = layer.while_present(answer).await;
            let exchange = match &answer {
                Ok(response) => layer.record_answer(&method, &uri, response.status().as_u16(), response.headers()),
                Err(_) => layer.record_answer(&method, &uri, 0, &HeaderMap::new()),
            };
            if let Some(point) = crash_after {
                layer.gate.strike(point);
                return pending().await;
            }
            answer.map(|response| response.map(|body| GateBody::new(body, layer.gate, layer.incarnation, exchange)))
        })
    }
}

fn is_write(method: &Method) -> bool {
    [Method::POST, Method::PUT, Method::PATCH, Method::DELETE].contains(method)
}

fn is_watch(method: &Method, uri: &Uri) -> bool {
    let asks = |parameter: &str| parameter == "watch=true" || parameter == "watch=1";
    method == Method::GET && uri.query().is_some_and(|query| query.split('&').any(asks))
}

/// The method name of a gRPC path: `/package.Service/Method`.
fn operation(uri: &Uri) -> &str {
    uri.path().rsplit('/').next().unwrap_or_default()
}
