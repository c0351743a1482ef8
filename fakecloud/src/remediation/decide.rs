//! The next step of a remediation, as a pure function of the request, the state of the VM and the time.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::objects::{Phase, Recorded, Request, Status, Strategy};
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
    /// Performs the action that the status records.
    Perform(Recorded),
    /// Removes the record of an action that was performed.
    Forget,
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

    fn perform(recorded: Recorded) -> Self {
        Self {
            status: None,
            actions: vec![Action::Perform(recorded), Action::Forget],
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
    if let Some(recorded) = status.action
        && (!waited || recorded == Recorded::DeleteMachine)
    {
        return unfinished(recorded, vm);
    }
    if status.phase == Phase::Rebuilding {
        return match vm {
            VmPower::Stopped => with_status(request, Phase::Waiting, Recorded::Rebuild),
            VmPower::Running => Plan::act(Action::Stop),
            VmPower::Changing | VmPower::Absent => Plan::default(),
        };
    }
    if !waited || matches!(status.phase, Phase::Exhausted | Phase::Deleting) {
        return Plan::default();
    }
    if status.retry_count >= request.retry_limit {
        return match request.strategy {
            Strategy::Escalate => with_status(request, Phase::Deleting, Recorded::DeleteMachine),
            Strategy::Reboot | Strategy::Rebuild | Strategy::Delete => Plan {
                status: Some(Status {
                    phase: Phase::Exhausted,
                    action: None,
                    ..status.clone()
                }),
                actions: Vec::new(),
            },
        };
    }
    attempt(request, vm, now)
}

/// The action of the last attempt, of which no performance is recorded: it failed, or the process ended before it. It may
/// be performed twice.
fn unfinished(recorded: Recorded, vm: VmPower) -> Plan {
    match (recorded, vm) {
        (Recorded::DeleteMachine, _) => Plan::perform(recorded),
        (Recorded::Reboot, VmPower::Running) => Plan::perform(Recorded::Reboot),
        (Recorded::Rebuild, VmPower::Stopped) => Plan::perform(Recorded::Rebuild),
        (Recorded::Reboot | Recorded::Start, VmPower::Stopped) => Plan::perform(Recorded::Start),
        (Recorded::Start | Recorded::Rebuild, VmPower::Running) | (_, VmPower::Absent) => Plan::act(Action::Forget),
        (_, VmPower::Changing) => Plan::default(),
    }
}

fn with_status(request: &Request, phase: Phase, recorded: Recorded) -> Plan {
    Plan {
        status: Some(Status {
            phase,
            action: Some(recorded),
            ..request.status.clone()
        }),
        ..Plan::perform(recorded)
    }
}

/// The next attempt. It is counted and recorded before it is made: a process that ends in between neither repeats it for
/// ever nor loses it.
fn attempt(request: &Request, vm: VmPower, now: Timestamp) -> Plan {
    let (phase, recorded) = match (request.strategy, vm) {
        (Strategy::Delete, _) => (Phase::Deleting, Some(Recorded::DeleteMachine)),
        (_, VmPower::Changing | VmPower::Absent) => return Plan::default(),
        // The phase is the record.
        (Strategy::Rebuild, VmPower::Running) => (Phase::Rebuilding, None),
        (Strategy::Rebuild, VmPower::Stopped) => (Phase::Waiting, Some(Recorded::Rebuild)),
        (Strategy::Reboot | Strategy::Escalate, VmPower::Running) => (Phase::Waiting, Some(Recorded::Reboot)),
        (Strategy::Reboot | Strategy::Escalate, VmPower::Stopped) => (Phase::Waiting, Some(Recorded::Start)),
    };
    let status = Status {
        phase,
        retry_count: request.status.retry_count + 1,
        last_attempt: Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
        action: recorded,
    };
    Plan {
        status: Some(status),
        ..recorded.map_or_else(|| Plan::act(Action::Stop), Plan::perform)
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
            retry_limit: 2,
            timeout: Duration::from_secs(60),
            status: Status {
                phase: if attempts > 0 { Phase::Waiting } else { Phase::New },
                retry_count: attempts,
                last_attempt: (attempts > 0).then_some(Time(last)),
                action: None,
            },
        }
    }

    #[rstest]
    #[case::first_attempt(request(Strategy::Reboot, 0, 0), VmPower::Running, &[Action::Perform(Recorded::Reboot), Action::Forget])]
    #[case::stopped_vm(request(Strategy::Reboot, 0, 0), VmPower::Stopped, &[Action::Perform(Recorded::Start), Action::Forget])]
    #[case::vm_boots(request(Strategy::Reboot, 0, 0), VmPower::Changing, &[])]
    #[case::the_machine_may_recover(request(Strategy::Reboot, 1, 60), VmPower::Running, &[])]
    #[case::second_attempt(request(Strategy::Reboot, 1, 61), VmPower::Running, &[Action::Perform(Recorded::Reboot), Action::Forget])]
    #[case::exhausted(request(Strategy::Reboot, 2, 61), VmPower::Running, &[])]
    #[case::escalates(request(Strategy::Escalate, 2, 61), VmPower::Running, &[Action::Perform(Recorded::DeleteMachine), Action::Forget])]
    #[case::does_not_escalate_early(request(Strategy::Escalate, 2, 60), VmPower::Running, &[])]
    #[case::rebuild_stops_first(request(Strategy::Rebuild, 0, 0), VmPower::Running, &[Action::Stop])]
    #[case::deletion(request(Strategy::Delete, 0, 0), VmPower::Absent, &[Action::Perform(Recorded::DeleteMachine), Action::Forget])]
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
        assert_eq!(status.action, Some(Recorded::Reboot));
    }

    #[rstest]
    #[case::reboot(Recorded::Reboot, VmPower::Running, Some(Recorded::Reboot), false)]
    #[case::reboot_of_a_vm_that_was_stopped(Recorded::Reboot, VmPower::Stopped, Some(Recorded::Start), false)]
    #[case::it_boots(Recorded::Reboot, VmPower::Changing, None, false)]
    #[case::start(Recorded::Start, VmPower::Stopped, Some(Recorded::Start), false)]
    #[case::started(Recorded::Start, VmPower::Running, None, true)]
    #[case::rebuild(Recorded::Rebuild, VmPower::Stopped, Some(Recorded::Rebuild), false)]
    #[case::rebuilt(Recorded::Rebuild, VmPower::Running, None, true)]
    #[case::gone(Recorded::Reboot, VmPower::Absent, None, true)]
    #[case::deletion(Recorded::DeleteMachine, VmPower::Absent, Some(Recorded::DeleteMachine), false)]
    fn a_recorded_action_is_performed_after_a_crash(
        #[case] recorded: Recorded,
        #[case] vm: VmPower,
        #[case] performed: Option<Recorded>,
        #[case] forgotten: bool,
    ) {
        let mut interrupted = request(Strategy::Escalate, 2, 5);
        interrupted.status.action = Some(recorded);
        let expected = match performed {
            Some(action) => vec![Action::Perform(action), Action::Forget],
            None if forgotten => vec![Action::Forget],
            None => Vec::new(),
        };
        let plan = decide(&interrupted, vm, now());
        assert_eq!((plan.status, plan.actions), (None, expected));
    }

    #[test]
    fn a_recorded_action_ends_with_the_time_of_its_attempt() {
        let mut interrupted = request(Strategy::Reboot, 2, 61);
        interrupted.status.action = Some(Recorded::Reboot);
        let status = decide(&interrupted, VmPower::Running, now()).status.unwrap();
        assert_eq!((status.phase, status.action), (Phase::Exhausted, None));
    }

    #[test]
    fn a_stopped_vm_is_rebuilt() {
        let mut stopped = request(Strategy::Rebuild, 1, 5);
        stopped.status.phase = Phase::Rebuilding;
        let rebuild = [Action::Perform(Recorded::Rebuild), Action::Forget];
        assert_eq!(decide(&stopped, VmPower::Stopped, now()).actions, rebuild);
        assert_eq!(decide(&stopped, VmPower::Changing, now()), Plan::default());
    }
}
