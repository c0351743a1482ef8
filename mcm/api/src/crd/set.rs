//! The definition of MachineSet.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};

use super::machine::{
    HAS_SELECTOR, ONE_MAXIMUM, SELECTS_ITS_OWN, class_spec, failed_machines, last_operation, preservations,
    selector_that_names_labels, template,
};
use super::schema::{Refine, int32, int64, list_of, object, string, time};
use super::{Parts, age, column, status_and_scale};

pub(super) fn definition() -> CustomResourceDefinition {
    Parts {
        kind: "MachineSet",
        plural: "machinesets",
        short: "mcs",
        columns: vec![
            column("Desired", "integer", ".spec.replicas", "Wanted machines"),
            column("Current", "integer", ".status.replicas", "Existing machines"),
            column("Ready", "integer", ".status.readyReplicas", "Machines that are Running"),
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
        .described("A number of machines of one template."),
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
            selector_that_names_labels().described("Which machines belong to the set."),
        ),
        ("machineClass", class_spec().described("Not read.")),
        ("template", template()),
        (
            "minReadySeconds",
            int32()
                .described("Seconds that a machine must be ready to count as available.")
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

fn status() -> JSONSchemaProps {
    let condition = object([
        ("type", string()),
        ("status", string()),
        ("lastTransitionTime", time()),
        ("reason", string()),
        ("message", string()),
    ])
    .required(&["status", "type"]);
    object([
        ("replicas", int32()),
        ("fullyLabeledReplicas", int32()),
        ("readyReplicas", int32()),
        ("availableReplicas", int32()),
        ("preservedFailedReplicas", int32()),
        ("autoPreserveFailedMachineCount", int32()),
        ("observedGeneration", int64()),
        ("machineSetCondition", list_of(condition)),
        ("lastOperation", last_operation()),
        ("failedMachines", failed_machines()),
        ("preservations", preservations()),
        (
            "observedAutoPreserveFailedMax",
            int32().described("The maximum of automatic preservations that the controller applied last."),
        ),
    ])
}
