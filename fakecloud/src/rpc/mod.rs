//! The cloud's two contracts over the model: the machine controllers' driver, and control.
//!
//! What lives here: adapters and conversions. What must not: rules of behaviour.

mod control;
mod convert;
mod driver;
mod kubelets;
#[cfg(test)]
mod tests;

pub use control::ControlService;
pub use driver::{FakeDriver, calling_as};
