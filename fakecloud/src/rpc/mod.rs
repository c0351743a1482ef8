//! The cloud's two contracts over the model: the driver for machine controllers, and control. This module holds
//! adapters and conversions, no behaviour.

pub(crate) mod client;
mod control;
mod convert;
mod driver;
mod kubelets;
mod ledger;
mod migration;
mod rules;
pub(crate) mod settled;
#[cfg(test)]
mod tests;
mod units;

pub use control::ControlService;
pub use driver::{FakeDriver, calling_as};
pub(crate) use migration::PROVIDER;
pub use rules::message_of as message_of_rule;
pub(crate) use rules::rule as rule_of_message;
