//! The shells of the controllers against a small API server in process, in virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests count as production code to clippy

mod contract;
mod node_lifecycle;
mod replay;
mod server;
