//! Policies and webhooks of admission, read from their objects: what they concern, and their parsed expressions.
//!
//! This module decides nothing: it must not know requests or the registry, and calls nothing.

mod expressions;
mod mutating;
mod policy;
mod request;
mod rules;
mod webhook;

pub(crate) use expressions::{Conditions, Parsed, Variables};
pub(crate) use mutating::{MutatingPolicy, Mutation};
pub(crate) use policy::{Action, Base, Binding, ExpressionError, ParamKind, ParamRef, Policy, Reason, Validation};
pub(crate) use rules::{Constraints, Rule, Target};
pub(crate) use webhook::Webhook;
