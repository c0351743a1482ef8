//! An embedded Kubernetes API server. It does not know machines.

// Numbers come from users: arithmetic saturates, or is checked. An exception states why it cannot overflow.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod authority;
pub mod authorization;
mod cel;
pub mod custom;
pub mod discovery;
pub mod faults;
mod field_selector;
pub mod guard;
mod heavy;
pub mod http;
pub mod identity;
mod in_flight;
mod inner;
pub mod json;
pub mod jsonpath;
pub mod kinds;
mod life;
pub mod metrics;
pub mod observe;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod registry;
pub mod resource;
pub mod schema;
pub mod selector;
pub mod serve;
pub mod server;
pub mod signal;
mod signer;
pub mod status;
pub mod store;
pub mod syntax;
pub mod table;
mod tokens;
pub mod types;

pub use authorization::Authorization;
pub use identity::Identity;
pub use life::Disconnected;
pub use server::{Error, Options, Server, Service};
