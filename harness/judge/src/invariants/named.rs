//! Machines that cluster-autoscaler lists on their deployments, and those that it listed until recently: a controller
//! removes deleting machines from the list.

use std::collections::BTreeMap;

use jiff::Timestamp;
use mcm_api::keys;
use serde_json::Value;

use super::check_context::CheckContext;
use crate::object::{after, annotation, name};

/// The machines in a deployment's list.
pub(super) fn listed(deployment: &Value) -> impl Iterator<Item = &str> {
    let list = annotation(deployment, keys::TRIGGER_DELETION_ANNOTATION).unwrap_or_default();
    list.split(',').filter_map(|entry| entry.trim().split('~').next())
}

/// By Machine: the last time that a list which contained it was changed.
#[derive(Debug, Default)]
pub(super) struct Lately(BTreeMap<String, Timestamp>);

impl Lately {
    /// Records a change of a deployment. The list before the change counts.
    pub(super) fn note(&mut self, context: &CheckContext) {
        let before = context.before.into_iter().flat_map(listed);
        self.0.extend(before.map(|machine| (machine.to_owned(), context.at())));
    }

    /// Whether the machine was listed within the last pass.
    pub(super) fn has(&self, context: &CheckContext, machine: &Value) -> bool {
        let at = self.0.get(name(machine)).copied();
        at.is_some_and(|at| context.at() <= after(at, context.rules.pass()))
    }
}
