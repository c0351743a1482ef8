//! HTTP servers that hostile clients cannot exhaust: bounded connections, and limits for headers and idle time. Probes also
//! have a lifetime; [`streams`] has none, for clients that a server knows.

pub mod connections;
mod http1;
pub mod probes;
pub mod streams;

/// The media type of metrics.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
