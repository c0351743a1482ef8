//! The images of mcm and fakecloud as containers of their own, with the embedded API server on the host.
//!
//! They need a Docker engine and share the host's network. Run them by
//! `cargo test -p e2e --features containers --test images`.

// Helpers of tests are not test functions by themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod containers;
mod fakecloud_image;
mod interrupts;
mod mcm_image;
mod plane;
mod programs;
