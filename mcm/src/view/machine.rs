//! Builds the view of one machine from the caches.

mod defects;

use std::sync::Arc;

use k8s_openapi::api::core::v1;
use kube::ResourceExt;
use mcm_api::{Machine, MachineClass, MachineName, MachineStatus, NodeName, Phase, PreservationStage, keys};
use mcm_core::class::secret_key;
use mcm_core::health_check::owner;
use mcm_core::machine::{self, Answer, NodeView, Secret, SecretData, Sibling, View, is_drained_in_place};
use mcm_core::ownership::controller;
use mcm_core::remediation::Rank;

use super::cluster_state::{ClusterState, TargetState};
use super::drain;
use crate::cache::Key;
use crate::memory::PendingStatuses;

/// The view of one machine, without the results of the pass (answers, token, failure).
pub(crate) fn view(state: &ClusterState, pending_statuses: &PendingStatuses, machine: Machine) -> View {
    let key = Key::new(&state.namespace, &machine.spec.class.name);
    let class = state.classes.get(&key);
    let mut view = View {
        secret: class.as_ref().map(|class| secret(state, class)).unwrap_or_default(),
        class,
        class_damage: state.classes.damage(&key).map(|damage| damage.problems.to_string()),
        target: state.target.is_some(),
        siblings: siblings(state, pending_statuses, &machine),
        owners_list: state.owners_list(&machine),
        owner_state: remediation_owner(state, &machine),
        machine,
        ..View::default()
    };
    if let Some(target) = &state.target {
        add_target_state(&mut view, state, target);
    }
    view
}

/// The Node whose name the last driver response contains.
pub(crate) fn answered_node(state: &ClusterState, answers: &[Answer]) -> Option<Arc<v1::Node>> {
    let target = state.target.as_ref()?;
    let vm = match answers.last()? {
        Answer::Status(Ok(vm)) | Answer::Create(Ok(vm)) | Answer::Initialize(Ok(vm)) => vm,
        _ => return None,
    };
    target.nodes.get(&Key::new("", vm.node_name.as_ref()?.as_str()))
}

fn add_target_state(view: &mut View, state: &ClusterState, target: &TargetState) {
    let labelled = target.nodes_labelled(&view.machine.name_any());
    view.labelled_node = labelled.first().and_then(|node| NodeName::new(node.name_any()));
    if defect!(NodeWithoutVmMatchesNone) {
        view.labelled_node = defects::node_of_same_provider_id(target, &view.machine);
    }
    let node = view.machine.labels().get(keys::NODE_LABEL);
    let node = node.and_then(|name| NodeName::new(name.as_str()));
    let Some(node) = node.or_else(|| view.labelled_node.clone()) else {
        return;
    };
    if view.machine.labels().contains_key(keys::NODE_LABEL) {
        view.node = node_view(target, &node);
        view.node_of_other = owner(state, &view.node).filter(|owner| *owner != view.machine.name_any().as_str());
    }
    // Also without a drain in progress: the state of the last drain is reset when another one begins.
    view.drain = state.drains.of(&view.machine);
    let in_place = view.node.present().is_some_and(is_drained_in_place);
    let record = view.machine.status.preservation.as_ref();
    // Also after the drain: pods that must not run twice may be left.
    let kept = record.is_some_and(|record| {
        let failed = view.machine.status.current_status.base() == Some(&Phase::Failed);
        record.stage == PreservationStage::Draining || record.stage == PreservationStage::Preserved && failed
    });
    if kept || in_place || view.machine.metadata.deletion_timestamp.is_some() {
        drain::set_cached_pods(view, target, &node);
        if defect!(AttachmentWithoutVolumeBlinds | DrainListenerFillsUp) && defects::ignores_pods(view, target, &node) {
            view.pods = None;
        }
    }
    view.volume_attachments = target
        .attachments_of(&node)
        .iter()
        .filter(|attachment| attachment.metadata.deletion_timestamp.is_none())
        .map(|attachment| attachment.name_any())
        .collect();
}

/// The machine that the Node references and that references the Node.
fn owner(state: &ClusterState, node: &NodeView) -> Option<MachineName> {
    let node = node.present()?;
    let name = node.labels().get(keys::MACHINE_NAME_LABEL)?;
    let machine = state.machines.get(&Key::new(&state.namespace, name))?;
    (machine.labels().get(keys::NODE_LABEL) == Some(&node.name_any())).then(|| MachineName::new(name.as_str()))?
}

fn node_view(target: &TargetState, name: &NodeName) -> NodeView {
    let key = Key::new("", name.as_str());
    match target.nodes.get(&key) {
        Some(node) => NodeView::Present(node),
        None if target.nodes.was_deleted(&key) => NodeView::Gone,
        None => NodeView::Absent,
    }
}

/// The merged data of the class's Secrets. Only Secrets in the controller's namespace are cached.
pub(crate) fn secret(state: &ClusterState, class: &MachineClass) -> Secret {
    let mut merged = Secret::default();
    for reference in [&class.secret_ref, &class.credentials_secret_ref].into_iter().flatten() {
        let Some((namespace, name)) = secret_key(class, reference) else {
            continue;
        };
        let key = Key::new(namespace, name);
        match state.secrets.get(&key) {
            Some(secret) => merge(&mut merged.data, &secret),
            None => merged.missing.push(key.to_string()),
        }
    }
    merged
}

fn merge(data: &mut SecretData, secret: &v1::Secret) {
    let entries = secret.data.iter().flatten();
    data.0.extend(entries.map(|(key, value)| (key.clone(), value.clone())));
}

/// How the machine stands with its set and deployment, if a health check requests its replacement.
fn remediation_owner(state: &ClusterState, machine: &Machine) -> owner::OwnerState {
    let set = controller(&machine.metadata).filter(|_| machine.status.is_remediation_requested());
    let set = set.and_then(|set| state.sets.get(&Key::new(&state.namespace, &set.name)));
    set.map_or_else(owner::OwnerState::default, |set| {
        owner::owner_state(&set, state.deployment_of(&set).as_deref())
    })
}

/// The other machines of the deployment, if the decision depends on them: for a healthy machine it does not.
fn siblings(state: &ClusterState, pending_statuses: &PendingStatuses, machine: &Machine) -> Vec<Sibling> {
    let independent = [
        Phase::Pending,
        Phase::CrashLoopBackOff,
        Phase::Running,
        Phase::Available,
        Phase::Terminating,
    ];
    let phase = machine.status.current_status.base();
    let Some(deployment) = machine.labels().get(keys::DEPLOYMENT_LABEL) else {
        return Vec::new();
    };
    let requested = machine.status.is_remediation_requested() && phase != Some(&Phase::Terminating);
    if !requested && phase.is_none_or(|phase| independent.contains(phase)) {
        return Vec::new();
    }
    let others = state.machines_of_deployment(deployment).into_iter();
    others
        .filter(|other| other.name_any() != machine.name_any())
        .filter_map(|other| Some((MachineName::new(other.name_any())?, other)))
        .flat_map(|(name, other)| {
            // Both the current and the pending status count, because the pending write may or may not succeed.
            let intended = pending_statuses.get(&Key::of(&*other));
            let as_of = |status: &MachineStatus| Sibling {
                patient: other.spec.configuration.disable_health_timeout == Some(true),
                preserved: status.is_preserved() && other.status.is_preserved(),
                requested: Rank::of(&other),
                ..Sibling::of(name.clone(), status)
            };
            [Some(as_of(&other.status)), intended.as_ref().map(as_of)]
        })
        .flatten()
        .collect()
}

/// Whether the machine must keep its phase until the write for another one is finished: the machine would no longer be
/// settled, and another one of its deployment is about to be Failed, which was decided because this one is settled.
/// Without that rule an update or a deletion could start between that decision and its write (invariant I12).
pub(crate) fn must_wait_for_sibling(
    state: &ClusterState,
    pending_statuses: &PendingStatuses,
    machine: &Machine,
    intended: &MachineStatus,
) -> bool {
    if !is_settled(&machine.status) || is_settled(intended) {
        return false;
    }
    let deployment = |machine: &Machine| machine.labels().get(keys::DEPLOYMENT_LABEL).cloned();
    let Some(own) = deployment(machine) else { return false };
    let failing = pending_statuses.in_phase(&Phase::Failed).into_iter();
    failing
        .filter(|key| *key != Key::of(machine))
        .filter_map(|key| state.machines.get(&key))
        .any(|other| {
            deployment(&other).as_ref() == Some(&own) && other.status.current_status.base() != Some(&Phase::Failed)
        })
}

/// Whether other machines of the deployment may become Failed beside this one.
fn is_settled(status: &MachineStatus) -> bool {
    let phase = status.current_status.base();
    machine::is_settled(phase) || status.is_preserved() && phase != Some(&Phase::Terminating)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use mcm_api::Preservation;
    use mcm_core::machine::{DrainMemory, EvictionOutcome, Reason, Settings, decide};
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::view::EnabledControllers;

    fn machine(name: &str, status: MachineStatus) -> Machine {
        let machine = json!({
            "metadata": { "name": name, "namespace": "garden", "uid": name, "labels": { "name": "pool" } },
            "spec": { "class": { "kind": "MachineClass", "name": "small" } },
        });
        let machine: Machine = serde_json::from_value(machine).unwrap();
        Machine { status, ..machine }
    }

    fn in_phase(phase: Phase, preserved: bool) -> MachineStatus {
        let draining = || Preservation {
            stage: PreservationStage::Draining,
            ..Preservation::default()
        };
        let mut status = MachineStatus {
            preservation: preserved.then(draining),
            ..MachineStatus::default()
        };
        status.current_status.phase = Some(phase);
        status
    }

    /// Two machines fail at the same time: neither status write may be visible when the other is decided.
    #[rstest]
    #[case::no_pending_write((Phase::Failed, true), None, &[true])]
    #[case::it_will_be_failed_and_preserved((Phase::Unknown, false), Some((Phase::Failed, true)), &[false, false])]
    #[case::it_is_failed_and_will_be_preserved((Phase::Failed, false), Some((Phase::Failed, true)), &[false, false])]
    #[case::it_will_be_released((Phase::Failed, true), Some((Phase::Failed, false)), &[true, false])]
    #[case::it_stays_preserved((Phase::Failed, true), Some((Phase::Failed, true)), &[true, true])]
    fn a_sibling_counts_as_preserved_in_its_current_and_pending_status(
        #[case] (phase, preserved): (Phase, bool),
        #[case] intended: Option<(Phase, bool)>,
        #[case] expected: &[bool],
    ) {
        let enabled = EnabledControllers {
            machines: true,
            sets: false,
            deployments: false,
            health_checks: false,
        };
        let state = ClusterState::new("garden", false, enabled, Timestamp::UNIX_EPOCH);
        let other = state.machines.wrote(machine("a", in_phase(phase, preserved)));
        let pending_statuses = PendingStatuses::default();
        if let Some((phase, preserved)) = intended {
            pending_statuses.set(Key::of(&*other), in_phase(phase, preserved));
        }
        let siblings = siblings(
            &state,
            &pending_statuses,
            &machine("b", in_phase(Phase::Unknown, false)),
        );
        let preserved: Vec<bool> = siblings.iter().map(|sibling| sibling.preserved).collect();
        assert_eq!(preserved, expected);
    }

    /// The cases of upstream's meltdown protection, from the caches to the decision.
    ///
    /// Upstream keeps a permit for each deployment. Here decisions are sequential, and a pending status write is the
    /// lock for other machines ([`PendingStatuses`]). Of upstream's tests of permits, *try available* and *try unknown*
    /// are the failing cases here, and *release held* is checked below. *Release not held*, *delete existing* and
    /// *delete absent* coincide: without a pending write there is no lock. There is no permit store, and therefore no
    /// case for *register* (3), *delete closed*, *try closed*, *closed flag*, *close*, *janitor* (2) and *new store is
    /// open*.
    #[rstest]
    #[case::two_unknown_in_different_deployments(&[("b", "other", Some(Phase::Unknown))], None, true)]
    #[case::failed_in_other_deployment(&[("b", "other", Some(Phase::Failed))], None, true)]
    #[case::two_unknown_in_the_same_deployment(&[("b", "pool", Some(Phase::Unknown))], None, true)]
    #[case::one_failed(&[("b", "pool", Some(Phase::Failed))], None, false)]
    #[case::one_terminating(&[("b", "pool", Some(Phase::Terminating))], None, false)]
    #[case::one_without_a_phase(&[("b", "pool", None)], None, false)]
    #[case::one_pending(&[("b", "pool", Some(Phase::Pending))], None, false)]
    #[case::one_in_a_crash_loop(&[("b", "pool", Some(Phase::CrashLoopBackOff))], None, false)]
    #[case::pending_in_other_set(
        &[("b", "pool", Some(Phase::Unknown)), ("other-set-c", "pool", Some(Phase::Pending))],
        None,
        false
    )]
    #[case::lock_held(&[("b", "pool", Some(Phase::Unknown))], Some("b"), false)]
    #[case::lock_held_in_other_deployment(&[("b", "other", Some(Phase::Unknown))], Some("b"), true)]
    fn a_machine_fails_while_no_other_of_its_deployment_is_replaced(
        #[case] others: &[(&str, &str, Option<Phase>)],
        #[case] pending: Option<&str>,
        #[case] fails: bool,
    ) {
        let (state, pending_statuses) = (with_target(), PendingStatuses::default());
        for (name, deployment, phase) in others {
            state.machines.wrote(of_deployment(name, deployment, phase.clone()));
        }
        let pending = pending.map(|name| Key::new("garden", name));
        if let Some(key) = &pending {
            pending_statuses.set(key.clone(), in_phase(Phase::Failed, false));
        }
        let target = state.machines.wrote(of_deployment("a", "pool", Some(Phase::Unknown)));
        assert_eq!(fails_now(&state, &pending_statuses, &target), fails);
        if let Some(key) = &pending {
            pending_statuses.clear(key);
            assert!(
                fails_now(&state, &pending_statuses, &target),
                "the pending write failed"
            );
        }
    }

    #[rstest]
    #[case::an_update("pool", Phase::Running, Phase::InPlaceUpdating, true)]
    #[case::a_deletion_after_an_update("pool", Phase::InPlaceUpdateFailed, Phase::Terminating, true)]
    #[case::a_deletion("pool", Phase::Unknown, Phase::Terminating, true)]
    #[case::a_recovery("pool", Phase::Unknown, Phase::Running, false)]
    #[case::the_end_of_an_update("pool", Phase::InPlaceUpdating, Phase::InPlaceUpdateFailed, false)]
    #[case::a_deletion_of_a_failed_machine("pool", Phase::Failed, Phase::Terminating, false)]
    #[case::another_deployment("other", Phase::Running, Phase::InPlaceUpdating, false)]
    fn a_machine_stays_settled_while_another_is_about_to_fail(
        #[values(Phase::Running, Phase::Pending, Phase::InPlaceUpdateFailed)] failing: Phase,
        #[case] deployment: &str,
        #[case] phase: Phase,
        #[case] intended: Phase,
        #[case] waits: bool,
    ) {
        let (state, pending_statuses) = (with_target(), PendingStatuses::default());
        let failing = state.machines.wrote(of_deployment("a", "pool", Some(failing)));
        let machine = state.machines.wrote(of_deployment("b", deployment, Some(phase)));
        let intended = in_phase(intended, false);
        let must_wait = || must_wait_for_sibling(&state, &pending_statuses, &machine, &intended);
        assert!(!must_wait(), "no write is pending");
        pending_statuses.set(Key::of(&*machine), in_phase(Phase::Failed, false));
        assert!(!must_wait(), "its own write is pending");
        pending_statuses.set(Key::of(&*failing), in_phase(Phase::Failed, false));
        assert_eq!(must_wait(), waits);
        pending_statuses.clear(&Key::of(&*failing));
        assert!(!must_wait(), "the write is finished");
    }

    /// Otherwise the attempts of the last drain would count for the next one.
    #[test]
    fn the_view_contains_the_state_of_the_last_drain() {
        let (state, pending_statuses) = (with_target(), PendingStatuses::default());
        let mut machine = of_deployment("a", "pool", Some(Phase::Unknown));
        machine.labels_mut().insert(keys::NODE_LABEL.to_owned(), "a".to_owned());
        let mut last = DrainMemory::default();
        last.attempted("pod", Timestamp::UNIX_EPOCH, EvictionOutcome::Refused);
        state.drains.keep(&machine, last.clone());
        assert_eq!(view(&state, &pending_statuses, machine).drain, last);
    }

    /// Machines without the label are not siblings of each other.
    #[test]
    fn a_machine_without_a_deployment_fails_independently_of_others() {
        let (state, pending_statuses) = (with_target(), PendingStatuses::default());
        let without = |name: &str, phase: Phase| {
            let mut machine = of_deployment(name, "", Some(phase));
            machine.labels_mut().remove(keys::DEPLOYMENT_LABEL);
            state.machines.wrote(machine)
        };
        without("b", Phase::Failed);
        let target = without("a", Phase::Unknown);
        assert!(fails_now(&state, &pending_statuses, &target));
    }

    const CREATED: &str = "2026-01-02T03:04:05Z";

    fn with_target() -> ClusterState {
        let enabled = EnabledControllers {
            machines: true,
            sets: false,
            deployments: false,
            health_checks: false,
        };
        ClusterState::new("garden", true, enabled, Timestamp::UNIX_EPOCH)
    }

    /// A machine of that deployment without a Node, in this phase since its creation.
    fn of_deployment(name: &str, deployment: &str, phase: Option<Phase>) -> Machine {
        let machine = json!({
            "metadata": {
                "name": name, "namespace": "garden", "uid": name, "creationTimestamp": CREATED,
                "labels": { "name": deployment, "node": name }, "finalizers": [keys::MACHINE_FINALIZER],
            },
            "spec": { "class": { "kind": "MachineClass", "name": "small" }, "providerID": format!("fakecloud:///z1/{name}") },
            "status": { "currentStatus": { "lastUpdateTime": CREATED } },
        });
        let mut machine: Machine = serde_json::from_value(machine).unwrap();
        machine.status.current_status.phase = phase;
        machine
    }

    /// Whether the machine becomes Failed at its health timeout; otherwise asserts that it waits for siblings.
    fn fails_now(state: &ClusterState, pending_statuses: &PendingStatuses, machine: &Machine) -> bool {
        let settings = Settings::default();
        let created: Timestamp = CREATED.parse().unwrap();
        let now = created.checked_add(settings.health_timeout_of(machine)).unwrap();
        let plan = decide(&view(state, pending_statuses, machine.clone()), &settings, now);
        let phase = plan.status.and_then(|status| status.current_status.phase);
        let waits = matches!(plan.reason, Reason::OthersBeingReplaced(_));
        assert_eq!(waits, phase.is_none(), "{:?}", plan.reason);
        phase == Some(Phase::Failed)
    }
}
