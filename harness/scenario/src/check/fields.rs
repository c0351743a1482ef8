//! Checks the fields of objects and paths to fields against the schemas of their kinds, as the API server does with
//! strict field validation.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use apiserver::schema::StructuralSchema;
use apiserver::types;
use serde_json::Value;

use super::node::{Found, Node, segments};
use crate::Problem;
use crate::closest::suggestion;
use crate::field_path::parts;
use crate::kinds::Kind;

/// The schemas of the machine API.
static MACHINE_API: LazyLock<BTreeMap<OfKind, StructuralSchema>> = LazyLock::new(|| {
    let definitions = mcm_api::crd::all();
    let values = definitions
        .iter()
        .filter_map(|definition| serde_json::to_value(definition).ok());
    values.flat_map(|definition| of_definition(&definition)).collect()
});

/// Version and kind.
type OfKind = (String, String);

/// The versions of a CustomResourceDefinition with their schemas. Those that are not valid are left out.
fn of_definition(definition: &Value) -> Vec<(OfKind, StructuralSchema)> {
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
    let of_version = |version: &Value| {
        let schema = StructuralSchema::compile(version.pointer("/schema/openAPIV3Schema")?).ok()?;
        let api_version = format!("{group}/{}", version["name"].as_str()?);
        Some(((api_version, kind.to_owned()), schema))
    };
    versions(definition).filter_map(of_version).collect()
}

fn versions(definition: &Value) -> impl Iterator<Item = &Value> {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    versions.into_iter().flatten()
}

/// The schemas that are known on load: those of Kubernetes, of the machine API and of the scenario's own definitions.
#[derive(Debug, Default)]
pub(crate) struct Schemas(BTreeMap<OfKind, StructuralSchema>);

impl Schemas {
    /// Adds the schema of an object that is a CustomResourceDefinition.
    pub(crate) fn add_definition(&mut self, object: &Value) {
        if object["kind"] == "CustomResourceDefinition" {
            self.0.extend(of_definition(object));
        }
    }

    /// Checks that a definition, if the object is one, names its kind, and that its schemas are valid.
    ///
    /// # Errors
    /// The missing or invalid field.
    pub(crate) fn check_definition(object: &Value) -> Result<(), Problem> {
        if object["kind"] != "CustomResourceDefinition" {
            return Ok(());
        }
        for pointer in ["/spec/group", "/spec/names/kind", "/spec/names/plural"] {
            if !object.pointer(pointer).is_some_and(Value::is_string) {
                let field = pointer.trim_start_matches('/').replace('/', ".");
                return Err((field, "is missing: it is required for every definition".to_owned()));
            }
        }
        for (index, version) in versions(object).enumerate() {
            let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
            let Some(schema) = version.pointer("/schema/openAPIV3Schema") else {
                return Err((field, "is missing: every version has a schema".to_owned()));
            };
            if let Some(error) = StructuralSchema::compile(schema)
                .err()
                .and_then(|errors| errors.into_iter().next())
            {
                return Err((
                    field,
                    format!("the schema is not valid: {}: {}", error.field, error.detail),
                ));
            }
        }
        match versions(object).any(|version| version["served"] == true) {
            true => Ok(()),
            false => Err(("spec.versions".to_owned(), "no version is served".to_owned())),
        }
    }

    fn custom(&self, kind: &Kind) -> Option<&StructuralSchema> {
        let of = (kind.api_version.to_owned(), kind.kind.to_owned());
        self.0.get(&of).or_else(|| MACHINE_API.get(&of))
    }

    /// Checks that an object, or a change of one, has no unknown fields and no values of wrong types; `path` is its path in
    /// the scenario, or empty.
    ///
    /// # Errors
    /// The first wrong field, with the closest valid one or the expected type.
    pub(crate) fn check_object(&self, path: &str, kind: &Kind, object: &Value) -> Result<(), Problem> {
        let mut pruned = object.clone();
        let unknown = match self.custom(kind) {
            Some(schema) => schema.prune(&mut pruned),
            // A value of the wrong type is reported below.
            None => types::name_of(kind.api_version, kind.kind)
                .and_then(|name| types::check(name, &mut pruned).ok())
                .unwrap_or_default(),
        };
        let within = |field: String| match path {
            "" => field,
            path => format!("{path}.{field}"),
        };
        let Some(unknown) = unknown.first() else {
            let wrong = self.root(kind).and_then(|root| root.mismatch(object, ""));
            return wrong.map_or(Ok(()), |(field, reason)| Err((within(field), reason)));
        };
        let (parent, name) = match unknown.rsplit_once('.') {
            Some((parent, name)) => (parent, name),
            None => ("", unknown.as_str()),
        };
        let hint = match self.walk(kind, segments(parent)) {
            Found::Node(node) => suggestion(name, node.fields().iter().map(String::as_str)),
            Found::Anything | Found::Unknown { .. } => "it would be dropped".to_owned(),
        };
        Err((within(unknown.clone()), format!("unknown field {name:?}; {hint}")))
    }

    /// Checks that a path leads to a field that objects of the kind may have.
    ///
    /// # Errors
    /// The unknown part of the path, with the closest valid one.
    pub(crate) fn check_pointer(&self, path: &str, kind: &Kind, pointer: &str) -> Result<(), Problem> {
        match self.walk(kind, parts(pointer).collect()) {
            Found::Node(_) | Found::Anything => Ok(()),
            Found::Unknown { part, fields } => Err((
                path.to_owned(),
                format!(
                    "{pointer:?} is not a field of a {}: it has no {part:?}; {}",
                    kind.kind,
                    suggestion(&part, fields.iter().map(String::as_str))
                ),
            )),
        }
    }

    /// The root of a kind's schema; `None`: it is unknown.
    fn root(&self, kind: &Kind) -> Option<Node> {
        match self.custom(kind) {
            Some(schema) => Node::of_custom(schema.raw()),
            None => types::name_of(kind.api_version, kind.kind).and_then(Node::of_type),
        }
    }

    /// Follows `parts` from the root of a kind's schema.
    fn walk(&self, kind: &Kind, parts: Vec<String>) -> Found {
        let Some(mut node) = self.root(kind) else {
            return Found::Anything;
        };
        for part in parts {
            node = match node.member(&part) {
                Found::Node(node) => node,
                other => return other,
            };
        }
        Found::Node(node)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::kinds;

    fn unknown(kind: &str, object: Value) -> Option<Problem> {
        let kind = kinds::find(kind).unwrap();
        Schemas::default().check_object("object", kind, &object).err()
    }

    #[rstest]
    #[case::a_custom_kind("MachineDeployment", json!({"spec": {"replica": 3}}), "object.spec.replica", "did you mean \"replicas\"?")]
    #[case::a_built_in_kind(
        "Deployment",
        json!({"spec": {"template": {"spec": {"containers": [{"nmae": "a"}]}}}}),
        "object.spec.template.spec.containers[0].nmae",
        "did you mean \"name\"?"
    )]
    #[case::metadata("Machine", json!({"metadata": {"nmae": "a"}}), "object.metadata.nmae", "did you mean \"name\"?")]
    #[case::the_root("ConfigMap", json!({"dat": {"a": "b"}}), "object.dat", "did you mean \"data\"?")]
    fn an_unknown_field_is_refused_with_the_closest_one(
        #[case] kind: &str,
        #[case] object: Value,
        #[case] field: &str,
        #[case] hint: &str,
    ) {
        let (found, message) = unknown(kind, object).unwrap();
        assert_eq!(found, field);
        assert!(
            message.starts_with("unknown field") && message.ends_with(hint),
            "{message}"
        );
    }

    #[rstest]
    #[case::a_text_for_a_number("MachineDeployment", json!({"spec": {"replicas": "3"}}), "object.spec.replicas", "expected a whole number, not the text \"3\"; write 3 without quotes")]
    #[case::a_number_for_a_text("MachineClass", json!({"provider": 1}), "object.provider", "expected a text, not 1; write \"1\"")]
    #[case::a_fraction("Deployment", json!({"spec": {"replicas": 1.5}}), "object.spec.replicas", "expected a whole number, not 1.5")]
    #[case::a_list_for_an_object("Machine", json!({"spec": []}), "object.spec", "expected fields, not a list")]
    #[case::an_object_for_a_list("Pod", json!({"spec": {"containers": {"name": "a"}}}), "object.spec.containers", "expected a list, not fields")]
    #[case::a_label("Machine", json!({"metadata": {"labels": {"a": true}}}), "object.metadata.labels.a", "expected a text, not true; write \"true\"")]
    #[case::in_a_list("Pod", json!({"spec": {"containers": [{"name": "a"}, {"image": 5}]}}), "object.spec.containers[1].image", "expected a text, not 5; write \"5\"")]
    #[case::a_text_for_a_boolean("Pod", json!({"spec": {"hostNetwork": "yes"}}), "object.spec.hostNetwork", "expected true or false, not the text \"yes\"")]
    fn a_value_of_the_wrong_type_is_refused(
        #[case] kind: &str,
        #[case] object: Value,
        #[case] field: &str,
        #[case] reason: &str,
    ) {
        let (found, message) = unknown(kind, object).unwrap();
        assert_eq!((found.as_str(), message.as_str()), (field, reason));
    }

    #[rstest]
    #[case::a_quantity_as_a_number("Pod", json!({"spec": {"overhead": {"cpu": 1}}}))]
    #[case::a_number_or_a_percentage("MachineDeployment", json!({"spec": {"strategy": {"rollingUpdate": {"maxSurge": "50%"}}}}))]
    #[case::any_key_of_a_map("Machine", json!({"metadata": {"labels": {"any": "thing"}}}))]
    #[case::preserved_fields("MachineClass", json!({"providerSpec": {"anything": {"at": "all"}}}))]
    #[case::a_null_in_a_change("Deployment", json!({"spec": {"replicas": null}}))]
    fn fields_that_the_server_keeps_are_valid(#[case] kind: &str, #[case] object: Value) {
        assert_eq!(unknown(kind, object), None);
    }

    #[rstest]
    #[case("Machine", "/spec/providerID", true)]
    #[case("Machine", "/spec/provideID", false)]
    #[case("Machine", "/metadata/annotations/example.com~1a", true)]
    #[case("Machine", "/metadta/name", false)]
    #[case("Node", "/spec/taints/0/key", true)]
    #[case("Node", "/spec/taints/first", false)]
    #[case("Node", "/status/conditions/[type=Ready]/status", true)]
    #[case("Node", "/status/conditions/[typ=Ready]/status", false)]
    #[case("Node", "/status/conditions/[type=Ready]/state", false)]
    #[case("Node", "/status/conditions/[Ready]/status", false)]
    #[case("Machine", "/status/conditions/[type=Ready]/reason", true)]
    #[case("Node", "/status/capacity/cpu", true)]
    #[case("MachineDeployment", "/status/availableReplicas", true)]
    #[case("MachineDeployment", "/status/availableReplica", false)]
    #[case("MachineDeployment", "/status/replicas/0", false)]
    #[case("MachineClass", "/providerSpec/any/thing", true)]
    fn a_pointer_leads_to_a_field_of_the_kind(#[case] kind: &str, #[case] pointer: &str, #[case] valid: bool) {
        let kind = kinds::find(kind).unwrap();
        let checked = Schemas::default().check_pointer("field", kind, pointer);
        assert_eq!(checked.is_ok(), valid, "{checked:?}");
    }

    #[test]
    fn a_definition_of_the_scenario_has_its_own_fields() {
        let fields = json!({ "type": "object", "properties": { "size": { "type": "integer" } } });
        let definition = json!({
            "kind": "CustomResourceDefinition",
            "spec": {
                "group": "machine.sapcloud.io",
                "names": { "kind": "AWSMachineClass" },
                "versions": [{
                    "name": "v1alpha1", "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": fields } } },
                }],
            },
        });
        let mut schemas = Schemas::default();
        let kind = kinds::find("AWSMachineClass").unwrap();
        let object = json!({ "spec": { "sice": 1 } });
        assert_eq!(schemas.check_object("object", kind, &object), Ok(()));
        schemas.add_definition(&definition);
        let (field, message) = schemas.check_object("object", kind, &object).unwrap_err();
        assert_eq!(field, "object.spec.sice");
        assert_eq!(message, "unknown field \"sice\"; did you mean \"size\"?");
    }
}
