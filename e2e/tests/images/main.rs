//! The images of mcm and fakecloud as containers, with the embedded API server on the host.
//!
//! They need a Docker engine and its client `docker`, and share the host's network. `make images-test` runs them.

// Test helpers are not test functions.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod containers;
#[path = "../shared/dashboard_client.rs"]
mod dashboard_client;
mod dashboard_in_kind;
mod fakecloud_image;
mod interrupts;
mod mcm_image;
mod plane;
mod programs;
mod session;
