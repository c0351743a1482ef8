//! The definition of MachineDeployment.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};

use super::machine::{failed_machines, selector, template};
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
        .described("Machines, and how they are replaced when their template changes."),
    }
    .definition()
}

fn spec() -> JSONSchemaProps {
    object([
        ("replicas", int32().described("Wanted machines; absent: none.")),
        (
            "selector",
            selector().described("Which sets and machines belong to the deployment."),
        ),
        ("template", template()),
        ("strategy", strategy().described("How machines are replaced.")),
        (
            "minReadySeconds",
            int32().described("Seconds that a machine must be ready to count as available."),
        ),
        (
            "revisionHistoryLimit",
            int32().described("How many old sets are kept; absent: all."),
        ),
        ("paused", boolean().described("True: no rollout.")),
        (
            "rollbackTo",
            object([("revision", int64())]).described("Asks for a rollback; revision 0: the previous one."),
        ),
        (
            "progressDeadlineSeconds",
            int32().described("Without progress for this long the rollout counts as failed."),
        ),
        (
            "autoPreserveFailedMax",
            int32().described("How many failed machines may be preserved automatically."),
        ),
        (
            "autoPreserveFailedMachineMax",
            int32().described("Another name of autoPreserveFailedMax."),
        ),
    ])
    .required(&["template"])
}

fn strategy() -> JSONSchemaProps {
    let rolling = object([("maxUnavailable", int_or_string()), ("maxSurge", int_or_string())]);
    let in_place = object([
        ("maxUnavailable", int_or_string()),
        ("maxSurge", int_or_string()),
        ("orchestrationType", string()),
    ]);
    object([
        ("type", string().described("RollingUpdate, Recreate or InPlaceUpdate.")),
        ("rollingUpdate", rolling),
        ("inPlaceUpdate", in_place),
    ])
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
    ])
}
