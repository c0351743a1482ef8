//! Linearizability: concurrent clients see each object as one register, and lists and watches in the order of its writes.
//!
//! A register workload and a list-watch workload run at the same time, with delayed, lost and repeated requests. On the embedded server
//! everything is in virtual time, so that a seed fixes the run. If `DRYDOCK_CONTRACT_KUBECONFIG` names a kubeconfig, the same workload
//! runs against that server, where clients give requests up.

mod check;
mod history;
mod workload;

use std::time::Duration;

use apiserver::faults::{Action, At, Behind, Match, Rule, Verb};
use apiserver::{Identity, Options, Server};
use clock::{Clock, Seed};
use kube::Client;
use rstest::rstest;

use self::history::{Event, History, Input, List, Operation, Output, Watched};
use self::workload::Work;
use crate::contract::site;

const CLIENTS: usize = 16;

fn rule(name: &str, verbs: &[Verb], probability: f64, action: Action) -> Rule {
    Rule {
        matches: Match {
            client: Some("client-*".into()),
            verbs: verbs.to_vec(),
            probability: Some(probability),
            ..Match::default()
        },
        ..Rule::new(name, action)
    }
}

/// Faults that a correct client survives.
fn rules() -> Vec<Rule> {
    let requests = [
        Verb::Get,
        Verb::List,
        Verb::Create,
        Verb::Update,
        Verb::Patch,
        Verb::Delete,
    ];
    let (writes, watch) = (&requests[2..], [Verb::Watch]);
    let delay = |at, millis| Action::Delay {
        at,
        by: Duration::from_millis(millis),
    };
    let fail = |code, at| Action::Fail {
        code,
        at,
        retry_after: None,
        message: None,
    };
    vec![
        rule("late", &requests, 0.3, delay(At::BeforeCommit, 3)),
        rule("later", &requests, 0.1, delay(At::BeforeCommit, 20)),
        rule("late-response", &requests, 0.3, delay(At::AfterCommit, 5)),
        rule("lost", &requests, 0.03, Action::Drop { at: At::BeforeCommit }),
        rule("lost-response", &requests, 0.05, Action::Drop { at: At::AfterCommit }),
        rule("failed", &requests, 0.02, fail(503, At::BeforeCommit)),
        rule("failed-response", writes, 0.03, fail(500, At::AfterCommit)),
        rule("throttled", &requests, 0.02, fail(429, At::BeforeCommit)),
        rule(
            "lagging",
            &watch,
            0.5,
            Action::LagWatch {
                by: Duration::from_millis(15),
            },
        ),
        rule(
            "truncated",
            &watch,
            0.3,
            Action::TruncateWatch {
                after_events: 5,
                midway: true,
            },
        ),
        rule(
            "stale",
            &[Verb::List],
            0.5,
            Action::StaleList {
                by: Behind::Revisions(5),
                consistent: false,
            },
        ),
    ]
}

fn in_virtual_time(seed: u64, requests: u64, rules: Vec<Rule>) -> History {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    let clock = Clock::simulated("2026-01-01T00:00:00Z".parse().unwrap());
    runtime.block_on(embedded(clock, seed, requests, rules))
}

async fn embedded(clock: Clock, seed: u64, requests: u64, rules: Vec<Rule>) -> History {
    let server = Server::new(Options::new(clock, Seed::new(seed))).unwrap();
    for rule in rules {
        server.faults().add(rule).unwrap();
    }
    let client = |name: String| Client::new(server.service(Identity::user(name)), "default");
    let clients = (0..CLIENTS).map(|number| client(format!("client-{number}"))).collect();
    let work = Work {
        seed,
        requests,
        pause: 10_000,
    };
    workload::run(work, "default", clients, &client("reliable".to_owned())).await
}

#[rstest]
#[case::some(0, 20)]
#[case::others(20, 40)]
fn concurrent_clients_see_linearizable_objects(#[case] from: u64, #[case] to: u64) {
    let (mut lost, mut events) = (0, 0);
    for seed in from..to {
        let history = in_virtual_time(seed, 40, rules());
        check::history(&history).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let unknown = |operation: &&Operation| operation.output == Output::Unknown;
        lost += history.operations.iter().filter(unknown).count();
        events += history
            .watches
            .iter()
            .map(|watched| watched.events.len())
            .sum::<usize>();
    }
    assert!(lost > 0 && events > 0, "{lost} lost responses, {events} events");
}

#[test]
fn a_seed_fixes_the_run() {
    let shown = |seed| format!("{:?}", in_virtual_time(seed, 20, rules()));
    assert_eq!(shown(1), shown(1));
    assert_ne!(shown(1), shown(2));
}

#[test]
fn clients_on_several_threads_see_linearizable_objects() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(4).enable_all().build().unwrap();
    let history = runtime.block_on(embedded(Clock::wall(), 1, 100, rules()));
    check::history(&history).unwrap();
}

/// No correct server does this.
#[rstest]
#[case::get(Action::StaleGet { by: Behind::Revisions(5), consistent: true }, "no order")]
#[case::list(Action::StaleList { by: Behind::Revisions(5), consistent: true }, "does not contain all earlier writes")]
#[case::event(Action::DuplicateEvent {}, "a watch after")]
fn a_server_that_lies_is_found(#[case] action: Action, #[case] expected: &str) {
    let errors = (0..5).filter_map(|seed| {
        let rules = vec![rule("lie", &[], 0.2, action.clone())];
        check::history(&in_virtual_time(seed, 40, rules)).err()
    });
    let errors: Vec<String> = errors.collect();
    assert!(errors.iter().any(|error| error.contains(expected)), "{errors:?}");
}

/// A correct history, what makes it wrong, and the error.
#[rstest]
#[case::as_it_was(|_: &mut History| {}, None)]
#[case::a_stale_read(|h: &mut History| h.operations[2].output = Output::Object(1, 11), Some("key 0: no order"))]
#[case::a_read_of_the_future(|h: &mut History| h.operations.push(operation(Input::Get, Output::Object(2, 12), 2, 3)), Some("no order"))]
#[case::a_lost_write(|h: &mut History| h.log.truncate(1), Some("is not in the log"))]
#[case::a_write_without_its_precondition(|h: &mut History| h.operations[3].input = Input::Delete(Some(11)), Some("no order"))]
#[case::a_conflict_without_a_reason(|h: &mut History| h.operations[3].output = Output::Conflict, Some("no order"))]
#[case::two_winners(|h: &mut History| h.operations.push(operation(Input::Create(3), Output::Object(3, 14), 4, 5)), Some("is not in the log"))]
#[case::an_old_revision(|h: &mut History| h.operations[1].called = 20, Some("has an older revision"))]
#[case::a_stale_list(|h: &mut History| { h.watches[0].list.state.clear(); h.watches[0].list.revision = 10 }, Some("does not contain all"))]
#[case::a_list_that_is_no_state(|h: &mut History| { h.watches[0].list.state.clear(); }, Some("is not the state"))]
#[case::a_missed_event(|h: &mut History| { h.watches[0].events.remove(0); }, Some("a watch after 11 has"))]
#[case::a_create_over_an_object(|h: &mut History| {
    h.operations.insert(1, operation(Input::Create(3), Output::Unknown, 1, 2));
    h.log.insert(1, event(12, Some(3)));
    h.log.truncate(2);
    h.operations.truncate(2);
    h.watches.clear();
}, Some("no order"))]
#[case::an_event_after_the_end(|h: &mut History| { let event = h.watches[0].events[1]; h.watches[0].events.push(event) }, Some("a watch after 11 has"))]
#[case::a_repeated_event(|h: &mut History| { let event = h.watches[0].events[0]; h.watches[0].events.insert(0, event) }, Some("a watch after 11 has"))]
fn a_wrong_history_is_found(#[case] change: fn(&mut History), #[case] expected: Option<&str>) {
    let mut history = History {
        operations: vec![
            operation(Input::Create(1), Output::Object(1, 11), 0, 1),
            operation(Input::Update(2, Some(11)), Output::Object(2, 12), 4, 5),
            operation(Input::Get, Output::Object(2, 12), 6, 7),
            operation(Input::Delete(Some(12)), Output::Deleted, 8, 9),
            operation(Input::Update(4, None), Output::Unknown, 30, 31),
        ],
        watches: vec![Watched {
            list: List {
                state: [(0, (1, 11))].into(),
                revision: 11,
                consistent: true,
                called: 2,
                returned: 3,
            },
            events: vec![event(12, Some(2)), event(13, None)],
        }],
        log: vec![event(11, Some(1)), event(12, Some(2)), event(13, None)],
    };
    change(&mut history);
    let found = check::history(&history).err();
    match expected {
        None => assert_eq!(found, None),
        Some(expected) => assert!(
            found.as_ref().is_some_and(|found| found.contains(expected)),
            "{found:?}"
        ),
    }
}

fn operation(input: Input, output: Output, called: u64, returned: u64) -> Operation {
    Operation {
        key: 0,
        input,
        output,
        called,
        returned,
    }
}

fn event(revision: u64, value: Option<u64>) -> Event {
    Event {
        revision,
        key: 0,
        value,
    }
}

mod contract {
    use super::*;

    #[test]
    fn a_real_server_is_linearizable() {
        let Some(path) = site::kubeconfig() else {
            println!("skipped: no kubeconfig names a real server");
            return;
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut clients = Vec::new();
            for _ in 0..=CLIENTS {
                let [client, _] = site::real(&path).await;
                clients.push(client);
            }
            let reliable = clients.pop().unwrap();
            let seed = u64::from(std::process::id());
            let namespace = workload::namespace(&reliable, seed).await;
            let work = Work {
                seed,
                requests: 200,
                pause: 10_000,
            };
            let history = workload::run(work, &namespace, clients, &reliable).await;
            println!(
                "seed {seed}: {} requests, {} events",
                history.operations.len(),
                history.log.len()
            );
            check::history(&history).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        });
    }
}
