//! A browser without a window for tests of pages: a client of the Chrome DevTools Protocol over pipes.
//!
//! [`shared`] starts one browser per test program; each case opens a [`Page`] of its own, with its own cookies. The browser
//! ends with the test program, because its pipe closes. This crate is for tests only: what does not work panics with a
//! description.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods)] // waits for another process, in real time

mod connection;
mod input;
mod page;
mod picture;
mod process;

pub use self::page::{Page, Request};
pub use self::picture::{Difference, compare_with_file, difference_from_file};
pub use self::process::{Browser, shared};
