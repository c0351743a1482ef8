//! The next step of a remediation, as a pure function of the request, the state of the VM and the time.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::objects::{Phase, Request, Status, Strategy};
use super::vms::VmPower;

/// One action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Holds the request until the VM is in a final state.
    AddFinalizer,
    /// Lets the request go.
    RemoveFinalizer,
    /// Power-cycles the running VM.
    Reboot,
    /// Stops the VM.
    Stop,
    /// Starts the stopped VM.
    Start,
    /// Cleans the stopped VM and starts it.
    Rebuild,
    /// Deletes the Machine.
    DeleteMachine,
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
    if request.status.phase == Phase::Rebuilding {
        return match vm {
            VmPower::Stopped => with_status(request, Phase::Waiting, Action::Rebuild),
            VmPower::Running => Plan::act(Action::Stop),
            VmPower::Changing | VmPower::Absent => Plan::default(),
        };
    }
    let status = &request.status;
    let waited = status
        .last_attempt
        .as_ref()
        .is_none_or(|last| last.0.checked_add(request.timeout).is_ok_and(|end| end < now));
    if !waited || matches!(status.phase, Phase::Exhausted | Phase::Deleting) {
        return Plan::default();
    }
    if status.retry_count >= request.retry_limit {
        return match request.strategy {
            Strategy::Escalate => with_status(request, Phase::Deleting, Action::DeleteMachine),
            Strategy::Reboot | Strategy::Rebuild | Strategy::Delete => Plan {
                status: Some(Status {
                    phase: Phase::Exhausted,
                    ..status.clone()
                }),
                actions: Vec::new(),
            },
        };
    }
    attempt(request, vm, now)
}

fn with_status(request: &Request, phase: Phase, action: Action) -> Plan {
    Plan {
        status: Some(Status {
            phase,
            ..request.status.clone()
        }),
        actions: vec![action],
    }
}

/// The next attempt. It is counted before it is made, so that a process that dies in between does not repeat it for ever.
fn attempt(request: &Request, vm: VmPower, now: Timestamp) -> Plan {
    let (phase, action) = match (request.strategy, vm) {
        (Strategy::Delete, _) => (Phase::Deleting, Action::DeleteMachine),
        (_, VmPower::Changing | VmPower::Absent) => return Plan::default(),
        (Strategy::Rebuild, VmPower::Running) => (Phase::Rebuilding, Action::Stop),
        (Strategy::Rebuild, VmPower::Stopped) => (Phase::Waiting, Action::Rebuild),
        (Strategy::Reboot | Strategy::Escalate, VmPower::Running) => (Phase::Waiting, Action::Reboot),
        (Strategy::Reboot | Strategy::Escalate, VmPower::Stopped) => (Phase::Waiting, Action::Start),
    };
    let status = Status {
        phase,
        retry_count: request.status.retry_count + 1,
        last_attempt: Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now))),
    };
    Plan {
        status: Some(status),
        actions: vec![action],
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
            },
        }
    }

    #[rstest]
    #[case::first_attempt(request(Strategy::Reboot, 0, 0), VmPower::Running, &[Action::Reboot])]
    #[case::stopped_vm(request(Strategy::Reboot, 0, 0), VmPower::Stopped, &[Action::Start])]
    #[case::vm_boots(request(Strategy::Reboot, 0, 0), VmPower::Changing, &[])]
    #[case::the_machine_may_recover(request(Strategy::Reboot, 1, 60), VmPower::Running, &[])]
    #[case::second_attempt(request(Strategy::Reboot, 1, 61), VmPower::Running, &[Action::Reboot])]
    #[case::exhausted(request(Strategy::Reboot, 2, 61), VmPower::Running, &[])]
    #[case::escalates(request(Strategy::Escalate, 2, 61), VmPower::Running, &[Action::DeleteMachine])]
    #[case::does_not_escalate_early(request(Strategy::Escalate, 2, 60), VmPower::Running, &[])]
    #[case::rebuild_stops_first(request(Strategy::Rebuild, 0, 0), VmPower::Running, &[Action::Stop])]
    #[case::deletion(request(Strategy::Delete, 0, 0), VmPower::Absent, &[Action::DeleteMachine])]
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
    }

    #[test]
    fn a_stopped_vm_is_rebuilt() {
        let mut stopped = request(Strategy::Rebuild, 1, 5);
        stopped.status.phase = Phase::Rebuilding;
        assert_eq!(decide(&stopped, VmPower::Stopped, now()).actions, [Action::Rebuild]);
        assert_eq!(decide(&stopped, VmPower::Changing, now()), Plan::default());
    }
}
