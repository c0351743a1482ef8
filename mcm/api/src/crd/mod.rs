//! The CustomResourceDefinitions of the kinds.
//!
//! They keep every field of upstream's definitions; additional fields are optional. They reject objects that upstream's
//! definitions accept and its controllers ignore, such as one with an unknown strategy; the message contains the fix.
//! They must not reject an object that upstream's controllers would process.

mod class;
mod deployment;
mod health_check;
mod machine;
mod schema;
mod set;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceScale,
    CustomResourceSubresourceStatus, CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{GROUP, VERSION};

/// The definitions of all kinds.
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut all = machines();
    all.push(health_check());
    all
}

/// The definition of MachineHealthCheck, which only its controller needs.
pub fn health_check() -> CustomResourceDefinition {
    health_check::definition()
}

/// The definitions of machines, their owners and classes.
pub fn machines() -> Vec<CustomResourceDefinition> {
    vec![
        class::definition(),
        deployment::definition(),
        machine::definition(),
        set::definition(),
    ]
}

/// The definitions as one YAML stream, for `kubectl apply -f -`.
///
/// # Errors
/// When a definition cannot be written as YAML.
pub fn yaml() -> Result<String, serde_saphyr::SerializeError> {
    all()
        .iter()
        .map(|definition| Ok(format!("---\n{}", serde_saphyr::to_string(definition)?)))
        .collect()
}

/// The varying parts of a kind's definition.
struct Parts {
    kind: &'static str,
    plural: &'static str,
    short: &'static str,
    columns: Vec<CustomResourceColumnDefinition>,
    subresources: Option<CustomResourceSubresources>,
    schema: JSONSchemaProps,
}

impl Parts {
    fn definition(self) -> CustomResourceDefinition {
        let version = CustomResourceDefinitionVersion {
            name: VERSION.to_owned(),
            served: true,
            storage: true,
            additional_printer_columns: (!self.columns.is_empty()).then_some(self.columns),
            schema: Some(CustomResourceValidation {
                open_api_v3_schema: Some(self.schema),
            }),
            subresources: self.subresources,
            ..CustomResourceDefinitionVersion::default()
        };
        let names = CustomResourceDefinitionNames {
            kind: self.kind.to_owned(),
            list_kind: Some(format!("{}List", self.kind)),
            plural: self.plural.to_owned(),
            singular: Some(self.kind.to_lowercase()),
            short_names: Some(vec![self.short.to_owned()]),
            categories: None,
        };
        CustomResourceDefinition {
            metadata: ObjectMeta {
                name: Some(format!("{}.{GROUP}", self.plural)),
                ..ObjectMeta::default()
            },
            spec: CustomResourceDefinitionSpec {
                group: GROUP.to_owned(),
                names,
                scope: "Namespaced".to_owned(),
                versions: vec![version],
                ..CustomResourceDefinitionSpec::default()
            },
            status: None,
        }
    }
}

fn column(name: &str, type_: &str, path: &str, description: &str) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: path.to_owned(),
        description: Some(description.to_owned()),
        ..CustomResourceColumnDefinition::default()
    }
}

fn age() -> CustomResourceColumnDefinition {
    column(
        "Age",
        "date",
        ".metadata.creationTimestamp",
        "Time since the object was created",
    )
}

fn status_only() -> CustomResourceSubresources {
    let status = CustomResourceSubresourceStatus(serde_json::Value::Object(serde_json::Map::new()));
    CustomResourceSubresources {
        status: Some(status),
        scale: None,
    }
}

fn status_and_scale() -> CustomResourceSubresources {
    let scale = CustomResourceSubresourceScale {
        spec_replicas_path: ".spec.replicas".to_owned(),
        status_replicas_path: ".status.replicas".to_owned(),
        label_selector_path: None,
    };
    CustomResourceSubresources {
        scale: Some(scale),
        ..status_only()
    }
}
