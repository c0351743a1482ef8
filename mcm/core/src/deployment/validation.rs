//! Validation of deployments.

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use mcm_api::MachineDeployment;

use super::bounds::{AUTO, IN_PLACE_UPDATE, MANUAL, RECREATE, ROLLING_UPDATE, resolve};
use crate::set::template_problems;

/// The problems of the deployment's spec, each with its field and the fix.
pub fn problems(deployment: &MachineDeployment) -> Vec<String> {
    let spec = &deployment.spec;
    let mut problems = Vec::new();
    for (field, value) in [
        ("replicas", Some(spec.replicas)),
        ("minReadySeconds", Some(spec.min_ready_seconds)),
        ("revisionHistoryLimit", spec.revision_history_limit),
        ("progressDeadlineSeconds", spec.progress_deadline_seconds),
    ] {
        if let Some(value) = value.filter(|value| *value < 0) {
            problems.push(format!("spec.{field}: {value} is negative: write 0 or more"));
        }
    }
    let strategy = &spec.strategy;
    match strategy.type_.as_str() {
        RECREATE => {}
        "" | ROLLING_UPDATE => {
            let given = strategy.rolling_update.clone().unwrap_or_default();
            numbers("rollingUpdate", given.max_surge, given.max_unavailable, &mut problems);
        }
        IN_PLACE_UPDATE => {
            let given = strategy.in_place_update.clone().unwrap_or_default();
            if ![AUTO, MANUAL].contains(&given.orchestration_type.as_str()) {
                problems.push(
                    "spec.strategy.inPlaceUpdate.orchestrationType: orchestrationType must be either Auto or Manual"
                        .to_owned(),
                );
            }
            let surge = given.max_surge.filter(|_| given.orchestration_type != MANUAL);
            numbers("inPlaceUpdate", surge, given.max_unavailable, &mut problems);
        }
        other => problems.push(format!(
            "spec.strategy.type: {other:?}: strategy type must be one of [InPlaceUpdate Recreate RollingUpdate]"
        )),
    }
    problems.extend(template_problems(spec.selector.as_ref(), &spec.template));
    problems
}

fn numbers(block: &str, surge: Option<IntOrString>, unavailable: Option<IntOrString>, problems: &mut Vec<String>) {
    for (field, value) in [("maxSurge", surge), ("maxUnavailable", unavailable)] {
        let Some(value) = value else { continue };
        match resolve(&value, 100, true) {
            None => problems.push(format!(
                "spec.strategy.{block}.{field}: unable to convert {field} to int32: write a number, or a share such as 25%"
            )),
            Some(number) if number < 0 => {
                problems.push(format!("spec.strategy.{block}.{field}: is negative: write 0 or more"));
            }
            Some(_) => {}
        }
    }
}
