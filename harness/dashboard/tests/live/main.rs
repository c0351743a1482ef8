//! The dashboard in a browser, over a world that the tests fill. Cases are skipped with a reason where no browser is
//! installed, except in CI.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod faults;
mod figures;
mod looks;
mod playback;
mod security;
mod stream;
mod topology;
mod world;
