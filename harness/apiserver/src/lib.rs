//! An embedded Kubernetes API server. It does not know machines.
//!
//! A test in Rust runs it in its own process and reaches it without a port:
//!
//! ```ignore
#![doc = include_str!("../tests/it/crate_page.rs")]
//! ```
//!
//! [`Server::serve`] serves other processes over HTTPS, and [`Options`] enable what a test needs, such as authorization.
//! The crate `controllers` has the controllers of a control plane. For tests in other languages `drydock apiserver` runs
//! both.

// Numbers come from users: arithmetic saturates, or is checked. An exception states why it cannot overflow.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod admission;
mod api_services;
mod apply;
pub mod authority;
pub mod authorization;
mod cel;
pub mod conversion;
pub mod custom;
pub mod data;
pub mod discovery;
pub mod faults;
mod field_selector;
mod go;
pub mod guard;
mod heavy;
pub mod http;
pub mod identity;
mod in_flight;
mod inner;
pub mod json;
pub mod jsonpath;
mod keys;
pub mod kinds;
mod life;
pub mod metrics;
mod network;
pub mod observe;
pub mod openapi;
pub mod patch;
mod policies;
pub mod protobuf;
mod regexes;
pub mod registry;
pub mod resource;
pub mod reviewer;
pub mod schema;
pub mod seeds;
mod selectable;
pub mod selector;
pub mod serve;
mod server;
mod service_port;
pub mod signal;
mod signer;
pub mod status;
pub mod store;
pub mod syntax;
pub mod table;
mod tokens;
pub mod types;
pub mod views;

pub use authorization::Authorization;
pub use identity::Identity;
pub use life::Disconnected;
pub use server::{Error, FieldManagers, Options, Server, Service};
pub use service_port::{NoServicePort, ServicePort};
