//! Descriptions of built-in types and their fields, for `kubectl explain`. They come from the types of the crate
//! k8s-openapi, which contain those of Kubernetes.

use std::sync::LazyLock;

use k8s_openapi::api::{
    admissionregistration, apps, authentication, authorization, autoscaling, batch, certificates, coordination, core,
    discovery, events, flowcontrol, networking, node, policy, rbac, resource, scheduling, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The schemas with descriptions by name, of all types that the served kinds contain.
static DESCRIBED: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    let mut generator = SchemaSettings::draft07().into_generator();
    macro_rules! describe {
        ($($type:ty),* $(,)?) => { $(let _ = generator.subschema_for::<$type>();)* };
    }
    describe!(
        admissionregistration::v1::MutatingAdmissionPolicy,
        admissionregistration::v1::MutatingAdmissionPolicyBinding,
        admissionregistration::v1::MutatingWebhookConfiguration,
        admissionregistration::v1::ValidatingAdmissionPolicy,
        admissionregistration::v1::ValidatingAdmissionPolicyBinding,
        admissionregistration::v1::ValidatingWebhookConfiguration,
        apiregistration::v1::APIService,
        apps::v1::ControllerRevision,
        apps::v1::DaemonSet,
        apps::v1::Deployment,
        apps::v1::ReplicaSet,
        apps::v1::StatefulSet,
        authentication::v1::SelfSubjectReview,
        authentication::v1::TokenRequest,
        authentication::v1::TokenReview,
        authorization::v1::LocalSubjectAccessReview,
        authorization::v1::SelfSubjectAccessReview,
        authorization::v1::SelfSubjectRulesReview,
        authorization::v1::SubjectAccessReview,
        autoscaling::v1::HorizontalPodAutoscaler,
        autoscaling::v1::Scale,
        autoscaling::v2::HorizontalPodAutoscaler,
        batch::v1::CronJob,
        batch::v1::Job,
        certificates::v1::CertificateSigningRequest,
        coordination::v1::Lease,
        core::v1::Binding,
        core::v1::ComponentStatus,
        core::v1::ConfigMap,
        core::v1::Endpoints,
        core::v1::Event,
        core::v1::LimitRange,
        core::v1::Namespace,
        core::v1::Node,
        core::v1::PersistentVolume,
        core::v1::PersistentVolumeClaim,
        core::v1::Pod,
        core::v1::PodTemplate,
        core::v1::ReplicationController,
        core::v1::ResourceQuota,
        core::v1::Secret,
        core::v1::Service,
        core::v1::ServiceAccount,
        discovery::v1::EndpointSlice,
        events::v1::Event,
        flowcontrol::v1::FlowSchema,
        flowcontrol::v1::PriorityLevelConfiguration,
        networking::v1::IPAddress,
        networking::v1::Ingress,
        networking::v1::IngressClass,
        networking::v1::NetworkPolicy,
        networking::v1::ServiceCIDR,
        node::v1::RuntimeClass,
        policy::v1::Eviction,
        policy::v1::PodDisruptionBudget,
        rbac::v1::ClusterRole,
        rbac::v1::ClusterRoleBinding,
        rbac::v1::Role,
        rbac::v1::RoleBinding,
        resource::v1::DeviceClass,
        resource::v1::ResourceClaim,
        resource::v1::ResourceClaimTemplate,
        resource::v1::ResourceSlice,
        scheduling::v1::PriorityClass,
        storage::v1::CSIDriver,
        storage::v1::CSINode,
        storage::v1::CSIStorageCapacity,
        storage::v1::StorageClass,
        storage::v1::VolumeAttachment,
        storage::v1::VolumeAttributesClass,
        apiextensions::v1::CustomResourceDefinition,
        meta::v1::DeleteOptions,
        meta::v1::ObjectMeta,
        meta::v1::Status,
    );
    generator.take_definitions(false)
});

/// Adds the descriptions of a type and its fields to its schema.
pub(super) fn add(name: &str, schema: &mut Value) {
    let Some(described) = DESCRIBED.get(name) else { return };
    if let Some(description) = described.get("description") {
        schema["description"] = description.clone();
    }
    let Some(fields) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return;
    };
    for (field, schema) in fields {
        let description = described.pointer(&format!("/properties/{}/description", escaped(field)));
        if let Some(description) = description {
            // Beside a reference, only `allOf` may have other members.
            if let Some(reference) = schema.get("$ref") {
                *schema = json!({ "allOf": [{ "$ref": reference }] });
            }
            schema["description"] = description.clone();
        }
    }
}

/// A member's name in a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types;

    #[test]
    fn types_and_fields_have_descriptions() {
        let name = "io.k8s.api.core.v1.Pod";
        let mut pod = types::definition(name).unwrap();
        add(name, &mut pod);
        let text = |pointer: &str| {
            pod.pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        assert!(
            text("/description").starts_with("Pod is a collection of containers"),
            "{pod}"
        );
        assert!(text("/properties/spec/description").starts_with("Specification of the desired behavior"));
        assert!(text("/properties/spec/allOf/0/$ref").ends_with("/io.k8s.api.core.v1.PodSpec"));
    }

    #[test]
    fn every_type_of_the_served_kinds_is_described() {
        let resources: Vec<_> = crate::kinds::builtin()
            .into_iter()
            .filter(|kind| kind.is_stored())
            .collect();
        for resource in resources {
            let name = super::super::schemas::name(&resource);
            assert!(
                DESCRIBED.contains_key(&name),
                "{name} is missing in the list of this file"
            );
        }
    }
}
