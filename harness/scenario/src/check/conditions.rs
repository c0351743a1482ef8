//! Checks of conditions: the names in them, their values, and whether they can be false at all.

use mcm_api::Phase;

use super::fields::Schemas;
use crate::Problem;
use crate::closest::suggestion;
use crate::expect::{Attached, Condition, EventCount, FieldIs, FieldOf, Pods, PodsOn};
use crate::kinds::Kinds;
use crate::names::{CLAIM, MACHINE, NODE, NameOf, Names, Reference, find_kind};

/// The fields of Secrets that are not observed.
const SECRET_FIELDS: [&str; 2] = ["/data", "/stringData"];

/// Checks a condition at `path`, and its parts.
///
/// # Errors
/// The first invalid field.
pub(super) fn check(path: &str, condition: &Condition, names: &Names, schemas: &Schemas) -> Result<(), Problem> {
    match condition {
        Condition::All(parts) => return check_parts(&format!("{path}.all"), parts, names, schemas),
        Condition::Any(parts) => return check_parts(&format!("{path}.any"), parts, names, schemas),
        Condition::Not(part) => return check(&format!("{path}.not"), part, names, schemas),
        _ => {}
    }
    check_values(&names.kinds, path, condition, schemas)?;
    references(&names.kinds, path, condition)?
        .iter()
        .try_for_each(|reference| names.check(reference))
}

fn check_parts(path: &str, parts: &[Condition], names: &Names, schemas: &Schemas) -> Result<(), Problem> {
    let mut parts = parts.iter().enumerate();
    parts.try_for_each(|(index, part)| check(&format!("{path}[{index}]"), part, names, schemas))
}

/// The names in a condition without parts.
fn references(kinds: &Kinds, path: &str, condition: &Condition) -> Result<Vec<Reference>, Problem> {
    let machine = |word: &str, name: &str| Ok(vec![Reference::name(format!("{path}.{word}.machine"), MACHINE, name)]);
    let vm = |word: &str, name: &str| {
        Ok(vec![Reference::name(
            format!("{path}.{word}.machine"),
            NameOf::Vm,
            name,
        )])
    };
    let observable = |word: &str, version: &Option<String>, kind: &str, name: &str| {
        let path = format!("{path}.{word}");
        let kind = find_kind(kinds, &path, version.as_deref(), kind)?;
        Ok(vec![Reference::name(
            format!("{path}.name"),
            NameOf::Object(kind.key),
            name,
        )])
    };
    match condition {
        Condition::Phase(phase) => machine("phase", &phase.machine),
        Condition::ErrorCode(code) => machine("errorCode", &code.machine),
        Condition::DescriptionContains(text) => machine("descriptionContains", &text.machine),
        Condition::History(history) => machine("history", &history.machine),
        Condition::VmCount(count) => vm("vmCount", &count.machine),
        Condition::Calls(calls) => vm("calls", &calls.machine),
        Condition::MachineGone(name) => Ok(vec![Reference::name(format!("{path}.machineGone"), MACHINE, name)]),
        Condition::NodeGone(name) => Ok(vec![Reference::name(format!("{path}.nodeGone"), NODE, name)]),
        Condition::Exists(object) => observable("exists", &object.api_version, &object.kind, &object.name),
        Condition::Observed(object) => observable("observed", &object.api_version, &object.kind, &object.name),
        Condition::Field(field) => observable("field", &field.api_version, &field.kind, &field.name),
        Condition::Unchanged(field) => observable("unchanged", &field.api_version, &field.kind, &field.name),
        Condition::EventCount(events) => Ok(vec![Reference::object(
            kinds,
            &format!("{path}.eventCount"),
            events.api_version.as_deref(),
            &events.kind,
            &events.name,
        )?]),
        Condition::Pods(Pods { of, on, .. }) => Ok(pods(&format!("{path}.pods"), of, on.as_deref())),
        Condition::SamePods(PodsOn { of, on }) => Ok(pods(&format!("{path}.samePods"), of, Some(on))),
        Condition::Attached(Attached { claim, to, .. }) => {
            let node = to
                .iter()
                .map(|to| Reference::name(format!("{path}.attached.to"), NODE, to));
            let claim = Reference::name(format!("{path}.attached.claim"), CLAIM, claim);
            Ok([claim].into_iter().chain(node).collect())
        }
        Condition::VolumesOf(volumes) => Ok(vec![Reference::name(
            format!("{path}.volumesOf.claim"),
            CLAIM,
            &volumes.claim,
        )]),
        Condition::FaultHits(hits) => Ok(vec![Reference::name(
            format!("{path}.faultHits.fault"),
            NameOf::Fault,
            &hits.fault,
        )]),
        Condition::All(_) | Condition::Any(_) | Condition::Not(_) => Ok(Vec::new()),
    }
}

fn pods(path: &str, of: &str, on: Option<&str>) -> Vec<Reference> {
    let node = on.map(|on| Reference::name(format!("{path}.on"), NODE, on));
    let workload = Reference::name(format!("{path}.of"), NameOf::Workload, of);
    [workload].into_iter().chain(node).collect()
}

/// Checks that a pointer leads to a field that is observed.
fn check_pointer(
    kinds: &Kinds,
    schemas: &Schemas,
    path: &str,
    (api_version, kind, field): (&Option<String>, &str, &str),
) -> Result<(), Problem> {
    let kind = find_kind(kinds, path, api_version.as_deref(), kind)?;
    let at = format!("{path}.field");
    if kind.key == "Secret" && SECRET_FIELDS.iter().any(|secret| field.starts_with(secret)) {
        return Err((
            at,
            "the data of Secrets is not observed, so that no report contains it; a condition `exists` is possible"
                .to_owned(),
        ));
    }
    schemas.check_pointer(&at, kind, field)
}

/// Checks the values in a condition without parts.
fn check_values(kinds: &Kinds, path: &str, condition: &Condition, schemas: &Schemas) -> Result<(), Problem> {
    match condition {
        Condition::Phase(phase) => check_phase(&format!("{path}.phase.is"), &phase.is),
        Condition::History(history) => {
            let phases = history.phases.iter().enumerate();
            let field = |index: usize| format!("{path}.history.phases[{index}].phase");
            phases
                .into_iter()
                .try_for_each(|(index, change)| check_phase(&field(index), &change.phase))
        }
        Condition::DescriptionContains(text) if text.text.is_empty() => Err((
            format!("{path}.descriptionContains.text"),
            "every description contains an empty text: write a part of the message".to_owned(),
        )),
        Condition::Field(FieldIs {
            api_version,
            kind,
            field,
            ..
        }) => check_pointer(kinds, schemas, &format!("{path}.field"), (api_version, kind, field)),
        Condition::Unchanged(FieldOf {
            api_version,
            kind,
            field,
            ..
        }) => check_pointer(kinds, schemas, &format!("{path}.unchanged"), (api_version, kind, field)),
        Condition::Calls(calls) => bounds(&format!("{path}.calls"), calls.at_least, calls.at_most),
        Condition::Pods(pods) => bounds(&format!("{path}.pods"), wide(pods.at_least), wide(pods.at_most)),
        Condition::Attached(attached) => bounds(
            &format!("{path}.attached"),
            wide(attached.at_least),
            wide(attached.at_most),
        ),
        Condition::EventCount(EventCount {
            at_least: None,
            at_most: None,
            ..
        }) => Err((
            format!("{path}.eventCount"),
            "set `atLeast`, `atMost` or both".to_owned(),
        )),
        Condition::EventCount(events) => bounds(
            &format!("{path}.eventCount"),
            wide(events.at_least),
            wide(events.at_most),
        ),
        Condition::FaultHits(hits) => bounds(&format!("{path}.faultHits"), Some(hits.at_least), None),
        _ => Ok(()),
    }
}

fn wide(number: Option<usize>) -> Option<u64> {
    number.and_then(|number| u64::try_from(number).ok())
}

/// Checks that a number can violate its bounds, and can satisfy them.
fn bounds(path: &str, minimum: Option<u64>, maximum: Option<u64>) -> Result<(), Problem> {
    match (minimum, maximum) {
        (Some(0), None) => Err((
            format!("{path}.atLeast"),
            "at least 0 is always true: write a number from 1".to_owned(),
        )),
        (Some(minimum), Some(maximum)) if minimum > maximum => Err((
            format!("{path}.atLeast"),
            format!("no number is at least {minimum} and at most {maximum}"),
        )),
        _ => Ok(()),
    }
}

/// Checks that a phase is one that machines have.
///
/// # Errors
/// An unknown phase, with the closest one.
fn check_phase(field: &str, phase: &Phase) -> Result<(), Problem> {
    match phase {
        Phase::Other(text) => Err((
            field.to_owned(),
            format!(
                "{text:?} is not a phase; {}",
                suggestion(text, Phase::TEXTS.iter().copied())
            ),
        )),
        _ => Ok(()),
    }
}
