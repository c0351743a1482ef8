//! What the owner of an unhealthy machine needs to know from its set and deployment.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mcm_api::{MachineDeployment, MachineSet, keys};

use crate::deployment::{is_updated_in_place, resolve};
use crate::preservation::is_rolling;
use crate::template::same_template;

/// The set and deployment of an unhealthy machine, as far as its remediation depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerState {
    /// Whether a rollout that is in progress replaces the machine anyway.
    pub is_rolled_out: bool,
    /// How many machines of the deployment are replaced at the same time.
    pub max_in_flight: usize,
}

impl Default for OwnerState {
    fn default() -> Self {
        Self {
            is_rolled_out: false,
            max_in_flight: 1,
        }
    }
}

/// The state of the owners of the machines of `set`; `deployment`: its controller.
///
/// A machine of an old revision is not remediated only while a rollout is in progress that replaces it: a paused rollout
/// may never come to it, and an update in place replaces no machine.
pub fn owner_state(set: &MachineSet, deployment: Option<&MachineDeployment>) -> OwnerState {
    let Some(deployment) = deployment else {
        return OwnerState::default();
    };
    let spec = &deployment.spec;
    let is_old = !same_template(&set.spec.template, &spec.template);
    let rolling = is_rolling(spec, &deployment.status.rolled_out);
    let comes = rolling && (!is_updated_in_place(spec) || defect!(UpdateInPlaceIsWaitedFor));
    let comes = comes || defect!(OldSetIsStuck);
    let waits = rolling && defect!(RemediationWaitsForRollout);
    OwnerState {
        is_rolled_out: is_old && comes || waits,
        max_in_flight: max_in_flight(deployment),
    }
}

/// The number in the spec, or else in the annotation, rounded up; at least one.
fn max_in_flight(deployment: &MachineDeployment) -> usize {
    let spec = deployment.spec.remediation.as_ref();
    let spec = spec.and_then(|remediation| remediation.max_in_flight.clone());
    let annotations = deployment.metadata.annotations.as_ref();
    let annotated = annotations.and_then(|all| all.get(keys::REMEDIATION_MAX_IN_FLIGHT_ANNOTATION));
    let annotated = annotated.map(|text| match text.parse() {
        Ok(number) => IntOrString::Int(number),
        Err(_) => IntOrString::String(text.clone()),
    });
    let amount = spec
        .or(annotated)
        .and_then(|amount| resolve(&amount, deployment.spec.replicas, true));
    amount
        .and_then(|amount| usize::try_from(amount).ok())
        .unwrap_or(1)
        .max(1)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn deployment(spec: Value, annotations: Value, rolled_out: &str) -> MachineDeployment {
        let mut object = json!({ "metadata": { "annotations": annotations }, "status": { "rolledOut": rolled_out } });
        object["spec"] = json!({ "replicas": 10, "template": { "spec": { "class": { "name": "new" } } } });
        for (key, value) in spec.as_object().into_iter().flatten() {
            object["spec"][key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    fn set(class: &str) -> MachineSet {
        serde_json::from_value(json!({ "spec": { "template": { "spec": { "class": { "name": class } } } } })).unwrap()
    }

    #[rstest]
    #[case::old("old", json!({}), "1", true)]
    #[case::new("new", json!({}), "1", false)]
    #[case::complete("old", json!({}), "", false)]
    #[case::paused("old", json!({ "paused": true }), "1", false)]
    #[case::manual(
        "old",
        json!({ "strategy": { "type": "InPlaceUpdate", "inPlaceUpdate": { "orchestrationType": "Manual" } } }),
        "1",
        false
    )]
    #[case::auto(
        "old",
        json!({ "strategy": { "type": "InPlaceUpdate", "inPlaceUpdate": { "orchestrationType": "Auto" } } }),
        "1",
        false
    )]
    fn a_machine_of_an_old_revision_is_left_to_a_rollout_that_replaces_it(
        #[case] class: &str,
        #[case] spec: Value,
        #[case] rolled_out: &str,
        #[case] expected: bool,
    ) {
        let deployment = deployment(spec, json!({}), rolled_out);
        assert_eq!(owner_state(&set(class), Some(&deployment)).is_rolled_out, expected);
    }

    #[rstest]
    #[case::absent(json!({}), json!({}), 1)]
    #[case::number(json!({ "remediation": { "maxInFlight": 3 } }), json!({}), 3)]
    #[case::rounded_up(json!({ "remediation": { "maxInFlight": "25%" } }), json!({}), 3)]
    #[case::zero(json!({ "remediation": { "maxInFlight": 0 } }), json!({}), 1)]
    #[case::annotation(json!({}), json!({ "machine.sapcloud.io/remediation-max-in-flight": "2" }), 2)]
    #[case::percentage(json!({}), json!({ "machine.sapcloud.io/remediation-max-in-flight": "40%" }), 4)]
    #[case::both(
        json!({ "remediation": { "maxInFlight": 3 } }),
        json!({ "machine.sapcloud.io/remediation-max-in-flight": "2" }),
        3
    )]
    #[case::no_number(json!({}), json!({ "machine.sapcloud.io/remediation-max-in-flight": "many" }), 1)]
    fn the_number_of_simultaneous_replacements_is_at_least_one(
        #[case] spec: Value,
        #[case] annotations: Value,
        #[case] expected: usize,
    ) {
        assert_eq!(max_in_flight(&deployment(spec, annotations, "")), expected);
    }
}
