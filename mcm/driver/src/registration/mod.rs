//! The registration form of the contract: the machine controller listens, drivers dial in, and each serves the classes of
//! its own kind.
//!
//! What lives here: both sides ([`Registry`] and [`Registrant`]), and who may fetch what. What must not: retries, which
//! the controller decides, and any cloud.

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

/// The port on which drivers are awaited, as Gardener's documentation has it.
pub const PORT: u16 = 5000;
/// The version of the contract that a driver must name.
pub const API_VERSION: &str = "drydock.driver.v1";
/// Metadata of [`GetMachineClass`](crate::proto::registry_server::Registry::get_machine_class) and
/// [`GetSecret`](crate::proto::registry_server::Registry::get_secret): the session of the driver that asks.
const SESSION: &str = "drydock-session";

/// Where the controller's classes and Secrets are found.
pub trait Source: Debug + Send + Sync {
    /// A class.
    fn class(&self, namespace: &str, name: &str) -> Option<MachineClass>;

    /// The data of a Secret, and its resourceVersion.
    fn secret(&self, namespace: &str, name: &str) -> Option<(BTreeMap<String, ByteString>, String)>;

    /// The providers of all classes that name a Secret.
    fn kinds_of_secret(&self, namespace: &str, name: &str) -> BTreeSet<String>;
}

#[cfg(test)]
mod tests;
