//! The definition of MachineClass.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};

use super::Parts;
use super::schema::{Refine, any_object, object, quantities, string};

pub(super) fn definition() -> CustomResourceDefinition {
    let secret_ref = || object([("name", string()), ("namespace", string())]).atomic_map();
    Parts {
        kind: "MachineClass",
        plural: "machineclasses",
        short: "mcc",
        columns: Vec::new(),
        subresources: None,
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
            (
                "nodeTemplate",
                node_template().described("The expected properties of Nodes, for scaling from zero."),
            ),
            (
                "credentialsSecretRef",
                secret_ref().described("A Secret whose data takes precedence over that of secretRef."),
            ),
            (
                "providerSpec",
                any_object().described("The configuration for the driver."),
            ),
            ("provider", string().described("The provider's name.")),
            (
                "secretRef",
                secret_ref().described("A Secret with credentials and userData."),
            ),
        ])
        .required(&["providerSpec"])
        .described("A template for VMs of one provider."),
    }
    .definition()
}

fn node_template() -> JSONSchemaProps {
    object([
        ("capacity", quantities().described("Must name cpu, gpu and memory.")),
        (
            "virtualCapacity",
            quantities().described("Extended resources that are written to the Node."),
        ),
        ("instanceType", string()),
        ("region", string()),
        ("zone", string()),
        ("architecture", string()),
    ])
    .required(&["capacity", "instanceType", "region", "zone"])
    .open()
}
