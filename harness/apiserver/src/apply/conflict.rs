//! Conflicts of an applied configuration with other managers.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::managers::{Manager, Operation};
use super::path::Element;
use crate::status::ApiError;

/// A field that a configuration changes and another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conflict {
    pub(super) manager: Manager,
    pub(super) path: Vec<Element>,
}

/// A configuration that is not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotApplied {
    #[error("the configuration conflicts with other managers")]
    Conflicts(Vec<Conflict>),
    /// With the violations.
    #[error("failed to create typed patch object")]
    Mistyped(Vec<String>),
}

impl Conflict {
    fn field(&self) -> String {
        self.path.iter().map(ToString::to_string).collect()
    }
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
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|conflict| {
            json!({
                "reason": "FieldManagerConflict",
                "message": format!("conflict with {}", title(&conflict.manager)),
                "field": conflict.field(),
            })
        })
        .collect();
    ApiError {
        details: Some(json!({ "causes": causes })),
        ..ApiError::new(409, "Conflict", message(conflicts))
    }
}

fn message(conflicts: &[Conflict]) -> String {
    if let [conflict] = conflicts {
        return format!(
            "Apply failed with 1 conflict: conflict with {}: {}",
            title(&conflict.manager),
            conflict.field()
        );
    }
    let mut of_managers: BTreeMap<&Manager, Vec<&Conflict>> = BTreeMap::new();
    for conflict in conflicts {
        of_managers.entry(&conflict.manager).or_default().push(conflict);
    }
    let mut managers: Vec<_> = of_managers.into_iter().collect();
    managers.sort_by_key(|(manager, _)| (&manager.name, manager.operation, &manager.version));
    let mut lines = Vec::new();
    for (manager, conflicts) in managers {
        lines.push(format!("conflicts with {}:", title(manager)));
        lines.extend(conflicts.iter().map(|conflict| format!("- {}", conflict.field())));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
