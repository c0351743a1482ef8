//! Converts what a stage knows after a run to the entries and events of a record.

use jiff::SignedDuration;
use mcm_api::GoDuration;
use record::{Limit, StageEvent, StageEventKind, TraceEntry, TraceEvent, Window};
use scenario::plan::Disturbance;
use scenario::step::KubeletAction;
use sim::{Entry, Event};
use stage::plan::schedule::{Part, Scheduled};

/// The entries of a trace that causes depend on.
pub(super) fn entries<'a>(trace: &'a [Entry]) -> Vec<TraceEntry> {
    // A rule that hits a request is in the trace directly before it.
    let mut rule: Option<&str> = None;
    let convert = |entry: &'a Entry| {
        let what = entry.event();
        let rule = std::mem::replace(&mut rule, rule_of(&what));
        Some(TraceEntry {
            number: entry.number,
            at: entry.at,
            process: entry.source.clone(),
            event: event(what, rule)?,
        })
    };
    trace.iter().filter_map(convert).collect()
}

/// The rule of the API server that a fault belongs to.
fn rule_of<'a>(event: &Event<'a>) -> Option<&'a str> {
    match event {
        Event::Fault { text, .. } => text.rsplit_once(" by rule ").map(|(_, rule)| rule),
        _ => None,
    }
}

fn event(event: Event<'_>, rule: Option<&str>) -> Option<TraceEvent> {
    match event {
        Event::Request {
            verb,
            path,
            code: 200..300,
            revision: Some(revision),
        } if ["POST", "PUT", "PATCH", "DELETE"].contains(&verb) => {
            let (plural, namespace, name) = object_of(path)?;
            Some(TraceEvent::Write {
                plural: plural.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                revision,
            })
        }
        Event::Request {
            verb: "GET",
            path,
            code: 200..300,
            revision: Some(revision),
        } => {
            let (plural, _, name) = object_of(path)?;
            name.is_empty().then(|| TraceEvent::List {
                plural: plural.to_owned(),
                revision,
            })
        }
        Event::Request {
            verb,
            path,
            code: 0 | 400..,
            ..
        } if verb != "WATCH" => {
            let (plural, namespace, name) = object_of(path)?;
            Some(TraceEvent::Refused {
                plural: plural.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                rule: rule.map(str::to_owned),
            })
        }
        Event::Process(text) => text.starts_with("started").then_some(TraceEvent::Started),
        Event::Delivery { object, revision } => {
            let (kind, name) = object.split_once(' ')?;
            Some(TraceEvent::Delivery {
                kind: kind.to_owned(),
                name: name.rsplit('/').next()?.to_owned(),
                revision,
            })
        }
        Event::CloudCall { operation } => Some(TraceEvent::Answer {
            call: operation.to_owned(),
        }),
        _ => None,
    }
}

/// The plural name of the kind, the namespace and the name in a path; the last two may be empty.
fn object_of(path: &str) -> Option<(&str, &str, &str)> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let version = if parts.first() == Some(&"api") { 2 } else { 3 };
    match parts.get(version..)? {
        ["namespaces", namespace, plural, rest @ ..] => Some((plural, namespace, rest.first().unwrap_or(&""))),
        [plural, rest @ ..] => Some((plural, "", rest.first().unwrap_or(&""))),
        [] => None,
    }
}

/// The starts and ends of processes, and the disturbances of the plan.
pub(super) fn stage_events(
    processes: &[Entry],
    scheduled: &[Scheduled],
    disturbances: &[Disturbance],
) -> Vec<StageEvent> {
    let mut events: Vec<StageEvent> = processes.iter().flat_map(process_events).collect();
    for scheduled in scheduled {
        events.push(StageEvent {
            number: None,
            at: scheduled.at,
            what: scheduled_fault(scheduled, disturbances.get(scheduled.disturbance)),
        });
    }
    events.sort_by_key(|event| event.at);
    events
}

fn scheduled_fault(scheduled: &Scheduled, disturbance: Option<&Disturbance>) -> StageEventKind {
    let text = scheduled.text.clone();
    if let Some(Disturbance::Kubelet(fault)) = disturbance {
        return StageEventKind::Kubelet {
            kubelet: KubeletAction::target(&fault.machine),
            action: fault.action,
            text,
        };
    }
    StageEventKind::Fault {
        name: disturbance.and_then(Disturbance::rule).unwrap_or(&text).to_owned(),
        window: match scheduled.part {
            Part::Moment => Window::Moment,
            Part::Begins => Window::Begins,
            Part::Ends => Window::Ends,
        },
        rule: disturbance.and_then(limit_of),
        text,
    }
}

/// The event of an entry about a process or about a fault that hits one, and the end of a fault that ends by itself.
fn process_events(entry: &Entry) -> impl Iterator<Item = StageEvent> {
    let begin = process_event(entry);
    let end = begin.as_ref().and_then(|begin| end_of_lag(entry, begin));
    begin.into_iter().chain(end)
}

/// The end of a lag of watches: `watches lag by 30s from effect 2 for 600s`.
fn end_of_lag(entry: &Entry, begin: &StageEvent) -> Option<StageEvent> {
    let StageEventKind::Fault {
        name,
        window: Window::Begins,
        ..
    } = &begin.what
    else {
        return None;
    };
    let (_, lasts) = entry.text.split_once(": watches lag ")?.1.rsplit_once(" for ")?;
    let lasts = SignedDuration::try_from(lasts.parse::<GoDuration>().ok()?.0).ok()?;
    Some(StageEvent {
        number: None,
        at: begin.at.checked_add(lasts).ok()?,
        what: StageEventKind::Fault {
            name: name.clone(),
            text: format!("{name} is over"),
            window: Window::Ends,
            rule: None,
        },
    })
}

fn process_event(entry: &Entry) -> Option<StageEvent> {
    let what = match entry.event() {
        Event::Process(text) => StageEventKind::Process {
            name: entry.source.clone(),
            text: text.to_owned(),
            runs: text.starts_with("started"),
        },
        Event::Fault { target, text } => fault(target, text)?,
        _ => return None,
    };
    Some(StageEvent {
        number: Some(entry.number),
        at: entry.at,
        what,
    })
}

/// The name of a lag: a process may have several.
fn lag(target: &str, text: &str) -> String {
    let from = text.split_once(" from ").map_or("", |(_, from)| from);
    let effect = from.split_once(" for ").map_or(from, |(effect, _)| effect);
    format!("lag of {target} from {effect}")
}

/// How many effects a rule has at most; `None`: the disturbance is no rule.
fn limit_of(disturbance: &Disturbance) -> Option<Limit> {
    let at_most = match disturbance {
        Disturbance::Api(rule) => rule.matches.times.map(u64::from),
        Disturbance::Cloud(fault) => fault.matches.times,
        _ => return None,
    };
    Some(Limit { at_most })
}

/// A fault of a process, or the hit of a rule of the API server. Steps and rules of the cloud are recorded by the engine.
fn fault(target: &str, text: &str) -> Option<StageEventKind> {
    let (name, window) = match text.rsplit_once(" by rule ") {
        Some((_, rule)) => (rule.to_owned(), Window::Hit),
        None if text.starts_with("pause ") => (format!("pause of {target}"), Window::Begins),
        None if text == "goes on" => (format!("pause of {target}"), Window::Ends),
        None if text.starts_with("crash ") => (format!("crash of {target}"), Window::Moment),
        None if text.starts_with("watches lag ") => (lag(target, text), Window::Begins),
        None => return None,
    };
    Some(StageEventKind::Fault {
        name,
        text: format!("{target}: {text}"),
        window,
        rule: None,
    })
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("/api/v1/nodes", Some(("nodes", "", "")))]
    #[case("/api/v1/nodes/a/status", Some(("nodes", "", "a")))]
    #[case("/api/v1/namespaces/shop/pods/web-1/eviction", Some(("pods", "shop", "web-1")))]
    #[case("/apis/machine.sapcloud.io/v1alpha1/namespaces/shop/machines/m-1", Some(("machines", "shop", "m-1")))]
    #[case("/version", None)]
    fn a_path_names_its_object(#[case] path: &str, #[case] expected: Option<(&str, &str, &str)>) {
        assert_eq!(object_of(path), expected);
    }

    #[rstest]
    #[case("fault", "mcm: crash before effect 3 (PATCH /x)", Some(("crash of mcm", Window::Moment)))]
    #[case("fault", "mcm: pause from effect 2 for 30s", Some(("pause of mcm", Window::Begins)))]
    #[case("fault", "mcm: watches lag by 30s from effect 2 for 600s", Some(("lag of mcm from effect 2", Window::Begins)))]
    #[case("fault", "mcm: goes on", Some(("pause of mcm", Window::Ends)))]
    #[case("fault", "system:serviceaccount:drydock:mcm get leases x: partition refuse by rule cut-2", Some(("cut-2", Window::Hit)))]
    #[case("fault", "plan: cloud fault slow is over", None)]
    #[case("mcm", "cloud CreateMachine 0", None)]
    fn faults_of_processes_have_a_name_and_a_window(
        #[case] source: &str,
        #[case] text: &str,
        #[case] expected: Option<(&str, Window)>,
    ) {
        let entry = Entry {
            number: 0,
            at: Timestamp::UNIX_EPOCH,
            source: source.to_owned(),
            text: text.to_owned(),
        };
        let found = process_event(&entry).map(|event| match event.what {
            StageEventKind::Fault { name, window, .. } => (name, window),
            what => panic!("{what:?}"),
        });
        assert_eq!(found, expected.map(|(name, window)| (name.to_owned(), window)));
    }

    #[rstest]
    #[case::with_an_end("mcm: watches lag by 30s from effect 2 for 600s", Some(600))]
    #[case::without_an_end("mcm: watches lag by 30s from effect 2", None)]
    #[case::another_fault("mcm: pause from effect 2 for 30s", None)]
    fn a_lag_has_an_end(#[case] text: &str, #[case] after: Option<i64>) {
        let entry = Entry {
            number: 0,
            at: Timestamp::UNIX_EPOCH,
            source: "fault".to_owned(),
            text: text.to_owned(),
        };
        let ends = process_events(&entry).skip(1).map(|event| event.at.as_second());
        assert_eq!(ends.collect::<Vec<_>>(), after.into_iter().collect::<Vec<_>>());
    }
}
