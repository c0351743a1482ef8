//! The definition of MachineSet.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};

use super::machine::{
    HAS_SELECTOR, ONE_MAXIMUM, SELECTS_ITS_OWN, class_spec, failed_machines, last_operation, preservations,
    selector_that_names_labels, template,
};
use super::schema::{Refine, count, list_of, object, revision, root, string, time};
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
        schema: root(spec(), status()).described("A number of machines of one template."),
    }
    .definition()
}

fn spec() -> JSONSchemaProps {
    object([
        ("replicas", count().described("Wanted machines.").defaulting(0.into())),
        (
            "selector",
            selector_that_names_labels().described("Which machines belong to the set."),
        ),
        ("machineClass", class_spec().described("Not read.")),
        ("template", template()),
        (
            "minReadySeconds",
            count().described("Seconds that a machine must be ready to count as available."),
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
        ("replicas", count()),
        ("fullyLabeledReplicas", count()),
        ("readyReplicas", count()),
        ("availableReplicas", count()),
        ("preservedFailedReplicas", count()),
        ("autoPreserveFailedMachineCount", count()),
        ("observedGeneration", revision()),
        ("machineSetCondition", list_of(condition)),
        ("lastOperation", last_operation()),
        ("failedMachines", failed_machines()),
        ("preservations", preservations()),
        (
            "observedAutoPreserveFailedMax",
            count().described("The maximum of automatic preservations that the controller applied last."),
        ),
    ])
}
