//! Finalizers of Secrets: from the step to the written list.

use k8s_openapi::api::core::v1::{Secret, SecretReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::{MachineClass, keys};
use mcm_core::class::{FinalizerStep, secret_step};
use mcm_core::finalizer::finalizer_patch;
use rstest::rstest;

const OURS: &str = keys::SECRET_FINALIZER;
const OTHERS: &str = "example.com/kept";

/// Acceptance list "Secret finalizers" of the specification.
#[rstest]
#[case::add(true, &[], Some(vec![OURS]))]
#[case::delete(false, &[OURS], Some(vec![]))]
#[case::other_finalizer_untouched(false, &[OTHERS], None)]
#[case::other_finalizer_untouched_by_the_deletion_of_ours(false, &[OTHERS, OURS], Some(vec![OTHERS]))]
#[case::update(true, &[OTHERS], Some(vec![OTHERS, OURS]))]
#[case::already_present(true, &[OURS], None)]
fn a_secret_keeps_foreign_finalizers(#[case] used: bool, #[case] before: &[&str], #[case] expected: Option<Vec<&str>>) {
    let metadata = ObjectMeta {
        name: Some("credentials".to_owned()),
        namespace: Some("garden".to_owned()),
        finalizers: Some(before.iter().map(|name| (*name).to_owned()).collect()),
        ..ObjectMeta::default()
    };
    let secret = Secret {
        metadata,
        ..Secret::default()
    };
    let reference = SecretReference {
        name: secret.metadata.name.clone(),
        namespace: secret.metadata.namespace.clone(),
    };
    let class = MachineClass {
        secret_ref: Some(reference),
        ..MachineClass::default()
    };
    let present = match secret_step(&secret, used.then_some(&class)) {
        FinalizerStep::Keep => None,
        FinalizerStep::Add => Some(true),
        FinalizerStep::Remove => Some(false),
        FinalizerStep::StillNeeded => panic!("the Secret is not being deleted"),
    };
    let patch = present.map(|present| finalizer_patch(&secret.metadata, OURS, present));
    let written = patch.map(|patch| patch["metadata"]["finalizers"].clone());
    assert_eq!(written, expected.map(|names| serde_json::json!(names)));
}
