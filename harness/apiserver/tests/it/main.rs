//! What clients may rely on, through the front ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// Its compiled code is shared; see `runtime::codec`.
use runtime as _;

mod clients;
mod cluster;
mod contract;
mod definitions;
mod faults;
mod https;
mod requests;
mod roles;
mod stress;
mod watches;
