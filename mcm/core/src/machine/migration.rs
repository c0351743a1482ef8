//! Migration: a machine refers to a class of a former, provider-specific kind. The driver converts the class to a
//! MachineClass of the same name, which replaces it.

use mcm_api::{Operation, keys};

use super::pass::Pass;
use super::problem::problem;
use super::{Action, Plan, Reason};

/// The migration of the machine's class; `None`: none is needed.
pub(super) fn decide(pass: &Pass) -> Option<Plan> {
    let class = &pass.machine().spec.class;
    let kind = keys::CLASSES_OF_FORMER_TIMES
        .into_iter()
        .find(|kind| *kind == class.kind)?;
    if let Some(failure) = &pass.view.failure
        && matches!(failure.action, Action::MigrateClass { .. })
    {
        let text = format!("the class {kind} {:?} is not migrated: {}", class.name, failure.message);
        return Some(problem(pass, Reason::InvalidClass(text), Operation::Create).after(pass.settings.retry.short));
    }
    let action = Action::MigrateClass {
        kind: kind.to_owned(),
        name: class.name.clone(),
    };
    let reason = Reason::ClassOfFormerTimes {
        kind,
        name: class.name.clone(),
    };
    Some(Plan::new(reason).act(action).after(pass.settings.retry.short))
}
