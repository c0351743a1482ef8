//! The behavior that clients rely on, tested through the front ends.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// Shares compiled code; see `runtime::codec`.
use runtime as _;

mod access;
mod clients;
mod cluster;
mod contract;
mod crate_page;
mod data;
mod definitions;
mod faults;
mod https;
mod kubelets;
mod linearizable;
mod metrics;
mod requests;
mod roles;
mod stress;
mod tls;
mod upstream;
mod views;
mod watches;
