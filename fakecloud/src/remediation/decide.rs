//! The next step of a remediation, as a pure function of the request, the state of the VM and the time.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::objects::{PendingAction, Phase, Request, Status, Strategy};
use super::vms::VmPower;

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Holds the request until the VM is in a final state.
    AddFinalizer,
    /// Lets the request go.
    RemoveFinalizer,
    /// Stops the VM. It is decided again until the VM is stopped.
    Stop,
    /// Starts the stopped VM of a request that ends. It is decided again until the VM runs.
    Start,
    /// Performs the pending action of the status.
    Perform(PendingAction),
    /// Removes the pending action from the status, because it was performed.
    ClearPending,
}

/// A status that is written first, and actions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub status: Option<Status>,
    pub actions: Vec<Action>,
}

impl Plan {
    fn act(action: Action) -> Self {
        Self {
            status: None,
            actions: vec![action],
        }
    }

    fn perform(pending: PendingAction) -> Self {
        Self {
            status: None,
            actions: vec![Action::Perform(pending), Action::ClearPending],
        }
    }
}

/// The next step.
pub(super) fn decide(request: &Request, vm: VmPower, now: Timestamp) -> Plan {
    let is_final = matches!(vm, VmPower::Running | VmPower::Absent);
    match (request.deleting, request.held) {
        (true, false) => return Plan::default(),
        // The machine recovered, or is gone; a VM that was stopped is started first.
        (true, true) if is_final => return Plan::act(Action::RemoveFinalizer),
        (true, true) if vm == VmPower::Stopped => return Plan::act(Action::Start),
        (true, true) => return Plan::default(),
        (false, false) => return Plan::act(Action::AddFinalizer),
        (false, true) => {}
    }
    let status = &request.status;
    let waited = status
        .last_attempt
        .as_ref()
        .is_none_or(|last| last.0.checked_add(request.timeout).is_ok_and(|end| end < now));
    if let Some(pending) = status.pending_action
        // Neither a machine is kept nor a VM stays switched off because the time is over.
        && (!waited || pending == PendingAction::DeleteMachine || vm == VmPower::Stopped)
    {
        return resume(pending, request.performed, vm);
    }
    if status.phase == Phase::Rebuilding {
        return match vm {
            VmPower::Stopped => with_status(request, Phase::Waiting, PendingAction::Rebuild),
            VmPower::Running => Plan::act(Action::Stop),
            VmPower::Changing | VmPower::Absent => Plan::default(),
        };
    }
    if !waited || matches!(status.phase, Phase::Exhausted | Phase::Deleting) {
        return Plan::default();
    }
    if status.retry_count >= request.retry_limit {
        return match request.strategy {
            Strategy::Escalate => with_status(request, Phase::Deleting, PendingAction::DeleteMachine),
            Strategy::Reboot | Strategy::Rebuild | Strategy::Delete => Plan {
                status: Some(Status {
                    phase: Phase::Exhausted,
                    pending_action: None,
                    ..status.clone()
                }),
                actions: Vec::new(),
            },
        };
    }
    attempt(request, vm, now)
}

/// The pending action of the last attempt: it failed, or the process ended before it or before its record was removed.
/// Therefore a new process may perform an action twice.
fn resume(pending: PendingAction, performed: bool, vm: VmPower) -> Plan {
    if performed {
        return Plan::act(Action::ClearPending);
    }
    match (pending, vm) {
        (PendingAction::DeleteMachine, _) => Plan::perform(pending),
        (PendingAction::Reboot, VmPower::Running) => Plan::perform(PendingAction::Reboot),
        (PendingAction::Rebuild, VmPower::Stopped) => Plan::perform(PendingAction::Rebuild),
        (PendingAction::Reboot | PendingAction::Start, VmPower::Stopped) => Plan::perform(PendingAction::Start),
        (PendingAction::Start | PendingAction::Rebuild, VmPower::Running) | (_, VmPower::Absent) => {
            Plan::act(Action::ClearPending)
        }
        (_, VmPower::Changing) => Plan::default(),
    }
}

fn with_status(request: &Request, phase: Phase, pending: PendingAction) -> Plan {
    Plan {
        status: Some(Status {
            phase,
            pending_action: Some(pending),
            ..request.status.clone()
        }),
        ..Plan::perform(pending)
    }
}

/// The next attempt. It is counted and recorded before it is made: a process that ends in between neither repeats it for
/// ever nor loses it.
fn attempt(request: &Request, vm: VmPower, now: Timestamp) -> Plan {
    let (phase, pending) = match (request.strategy, vm) {
        (Strategy::Delete, _) => (Phase::Deleting, Some(PendingAction::DeleteMachine)),
        (_, VmPower::Changing | VmPower::Absent) => return Plan::default(),
        // The phase is the record.
        (Strategy::Rebuild, VmPower::Running) => (Phase::Rebuilding, None),
        (Strategy::Rebuild, VmPower::Stopped) => (Phase::Waiting, Some(PendingAction::Rebuild)),
        (Strategy::Reboot | Strategy::Escalate, VmPower::Running) => (Phase::Waiting, Some(PendingAction::Reboot)),
        (Strategy::Reboot | Strategy::Escalate, VmPower::Stopped) => (Phase::Waiting, Some(PendingAction::Start)),
    };
    let status = Status {
        phase,
        retry_count: request.status.retry_count + 1,
        last_attempt: Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
        pending_action: pending,
    };
    Plan {
        status: Some(status),
        ..pending.map_or_else(|| Plan::act(Action::Stop), Plan::perform)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rstest::rstest;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_000_000).unwrap()
    }

    /// A request with so many attempts, of which the last began so many seconds ago.
    fn request(strategy: Strategy, attempts: u32, seconds: i64) -> Request {
        let last = Timestamp::from_second(1_000_000 - seconds).unwrap();
        Request {
            machine: "m-1".to_owned(),
            deleting: false,
            held: true,
            strategy,
            performed: false,
            retry_limit: 2,
            timeout: Duration::from_secs(60),
            status: Status {
                phase: if attempts > 0 { Phase::Waiting } else { Phase::New },
                retry_count: attempts,
                last_attempt: (attempts > 0).then_some(Time(last)),
                pending_action: None,
            },
        }
    }

    #[rstest]
    #[case::first_attempt(request(Strategy::Reboot, 0, 0), VmPower::Running, &[Action::Perform(PendingAction::Reboot), Action::ClearPending])]
    #[case::stopped_vm(request(Strategy::Reboot, 0, 0), VmPower::Stopped, &[Action::Perform(PendingAction::Start), Action::ClearPending])]
    #[case::vm_boots(request(Strategy::Reboot, 0, 0), VmPower::Changing, &[])]
    #[case::the_machine_may_recover(request(Strategy::Reboot, 1, 60), VmPower::Running, &[])]
    #[case::second_attempt(request(Strategy::Reboot, 1, 61), VmPower::Running, &[Action::Perform(PendingAction::Reboot), Action::ClearPending])]
    #[case::exhausted(request(Strategy::Reboot, 2, 61), VmPower::Running, &[])]
    #[case::escalates(request(Strategy::Escalate, 2, 61), VmPower::Running, &[Action::Perform(PendingAction::DeleteMachine), Action::ClearPending])]
    #[case::does_not_escalate_early(request(Strategy::Escalate, 2, 60), VmPower::Running, &[])]
    #[case::rebuild_stops_first(request(Strategy::Rebuild, 0, 0), VmPower::Running, &[Action::Stop])]
    #[case::deletion(request(Strategy::Delete, 0, 0), VmPower::Absent, &[Action::Perform(PendingAction::DeleteMachine), Action::ClearPending])]
    #[case::not_held(Request { held: false, ..request(Strategy::Reboot, 0, 0) }, VmPower::Running, &[Action::AddFinalizer])]
    #[case::recovered(Request { deleting: true, ..request(Strategy::Reboot, 1, 5) }, VmPower::Running, &[Action::RemoveFinalizer])]
    #[case::recovered_during_a_reboot(Request { deleting: true, ..request(Strategy::Reboot, 1, 5) }, VmPower::Changing, &[])]
    #[case::cancelled_while_stopped(Request { deleting: true, ..request(Strategy::Rebuild, 1, 5) }, VmPower::Stopped, &[Action::Start])]
    #[case::machine_gone(Request { deleting: true, ..request(Strategy::Reboot, 1, 5) }, VmPower::Absent, &[Action::RemoveFinalizer])]
    fn the_next_step_follows_from_request_and_vm(
        #[case] request: Request,
        #[case] vm: VmPower,
        #[case] expected: &[Action],
    ) {
        assert_eq!(decide(&request, vm, now()).actions, expected);
    }

    #[test]
    fn an_attempt_is_counted_before_it_is_made() {
        let status = decide(&request(Strategy::Reboot, 1, 61), VmPower::Running, now())
            .status
            .unwrap();
        assert_eq!((status.phase, status.retry_count), (Phase::Waiting, 2));
        assert_eq!(status.last_attempt, Some(Time(now())));
        assert_eq!(status.pending_action, Some(PendingAction::Reboot));
    }

    #[rstest]
    #[case::reboot(PendingAction::Reboot, VmPower::Running, Some(PendingAction::Reboot), false)]
    #[case::reboot_of_a_vm_that_was_stopped(PendingAction::Reboot, VmPower::Stopped, Some(PendingAction::Start), false)]
    #[case::it_boots(PendingAction::Reboot, VmPower::Changing, None, false)]
    #[case::start(PendingAction::Start, VmPower::Stopped, Some(PendingAction::Start), false)]
    #[case::started(PendingAction::Start, VmPower::Running, None, true)]
    #[case::rebuild(PendingAction::Rebuild, VmPower::Stopped, Some(PendingAction::Rebuild), false)]
    #[case::rebuilt(PendingAction::Rebuild, VmPower::Running, None, true)]
    #[case::gone(PendingAction::Reboot, VmPower::Absent, None, true)]
    #[case::deletion(
        PendingAction::DeleteMachine,
        VmPower::Absent,
        Some(PendingAction::DeleteMachine),
        false
    )]
    fn a_pending_action_is_performed_after_a_crash(
        #[case] pending: PendingAction,
        #[case] vm: VmPower,
        #[case] performed: Option<PendingAction>,
        #[case] cleared: bool,
    ) {
        let mut interrupted = request(Strategy::Escalate, 2, 5);
        interrupted.status.pending_action = Some(pending);
        let expected = match performed {
            Some(action) => vec![Action::Perform(action), Action::ClearPending],
            None if cleared => vec![Action::ClearPending],
            None => Vec::new(),
        };
        let plan = decide(&interrupted, vm, now());
        assert_eq!((plan.status, plan.actions), (None, expected));
    }

    #[test]
    fn a_process_does_not_repeat_an_action_that_it_performed() {
        let mut performed = request(Strategy::Reboot, 2, 5);
        performed.status.pending_action = Some(PendingAction::Reboot);
        performed.performed = true;
        assert_eq!(
            decide(&performed, VmPower::Running, now()),
            Plan::act(Action::ClearPending)
        );
    }

    #[test]
    fn a_vm_does_not_stay_stopped_after_the_last_attempt() {
        let mut interrupted = request(Strategy::Rebuild, 2, 61);
        interrupted.status.pending_action = Some(PendingAction::Rebuild);
        let rebuild = Plan::perform(PendingAction::Rebuild);
        assert_eq!(decide(&interrupted, VmPower::Stopped, now()), rebuild);
    }

    #[test]
    fn a_pending_action_ends_with_the_time_of_its_attempt() {
        let mut interrupted = request(Strategy::Reboot, 2, 61);
        interrupted.status.pending_action = Some(PendingAction::Reboot);
        let status = decide(&interrupted, VmPower::Running, now()).status.unwrap();
        assert_eq!((status.phase, status.pending_action), (Phase::Exhausted, None));
    }

    #[test]
    fn a_stopped_vm_is_rebuilt() {
        let mut stopped = request(Strategy::Rebuild, 1, 5);
        stopped.status.phase = Phase::Rebuilding;
        let rebuild = [Action::Perform(PendingAction::Rebuild), Action::ClearPending];
        assert_eq!(decide(&stopped, VmPower::Stopped, now()).actions, rebuild);
        assert_eq!(decide(&stopped, VmPower::Changing, now()), Plan::default());
    }
}
