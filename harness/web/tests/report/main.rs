//! The report in a browser. Cases are skipped with a reason where no browser is installed, except in CI.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod access;
mod bad_records;
mod explains;
mod figures;
mod looks;
mod opens;
mod report;
mod static_pages;
mod time_range;
