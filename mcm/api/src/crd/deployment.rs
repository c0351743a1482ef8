//! The definition of MachineDeployment.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use serde_json::json;

use super::machine::{
    HAS_SELECTOR, ONE_MAXIMUM, SELECTS_ITS_OWN, failed_machines, preservations, selector_that_names_labels, template,
};
use super::schema::{Refine, boolean, count, count_or_percentage, list_of, object, revision, root, string, time};
use super::{Parts, age, column, status_and_scale};

pub(super) fn definition() -> CustomResourceDefinition {
    Parts {
        kind: "MachineDeployment",
        plural: "machinedeployments",
        short: "mcd",
        columns: vec![
            column("Ready", "integer", ".status.readyReplicas", "Machines that are Running"),
            column("Desired", "integer", ".spec.replicas", "Wanted machines"),
            column(
                "Up-to-date",
                "integer",
                ".status.updatedReplicas",
                "Machines of the newest template",
            ),
            column(
                "Available",
                "integer",
                ".status.availableReplicas",
                "Machines that are Available or Running",
            ),
            column(
                "Preserved",
                "integer",
                ".status.preservedFailedReplicas",
                "Failed machines that are preserved",
            ),
            age(),
        ],
        subresources: Some(status_and_scale()),
        schema: root(spec(), status()).described("Machines, and how they are replaced when their template changes."),
    }
    .definition()
}

fn spec() -> JSONSchemaProps {
    object([
        ("replicas", count().described("Wanted machines.").defaulting(0.into())),
        (
            "selector",
            selector_that_names_labels().described("Which sets and machines belong to the deployment."),
        ),
        ("template", template()),
        ("strategy", strategy().described("How machines are replaced.")),
        (
            "minReadySeconds",
            count().described("Seconds that a machine must be ready to count as available."),
        ),
        (
            "revisionHistoryLimit",
            count().described("How many old sets are kept; absent: all."),
        ),
        ("paused", boolean().described("True: no rollout.")),
        (
            "rollbackTo",
            object([("revision", revision())]).described("Requests a rollback; revision 0: the previous one."),
        ),
        (
            "progressDeadlineSeconds",
            count().described("Without progress for this long the rollout counts as failed."),
        ),
        (
            "remediation",
            object([(
                "maxInFlight",
                count_or_percentage().described(
                    "How many machines are replaced at the same time because a health check found them unhealthy; absent: 1.",
                ),
            )])
            .described("How machines are replaced that a health check found unhealthy."),
        ),
        (
            "autoPreserveFailedMax",
            count().described("How many failed machines may be preserved automatically."),
        ),
        (
            "autoPreserveFailedMachineMax",
            count().described("Another name of autoPreserveFailedMax."),
        ),
    ])
    .required(&["template"])
    .rule(HAS_SELECTOR.0, HAS_SELECTOR.1)
    .rule(SELECTS_ITS_OWN.0, SELECTS_ITS_OWN.1)
    .rule(ONE_MAXIMUM.0, ONE_MAXIMUM.1)
}

fn strategy() -> JSONSchemaProps {
    let rolling = object([("maxUnavailable", bound()), ("maxSurge", bound())]);
    let in_place = object([
        ("maxUnavailable", bound()),
        ("maxSurge", bound()),
        ("orchestrationType", string().described("Auto or Manual.")),
    ])
    .rule(
        "has(self.orchestrationType) && self.orchestrationType in ['Auto', 'Manual']",
        "orchestrationType must be either Auto or Manual",
    );
    object([
        (
            "type",
            string()
                .described("RollingUpdate, Recreate or InPlaceUpdate.")
                .defaulting("RollingUpdate".into()),
        ),
        ("rollingUpdate", rolling),
        ("inPlaceUpdate", in_place),
    ])
    .defaulting(json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 1 } }))
    .rule(
        "self.type in ['RollingUpdate', 'Recreate', 'InPlaceUpdate']",
        "strategy type must be one of [InPlaceUpdate Recreate RollingUpdate]",
    )
    .rule(
        "self.type != 'InPlaceUpdate' || has(self.inPlaceUpdate)",
        "inPlaceUpdate is missing: give it an orchestrationType, Auto or Manual",
    )
}

/// A number of machines or a percentage; 1 by default.
fn bound() -> JSONSchemaProps {
    count_or_percentage().defaulting(1.into())
}

fn status() -> JSONSchemaProps {
    let condition = object([
        ("type", string()),
        ("status", string()),
        ("lastUpdateTime", time()),
        ("lastTransitionTime", time()),
        ("reason", string()),
        ("message", string()),
    ])
    .required(&["status", "type"]);
    object([
        ("observedGeneration", revision()),
        ("replicas", count()),
        ("updatedReplicas", count()),
        ("readyReplicas", count()),
        ("availableReplicas", count()),
        ("preservedFailedReplicas", count()),
        ("unavailableReplicas", count()),
        ("conditions", list_of(condition)),
        ("collisionCount", count()),
        ("failedMachines", failed_machines()),
        ("preservations", preservations()),
        (
            "observedAutoPreserveFailedMax",
            count().described("The maximum of automatic preservations that the controller applied last."),
        ),
        (
            "rolledOut",
            string().described("Hash of the template that was rolled out last."),
        ),
    ])
}
