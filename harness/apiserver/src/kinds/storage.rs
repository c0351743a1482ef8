//! The group storage.k8s.io: classes, attachments, CSI drivers and nodes.

use serde_json::Value;

use super::builder::ResourceBuilder;
use super::fields::{default, immutable, items, one_of, same, text};
use super::syntax;
use crate::resource::Resource;
use crate::status::FieldError;
use crate::table::printers;

pub(super) fn resources() -> Vec<Resource> {
    let resource = |kind, plural, type_| {
        ResourceBuilder::new("storage.k8s.io/v1", kind, plural, type_)
            .cluster()
            .returns_deleted()
    };
    vec![
        resource("StorageClass", "storageclasses", "io.k8s.api.storage.v1.StorageClass")
            .short(&["sc"])
            .printer(printers::storage_classes())
            .prepare(prepare_class)
            .validate(validate_class)
            .build(),
        resource(
            "VolumeAttachment",
            "volumeattachments",
            "io.k8s.api.storage.v1.VolumeAttachment",
        )
        .status()
        .requires_version()
        .printer(printers::volume_attachments())
        .prepare(prepare_attachment)
        .validate(validate_attachment)
        .build(),
        resource("CSINode", "csinodes", "io.k8s.api.storage.v1.CSINode")
            .requires_version()
            .printer(printers::csi_nodes())
            .validate(validate_csi_node)
            .build(),
        resource("CSIDriver", "csidrivers", "io.k8s.api.storage.v1.CSIDriver")
            .requires_version()
            .printer(printers::csi_drivers())
            .prepare(prepare_csi_driver)
            .validate(validate_csi_driver)
            .build(),
        ResourceBuilder::new(
            "storage.k8s.io/v1",
            "CSIStorageCapacity",
            "csistoragecapacities",
            "io.k8s.api.storage.v1.CSIStorageCapacity",
        )
        .requires_version()
        .printer(printers::created_at())
        .validate(validate_capacity)
        .build(),
        ResourceBuilder::new(
            "storage.k8s.io/v1",
            "VolumeAttributesClass",
            "volumeattributesclasses",
            "io.k8s.api.storage.v1.VolumeAttributesClass",
        )
        .cluster()
        .short(&["vac"])
        .printer(printers::volume_attributes_classes())
        .validate(validate_attributes)
        .build(),
    ]
}

fn validate_capacity(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    syntax::dns_subdomain(&mut errors, "storageClassName", text(new, "/storageClassName"));
    if let Some(old) = old {
        immutable(&mut errors, new, old, "/nodeTopology");
        immutable(&mut errors, new, old, "/storageClassName");
    }
    errors
}

fn validate_attributes(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if text(new, "/driverName").is_empty() {
        errors.push(FieldError::required("driverName", ""));
    }
    if new
        .get("parameters")
        .and_then(Value::as_object)
        .is_none_or(serde_json::Map::is_empty)
    {
        errors.push(FieldError::required(
            "parameters",
            "must contain at least one key/value pair",
        ));
    }
    let changed = |field: &&str| old.is_some_and(|old| !same(new.get(field), old.get(field)));
    let forbidden = |field| FieldError::forbidden(field, format!("updates to {field} are forbidden."));
    errors.extend(["driverName", "parameters"].into_iter().filter(changed).map(forbidden));
    errors
}

fn prepare_class(new: &mut Value, _old: Option<&Value>) {
    default(new, "", "reclaimPolicy", "Delete");
    default(new, "", "volumeBindingMode", "Immediate");
}

fn validate_class(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let provisioner = text(new, "/provisioner");
    if provisioner.is_empty() {
        errors.push(FieldError::required("provisioner", ""));
    } else {
        syntax::qualified_name(&mut errors, "provisioner", &provisioner.to_lowercase());
    }
    for (index, topology) in items(new, "/allowedTopologies").iter().enumerate() {
        for (number, expression) in items(topology, "/matchLabelExpressions").iter().enumerate() {
            if items(expression, "/values").is_empty() {
                let path = format!("allowedTopologies[{index}].matchLabelExpressions[{number}].values");
                errors.push(FieldError::required(path, ""));
            }
        }
    }
    one_of(
        &mut errors,
        new,
        "/reclaimPolicy",
        "reclaimPolicy",
        &["Delete", "Retain"],
    );
    one_of(
        &mut errors,
        new,
        "/volumeBindingMode",
        "volumeBindingMode",
        &["Immediate", "WaitForFirstConsumer"],
    );
    if let Some(old) = old {
        for field in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            immutable(&mut errors, new, old, &format!("/{field}"));
        }
    }
    errors
}

fn prepare_attachment(new: &mut Value, _old: Option<&Value>) {
    default(new, "/status", "attached", false);
}

fn validate_attachment(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["attacher", "nodeName"] {
        if text(new, &format!("/spec/{field}")).is_empty() {
            errors.push(FieldError::required(format!("spec.{field}"), ""));
        }
    }
    let inline = new
        .pointer("/spec/source/inlineVolumeSpec")
        .is_some_and(|inline| !inline.is_null());
    let named = new
        .pointer("/spec/source/persistentVolumeName")
        .is_some_and(|name| !name.is_null());
    if !inline && !named {
        let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        errors.push(FieldError::required("spec.source", why));
    } else if inline && named {
        let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        errors.push(FieldError::forbidden("spec.source", why));
    } else if named && text(new, "/spec/source/persistentVolumeName").is_empty() {
        errors.push(FieldError::required(
            "spec.source.persistentVolumeName",
            "must specify non empty persistentVolumeName",
        ));
    }
    if let Some(old) = old {
        immutable(&mut errors, new, old, "/spec");
    }
    errors
}

fn validate_csi_node(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let drivers = items(new, "/spec/drivers");
    for (index, driver) in drivers.iter().enumerate() {
        let name = text(driver, "/name");
        if name.is_empty() {
            errors.push(FieldError::required(format!("spec.drivers[{index}].name"), ""));
        }
        if text(driver, "/nodeID").is_empty() {
            errors.push(FieldError::required(format!("spec.drivers[{index}].nodeID"), ""));
        }
        if drivers.iter().take(index).any(|earlier| text(earlier, "/name") == name) {
            errors.push(FieldError::duplicate(format!("spec.drivers[{index}].name"), name));
        }
        let before = old.map(|old| items(old, "/spec/drivers")).unwrap_or_default();
        let fixed = |driver: &Value| ["nodeID", "topologyKeys"].map(|field| driver.get(field).cloned());
        let differs = |earlier: &Value| text(earlier, "/name") == name && fixed(earlier) != fixed(driver);
        if before.iter().any(differs) {
            errors.push(FieldError::invalid(
                "spec.drivers",
                driver.clone(),
                "field is immutable",
            ));
        }
    }
    errors
}

fn validate_csi_driver(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let policies = ["File", "None", "ReadWriteOnceWithFSType"];
    one_of(&mut errors, new, "/spec/fsGroupPolicy", "spec.fsGroupPolicy", &policies);
    for mode in items(new, "/spec/volumeLifecycleModes")
        .iter()
        .filter_map(Value::as_str)
    {
        if !matches!(mode, "Persistent" | "Ephemeral") {
            let supported = ["Persistent", "Ephemeral"];
            errors.push(FieldError::not_supported("spec.volumeLifecycleModes", mode, &supported));
        }
    }
    if let Some(old) = old {
        let of = |driver: &Value, field: &str| driver.pointer(&format!("/spec/{field}")).cloned().unwrap_or_default();
        // Upstream's error has another name than the field.
        for (field, name) in [
            ("attachRequired", "attachedRequired"),
            ("volumeLifecycleModes", "volumeLifecycleModes"),
        ] {
            if of(new, field) != of(old, field) {
                let why = "field is immutable";
                errors.push(FieldError::invalid(format!("spec.{name}"), of(new, field), why));
            }
        }
    }
    errors
}

fn prepare_csi_driver(new: &mut Value, _old: Option<&Value>) {
    default(new, "/spec", "attachRequired", true);
    for field in ["podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"] {
        default(new, "/spec", field, false);
    }
    default(new, "/spec", "fsGroupPolicy", "ReadWriteOnceWithFSType");
    default(new, "/spec", "volumeLifecycleModes", serde_json::json!(["Persistent"]));
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn attachment(source: Value) -> Value {
        json!({ "spec": { "attacher": "a", "nodeName": "n", "source": source } })
    }

    #[rstest]
    #[case(json!({ "persistentVolumeName": "pv" }), &[])]
    #[case(json!({}), &["spec.source"])]
    #[case(json!({ "persistentVolumeName": "pv", "inlineVolumeSpec": {} }), &["spec.source"])]
    #[case(json!({ "persistentVolumeName": "" }), &["spec.source.persistentVolumeName"])]
    fn an_attachment_has_one_source(#[case] source: Value, #[case] expected: &[&str]) {
        let errors = validate_attachment(&attachment(source), None);
        let fields: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, expected);
    }

    #[test]
    fn the_spec_of_an_attachment_is_immutable() {
        let old = attachment(json!({ "persistentVolumeName": "a" }));
        let new = attachment(json!({ "persistentVolumeName": "b" }));
        assert_eq!(validate_attachment(&new, Some(&old))[0].detail, "field is immutable");
    }

    #[test]
    fn the_parameters_of_a_class_are_immutable() {
        let old = json!({ "provisioner": "p", "parameters": { "a": "1" } });
        let new = json!({ "provisioner": "p", "parameters": { "a": "2" } });
        let errors: Vec<String> = validate_class(&new, Some(&old))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(errors, [r#"parameters: Invalid value: {"a":"2"}: field is immutable"#]);
    }
}
