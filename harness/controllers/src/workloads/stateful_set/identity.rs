//! The pod of one ordinal: its name, labels, host name and volumes.

use k8s_openapi::api::apps::v1::{StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume};

use crate::workloads::meta::{self, Owner};
use crate::workloads::pods;

/// The label with the name of a pod's revision.
pub const REVISION: &str = "controller-revision-hash";
const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// The name of an ordinal's pod.
pub fn pod_name(set: &str, ordinal: i32) -> String {
    format!("{set}-{ordinal}")
}

/// The name of a claim.
pub fn claim_name(template: &str, set: &str, ordinal: i32) -> String {
    format!("{template}-{set}-{ordinal}")
}

/// The ordinal of a pod of `set`; `None` if the name does not match.
pub fn ordinal_of(set: &str, pod: &Pod) -> Option<i32> {
    let ordinal = meta::name(&pod.metadata).strip_prefix(set)?.strip_prefix('-')?;
    let digits_only = !ordinal.is_empty() && ordinal.bytes().all(|byte| byte.is_ascii_digit());
    digits_only.then(|| ordinal.parse().ok())?
}

/// The revision of a pod.
pub fn revision_of(pod: &Pod) -> &str {
    meta::label(&pod.metadata, REVISION).unwrap_or_default()
}

/// The pod of an ordinal, from a revision's template.
pub fn new(set: &StatefulSet, spec: &StatefulSetSpec, template: &PodTemplateSpec, revision: &str, ordinal: i32) -> Pod {
    let owner = Owner::of(set);
    let mut pod = pods::from_template(template, &owner, format!("{}-", owner.name));
    let name = pod_name(&owner.name, ordinal);
    let pod_spec = pod.spec.get_or_insert_default();
    pod_spec.hostname = Some(name.clone());
    pod_spec.subdomain = spec.service_name.clone().filter(|service| !service.is_empty());
    pod.metadata.name = Some(name);
    set_identity(&mut pod, spec, &owner.name, ordinal);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(REVISION.to_owned(), revision.to_owned());
    pod
}

/// Sets the labels and volumes of the ordinal.
pub fn set_identity(pod: &mut Pod, spec: &StatefulSetSpec, set: &str, ordinal: i32) {
    let name = pod_name(set, ordinal);
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME.to_owned(), name);
    labels.insert(POD_INDEX.to_owned(), ordinal.to_string());
    let templates = spec.volume_claim_templates.as_deref().unwrap_or_default();
    if templates.is_empty() {
        return;
    }
    let own: Vec<Volume> = templates
        .iter()
        .map(|template| {
            let volume = meta::name(&template.metadata);
            Volume {
                name: volume.to_owned(),
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name: claim_name(volume, set, ordinal),
                    read_only: None,
                }),
                ..Volume::default()
            }
        })
        .collect();
    let volumes = pod.spec.get_or_insert_default().volumes.get_or_insert_default();
    volumes.retain(|volume| own.iter().all(|other| other.name != volume.name));
    volumes.splice(0..0, own);
}

/// Whether a pod has the labels and claims of its ordinal.
pub fn has_identity(pod: &Pod, spec: &StatefulSetSpec, set: &str, ordinal: i32) -> bool {
    let name = pod_name(set, ordinal);
    let ordinal_text = ordinal.to_string();
    let labelled = meta::label(&pod.metadata, POD_NAME) == Some(&name)
        && meta::label(&pod.metadata, POD_INDEX) == Some(&ordinal_text);
    let volumes = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.volumes.as_deref())
        .unwrap_or_default();
    let claimed = spec.volume_claim_templates.iter().flatten().all(|template| {
        let volume = meta::name(&template.metadata);
        let claim = claim_name(volume, set, ordinal);
        volumes.iter().any(|present| {
            let source = present.persistent_volume_claim.as_ref();
            present.name == volume && source.is_some_and(|source| source.claim_name == claim)
        })
    });
    labelled && claimed
}
