//! Synchronizes existing machines with their set: node template, settings and class kind.
//!
//! Labels, annotations, class name and provider ID of an existing machine are not changed.

use std::sync::Arc;

use mcm_api::machine::MachineConfiguration;
use mcm_api::{Machine, MachineSet, Phase, keys};
use serde_json::json;

use super::Reason;
use super::rank::is_active;
use crate::merge::difference;
use crate::steps::{Kind, OwnerAction, Step};
use crate::template::alike;

/// The patch that updates the machine from its set's template; `None`: no change.
pub(super) fn sync(set: &MachineSet, machine: &Arc<Machine>) -> Option<Step<Reason>> {
    let (template, own) = (&set.spec.template.spec, &machine.spec);
    let follows = is_active(machine) && machine.status.current_status.phase != Some(Phase::Failed);
    let node_template = follows && !alike(&template.node_template, &own.node_template);
    let settings = follows
        && template.configuration != own.configuration
        && configuration(template.configuration.clone(), machine) != own.configuration;
    let class_kind = template.class.kind != own.class.kind;
    if !(node_template || settings || class_kind) {
        return None;
    }
    let mut wanted = own.clone();
    let mut what = Vec::new();
    if node_template {
        wanted.node_template = template.node_template.clone();
        what.push("node template");
    }
    if settings {
        wanted.configuration = configuration(template.configuration.clone(), machine);
        what.push("settings");
    }
    if class_kind {
        wanted.class.kind = template.class.kind.clone();
        what.push("class kind");
    }
    let name = machine.metadata.name.clone().unwrap_or_default();
    let patch = json!({
        "metadata": { "resourceVersion": machine.metadata.resource_version },
        "spec": difference(&machine.spec, &wanted)?,
    });
    let action = OwnerAction::Patch {
        kind: Kind::Machine,
        name: name.clone(),
        patch,
    };
    let reason = Reason::Synced {
        machine: name,
        what: what.join(" and "),
    };
    Some(Step { action, reason })
}

/// The template's settings. A creation timeout that an annotation overrides is not changed.
fn configuration(template: MachineConfiguration, machine: &Machine) -> MachineConfiguration {
    let overridden = machine
        .metadata
        .annotations
        .as_ref()
        .is_some_and(|all| all.contains_key(keys::EFFECTIVE_CREATION_TIMEOUT_ANNOTATION));
    if !overridden {
        return template;
    }
    MachineConfiguration {
        creation_timeout: machine.spec.configuration.creation_timeout,
        ..template
    }
}
