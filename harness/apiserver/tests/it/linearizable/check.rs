//! Checks of a history: each key is a linearizable register, and lists and watches show the order of its writes.
//!
//! The log of all events shows which writes had an effect although their responses were lost. The register check is the
//! algorithm of Wing and Gong with the memoisation of Lowe: it looks for an order of all operations that agrees with real
//! time and in which each response is right. Keys are checked separately, because linearizability is compositional. The
//! check of lists and watches takes the order from the revisions, so that it needs no search.

use std::collections::{BTreeMap, HashSet};

use super::history::{Event, History, Input, Operation, Output, Revision, State, Tick};

/// The maximum number of steps; a longer search counts as a failure.
const MAX_STEPS: usize = 5_000_000;

/// The state of a key: the value and its revision.
type Register = Option<(u64, Revision)>;

/// The state after the operation, if its response is right in this state.
fn apply(register: Register, operation: &Operation) -> Option<Register> {
    let (input, output) = (operation.input, operation.output);
    // Whether the precondition holds.
    let holds = |at: Option<Revision>| register.is_some_and(|(_, revision)| at.is_none_or(|at| at == revision));
    match (input, output) {
        (Input::Get, Output::Object(value, revision)) => (register == Some((value, revision))).then_some(register),
        (Input::Create(_), Output::Object(value, revision)) => register.is_none().then_some(Some((value, revision))),
        (Input::Update(_, at), Output::Object(value, revision)) => holds(at).then_some(Some((value, revision))),
        // A lost response of a deletion may have this effect; the search also leaves the deletion out.
        (Input::Delete(at), Output::Deleted | Output::Unknown) => holds(at).then_some(None),
        (Input::Create(_), Output::Exists) => register.is_some().then_some(register),
        (Input::Update(_, at @ Some(_)) | Input::Delete(at @ Some(_)), Output::Conflict) => {
            (register.is_some() && !holds(at)).then_some(register)
        }
        (Input::Get | Input::Update(..) | Input::Delete(_), Output::NotFound) => register.is_none().then_some(register),
        _ => None,
    }
}

/// A step of the search: the operations that are ordered already, and the state after them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Step {
    ordered: Vec<u64>,
    register: Register,
}

/// Whether there is an order of the operations of one key in which each response is right.
///
/// # Errors
/// The operations that cannot be ordered after the longest order.
pub fn register(operations: &[Operation]) -> Result<(), String> {
    let operations: Vec<&Operation> = operations
        .iter()
        .filter(|operation| (operation.input, operation.output) != (Input::Get, Output::Unknown))
        .collect();
    let ends = |operation: &Operation| match operation.output {
        Output::Unknown => Tick::MAX,
        _ => operation.returned,
    };
    let contains = |ordered: &[u64], at: usize| ordered[at / 64] & (1 << (at % 64)) != 0;
    let start = Step {
        ordered: vec![0; operations.len().div_ceil(64)],
        register: None,
    };
    let mut seen = HashSet::from([start.clone()]);
    let mut stack = vec![(start, 0)];
    let (mut best, mut stuck) = (0, Vec::new());
    let mut steps = 0;
    while let Some((step, count)) = stack.pop() {
        steps += 1;
        if steps > MAX_STEPS {
            return Err(format!("no order after {MAX_STEPS} steps; stuck at {stuck:#?}"));
        }
        let open = (0..operations.len()).filter(|at| !contains(&step.ordered, *at));
        // Operations without a known effect may have had none.
        if open.clone().all(|at| operations[at].output == Output::Unknown) {
            return Ok(());
        }
        // The next operation was called before any other one returned.
        let limit = open.clone().map(|at| ends(operations[at])).min().unwrap_or(Tick::MAX);
        let candidates: Vec<usize> = open.filter(|at| operations[*at].called < limit).collect();
        if count >= best {
            best = count;
            stuck = candidates.iter().map(|at| (step.register, operations[*at])).collect();
        }
        // The stack returns the last one first: those with a response, in the order of their ends.
        let mut candidates = candidates;
        candidates.sort_by_key(|at| std::cmp::Reverse(ends(operations[*at])));
        for at in candidates {
            let Some(register) = apply(step.register, operations[at]) else {
                continue;
            };
            let mut ordered = step.ordered.clone();
            ordered[at / 64] |= 1 << (at % 64);
            let next = Step { ordered, register };
            if seen.insert(next.clone()) {
                stack.push((next, count + 1));
            }
        }
    }
    Err(format!("no order; stuck at {stuck:#?}"))
}

/// Checks that revisions agree with real time, that each write is in the log, and that lists and watches agree with the log.
///
/// # Errors
/// The first contradiction.
pub fn log(history: &History) -> Result<(), String> {
    let History {
        operations,
        watches,
        log,
    } = history;
    if let Some(pair) = log.windows(2).find(|pair| pair[0].revision >= pair[1].revision) {
        return Err(format!("revisions do not increase: {pair:?}"));
    }
    let writes: BTreeMap<Revision, &Event> = log.iter().map(|event| (event.revision, event)).collect();
    let mut wrote: Vec<(Tick, Tick, Revision)> = Vec::new();
    for operation in operations {
        let (Input::Create(value) | Input::Update(value, _)) = operation.input else {
            continue;
        };
        if let Output::Object(_, revision) = operation.output {
            let expected = Event {
                revision,
                key: operation.key,
                value: Some(value),
            };
            if writes.get(&revision) != Some(&&expected) {
                return Err(format!("{operation:?} is not in the log: {:?}", writes.get(&revision)));
            }
            wrote.push((operation.called, operation.returned, revision));
        }
    }
    // Of two writes, the one that returned before the other was called has the smaller revision.
    wrote.sort_unstable();
    let newest_before = newest(&wrote);
    for write in &wrote {
        if newest_before(write.0) >= write.2 {
            return Err(format!("{write:?} has an older revision than one that returned before"));
        }
    }
    for watched in watches {
        let list = &watched.list;
        if list.state != state_at(log, list.revision) {
            return Err(format!("{list:?} is not the state {:?}", state_at(log, list.revision)));
        }
        if list.consistent && newest_before(list.called) > list.revision {
            return Err(format!("{list:?} does not contain all earlier writes"));
        }
        if let Some(write) = wrote
            .iter()
            .find(|write| write.0 > list.returned && write.2 <= list.revision)
        {
            return Err(format!("{list:?} contains the later write {write:?}"));
        }
        // Nothing follows the end of the log.
        let after = log.iter().filter(|event| event.revision > list.revision);
        let after = after.map(Some).chain(std::iter::repeat(None));
        if let Some((seen, expected)) = watched
            .events
            .iter()
            .zip(after)
            .find(|(seen, expected)| Some(*seen) != *expected)
        {
            return Err(format!(
                "a watch after {} has {seen:?} instead of {expected:?}",
                list.revision
            ));
        }
    }
    Ok(())
}

/// The newest revision of the writes that returned before a tick.
fn newest(wrote: &[(Tick, Tick, Revision)]) -> impl Fn(Tick) -> Revision {
    let mut returned: Vec<(Tick, Revision)> = wrote
        .iter()
        .map(|(_, returned, revision)| (*returned, *revision))
        .collect();
    returned.sort_unstable();
    let mut newest = 0;
    for (_, revision) in &mut returned {
        newest = newest.max(*revision);
        *revision = newest;
    }
    move |tick| {
        let before = returned.partition_point(|(returned, _)| *returned < tick);
        before.checked_sub(1).map_or(0, |last| returned[last].1)
    }
}

fn state_at(log: &[Event], revision: Revision) -> State {
    let mut state = State::new();
    for event in log.iter().take_while(|event| event.revision <= revision) {
        match event.value {
            Some(value) => state.insert(event.key, (value, event.revision)),
            None => state.remove(&event.key),
        };
    }
    state
}

/// A write whose response was lost, with the effect that the log shows, at an unknown time; `None`: it had no effect.
fn resolved(mut operation: Operation, effects: &BTreeMap<u64, Revision>) -> Option<Operation> {
    if let (Input::Create(value) | Input::Update(value, _), Output::Unknown) = (operation.input, operation.output) {
        operation.output = Output::Object(value, *effects.get(&value)?);
        operation.returned = Tick::MAX;
    }
    Some(operation)
}

/// Both checks.
///
/// # Errors
/// The first contradiction.
pub fn history(history: &History) -> Result<(), String> {
    log(history)?;
    let effects: BTreeMap<u64, Revision> = history
        .log
        .iter()
        .filter_map(|event| Some((event.value?, event.revision)))
        .collect();
    let mut keys: BTreeMap<usize, Vec<Operation>> = BTreeMap::new();
    for operation in &history.operations {
        keys.entry(operation.key)
            .or_default()
            .extend(resolved(*operation, &effects));
    }
    for (key, operations) in keys {
        register(&operations).map_err(|error| format!("key {key}: {error}"))?;
    }
    Ok(())
}
