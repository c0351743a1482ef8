//! The claims of a pod.

use k8s_openapi::api::core::v1::PodSpec;

/// The claims of a pod, and whether each belongs to an ephemeral volume.
pub fn claims(spec: &PodSpec, pod: &str) -> Vec<(String, bool)> {
    let volumes = spec.volumes.iter().flatten();
    volumes
        .filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => Some((claim.claim_name.clone(), false)),
            (None, Some(_)) => Some((format!("{pod}-{}", volume.name), true)),
            (None, None) => None,
        })
        .collect()
}
