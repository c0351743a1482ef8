//! Conflicts of an applied configuration with other managers.

use serde_json::{Value, json};

use super::managers::{Manager, Operation};
use super::set::FieldSet;
use crate::status::ApiError;
use crate::types::paths::Paths;

/// The maximum number of conflicts that an error lists for a manager.
const MAX_LISTED: usize = 1_000;

/// The fields of one manager that a configuration of another changes. There is at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(super) manager: Manager,
    pub(super) fields: FieldSet,
}

/// A configuration that is not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotApplied {
    /// With one conflict for each manager.
    #[error("the configuration conflicts with other managers")]
    Conflicts(Vec<Conflict>),
    /// With the violations.
    #[error("failed to create typed patch object")]
    Mistyped(Vec<String>),
}

/// The manager as upstream names it in conflicts.
fn title(manager: &Manager) -> String {
    let mut title = format!("{:?}", manager.name);
    if !manager.subresource.is_empty() {
        title = format!("{title} with subresource {:?}", manager.subresource);
    }
    match manager.operation {
        Operation::Update => format!("{title} using {}", manager.version),
        Operation::Apply => title,
    }
}

/// The 409 of conflicts.
pub(crate) fn error(conflicts: &[Conflict]) -> ApiError {
    let listed: Vec<(&Manager, Vec<String>)> = conflicts
        .iter()
        .map(|conflict| (&conflict.manager, texts(&conflict.fields)))
        .collect();
    let causes: Vec<Value> = listed
        .iter()
        .flat_map(|(manager, fields)| {
            let message = format!("conflict with {}", title(manager));
            fields
                .iter()
                .map(move |field| json!({ "reason": "FieldManagerConflict", "message": message, "field": field }))
        })
        .collect();
    let count = conflicts
        .iter()
        .fold(0_usize, |count, conflict| count.saturating_add(conflict.fields.len()));
    ApiError {
        details: Some(json!({ "causes": causes })),
        ..ApiError::new(409, "Conflict", message(count, listed))
    }
}

fn texts(fields: &FieldSet) -> Vec<String> {
    let mut paths = Paths::at_most(MAX_LISTED);
    fields.collect_paths(&mut paths);
    paths.into_texts()
}

fn message(count: usize, mut listed: Vec<(&Manager, Vec<String>)>) -> String {
    if let [(manager, fields)] = listed.as_slice()
        && let [field] = fields.as_slice()
        && count == 1
    {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {field}",
            title(manager)
        );
    }
    listed.sort_by_key(|(manager, _)| (&manager.name, manager.operation, &manager.version));
    let mut lines = Vec::new();
    for (manager, fields) in listed {
        lines.push(format!("conflicts with {}:", title(manager)));
        lines.extend(fields.iter().map(|field| format!("- {field}")));
    }
    format!("Apply failed with {count} conflicts: {}", lines.join("\n"))
}
