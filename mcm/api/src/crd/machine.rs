//! The definition of Machine, and the schemas that sets and deployments share with it.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, JSONSchemaProps,
};

use super::schema::{Refine, boolean, count, duration, list_of, map_of, object, root, string, template_metadata, time};
use super::{Parts, age, column, status_only};
use crate::{MAX_LABEL_VALUE, keys};

pub(super) fn definition() -> CustomResourceDefinition {
    Parts {
        kind: "Machine",
        plural: "machines",
        short: "mc",
        columns: vec![
            column(
                "Status",
                "string",
                ".status.currentStatus.phase",
                "Phase of the machine",
            ),
            age(),
            column("Node", "string", ".metadata.labels.node", "The machine's Node"),
            CustomResourceColumnDefinition {
                priority: Some(1),
                ..column("ProviderID", "string", ".spec.providerID", "The cloud's id of the VM")
            },
        ],
        subresources: Some(status_only()),
        schema: root(machine_spec(), status())
        .rule(
            // Status is written by the controller, so a new machine has none. One of an older release can be changed.
            &format!("size(self.metadata.name) <= {MAX_LABEL_VALUE} || has(self.status)"),
            &format!("metadata.name: may not be more than {MAX_LABEL_VALUE} bytes, because labels must contain it: shorten it"),
        )
        .described("One VM and the Node that joins from it."),
    }
    .definition()
}

/// A machine's spec; also the spec of every template.
pub(super) fn machine_spec() -> JSONSchemaProps {
    object([
        (
            "class",
            class_spec().described("The class that configures the VM; kind and name are required."),
        ),
        (
            "providerID",
            string().described("The cloud's id of the VM; the controller writes it."),
        ),
        (
            "nodeTemplate",
            node_template().described("Labels, annotations and taints for the Node."),
        ),
        (
            "drainTimeout",
            duration().described("A drain that takes longer is forced."),
        ),
        (
            "healthTimeout",
            duration().described("A machine that is Unknown for this long is Failed."),
        ),
        (
            "creationTimeout",
            duration().described("A machine that has not joined after this time is Failed."),
        ),
        (
            "inPlaceUpdateTimeout",
            duration().described("An update in place that takes longer has failed."),
        ),
        (
            "machinePreserveTimeout",
            duration().described("How long a preserved machine is kept."),
        ),
        (
            "disableHealthTimeout",
            boolean().described("True: never Failed because of the health timeout."),
        ),
        (
            "maxEvictRetries",
            count()
                .described("How often the eviction of a pod is tried before the drain is forced."),
        ),
        (
            "nodeConditions",
            string().described("Types of Node conditions that must be False, comma-separated."),
        ),
    ])
    .described("The desired state of a machine.")
    .rule(
        &format!(
            "has(self.class) && has(self.class.kind) && self.class.kind in ['{}', '{}'] && has(self.class.name) && self.class.name != ''",
            keys::MACHINE_CLASS,
            keys::CLASSES_OF_FORMER_TIMES.join("', '"),
        ),
        "class must name what the VM is made from: set class.kind to MachineClass and class.name to the name of one",
    )
}

/// The template of machines in sets and deployments.
pub(super) fn template() -> JSONSchemaProps {
    object([
        (
            "metadata",
            template_metadata(labels()).described("Labels, annotations and finalizers of the machines."),
        ),
        ("spec", machine_spec()),
    ])
    .required(&["spec"])
    .described("The template of new machines.")
}

/// A reference to a class.
pub(super) fn class_spec() -> JSONSchemaProps {
    object([("apiGroup", string()), ("kind", string()), ("name", string())])
}

fn node_template() -> JSONSchemaProps {
    let config_map = object([
        ("kubeletConfigKey", string()),
        ("name", string()),
        ("namespace", string()),
        ("resourceVersion", string()),
        ("uid", string()),
    ])
    .required(&["kubeletConfigKey", "name", "namespace"]);
    let taint = object([
        ("key", string()),
        ("value", string()),
        ("effect", string()),
        ("timeAdded", time()),
    ])
    .required(&["effect", "key"]);
    let spec = object([
        ("podCIDR", string()),
        ("podCIDRs", list_of(string()).list_type("set")),
        ("providerID", string()),
        ("unschedulable", boolean()),
        ("taints", list_of(taint).list_type("atomic")),
        ("configSource", object([("configMap", config_map)])),
        ("externalID", string()),
    ]);
    object([("metadata", template_metadata(map_of(string()))), ("spec", spec)])
}

/// The last operation on an object.
pub(super) fn last_operation() -> JSONSchemaProps {
    object([
        (
            "description",
            string().described("A human-readable description; for a deletion it ends with the stage."),
        ),
        (
            "errorCode",
            string().described("The machine code of a failed creation."),
        ),
        ("lastUpdateTime", time()),
        ("state", string().described("Processing, Failed or Successful.")),
        (
            "type",
            string().described("Create, Update, InPlaceUpdate, DrainNode, HealthCheck or Delete."),
        ),
    ])
}

/// Failed machines in the status of their owner.
pub(super) fn failed_machines() -> JSONSchemaProps {
    list_of(object([
        ("name", string()),
        ("providerID", string()),
        ("lastOperation", last_operation()),
        ("ownerRef", string()),
    ]))
    .described("Machines whose last operation failed.")
}

/// Labels. Their number and length are limited because the API server bounds the estimated cost of CEL rules.
fn labels() -> JSONSchemaProps {
    let value = JSONSchemaProps {
        max_length: Some(63),
        ..string()
    };
    JSONSchemaProps {
        max_properties: Some(256),
        ..map_of(value)
    }
}

fn selector() -> JSONSchemaProps {
    let requirement = object([
        ("key", string()),
        ("operator", string()),
        ("values", list_of(string()).list_type("atomic")),
    ])
    .required(&["key", "operator"]);
    object([
        ("matchExpressions", list_of(requirement).list_type("atomic")),
        ("matchLabels", labels()),
    ])
    .atomic_map()
}

/// The selector of sets and deployments. It must not be empty: an empty selector would select every machine.
pub(super) fn selector_that_names_labels() -> JSONSchemaProps {
    selector().rule(
        "has(self.matchLabels) && size(self.matchLabels) > 0 || has(self.matchExpressions) && size(self.matchExpressions) > 0",
        "a selector without labels would take every machine of the namespace: name at least one label",
    )
}

/// A set or deployment must have a selector.
pub(super) const HAS_SELECTOR: (&str, &str) = (
    "has(self.selector)",
    "selector is missing: name the labels of template.metadata.labels",
);

/// The selector must match the template: otherwise the owner would not select the machines that it creates.
pub(super) const SELECTS_ITS_OWN: (&str, &str) = (
    "!has(self.selector) || !has(self.selector.matchLabels) || size(self.selector.matchLabels) == 0 || \
     has(self.template) && has(self.template.metadata) && has(self.template.metadata.labels) && \
     self.selector.matchLabels.all(key, key in self.template.metadata.labels && \
     self.template.metadata.labels[key] == self.selector.matchLabels[key])",
    "selector does not match template.metadata.labels: give the template the labels that are selected",
);

/// The two names of one setting must not have different values.
pub(super) const ONE_MAXIMUM: (&str, &str) = (
    "!has(self.autoPreserveFailedMax) || !has(self.autoPreserveFailedMachineMax) || \
     self.autoPreserveFailedMax == self.autoPreserveFailedMachineMax",
    "autoPreserveFailedMax and autoPreserveFailedMachineMax are two names of one number: remove one of them",
);

fn preservation() -> JSONSchemaProps {
    object([
        ("by", string().described("Who requested it: auto, machine or node.")),
        ("stage", string().described("Draining, Preserved or Releasing.")),
        ("nodeUID", string().described("The uid of the machine's Node.")),
        ("since", time().described("When the stage was entered.")),
        (
            "request",
            string().described("The value of the annotation that requested it."),
        ),
        (
            "reason",
            string().described("Why it ends; Relapse: the node is drained again."),
        ),
        (
            "fencing",
            object([
                ("state", string().described("Stopping, Failed or Stopped.")),
                ("since", time().described("When this was written.")),
                (
                    "errorCode",
                    string()
                        .described("The machine code with which StopMachine last failed; empty: the VM does not stop."),
                ),
            ])
            .described("The progress of stopping the machine's VM; absent: the controller did not stop it."),
        ),
    ])
    .described("The machine's preservation; absent: it is not preserved.")
}

/// Failed machines that are kept, in the status of their owner.
pub(super) fn preservations() -> JSONSchemaProps {
    list_of(object([
        ("uid", string()),
        ("name", string()),
        ("by", string().described("Who requested it: auto, machine or node.")),
        ("created", time().described("When the machine was created.")),
        (
            "released",
            boolean().described("True: the maximum was lowered, and this preservation must end."),
        ),
    ]))
    .described("Preserved failed machines. Their number counts against the maximum.")
}

fn status() -> JSONSchemaProps {
    let address = object([("address", string()), ("type", string())]).required(&["address", "type"]);
    let condition = object([
        ("type", string()),
        ("status", string()),
        ("lastHeartbeatTime", time()),
        ("lastTransitionTime", time()),
        ("reason", string()),
        ("message", string()),
    ])
    .required(&["status", "type"]);
    let current_status = object([
        ("phase", string()),
        ("timeoutActive", boolean()),
        ("lastUpdateTime", time()),
        (
            "preserveExpiryTime",
            time().described("Set: the machine is preserved until then. An edit is honoured at once."),
        ),
    ]);
    object([
        (
            "addresses",
            list_of(address).described("Set only without a target cluster."),
        ),
        (
            "conditions",
            list_of(condition).described("A copy of the Node's conditions."),
        ),
        (
            "lastOperation",
            last_operation().described("The controller's last operation."),
        ),
        (
            "currentStatus",
            current_status.described("The phase and its timestamps."),
        ),
        (
            "lastKnownState",
            string().described("State that the driver keeps between calls."),
        ),
        ("preservation", preservation()),
    ])
    .described("The observed state of a machine.")
}
