//! The controllers against a small in-process API server, in virtual time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests count as production code to clippy

mod contract;
mod node_lifecycle;
mod numbers;
mod replay;
mod server;
