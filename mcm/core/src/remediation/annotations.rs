//! The annotations with which users influence health checks.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use mcm_api::keys;

/// Whether the object is excluded from health checks, or a check is paused.
pub fn is_paused(metadata: &ObjectMeta) -> bool {
    is_set(metadata, [keys::PAUSED_ANNOTATION, keys::CAPI_PAUSED_ANNOTATION])
}

/// Whether health checks ignore the machine.
pub fn is_skipped(metadata: &ObjectMeta) -> bool {
    let skipped = is_set(
        metadata,
        [
            keys::SKIP_REMEDIATION_ANNOTATION,
            keys::CAPI_SKIP_REMEDIATION_ANNOTATION,
        ],
    );
    skipped || is_paused(metadata)
}

/// Whether a user requests the remediation of the machine.
pub fn must_remediate(metadata: &ObjectMeta) -> bool {
    is_set(
        metadata,
        [
            keys::REMEDIATE_MACHINE_ANNOTATION,
            keys::CAPI_REMEDIATE_MACHINE_ANNOTATION,
        ],
    )
}

/// Whether one of the annotations exists with another value than `false`, which people write to switch it off.
fn is_set(metadata: &ObjectMeta, names: [&str; 2]) -> bool {
    let annotations = metadata.annotations.as_ref();
    let mut values = names.iter().filter_map(|name| annotations?.get(*name));
    values.any(|value| value != "false" || defect!(FalseAnnotationCounts))
}
