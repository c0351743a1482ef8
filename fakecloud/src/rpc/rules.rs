//! Conversions between fault rules and messages of the control contract.

use std::time::Duration;

use jiff::Timestamp;
use mcm_api::cloud::Code;
use mcm_api::duration::GoDuration;
use tonic::Status;

use super::units::span;
use crate::model::{Action, At, CloudCall, CommonError, Fault, FaultRule, Match, Partial, Stale, Throttle, Window};
use crate::{Delay, proto};

const OPERATIONS: [(CloudCall, proto::Operation); 10] = [
    (CloudCall::CreateMachine, proto::Operation::Create),
    (CloudCall::InitializeMachine, proto::Operation::Initialize),
    (CloudCall::DeleteMachine, proto::Operation::Delete),
    (CloudCall::GetMachineStatus, proto::Operation::GetStatus),
    (CloudCall::ListMachines, proto::Operation::List),
    (CloudCall::GetVolumeIds, proto::Operation::Volumes),
    (CloudCall::UpdateMachine, proto::Operation::Update),
    (CloudCall::StopMachine, proto::Operation::Stop),
    (CloudCall::AttachVolume, proto::Operation::Attach),
    (CloudCall::DetachVolume, proto::Operation::Detach),
];
const COMMON_ERRORS: [(CommonError, proto::Trouble); 7] = [
    (CommonError::Quota, proto::Trouble::Quota),
    (CommonError::Capacity, proto::Trouble::Capacity),
    (CommonError::Throttled, proto::Trouble::Throttled),
    (CommonError::CredentialsExpired, proto::Trouble::CredentialsExpired),
    (CommonError::CredentialsWrong, proto::Trouble::CredentialsWrong),
    (CommonError::Denied, proto::Trouble::Denied),
    (CommonError::Outage, proto::Trouble::Outage),
];
const PARTIALS: [(Partial, proto::Partial); 4] = [
    (Partial::Nics, proto::Partial::Nics),
    (Partial::Disks, proto::Partial::Disks),
    (Partial::Vm, proto::Partial::Vm),
    (Partial::Tags, proto::Partial::Tags),
];

/// The number of a value in messages; 0: no value.
fn number_of<T: PartialEq, P: Copy + Into<i32>>(table: &[(T, P)], value: Option<T>) -> i32 {
    let entry = table.iter().find(|(known, _)| value.as_ref() == Some(known));
    entry.map_or(0, |(_, number)| (*number).into())
}

/// The value of a number in messages; 0: no value.
fn value_of<T: Copy, P: Copy + Into<i32>>(table: &[(T, P)], number: i32, field: &str) -> Result<Option<T>, Status> {
    if number == 0 {
        return Ok(None);
    }
    let entry = table.iter().find(|(_, known)| (*known).into() == number);
    entry
        .map(|(value, _)| Some(*value))
        .ok_or_else(|| Status::invalid_argument(format!("{field}: {number} is none; 0 to {} are", table.len())))
}

/// A rule with its counters.
pub(super) fn fault(fault: Fault) -> proto::Fault {
    let Fault { rule, seen, hits, .. } = fault;
    let FaultRule { name, matches, action } = rule;
    let (latency_nanos, latency) = match action.latency.unwrap_or_default() {
        Delay::Constant(latency) => (span(latency), String::new()),
        other => (0, other.to_string()),
    };
    proto::Fault {
        id: name,
        operation: number_of(&OPERATIONS, matches.call),
        machine: matches.machine.unwrap_or_default(),
        class: matches.class.unwrap_or_default(),
        zone: matches.zone.unwrap_or_default(),
        caller: matches.client.unwrap_or_default(),
        skip: matches.skip,
        times: matches.times,
        probability: matches.probability,
        window: matches.window.map(|window| proto::Window {
            from_nanos: span(window.from.unwrap_or_default().0),
            until_nanos: window.until.map(|until| span(until.0)),
        }),
        throttle: matches.throttle.map(|throttle| proto::Throttle {
            per_second: throttle.per_second,
            burst: throttle.burst,
        }),
        code: action.code.unwrap_or(Code::Ok).number(),
        error: number_of(&COMMON_ERRORS, action.error),
        message: action.message.unwrap_or_default(),
        latency_nanos,
        latency,
        effect_before_error: action.at == At::AfterCommit,
        lost_reply: action.lost_reply,
        effect_delay_nanos: span(action.effect_delay.unwrap_or_default().0),
        stuck: action.stuck,
        lie: action.lie,
        nameless: action.nameless,
        partial: number_of(&PARTIALS, action.partial),
        stale: action.stale.map(|stale| proto::Stale {
            by: Some(match stale {
                Stale::By(by) => proto::stale::By::Nanos(span(by.0)),
                Stale::Calls(calls) => proto::stale::By::Calls(calls),
            }),
        }),
        seen,
        hits,
    }
}

/// A rule as a message.
pub fn message_of(rule: FaultRule) -> proto::Fault {
    fault(Fault {
        rule,
        seen: 0,
        hits: 0,
        added: Timestamp::UNIX_EPOCH,
    })
}

/// The rule of a message; the model validates it.
pub(crate) fn rule(fault: proto::Fault) -> Result<FaultRule, Status> {
    let code = Code::from_number(fault.code)
        .ok_or_else(|| Status::invalid_argument(format!("code: {} is no machine code; 0 to 17 are", fault.code)))?;
    let latency = match fault.latency.as_str() {
        "" => Delay::Constant(Duration::from_nanos(fault.latency_nanos)),
        _ if fault.latency_nanos > 0 => {
            return Err(Status::invalid_argument(
                "latency and latency_nanos are both given: leave one out",
            ));
        }
        text => text
            .parse()
            .map_err(|reason| Status::invalid_argument(format!("latency: {reason}")))?,
    };
    let nanos = |nanos| GoDuration(Duration::from_nanos(nanos));
    let nonzero = |span: u64| (span > 0).then(|| nanos(span));
    let stale = match fault.stale {
        None => None,
        Some(proto::Stale { by: None }) => {
            return Err(Status::invalid_argument("stale: is empty: set nanos or calls"));
        }
        Some(proto::Stale {
            by: Some(proto::stale::By::Nanos(by)),
        }) => Some(Stale::By(nanos(by))),
        Some(proto::Stale {
            by: Some(proto::stale::By::Calls(calls)),
        }) => Some(Stale::Calls(calls)),
    };
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    let matches = Match {
        call: value_of(&OPERATIONS, fault.operation, "operation")?,
        machine: text(fault.machine),
        class: text(fault.class),
        zone: text(fault.zone),
        client: text(fault.caller),
        skip: fault.skip,
        times: fault.times,
        probability: fault.probability,
        window: fault.window.map(|window| Window {
            from: nonzero(window.from_nanos),
            until: window.until_nanos.map(nanos),
        }),
        throttle: fault.throttle.map(|throttle| Throttle {
            per_second: throttle.per_second,
            burst: throttle.burst,
        }),
    };
    let action = Action {
        code: Some(code).filter(|code| *code != Code::Ok),
        error: value_of(&COMMON_ERRORS, fault.error, "error")?,
        message: text(fault.message),
        latency: Some(latency).filter(|latency| *latency != Delay::default()),
        at: if fault.effect_before_error {
            At::AfterCommit
        } else {
            At::BeforeCommit
        },
        lost_reply: fault.lost_reply,
        effect_delay: nonzero(fault.effect_delay_nanos),
        stuck: fault.stuck,
        partial: value_of(&PARTIALS, fault.partial, "partial")?,
        stale,
        lie: fault.lie,
        nameless: fault.nameless,
    };
    Ok(FaultRule {
        name: fault.id,
        matches,
        action,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("{match: {call: createMachine, machine: a, class: b, zone: c, client: d}, action: {code: Internal}}")]
    #[case("{match: {skip: 1, times: 2, probability: 0.5, window: {from: 1m, until: 2m}}, action: {error: quota}}")]
    #[case("{name: a, match: {window: {until: 2m}, throttle: {perSecond: 2, burst: 3}}, action: {error: quota}}")]
    #[case("{action: {code: Aborted, message: text, latency: 1s-3s, at: afterCommit}}")]
    #[case("{action: {latency: 5s, lostReply: true}}")]
    #[case("{match: {call: createMachine}, action: {effectDelay: 5s}}")]
    #[case("{match: {call: attachVolume, machine: 'm-*'}, action: {effectDelay: 30s}}")]
    #[case("{match: {call: deleteMachine}, action: {stuck: true}}")]
    #[case("{match: {call: listMachines}, action: {lie: true}}")]
    #[case("{match: {call: createMachine}, action: {nameless: true}}")]
    #[case("{match: {call: updateMachine}, action: {error: outage, partial: tags}}")]
    #[case("{match: {call: getMachineStatus}, action: {stale: {by: 3m}}}")]
    #[case("{match: {call: listMachines}, action: {stale: {calls: 3}}}")]
    fn a_rule_travels_whole(#[case] text: &str) {
        let rule_before: FaultRule = serde_saphyr::from_str(text).unwrap();
        let message = fault(Fault {
            rule: rule_before.clone(),
            seen: 7,
            hits: 3,
            added: Timestamp::UNIX_EPOCH,
        });
        assert_eq!((message.seen, message.hits), (7, 3));
        assert_eq!(rule(message).unwrap(), rule_before);
    }

    #[rstest]
    #[case(proto::Fault { operation: 99, ..proto::Fault::default() }, "operation: 99 is none; 0 to 10 are")]
    #[case(proto::Fault { code: 18, ..proto::Fault::default() }, "code: 18 is no machine code")]
    #[case(proto::Fault { latency: "long".to_owned(), ..proto::Fault::default() }, "latency: \"long\" is not a delay")]
    #[case(proto::Fault { stale: Some(proto::Stale::default()), ..proto::Fault::default() }, "stale: is empty")]
    fn an_invalid_field_is_named(#[case] message: proto::Fault, #[case] expected: &str) {
        let status = rule(message).unwrap_err();
        assert!(status.message().starts_with(expected), "{}", status.message());
    }
}
