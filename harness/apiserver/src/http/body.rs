//! Response bodies, complete or streamed, and request bodies in their media types.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body::{Frame, SizeHint};
use serde_json::Value;

use crate::in_flight::MAX_BODY;
use crate::life::Disconnected;
use crate::registry::{FieldValidation, WriteOptions};
use crate::status::ApiError;
use crate::{json, protobuf, types};

/// How long a client may take to send a body.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The body of a response.
pub struct Body(Kind);

enum Kind {
    Whole(Option<Bytes>),
    Stream(Pin<Box<dyn Stream<Item = Result<Bytes, Disconnected>> + Send>>),
}

impl Body {
    /// A complete body.
    pub fn whole(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self(Kind::Whole((!bytes.is_empty()).then_some(bytes)))
    }

    /// The bytes of a complete body that has not been sent.
    pub(super) fn as_whole(&self) -> Option<&Bytes> {
        match &self.0 {
            Kind::Whole(bytes) => bytes.as_ref(),
            Kind::Stream(_) => None,
        }
    }

    /// A streamed body, which can break off.
    pub fn stream(stream: impl Stream<Item = Result<Bytes, Disconnected>> + Send + 'static) -> Self {
        Self(Kind::Stream(Box::pin(stream)))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Kind::Whole(bytes) => f
                .debug_tuple("Whole")
                .field(&bytes.as_ref().map_or(0, Bytes::len))
                .finish(),
            Kind::Stream(_) => f.write_str("Stream"),
        }
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Disconnected;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Disconnected>>> {
        match &mut self.0 {
            Kind::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Kind::Stream(stream) => stream
                .as_mut()
                .poll_next(context)
                .map(|next| next.map(|bytes| bytes.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Kind::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}

/// 413 for a body above the limit.
pub(super) fn too_large() -> ApiError {
    ApiError::new(
        413,
        "RequestEntityTooLarge",
        format!("Request entity too large: limit is {MAX_BODY}"),
    )
}

/// 504 for a body that arrives too slowly.
pub(super) fn too_slow() -> ApiError {
    let seconds = TIME_LIMIT.as_secs();
    ApiError::new(
        504,
        "Timeout",
        format!("Timeout: the body of the request was not complete after {seconds} s"),
    )
}

/// The media type of a request body, without parameters; empty means JSON.
pub(super) fn media_type(headers: &HeaderMap) -> &str {
    let header = headers.get(CONTENT_TYPE);
    // What is not text is an unknown media type.
    let header = header.map_or("", |value| value.to_str().unwrap_or("invalid"));
    header.split(';').next().unwrap_or_default().trim()
}

/// Decodes a body in any of the media types; adds its duplicate fields to the options.
///
/// # Errors
/// 400 for an invalid body, 415 for an unknown media type.
pub(super) fn decode(
    headers: &HeaderMap,
    body: &Bytes,
    custom: bool,
    options: Option<&mut WriteOptions>,
) -> Result<Value, ApiError> {
    match media_type(headers) {
        "" | "application/json" => {
            let value = json::parse(body).map_err(|error| {
                ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
            })?;
            if let Some(options) = options.filter(|options| options.field_validation != FieldValidation::Ignore) {
                options.duplicates = types::duplicate_fields(body);
            }
            Ok(value)
        }
        "application/yaml" => json::parse_yaml(body)
            .map_err(|error| ApiError::bad_request(format!("error converting YAML to JSON: {error}"))),
        "application/vnd.kubernetes.protobuf" if !custom => protobuf::decode(body),
        _ => {
            let mut accepted = "application/json, application/yaml".to_owned();
            if !custom {
                accepted.push_str(", application/vnd.kubernetes.protobuf");
            }
            Err(ApiError::new(
                415,
                "UnsupportedMediaType",
                format!("the body of the request was in an unknown format - accepted media types include: {accepted}"),
            ))
        }
    }
}
