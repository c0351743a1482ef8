//! The list of all scenarios.

mod crash;
mod create_errors;
mod delete_while_creating;
mod drain;
mod drain_timeout;
mod edits;
mod failover;
mod flaky_cloud;
mod foreign_nodes;
mod initialize;
mod kubelet_pause;
mod lifecycle;
mod node_deleted;
mod rolling_restart;
mod vm_deleted;
mod vm_dies;

use harness::Scenario;
use harness::scenario::builder::{all, boot_delay, machine_gone, node_gone, slack, vm_count};
use harness::scenario::{Condition, DurationExpression};

/// All scenarios, in the order in which they are listed.
pub fn scenarios() -> Vec<Scenario> {
    vec![
        lifecycle::scenario(),
        vm_dies::scenario(),
        create_errors::scenario(),
        kubelet_pause::scenario(),
        crash::scenario(),
        initialize::scenario(),
        delete_while_creating::scenario(),
        drain::scenario(),
        drain_timeout::scenario(),
        flaky_cloud::scenario(),
        edits::scenario(),
        node_deleted::scenario(),
        vm_deleted::scenario(),
        foreign_nodes::scenario(),
        failover::scenario(),
        rolling_restart::scenario(),
    ]
}

/// How long a machine may take from its creation to Running.
fn joining() -> DurationExpression {
    boot_delay() + slack()
}

/// Nothing of a machine is left.
fn nothing_left(machine: &str) -> Condition {
    all([machine_gone(machine), node_gone(machine), vm_count(machine, 0)])
}
