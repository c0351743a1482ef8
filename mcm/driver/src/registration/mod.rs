//! The registration form of the contract: the machine controller listens, drivers connect to it, and each serves the
//! classes of its own kind.
//!
//! It contains both sides ([`Registry`] and [`Registrant`]) and the authorization of drivers. It must not retry: the
//! controller decides about retries.

mod access;
mod listen;
mod registrant;
mod registry;
mod route;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use k8s_openapi::ByteString;
use mcm_api::MachineClass;

pub use self::listen::{ListenError, Listener};
pub use self::registrant::{Ended, Registrant};
pub use self::registry::Registry;

/// The port for registering drivers, as in Gardener's documentation.
pub const PORT: u16 = 5000;
/// The version of the contract that a driver must use.
pub const API_VERSION: &str = "drydock.driver.v1";
/// Metadata of [`GetMachineClass`](crate::proto::registry_server::Registry::get_machine_class) and
/// [`GetSecret`](crate::proto::registry_server::Registry::get_secret): the session of the calling driver.
const SESSION: &str = "drydock-session";

/// The controller's classes and Secrets.
pub trait Source: Debug + Send + Sync {
    /// A class.
    fn class(&self, namespace: &str, name: &str) -> Option<MachineClass>;

    /// The data of a Secret, and its resourceVersion.
    fn secret(&self, namespace: &str, name: &str) -> Option<(BTreeMap<String, ByteString>, String)>;

    /// The providers of all classes that reference a Secret.
    fn kinds_of_secret(&self, namespace: &str, name: &str) -> BTreeSet<String>;
}

#[cfg(test)]
mod tests;
