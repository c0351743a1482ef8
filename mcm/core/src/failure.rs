//! Why a machine is Failed: the texts of its last operation, and what they say.

use mcm_api::{Machine, Operation, keys};

/// In the description of a machine that did not join in time. Upstream's words.
pub(crate) const NEVER_JOINED: &str = "failed to join the cluster in";
/// In the description of a machine that did not recover in time. Upstream's words.
pub(crate) const NEVER_RECOVERED: &str = "health checks failing since last";
/// In the description of a machine that a health check wants to be replaced.
pub(crate) const MARKED_UNHEALTHY: &str = "failed its health check";

/// Why a machine is Failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was unhealthy for too long, or a health check marked it.
    Unhealthy,
    /// Its VM exists, and its node did not join in time.
    NeverJoined,
    /// It has no usable VM: the creation failed.
    NotCreated,
    /// Its update in place failed.
    NotUpdated,
    /// The status does not say.
    Unknown,
}

impl Failure {
    /// The failure of a Failed machine. A machine that fails keeps the type of its last operation, so the description
    /// decides first.
    pub(crate) fn of(machine: &Machine) -> Self {
        let Some(last) = &machine.status.last_operation else {
            return Self::Unknown;
        };
        let describes = |text: &str| last.description.contains(text);
        let marked = machine.status.condition(keys::OWNER_REMEDIATED).is_some();
        match last.operation {
            _ if marked || describes(NEVER_RECOVERED) || describes(MARKED_UNHEALTHY) => Self::Unhealthy,
            _ if describes(NEVER_JOINED) => Self::NeverJoined,
            Some(Operation::HealthCheck) => Self::Unhealthy,
            Some(Operation::Create) => Self::NotCreated,
            Some(Operation::InPlaceUpdate) => Self::NotUpdated,
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use mcm_api::machine::LastOperation;
    use mcm_api::{MachineStatus, State};
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::it_never_joined(
        Operation::Create,
        "Machine m failed to join the cluster in 20m0s.",
        Failure::NeverJoined
    )]
    #[case::the_driver_refuses(Operation::Create, "Cloud provider message - no quota", Failure::NotCreated)]
    #[case::the_class_is_invalid(Operation::Create, "the class small has no provider", Failure::NotCreated)]
    #[case::its_node_name_is_taken(Operation::Create, "VM using old node obj", Failure::NotCreated)]
    #[case::it_never_recovered(
        Operation::HealthCheck,
        "Machine m health checks failing since last 10m0s.",
        Failure::Unhealthy
    )]
    #[case::a_check_marks_a_machine_that_joined_last(
        Operation::Create,
        "Machine m failed its health check: HasRemediateAnnotation.",
        Failure::Unhealthy
    )]
    #[case::it_was_unhealthy_after_its_update(
        Operation::InPlaceUpdate,
        "Machine m health checks failing since last 10m0s.",
        Failure::Unhealthy
    )]
    #[case::it_was_not_updated(
        Operation::InPlaceUpdate,
        "Machine m failed to in-place update in 5m",
        Failure::NotUpdated
    )]
    #[case::an_update_of_its_vm(Operation::Update, "no", Failure::Unknown)]
    fn the_last_operation_says_why(#[case] operation: Operation, #[case] text: &str, #[case] expected: Failure) {
        let machine = Machine {
            status: MachineStatus {
                last_operation: Some(LastOperation {
                    description: text.to_owned(),
                    operation: Some(operation),
                    state: Some(State::Failed),
                    ..LastOperation::default()
                }),
                ..MachineStatus::default()
            },
            ..Machine::default()
        };
        assert_eq!(Failure::of(&machine), expected);
    }
}
