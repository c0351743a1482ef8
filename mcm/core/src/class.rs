//! Finalizers of MachineClasses and of the Secrets that they refer to: they protect objects that machines still need.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Secret, SecretReference};
use mcm_api::{Machine, MachineClass, keys};

use crate::finalizer::has_finalizer;

/// The change that a finalizer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalizerStep {
    /// No change.
    Keep,
    /// The object is in use and lacks the finalizer.
    Add,
    /// The object is unused and carries the finalizer.
    Remove,
    /// The object is being deleted and is still in use: wait.
    StillNeeded,
}

/// Whether the machine refers to the class.
pub fn uses(machine: &Machine, class: &MachineClass) -> bool {
    let reference = &machine.spec.class;
    reference.kind == keys::MACHINE_CLASS
        && Some(&reference.name) == class.metadata.name.as_ref()
        && machine.metadata.namespace == class.metadata.namespace
}

/// The step for a class, given whether a machine refers to it.
pub fn class_step(class: &MachineClass, used: bool) -> FinalizerStep {
    let present = has_finalizer(&class.metadata, keys::MACHINE_FINALIZER);
    match (used, class.metadata.deletion_timestamp.is_some()) {
        (true, true) => FinalizerStep::StillNeeded,
        (true, false) if present => FinalizerStep::Keep,
        (true, false) => FinalizerStep::Add,
        (false, _) if present => FinalizerStep::Remove,
        (false, _) => FinalizerStep::Keep,
    }
}

/// The step for a Secret, given all classes.
pub fn secret_step<'a>(secret: &Secret, classes: impl IntoIterator<Item = &'a MachineClass>) -> FinalizerStep {
    let present = has_finalizer(&secret.metadata, keys::SECRET_FINALIZER);
    let own = (
        secret.metadata.namespace.clone().unwrap_or_default(),
        secret.metadata.name.clone().unwrap_or_default(),
    );
    let used = classes.into_iter().any(|class| secrets_of(class).contains(&own));
    match (used, secret.metadata.deletion_timestamp.is_some()) {
        (true, true) if present => FinalizerStep::StillNeeded,
        (true, true) => FinalizerStep::Keep,
        (true, false) if present => FinalizerStep::Keep,
        (true, false) => FinalizerStep::Add,
        (false, _) if present => FinalizerStep::Remove,
        (false, _) => FinalizerStep::Keep,
    }
}

/// Namespace and name of the Secrets that a class refers to. A reference without a namespace means the class's
/// namespace.
pub fn secrets_of(class: &MachineClass) -> BTreeSet<(String, String)> {
    [&class.secret_ref, &class.credentials_secret_ref]
        .into_iter()
        .flatten()
        .filter_map(|reference| secret_key(class, reference))
        .collect()
}

/// Namespace and name of one referenced Secret; `None`: the reference has no name.
pub fn secret_key(class: &MachineClass, reference: &SecretReference) -> Option<(String, String)> {
    let name = reference.name.clone().filter(|name| !name.is_empty())?;
    let given = reference.namespace.clone().filter(|namespace| !namespace.is_empty());
    Some((
        given.or_else(|| class.metadata.namespace.clone()).unwrap_or_default(),
        name,
    ))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
    use mcm_api::machine::ClassSpec;
    use rstest::rstest;

    use super::*;

    fn metadata(finalizer: Option<&str>, deleting: bool) -> ObjectMeta {
        ObjectMeta {
            name: Some("object".to_owned()),
            namespace: Some("garden".to_owned()),
            finalizers: finalizer.map(|name| vec![name.to_owned()]),
            deletion_timestamp: deleting.then_some(Time(Timestamp::UNIX_EPOCH)),
            ..ObjectMeta::default()
        }
    }

    #[rstest]
    #[case::used_without(true, false, false, FinalizerStep::Add)]
    #[case::unused_without(false, false, false, FinalizerStep::Keep)]
    #[case::used_with(true, true, false, FinalizerStep::Keep)]
    #[case::deleting_but_used(true, true, true, FinalizerStep::StillNeeded)]
    #[case::deleting_and_unused(false, true, true, FinalizerStep::Remove)]
    #[case::deleting_without_finalizer(false, false, true, FinalizerStep::Keep)]
    #[case::unused_with(false, true, false, FinalizerStep::Remove)]
    fn a_class_carries_the_finalizer_while_machines_use_it(
        #[case] used: bool,
        #[case] present: bool,
        #[case] deleting: bool,
        #[case] expected: FinalizerStep,
    ) {
        let metadata = metadata(present.then_some(keys::MACHINE_FINALIZER), deleting);
        assert_eq!(
            class_step(
                &MachineClass {
                    metadata,
                    ..MachineClass::default()
                },
                used
            ),
            expected
        );
    }

    #[rstest]
    #[case::named(Some("garden"), "object", FinalizerStep::Add)]
    #[case::in_the_class_namespace(None, "object", FinalizerStep::Add)]
    #[case::another_name(Some("garden"), "other", FinalizerStep::Keep)]
    #[case::another_namespace(Some("shed"), "object", FinalizerStep::Keep)]
    fn a_secret_carries_the_finalizer_while_a_class_names_it(
        #[case] namespace: Option<&str>,
        #[case] name: &str,
        #[case] expected: FinalizerStep,
    ) {
        let reference = SecretReference {
            name: Some(name.to_owned()),
            namespace: namespace.map(str::to_owned),
        };
        for credentials in [false, true] {
            let mut class = MachineClass {
                metadata: metadata(None, false),
                ..MachineClass::default()
            };
            let slot = if credentials {
                &mut class.credentials_secret_ref
            } else {
                &mut class.secret_ref
            };
            *slot = Some(reference.clone());
            let secret = Secret {
                metadata: metadata(None, false),
                ..Secret::default()
            };
            assert_eq!(secret_step(&secret, [&class]), expected);
        }
        let unused = Secret {
            metadata: metadata(Some(keys::SECRET_FINALIZER), false),
            ..Secret::default()
        };
        assert_eq!(secret_step(&unused, []), FinalizerStep::Remove);
    }

    #[test]
    fn a_machine_uses_the_class_of_its_kind_name_and_namespace() {
        let class = MachineClass {
            metadata: metadata(None, false),
            ..MachineClass::default()
        };
        let mut machine = Machine {
            metadata: metadata(None, false),
            ..Machine::default()
        };
        assert!(!uses(&machine, &class));
        machine.spec.class = ClassSpec {
            kind: "MachineClass".into(),
            name: "object".into(),
            ..ClassSpec::default()
        };
        assert!(uses(&machine, &class));
        machine.metadata.namespace = Some("shed".to_owned());
        assert!(!uses(&machine, &class));
    }
}
