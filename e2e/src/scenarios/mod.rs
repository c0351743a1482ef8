//! The list of all scenarios.

mod bad_input;
mod blocked_drains;
mod blocker_deleted;
mod class_migration;
mod cloud_restarts;
mod crash;
mod crash_next;
mod create_errors;
mod daemons_survive;
mod delete_unknown;
mod delete_while_creating;
mod deletes_denied;
mod deletes_refused;
mod deletion_forced;
mod drain;
mod drain_limits;
mod drain_moves_volumes;
mod drain_one_by_one;
mod drain_retries;
mod drain_timeout;
mod edits;
mod evictions_under_budget;
mod failover;
mod fencing;
mod flaky_cloud;
mod foreign_nodes;
mod gardener_zones;
mod gated_start;
mod hand_made;
mod health_check;
mod health_check_external;
mod health_check_limits;
mod health_check_owner;
mod hot_update;
mod in_place;
mod initialize;
mod initialize_not_found;
mod joins_never;
mod kubelet_faults;
mod kubelet_pause;
mod lifecycle;
mod namespace_goes;
mod node_annotated;
mod node_deleted;
mod node_template;
mod nodes_only;
mod preservation;
mod preservation_dialect;
mod preservation_edits;
mod preservation_limits;
mod preservation_owners;
mod preservation_people;
mod preservation_returns;
mod preservation_steps;
mod registration;
mod reserve_gives_way;
mod rolling_restart;
mod rollout_adopts;
mod rollout_choices;
mod rollout_frozen;
mod rollout_in_place;
mod rollout_stands;
mod rollouts;
mod slow_creation;
mod unreachable_node;
mod unreachable_volume;
mod vm_deleted;
mod vm_dies;
mod vm_events;
mod volumes_move;
mod workers;
mod zone_outage;

use scenario::builder::{all, boot_delay, create_machine, machine_gone, node_gone, slack, vm_count};
use scenario::{Condition, DurationExpression, Scenario, StageKind};

/// All scenarios in the order of the list, each with the name of its suite.
pub fn scenarios() -> Vec<Scenario> {
    let first_light = [
        lifecycle::scenario(),
        vm_dies::scenario(),
        create_errors::scenario(),
        kubelet_faults::scenario(),
        kubelet_pause::scenario(),
        crash::scenario(),
        crash_next::scenario(),
        initialize::scenario(),
        delete_while_creating::scenario(),
    ];
    let machine = [
        drain::scenario(),
        drain_timeout::scenario(),
        flaky_cloud::scenario(),
        edits::scenario(),
        node_deleted::scenario(),
        vm_deleted::scenario(),
        foreign_nodes::scenario(),
        hand_made::scenario(),
        failover::scenario(),
        rolling_restart::scenario(),
        cloud_restarts::scenario(),
        drain_retries::scenario(),
        drain_limits::scenario(),
        deletion_forced::scenario(),
        delete_unknown::scenario(),
        joins_never::scenario(),
        initialize_not_found::scenario(),
        node_annotated::scenario(),
        node_template::scenario(),
        gated_start::scenario(),
        hot_update::scenario(),
        deletes_refused::scenario(),
        deletes_denied::scenario(),
        blocker_deleted::scenario(),
        bad_input::scenario(),
        nodes_only::scenario(),
        class_migration::scenario(),
    ];
    let drains = [
        drain_one_by_one::scenario(),
        drain_moves_volumes::scenario(),
        in_place::scenario(),
    ];
    let workloads = [
        evictions_under_budget::scenario(),
        volumes_move::scenario(),
        daemons_survive::scenario(),
        unreachable_node::scenario(),
        unreachable_volume::scenario(),
        reserve_gives_way::scenario(),
        namespace_goes::scenario(),
        blocked_drains::scenario(),
    ];
    let mut rollouts = rollouts::scenarios();
    rollouts.extend(rollout_choices::scenarios());
    rollouts.extend(rollout_stands::scenarios());
    rollouts.extend([
        rollout_adopts::scenario(),
        rollout_frozen::scenario(),
        rollout_in_place::scenario(),
        gardener_zones::scenario(),
        zone_outage::scenario(),
    ]);
    let suite = |name, scenarios: Vec<Scenario>| scenarios.into_iter().map(move |scenario| scenario.tag(name));
    suite("first-light", suite("machine", first_light.into()).collect())
        .chain(suite("machine", machine.into()))
        .chain(suite("machine", registration::scenarios().into()))
        .chain(suite("machine", vm_events::scenarios().into()))
        .chain(suite("workloads", suite("machine", drains.into()).collect()))
        .chain(suite("workloads", workloads.into()))
        // After a crash during the creation no process knows of the VM, so this scenario has no crash points.
        .chain(suite("driver", vec![slow_creation::scenario()]))
        .chain(suite("rollout", rollouts))
        .chain(suite("preservation", preservation::scenarios()))
        .chain(suite("preservation", preservation_returns::scenarios()))
        .chain(suite("preservation", fencing::scenarios()))
        .chain(suite("preservation", preservation_limits::scenarios()))
        .chain(suite("preservation", preservation_owners::scenarios()))
        .chain(suite("preservation", preservation_people::scenarios()))
        .chain(suite("preservation", preservation_dialect::scenarios()))
        .chain(suite("preservation", preservation_edits::scenarios()))
        .chain(suite("health-check", without_real_servers(health_check::scenarios())))
        .chain(suite(
            "health-check",
            without_real_servers(health_check_limits::scenarios()),
        ))
        .chain(suite(
            "health-check",
            without_real_servers(health_check_owner::scenarios()),
        ))
        .chain(suite(
            "health-check",
            without_real_servers(health_check_external::scenarios()),
        ))
        .collect()
}

/// Scenarios of health checks that judge no heartbeats.
const ON_REAL_SERVERS: [&str; 17] = [
    "health_check_annotations",
    "health_check_node_deleted",
    "health_check_limit",
    "health_check_exclusive_limit",
    "health_check_range",
    "health_check_rounds_down",
    "health_check_twice",
    "health_check_unusable",
    "health_check_one_at_a_time",
    "health_check_paused_rollout",
    "health_check_own_role",
    "health_check_old_revision",
    "health_check_two_requests",
    "health_check_escalates",
    "health_check_next_template",
    "health_check_cancelled",
    "health_check_template_edited",
];

/// Other health checks judge heartbeats or recoveries that last for seconds. A busy computer with a real API server delays
/// the kubelets' writes by as much.
fn without_real_servers(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    const BECAUSE: &str = "states that a check judges last for seconds, by which a real API server delays them";
    let limited = |scenario: Scenario| match scenario.stages {
        Some(_) => scenario,
        None if ON_REAL_SERVERS.contains(&scenario.name.as_str()) => scenario,
        None => scenario.only_on([StageKind::Sim, StageKind::Embedded], BECAUSE),
    };
    scenarios.into_iter().map(limited).collect()
}

/// How long a machine may take from its creation to Running.
fn joining() -> DurationExpression {
    boot_delay() + slack()
}

/// No object of the machine and no VM is left.
fn nothing_left(machine: &str) -> Condition {
    all([machine_gone(machine), node_gone(machine), vm_count(machine, 0)])
}

/// Excludes shared clusters: the scenario leaves cluster-scoped objects behind.
fn only_in_a_cluster_of_its_own(scenario: Scenario) -> Scenario {
    scenario.only_on(
        [StageKind::Sim, StageKind::Embedded, StageKind::Envtest, StageKind::Kind],
        "it creates cluster-scoped objects, such as volumes, and does not delete them",
    )
}
