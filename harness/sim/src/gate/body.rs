//! Forwards response bodies through the gate: records watch events and gRPC status, and stops delivering while the
//! incarnation is paused or after it has ended. If the watches of a process lag, their events arrive later, in order.

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

/// A response body behind a gate.
pub struct GateBody<B: Body> {
    inner: Pin<Box<B>>,
    gate: Gate,
    incarnation: u64,
    exchange: Exchange,
    delayed: Delayed<B::Error>,
}

/// A frame, or the end of the body.
type Polled<E> = Option<Result<Frame<Bytes>, E>>;

/// The delayed frames of a lagging watch.
struct Delayed<E> {
    frames: VecDeque<(Timestamp, Polled<E>)>,
    ended: bool,
    timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// What the trace records of a body.
pub(super) enum Exchange {
    /// Nothing: the head contains everything.
    Plain,
    /// Each event of a watch, one JSON object per line.
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
            delayed: Delayed {
                frames: VecDeque::new(),
                ended: false,
                timer: None,
            },
        }
    }

    /// The next frame for the process. A lagging watch delays frames.
    fn poll_delivery(&mut self, context: &mut Context<'_>) -> Poll<Polled<B::Error>> {
        if !matches!(self.exchange, Exchange::Watch { .. }) {
            return self.inner.as_mut().poll_frame(context);
        }
        let clock = self.gate.trace().clock().clone();
        while !self.delayed.ended {
            let Poll::Ready(frame) = self.inner.as_mut().poll_frame(context) else {
                break;
            };
            let before = self.delayed.frames.back().map_or(Timestamp::MIN, |(due, _)| *due);
            let due = self.gate.arrival().max(before);
            if self.delayed.frames.is_empty() && due <= clock.now() {
                return Poll::Ready(frame);
            }
            self.delayed.ended = !matches!(frame, Some(Ok(_)));
            self.delayed.frames.push_back((due, frame));
        }
        loop {
            let Some((due, _)) = self.delayed.frames.front() else {
                return if self.delayed.ended {
                    Poll::Ready(None)
                } else {
                    Poll::Pending
                };
            };
            let due = *due;
            if due <= clock.now() {
                self.delayed.timer = None;
                return Poll::Ready(self.delayed.frames.pop_front().and_then(|(_, frame)| frame));
            }
            let timer = self.delayed.timer.get_or_insert_with(|| {
                let clock = clock.clone();
                Box::pin(async move { clock.sleep_until(due).await })
            });
            if timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.delayed.timer = None;
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

    /// Records the status of a cloud call, once.
    fn record_status(&mut self, status: &str) {
        if let Exchange::CloudCall { operation } = std::mem::replace(&mut self.exchange, Exchange::Plain) {
            self.gate.trace().cloud_call(self.gate.name(), &operation, None, status);
        }
    }
}

/// All pinned fields are boxed.
impl<B: Body> Unpin for GateBody<B> {}

impl<B: Body<Data = Bytes>> Body for GateBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if !self.gate.is_current(self.incarnation) || self.gate.poll_resumed(context).is_pending() {
            return Poll::Pending;
        }
        let polled = self.poll_delivery(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => self.record_frame(frame),
            Poll::Ready(Some(Err(_))) => self.record_status("broken off"),
            Poll::Ready(None) => self.record_status("no status"),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.delayed.frames.is_empty() && self.inner.is_end_stream()
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

/// The fields of a watch event that the trace contains.
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

/// Records each complete line in `unfinished` and `data`. The rest waits for the next frame.
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
