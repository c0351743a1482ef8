//! Machines that cluster-autoscaler names on their deployments, and those that it named a moment ago: whoever puts the list
//! in order drops those that go.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mcm_api::keys;
use serde_json::Value;

use super::check_context::CheckContext;
use crate::object::{after, annotation, name};

/// The machines that a deployment's list names.
pub(super) fn listed(deployment: &Value) -> impl Iterator<Item = &str> {
    let list = annotation(deployment, keys::TRIGGER_DELETION_ANNOTATION).unwrap_or_default();
    list.split(',').filter_map(|entry| entry.trim().split('~').next())
}

/// By Machine: when a list was seen for the last time that named it, and was changed then.
#[derive(Debug, Default)]
pub(super) struct Lately(BTreeMap<String, Timestamp>);

impl Lately {
    /// Sees a deployment; the list of before is the one that counts.
    pub(super) fn note(&mut self, context: &CheckContext) {
        let before = context.before.into_iter().flat_map(listed);
        self.0.extend(before.map(|machine| (machine.to_owned(), context.at())));
    }

    /// Whether the machine was named until a pass ago.
    pub(super) fn has(&self, context: &CheckContext, machine: &Value) -> bool {
        let at = self.0.get(name(machine)).copied();
        at.is_some_and(|at| context.at() <= after(at, context.rules.pass()))
    }
}
