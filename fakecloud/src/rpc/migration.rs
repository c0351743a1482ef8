//! The former class format: its `spec` holds the content of today's `providerSpec` of a MachineClass, and references to
//! Secrets.

use mcm_api::MachineClass;
use mcm_api::cloud::{Code, DriverError};
use serde_json::Value;

/// Provider of the classes that this cloud serves.
pub(crate) const PROVIDER: &str = "fakecloud";

/// Fills `class` from the JSON of the former format.
pub(super) fn fill(old: &Value, class: MachineClass) -> Result<MachineClass, DriverError> {
    let invalid = |text: String| DriverError::new(Code::InvalidArgument, text);
    let Some(Value::Object(spec)) = old.get("spec") else {
        return Err(invalid(
            "the class has no spec: give it machineType, image and zone".to_owned(),
        ));
    };
    let mut spec = spec.clone();
    let mut reference = |field: &str| {
        let found = spec.remove(field).map(serde_json::from_value).transpose();
        found.map_err(|error| invalid(format!("spec.{field} is not a reference to a Secret: {error}")))
    };
    let secret_ref = reference("secretRef")?;
    let credentials_secret_ref = reference("credentialsSecretRef")?;
    Ok(MachineClass {
        provider: Some(PROVIDER.to_owned()),
        provider_spec: Value::Object(spec),
        secret_ref,
        credentials_secret_ref,
        ..class
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_other_than_references_become_the_provider_spec() {
        let old = json!({ "spec": {
            "machineType": "small", "zone": "z1", "secretRef": { "name": "s", "namespace": "n" },
        }});
        let filled = fill(&old, MachineClass::default()).unwrap();
        assert_eq!(filled.provider_spec, json!({ "machineType": "small", "zone": "z1" }));
        assert_eq!(filled.provider.as_deref(), Some(PROVIDER));
        assert_eq!(filled.secret_ref.and_then(|secret| secret.name).as_deref(), Some("s"));
        assert_eq!(filled.credentials_secret_ref, None);
    }

    #[test]
    fn a_class_without_a_spec_is_rejected_with_the_missing_fields() {
        let error = fill(&json!({}), MachineClass::default()).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert!(error.message.contains("machineType"), "{}", error.message);
        let broken = json!({ "spec": { "secretRef": 7 } });
        let error = fill(&broken, MachineClass::default()).unwrap_err();
        assert!(error.message.contains("spec.secretRef"), "{}", error.message);
    }
}
