//! The registration form of the contract: the machine controller listens, drivers connect to it, and each serves the
//! classes of its own kind.
//!
//! It contains both sides ([`Registry`] and [`Registrant`]) and the authorization of drivers. It must not repeat calls:
//! the controller decides about that.

mod access;
mod drivers;
mod listen;
mod operation;
mod registrant;
mod registry;
mod replicas;

pub use self::listen::{ListenError, Listener};
pub use self::registrant::{Ended, Registrant, Replica};
pub use self::registry::Registry;
pub use crate::source::Source;

/// The port for registering drivers, as in Gardener's documentation.
pub const PORT: u16 = 5000;
/// The version of the contract that a driver must use.
pub const API_VERSION: &str = "drydock.driver.v1";
/// Metadata of [`GetMachineClass`](crate::proto::registry_server::Registry::get_machine_class) and
/// [`GetSecret`](crate::proto::registry_server::Registry::get_secret): the session of the calling driver.
const SESSION: &str = "drydock-session";

#[cfg(test)]
mod tests;
