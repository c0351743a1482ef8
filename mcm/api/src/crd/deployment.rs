//! The definition of MachineDeployment.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use serde_json::json;

use super::machine::{
    HAS_SELECTOR, ONE_MAXIMUM, SELECTS_ITS_OWN, failed_machines, preservations, selector_that_names_labels, template,
};
use super::schema::{Refine, boolean, int_or_string, int32, int64, list_of, object, string, time};
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
        schema: object([
            ("apiVersion", string()),
            ("kind", string()),
            (
                "metadata",
                JSONSchemaProps {
                    type_: Some("object".to_owned()),
                    ..JSONSchemaProps::default()
                },
            ),
            ("spec", spec()),
            ("status", status()),
        ])
        .required(&["spec"])
        .described("Machines, and how they are replaced when their template changes."),
    }
    .definition()
}

fn spec() -> JSONSchemaProps {
    object([
        (
            "replicas",
            int32().described("Wanted machines.").defaulting(0.into()).at_least(0.0),
        ),
        (
            "selector",
            selector_that_names_labels().described("Which sets and machines belong to the deployment."),
        ),
        ("template", template()),
        ("strategy", strategy().described("How machines are replaced.")),
        (
            "minReadySeconds",
            int32()
                .described("Seconds that a machine must be ready to count as available.")
                .at_least(0.0),
        ),
        (
            "revisionHistoryLimit",
            int32()
                .described("How many old sets are kept; absent: all.")
                .at_least(0.0),
        ),
        ("paused", boolean().described("True: no rollout.")),
        (
            "rollbackTo",
            object([("revision", int64())]).described("Requests a rollback; revision 0: the previous one."),
        ),
        (
            "progressDeadlineSeconds",
            int32()
                .described("Without progress for this long the rollout counts as failed.")
                .at_least(0.0),
        ),
        (
            "autoPreserveFailedMax",
            int32()
                .described("How many failed machines may be preserved automatically.")
                .at_least(0.0),
        ),
        (
            "autoPreserveFailedMachineMax",
            int32()
                .described("Another name of autoPreserveFailedMax.")
                .at_least(0.0),
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
    JSONSchemaProps {
        // A pattern applies to strings only, and the minimum to numbers only.
        pattern: Some("^[0-9]+%$".to_owned()),
        ..int_or_string().defaulting(1.into()).at_least(0.0)
    }
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
        ("observedGeneration", int64()),
        ("replicas", int32()),
        ("updatedReplicas", int32()),
        ("readyReplicas", int32()),
        ("availableReplicas", int32()),
        ("preservedFailedReplicas", int32()),
        ("unavailableReplicas", int32()),
        ("conditions", list_of(condition)),
        ("collisionCount", int32()),
        ("failedMachines", failed_machines()),
        ("preservations", preservations()),
        (
            "observedAutoPreserveFailedMax",
            int32().described("The maximum of automatic preservations that the controller applied last."),
        ),
        (
            "rolledOut",
            string().described("Hash of the template that was rolled out last."),
        ),
    ])
}
