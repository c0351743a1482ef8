//! The Common Expression Language with the limits of Kubernetes: parses expressions with bounded recursion, estimates
//! their cost from the types of a schema, and evaluates them with a budget. The functions of Kubernetes' libraries are
//! those of the crate `kube-cel`, whose own parser and evaluator have no limits.
//!
//! This module knows no schemas, objects or requests.

mod cost;
mod error;
mod estimate;
mod evaluate;
mod expression;
mod format;
mod functions;
mod json;
mod lexer;
mod native;
mod parser;
mod time;
mod types;
mod url;

#[cfg(test)]
mod tests;

pub(crate) use estimate::{Environment, Estimate};
pub(crate) use evaluate::{Budget, Failure, Lazy, evaluate, evaluate_with, optional};
pub(crate) use expression::Expression;
pub(crate) use functions::call;
pub(crate) use json::{from_json, to_json};
pub(crate) use kube_cel::cel::Value;
pub(crate) use kube_cel::cel::objects::{Key, Map};
pub(crate) use native::{Native, native};
pub(crate) use parser::parse;
pub(crate) use types::{Type, escape, least_size};

/// The maximum length of an expression in characters.
const MAX_LENGTH: usize = 100_000;
/// The maximum nesting of an expression.
const MAX_DEPTH: usize = 250;
/// The maximum cost of one expression in one evaluation.
pub(crate) const CALL_LIMIT: u64 = 1_000_000;
/// The maximum cost of all expressions for one object.
pub(crate) const OBJECT_LIMIT: u64 = 10_000_000;
/// The maximum size of a request body, from which the sizes of unlimited values are estimated.
pub(crate) const MAX_REQUEST: u64 = 3 * 1024 * 1024;
