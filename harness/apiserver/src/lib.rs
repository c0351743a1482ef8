//! An embedded Kubernetes API server. It knows nothing of machines.

pub mod authorization;
pub mod custom;
pub mod discovery;
pub mod faults;
pub mod http;
pub mod jsonpath;
pub mod kinds;
mod life;
pub mod observe;
pub mod openapi;
pub mod patch;
pub mod protobuf;
pub mod registry;
pub mod resource;
pub mod schema;
pub mod serve;
pub mod server;
pub mod signal;
pub mod status;
pub mod store;
pub mod table;
mod tokens;
pub mod types;

pub use authorization::Authorization;
pub use life::Disconnected;
pub use server::{Identity, Options, Server, Service};
