//! Translates typed plans into requests.

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;

use super::Reason;
use crate::workloads::plan::{self, Note, Object};
use crate::{Action, Cached, Deletion, ObjectKey, Patch, Plan, Preconditions, Propagation, Severity, Target};

/// Calls `$function` with the typed object of any kind.
macro_rules! with_object {
    ($object:expr, $function:ident) => {
        match $object {
            Object::Pod(object) => Action::$function::<Pod>(object),
            Object::Claim(object) => Action::$function::<PersistentVolumeClaim>(object),
            Object::ReplicaSet(object) => Action::$function::<ReplicaSet>(object),
            Object::Deployment(object) => Action::$function::<Deployment>(object),
            Object::DaemonSet(object) => Action::$function::<DaemonSet>(object),
            Object::StatefulSet(object) => Action::$function::<StatefulSet>(object),
            Object::Revision(object) => Action::$function::<ControllerRevision>(object),
            Object::Job(object) => Action::$function::<Job>(object),
            Object::EndpointSlice(object) => Action::$function::<EndpointSlice>(object),
        }
    };
}

/// The event of a creation that needs the generated name.
pub(super) fn creation_event(plan: &plan::Plan) -> Option<Note> {
    plan.actions.iter().find_map(|action| match action {
        plan::Action::Create { note: Some(note), .. } if note.message.contains("{}") => Some(note.clone()),
        _ => None,
    })
}

/// The requests of a plan, after pending events. Without `root` no events are recorded.
pub(super) fn requests<K: Cached>(plan: plan::Plan, root: Option<&K>, notes: &[Note]) -> Plan<Reason> {
    let mut requests = Plan {
        deadline: plan.deadline,
        ..Plan::default()
    };
    let record = |requests: &mut Plan<Reason>, note: &Note| {
        let Some(root) = root else { return };
        let severity = if note.warning {
            Severity::Warning
        } else {
            Severity::Normal
        };
        let event = Action::event(root, severity, note.reason, note.message.clone());
        requests.push(Reason::Event, event);
    };
    for note in notes {
        record(&mut requests, note);
    }
    for action in &plan.actions {
        match action {
            plan::Action::Create { object, note } => {
                requests.push(Reason::Missing(object.kind()), with_object!(object, create));
                if let Some(note) = note.as_ref().filter(|note| !note.message.contains("{}")) {
                    record(&mut requests, note);
                }
            }
            plan::Action::Update { object } => {
                requests.push(Reason::Differs(object.kind()), with_object!(object, replace));
            }
            plan::Action::UpdateStatus { object } => {
                requests.push(Reason::Status, with_object!(object, replace_status));
            }
            plan::Action::Patch { target, patch } => {
                let request = Action::Patch {
                    target: place(target),
                    subresource: None,
                    patch: Patch::Merge(patch.clone()),
                };
                requests.push(Reason::Differs(target.kind), request);
            }
            plan::Action::Delete {
                target,
                foreground,
                note,
            } => {
                requests.push(Reason::Surplus(target.kind), delete(target, *foreground));
                if let Some(note) = note {
                    record(&mut requests, note);
                }
            }
            plan::Action::Record(note) => record(&mut requests, note),
        }
    }
    requests
}

fn place(target: &plan::Target) -> Target {
    Target {
        resource: target.kind.resource(),
        key: ObjectKey::new(target.namespace.clone(), target.name.clone()),
    }
}

fn delete(target: &plan::Target, foreground: bool) -> Action {
    let propagation = if foreground {
        Propagation::Foreground
    } else {
        Propagation::Background
    };
    Action::Delete {
        target: place(target),
        deletion: Deletion {
            preconditions: Preconditions {
                uid: Some(target.uid.clone()),
                resource_version: None,
            },
            propagation: Some(propagation),
            grace_seconds: None,
        },
    }
}
