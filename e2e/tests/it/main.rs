//! The scenarios under the command line that people use: several seeds, every crash point, a planted
//! defect, replay, files, and bad input.

// Helpers of tests are not test functions by themselves.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod admission;
mod campaigns;
mod command_line;
mod crashes;
mod determinism;
mod drydock;
mod embedded;
mod existing;
mod files;
mod inert;
mod nodes;
mod preservation_consumers;
mod product;
mod registration;
mod regressions;
mod replay;
mod roles;
mod scenarios;
mod shrink;
