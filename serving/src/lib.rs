//! HTTP servers that hostile clients cannot exhaust: bounded connections, and limits for headers, idle time and lifetimes.

pub mod connections;
pub mod probes;
