//! Decides whether a condition is about something that ever existed. An expectation about nothing is always met, and
//! therefore tests nothing.

use scenario::expect::Condition;

use crate::world::WorldState;

/// Why a condition could not become false (or true, under `not` and `never`): nothing that it names was ever observed;
/// `None`: it could.
pub(crate) fn ungrounded(condition: &Condition, world: &WorldState) -> Option<String> {
    let machine = |name: &str| (!world.machines.contains_key(name)).then(|| format!("machine {name} never existed"));
    match condition {
        Condition::Phase(phase) => machine(&phase.machine),
        Condition::ErrorCode(code) => machine(&code.machine),
        Condition::DescriptionContains(text) => machine(&text.machine),
        Condition::History(history) => machine(&history.machine),
        Condition::MachineGone(name) => machine(name),
        Condition::NodeGone(name) => object(&None, "Node", name, world),
        Condition::Exists(of) | Condition::Observed(of) => object(&of.api_version, &of.kind, &of.name, world),
        Condition::Unchanged(of) => object(&of.api_version, &of.kind, &of.name, world),
        Condition::Field(of) => object(&of.api_version, &of.kind, &of.name, world),
        Condition::EventCount(of) => event_about(&of.api_version, &of.kind, &of.name, world),
        Condition::VmCount(count) => vm(&count.machine, world),
        Condition::Calls(calls) => vm(&calls.machine, world),
        Condition::Pods(pods) => workload(&pods.of, world),
        Condition::SamePods(on) => workload(&on.of, world),
        Condition::Attached(attached) => object(&None, "PersistentVolumeClaim", &attached.claim, world),
        Condition::VolumesOf(volumes) => object(&None, "PersistentVolumeClaim", &volumes.claim, world),
        // On load, the name of the rule is resolved.
        Condition::FaultHits(_) => None,
        Condition::All(parts) => parts.iter().find_map(|part| ungrounded(part, world)),
        Condition::Any(parts) => {
            let mut reasons = parts.iter().map(|part| ungrounded(part, world));
            let first = reasons.next()??;
            reasons.all(|reason| reason.is_some()).then_some(first)
        }
        Condition::Not(part) => ungrounded(part, world),
    }
}

fn object(api_version: &Option<String>, kind: &str, name: &str, world: &WorldState) -> Option<String> {
    let key = world.kinds.find(api_version.as_deref(), kind).ok()?.key;
    // A machine's node may never join, and an expectation that it does not join can fail.
    let is_expected = key == "Node" && vm(name, world).is_none();
    (!is_expected && !world.has_seen(key, name)).then(|| format!("{kind} {name} never existed"))
}

/// Objects of kinds that are not watched may have existed.
fn event_about(api_version: &Option<String>, kind: &str, name: &str, world: &WorldState) -> Option<String> {
    let of = world.kinds.find(api_version.as_deref(), kind).ok()?;
    object(api_version, kind, name, world).filter(|_| of.watched)
}

fn vm(machine: &str, world: &WorldState) -> Option<String> {
    let exists = || world.vms.values().any(|vm| vm.machine == machine || vm.node == machine);
    (!world.machines.contains_key(machine) && !exists()).then(|| format!("no machine or VM {machine} ever existed"))
}

fn workload(name: &str, world: &WorldState) -> Option<String> {
    let has_object = || {
        ["Deployment", "StatefulSet", "DaemonSet"]
            .into_iter()
            .any(|kind| world.has_seen(kind, name))
    };
    (!world.workloads.contains(name) && !has_object()).then(|| format!("workload {name} never existed"))
}
