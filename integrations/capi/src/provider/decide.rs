//! What the provider does with one object: a pure function of the object and its VM.

use serde_json::{Value, json};

/// The finalizer of machines, which keeps them until their VM is deleted.
pub(crate) const FINALIZER: &str = "infrastructure.drydock.dev/machine";

/// An action on an object.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Sets the finalizers.
    Finalizers(Vec<String>),
    /// Merges fields into the spec.
    Spec(Value),
    /// Merges fields into the status.
    Status(Value),
    /// Creates the VM.
    CreateVm,
    /// Deletes the VM.
    DeleteVm,
}

/// The VM of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Vm {
    /// Its name in the cloud.
    pub provider_id: String,
    /// The name of its Node.
    pub node: String,
}

/// What is done with a cluster: it exists from the start.
pub(super) fn cluster(object: &Value) -> Vec<Action> {
    status(object, json!({ "initialization": { "provisioned": true } }))
}

/// What is done with a control plane: another program operates it.
pub(super) fn control_plane(object: &Value) -> Vec<Action> {
    let fields = json!({
        "externalManagedControlPlane": true,
        "version": object.pointer("/spec/version"),
        "initialization": { "controlPlaneInitialized": true },
    });
    status(object, fields)
}

/// What is done with a machine. `vm`: its VM, if there is one.
pub(super) fn machine(object: &Value, vm: Option<&Vm>) -> Vec<Action> {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    let finalizers = finalizers.into_iter().flatten().filter_map(Value::as_str);
    let mut finalizers: Vec<String> = finalizers.map(str::to_owned).collect();
    let has_finalizer = finalizers.iter().any(|one| one == FINALIZER);
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        if !has_finalizer {
            return Vec::new();
        }
        finalizers.retain(|one| one != FINALIZER);
        return vec![Action::DeleteVm, Action::Finalizers(finalizers)];
    }
    if owner(object).is_none() {
        return Vec::new();
    }
    if !has_finalizer {
        finalizers.push(FINALIZER.to_owned());
        return vec![Action::Finalizers(finalizers)];
    }
    let known = object.pointer("/spec/providerID").and_then(Value::as_str);
    let Some(vm) = vm else {
        // A VM that is gone is not created a second time: the machine is replaced.
        return if known.is_some() {
            Vec::new()
        } else {
            vec![Action::CreateVm]
        };
    };
    if known != Some(vm.provider_id.as_str()) {
        return vec![Action::Spec(json!({ "providerID": vm.provider_id }))];
    }
    let fields = json!({
        "initialization": { "provisioned": true },
        "failureDomain": object.pointer("/spec/zone"),
        "addresses": [{ "type": "InternalDNS", "address": vm.node }],
    });
    status(object, fields)
}

/// The name of the Machine that owns the object.
pub(super) fn owner(object: &Value) -> Option<&str> {
    let owners = object.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["kind"] == "Machine")?;
    owner["name"].as_str()
}

/// The write of the status, if it changes these fields.
fn status(object: &Value, fields: Value) -> Vec<Action> {
    let known = |(field, value): (&String, &Value)| object.pointer(&format!("/status/{field}")) == Some(value);
    if fields.as_object().is_some_and(|fields| fields.iter().all(known)) {
        return Vec::new();
    }
    vec![Action::Status(fields)]
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn object(fields: &Value) -> Value {
        let mut object = json!({
            "metadata": { "name": "m-1", "ownerReferences": [{ "kind": "Machine", "name": "m-1" }] },
            "spec": { "zone": "z1" },
        });
        for (pointer, value) in fields.as_object().into_iter().flatten() {
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            object.pointer_mut(parent).unwrap()[field] = value.clone();
        }
        object
    }

    fn vm() -> Vm {
        Vm {
            provider_id: "fakecloud:///z1/vm-1".to_owned(),
            node: "m-1".to_owned(),
        }
    }

    #[rstest]
    #[case::without_owner(json!({ "/metadata/ownerReferences": [] }), None, vec![])]
    #[case::new(json!({}), None, vec![Action::Finalizers(vec![FINALIZER.to_owned()])])]
    #[case::without_vm(json!({ "/metadata/finalizers": [FINALIZER] }), None, vec![Action::CreateVm])]
    #[case::created(
        json!({ "/metadata/finalizers": [FINALIZER] }),
        Some(vm()),
        vec![Action::Spec(json!({ "providerID": "fakecloud:///z1/vm-1" }))]
    )]
    #[case::its_vm_is_gone(
        json!({ "/metadata/finalizers": [FINALIZER], "/spec/providerID": "fakecloud:///z1/vm-1" }),
        None,
        vec![]
    )]
    #[case::deleted(
        json!({ "/metadata/finalizers": ["other", FINALIZER], "/metadata/deletionTimestamp": "2026-01-01T00:00:00Z" }),
        Some(vm()),
        vec![Action::DeleteVm, Action::Finalizers(vec!["other".to_owned()])]
    )]
    #[case::deleted_before_its_vm(
        json!({ "/metadata/deletionTimestamp": "2026-01-01T00:00:00Z" }),
        None,
        vec![]
    )]
    fn a_machine_has_one_vm_from_its_owner_to_its_deletion(
        #[case] fields: Value,
        #[case] vm: Option<Vm>,
        #[case] expected: Vec<Action>,
    ) {
        assert_eq!(machine(&object(&fields), vm.as_ref()), expected);
    }

    #[test]
    fn a_status_that_is_written_is_not_written_again() {
        let fields = json!({
            "/metadata/finalizers": [FINALIZER], "/spec/providerID": "fakecloud:///z1/vm-1",
        });
        let mut object = object(&fields);
        let actions = machine(&object, Some(&vm()));
        let [Action::Status(status)] = actions.as_slice() else {
            panic!("{actions:?}");
        };
        object["status"] = status.clone();
        assert_eq!(machine(&object, Some(&vm())), []);
        let mut plane = json!({ "spec": { "version": "v1.36.0" } });
        let [Action::Status(status)] = &control_plane(&plane)[..] else {
            panic!("a control plane is written once");
        };
        plane["status"] = status.clone();
        assert_eq!(control_plane(&plane), []);
    }
}
