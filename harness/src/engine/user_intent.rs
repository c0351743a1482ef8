//! The preservation requests of users in steps.

use judge::object::annotation;
use judge::world::WorldState;
use mcm_api::keys;
use scenario::step::Annotate;
use scenario::{Step, kinds};

/// The Machine whose preservation a step requests, and the value; `None` in its place: the step withdraws the request.
pub(super) fn preservation_request<'a>(step: &'a Step, world: &WorldState) -> Option<(&'a str, Option<&'a str>)> {
    match step {
        Step::Annotate(step) if is_machine(step.api_version.as_deref(), &step.kind) => {
            let value = match step.annotations.get(keys::PRESERVE_ANNOTATION) {
                Some(value) => value.as_deref(),
                None => Some(request_of_first_version(step, world)?),
            };
            Some((&step.name, value))
        }
        Step::As(step) => preservation_request(&step.step, world).filter(|_| !step.refused),
        _ => None,
    }
}

/// Whether a kind is the Machine of mcm.
fn is_machine(api_version: Option<&str>, kind: &str) -> bool {
    let machines = kinds::find("Machine");
    kind == "Machine"
        && api_version.is_none_or(|version| machines.is_ok_and(|machines| machines.api_version == version))
}

/// The request by the annotation of the proposal's first version, which applies if the current annotation is missing.
fn request_of_first_version(step: &Annotate, world: &WorldState) -> Option<&'static str> {
    let machine = world.object("Machine", &step.name)?;
    let value = step
        .annotations
        .get(keys::PRESERVE_WHEN_FAILED_ANNOTATION)?
        .as_deref()?;
    match (annotation(machine, keys::PRESERVE_ANNOTATION), value) {
        (None, "true") => Some("when-failed"),
        (None, "false") => Some("false"),
        _ => None,
    }
}

/// The Machine whose expiry a step removes.
pub(super) fn ends_preservation(step: &Step) -> Option<&str> {
    match step {
        Step::Patch(patch) if is_machine(patch.api_version.as_deref(), &patch.kind) && patch.status => {
            let expiry = patch.merge.pointer("/status/currentStatus/preserveExpiryTime")?;
            expiry.is_null().then_some(patch.name.as_str())
        }
        Step::As(step) => ends_preservation(&step.step).filter(|_| !step.refused),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;
    use scenario::observation::{Observation, Seen};

    /// A machine `m` with that value of the current annotation.
    fn world(request: Option<&str>) -> WorldState {
        let annotations = json!({ keys::PRESERVE_ANNOTATION: request });
        let machine = json!({ "metadata": { "name": "m", "annotations": annotations } });
        let mut world = WorldState::default();
        world.absorb(&Observation {
            at: Timestamp::UNIX_EPOCH,
            what: Seen::Applied(kinds::find("Machine").unwrap(), Box::new(machine)),
        });
        world
    }

    fn annotate(annotations: &[(&str, Option<&str>)]) -> Step {
        let annotations = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.map(str::to_owned)));
        Step::Annotate(Annotate {
            api_version: None,
            kind: "Machine".to_owned(),
            name: "m".to_owned(),
            annotations: annotations.collect(),
        })
    }

    const CURRENT: &str = keys::PRESERVE_ANNOTATION;
    const FIRST: &str = keys::PRESERVE_WHEN_FAILED_ANNOTATION;

    #[rstest]
    #[case::current_annotation(None, &[(CURRENT, Some("now"))], Some(Some("now")))]
    #[case::removed(Some("now"), &[(CURRENT, None), (FIRST, None)], Some(None))]
    #[case::first_version(None, &[(FIRST, Some("true"))], Some(Some("when-failed")))]
    #[case::refused_by_first_version(None, &[(FIRST, Some("false"))], Some(Some("false")))]
    #[case::first_version_with_current_annotation(Some("now"), &[(FIRST, Some("true"))], None)]
    #[case::something_else(None, &[("a", Some("b"))], None)]
    fn a_users_request_is_recognized(
        #[case] before: Option<&str>,
        #[case] written: &[(&str, Option<&str>)],
        #[case] expected: Option<Option<&str>>,
    ) {
        let step = annotate(written);
        let request = preservation_request(&step, &world(before));
        assert_eq!(request, expected.map(|value| ("m", value)));
    }

    #[rstest]
    #[case::removed(json!({ "status": { "currentStatus": { "preserveExpiryTime": null } } }), true, true)]
    #[case::moved(json!({ "status": { "currentStatus": { "preserveExpiryTime": "1970-01-01T00:00:00Z" } } }), true, false)]
    #[case::of_no_status(json!({ "status": { "currentStatus": { "preserveExpiryTime": null } } }), false, false)]
    #[case::something_else(json!({ "status": {} }), true, false)]
    fn the_removal_of_an_expiry_ends_a_preservation(#[case] merge: Value, #[case] status: bool, #[case] ending: bool) {
        let step = Step::Patch(scenario::step::Patch {
            api_version: None,
            kind: "Machine".to_owned(),
            name: "m".to_owned(),
            namespace: None,
            merge,
            status,
        });
        assert_eq!(ends_preservation(&step), ending.then_some("m"));
    }
}
