//! The body of an answer on its way through the gate: it records watch events and gRPC status, and
//! falls silent when the incarnation that asked for it is over.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use serde::Deserialize;

use super::Gate;

/// An answer's body behind a gate.
pub struct GateBody<B> {
    inner: Pin<Box<B>>,
    gate: Gate,
    incarnation: u64,
    exchange: Exchange,
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

impl<B> GateBody<B> {
    pub(super) fn new(body: B, gate: Gate, incarnation: u64, exchange: Exchange) -> Self {
        Self {
            inner: Box::pin(body),
            gate,
            incarnation,
            exchange,
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

impl<B: Body<Data = Bytes>> Body for GateBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        if !self.gate.is_present(self.incarnation) {
            return Poll::Pending;
        }
        let polled = self.inner.as_mut().poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => self.record_frame(frame),
            Poll::Ready(Some(Err(_))) => self.record_status("broken off"),
            Poll::Ready(None) => self.record_status("no status"),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl<B> fmt::Debug for GateBody<B> {
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
