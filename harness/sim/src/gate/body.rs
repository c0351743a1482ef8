//! The body of an answer on its way through the gate: it records watch events and gRPC status, and
//! falls silent when the incarnation that asked for it is over or stands still. Watch events of a process whose
//! watches lag arrive later, in their order.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use jiff::Timestamp;
use serde::Deserialize;

use super::Gate;

/// An answer's body behind a gate.
pub struct GateBody<B: Body> {
    inner: Pin<Box<B>>,
    gate: Gate,
    incarnation: u64,
    exchange: Exchange,
    late: Late<B::Error>,
}

/// A frame, or how the body ended.
type Polled<E> = Option<Result<Frame<Bytes>, E>>;

/// Frames of a watch that lags: they are under way.
struct Late<E> {
    frames: VecDeque<(Timestamp, Polled<E>)>,
    ended: bool,
    timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// What is recorded of a body.
pub(super) enum Exchange {
    /// Nothing: the head told everything.
    Plain,
    /// Each event of a watch, one JSON object a line.
    Watch { unfinished: Vec<u8> },
    /// The status in the trailers.
    CloudCall { operation: String },
}

impl Exchange {
    pub(super) fn watch() -> Self {
        Self::Watch { unfinished: Vec::new() }
    }
}

impl<B: Body<Data = Bytes>> GateBody<B> {
    pub(super) fn new(body: B, gate: Gate, incarnation: u64, exchange: Exchange) -> Self {
        Self {
            inner: Box::pin(body),
            gate,
            incarnation,
            exchange,
            late: Late {
                frames: VecDeque::new(),
                ended: false,
                timer: None,
            },
        }
    }

    /// What arrives now: of a watch that lags, what was there a while ago.
    fn poll_arriving(&mut self, context: &mut Context<'_>) -> Poll<Polled<B::Error>> {
        if !matches!(self.exchange, Exchange::Watch { .. }) {
            return self.inner.as_mut().poll_frame(context);
        }
        let clock = self.gate.trace().clock().clone();
        while !self.late.ended {
            let Poll::Ready(frame) = self.inner.as_mut().poll_frame(context) else {
                break;
            };
            let before = self.late.frames.back().map_or(Timestamp::MIN, |(due, _)| *due);
            let due = self.gate.arrival().max(before);
            if self.late.frames.is_empty() && due <= clock.now() {
                return Poll::Ready(frame);
            }
            self.late.ended = !matches!(frame, Some(Ok(_)));
            self.late.frames.push_back((due, frame));
        }
        loop {
            let Some((due, _)) = self.late.frames.front() else {
                return if self.late.ended {
                    Poll::Ready(None)
                } else {
                    Poll::Pending
                };
            };
            let due = *due;
            if due <= clock.now() {
                self.late.timer = None;
                return Poll::Ready(self.late.frames.pop_front().and_then(|(_, frame)| frame));
            }
            let timer = self.late.timer.get_or_insert_with(|| {
                let clock = clock.clone();
                Box::pin(async move { clock.sleep_until(due).await })
            });
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.late.timer = None;
        }
    }

    fn record_frame(&mut self, frame: &Frame<Bytes>) {
        match &mut self.exchange {
            Exchange::Plain => {}
            Exchange::Watch { unfinished } => {
                if let Some(data) = frame.data_ref() {
                    record_events(&self.gate, unfinished, data);
                }
            }
            Exchange::CloudCall { .. } => {
                if let Some(trailers) = frame.trailers_ref() {
                    let status = trailers
                        .get("grpc-status")
                        .map(|status| String::from_utf8_lossy(status.as_bytes()));
                    self.record_status(status.as_deref().unwrap_or("no status"));
                }
            }
        }
    }

    /// Records a cloud call's end, once.
    fn record_status(&mut self, status: &str) {
        if let Exchange::CloudCall { operation } = std::mem::replace(&mut self.exchange, Exchange::Plain) {
            self.gate.trace().cloud_call(self.gate.name(), &operation, None, status);
        }
    }
}

/// What is not boxed in it is never pinned.
impl<B: Body> Unpin for GateBody<B> {}

impl<B: Body<Data = Bytes>> Body for GateBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if !self.gate.is_present(self.incarnation) || self.gate.poll_going(context).is_pending() {
            return Poll::Pending;
        }
        let polled = self.poll_arriving(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => self.record_frame(frame),
            Poll::Ready(Some(Err(_))) => self.record_status("broken off"),
            Poll::Ready(None) => self.record_status("no status"),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.late.frames.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B: Body> fmt::Debug for GateBody<B> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("GateBody")
            .field("gate", &self.gate)
            .finish_non_exhaustive()
    }
}

/// As much of a watch event as the trace tells.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Object,
}

#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    namespace: Option<String>,
    name: Option<String>,
    resource_version: Option<String>,
}

/// Records each whole line in `unfinished` and `data`; what is left over waits for the next frame.
fn record_events(gate: &Gate, unfinished: &mut Vec<u8>, data: &[u8]) {
    unfinished.extend_from_slice(data);
    let mut rest = unfinished.as_slice();
    while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
        let (line, after) = rest.split_at(end);
        if !line.is_empty() {
            record_event(gate, line);
        }
        rest = &after[1..];
    }
    let consumed = unfinished.len() - rest.len();
    unfinished.drain(..consumed);
}

fn record_event(gate: &Gate, line: &[u8]) {
    let Ok(Event { kind, object }) = serde_json::from_slice(line) else {
        gate.trace()
            .record(gate.name(), format!("watch {} bytes that are no event", line.len()));
        return;
    };
    let Metadata {
        namespace,
        name,
        resource_version,
    } = object.metadata;
    let namespace = namespace.map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let described = format!("{} {namespace}{}", object.kind, name.unwrap_or_default());
    gate.trace().watch_delivery(
        gate.name(),
        &kind,
        described.trim_end(),
        &resource_version.unwrap_or_default(),
    );
}
