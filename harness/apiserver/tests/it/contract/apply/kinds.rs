//! Configurations of the built-in kinds: each is applied, changed by another writer, and applied with less.

use std::time::Duration;

use super::*;

/// Applies `full`, patches a label, applies a label as another manager, and applies `less` in a later second: managers
/// have an order by time.
async fn lives(site: &Site, collection: &str, full: Value, less: Value) {
    site.keep_managers();
    let named = |mut object: Value| {
        object["metadata"]["name"] = "{ns}".into();
        object
    };
    let path = format!("{collection}/{{ns}}");
    site.apply(&path, "one", named(full.clone())).await;
    let label = json!({ "metadata": { "labels": { "patched": "true" } } });
    site.quietly(
        "PATCH",
        &format!("{path}?fieldManager=patcher"),
        &[("content-type", "application/merge-patch+json")],
        label,
    )
    .await;
    let mut labelled = json!({ "apiVersion": full["apiVersion"], "kind": full["kind"], "metadata": {} });
    labelled["metadata"]["labels"] = json!({ "applied": "true" });
    site.apply(&path, "two", named(labelled)).await;
    tokio::time::sleep(Duration::from_millis(1100)).await;
    site.apply(&path, "one", named(less)).await;
    site.quietly("DELETE", &path, &[], Value::Null).await;
}

/// One case: its name, the path of the collection, and the members of the full and of the second configuration.
macro_rules! kind {
    ($name:ident, $path:expr, $version:literal, $kind:literal, $full:tt, $less:tt) => {
        #[test]
        fn $name() {
            contract!(async |site: &Site| {
                let of = |members: Value| {
                    let mut object = json!({ "apiVersion": $version, "kind": $kind, "metadata": {} });
                    for (name, value) in members.as_object().unwrap() {
                        object[name] = value.clone();
                    }
                    object
                };
                lives(site, $path, of(json!($full)), of(json!($less))).await;
            });
        }
    };
}

kind!(a_secret, "/api/v1/namespaces/{ns}/secrets", "v1", "Secret",
    { "data": { "a": "YQ==", "b": "Yg==" }, "stringData": { "c": "c" } },
    { "data": { "a": "YQ==" } });
kind!(a_service_account, "/api/v1/namespaces/{ns}/serviceaccounts", "v1", "ServiceAccount",
    { "secrets": [{ "name": "s" }], "imagePullSecrets": [{ "name": "i" }, { "name": "j" }], "automountServiceAccountToken": false },
    { "imagePullSecrets": [{ "name": "j" }] });
kind!(a_resource_quota, "/api/v1/namespaces/{ns}/resourcequotas", "v1", "ResourceQuota",
    { "spec": { "hard": { "pods": "10", "cpu": "1000m" }, "scopes": ["NotTerminating"] } },
    { "spec": { "hard": { "pods": "5" }, "scopes": ["NotTerminating"] } });
kind!(a_limit_range, "/api/v1/namespaces/{ns}/limitranges", "v1", "LimitRange",
    { "spec": { "limits": [{ "type": "Container", "max": { "cpu": "2" }, "default": { "cpu": "1" } }] } },
    { "spec": { "limits": [{ "type": "Container", "max": { "cpu": "3" } }] } });
kind!(a_pod_template, "/api/v1/namespaces/{ns}/podtemplates", "v1", "PodTemplate",
    { "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }, { "name": "d", "image": "i" }] } } },
    { "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "j" }] } } });
kind!(a_replication_controller, "/api/v1/namespaces/{ns}/replicationcontrollers", "v1", "ReplicationController",
    { "spec": { "replicas": 2, "selector": { "a": "b" }, "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } } } },
    { "spec": { "selector": { "a": "b" }, "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "j" }] } } } });
kind!(endpoints, "/api/v1/namespaces/{ns}/endpoints", "v1", "Endpoints",
    { "subsets": [{ "addresses": [{ "ip": "10.0.0.1" }], "ports": [{ "port": 80 }] }] },
    { "subsets": [{ "addresses": [{ "ip": "10.0.0.2" }], "ports": [{ "port": 80 }] }] });
kind!(a_node, "/api/v1/nodes", "v1", "Node",
    { "spec": { "providerID": "p://1", "unschedulable": true, "taints": [{ "key": "k", "effect": "NoSchedule" }] } },
    { "spec": { "providerID": "p://1" } });
kind!(a_persistent_volume, "/api/v1/persistentvolumes", "v1", "PersistentVolume",
    { "spec": { "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "s", "mountOptions": ["ro"], "csi": { "driver": "d", "volumeHandle": "h" } } },
    { "spec": { "capacity": { "storage": "2Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "s", "csi": { "driver": "d", "volumeHandle": "h" } } });
kind!(a_persistent_volume_claim, "/api/v1/namespaces/{ns}/persistentvolumeclaims", "v1", "PersistentVolumeClaim",
    { "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "s", "resources": { "requests": { "storage": "1Gi" } } } },
    { "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "s", "resources": { "requests": { "storage": "1Gi" } } } });
kind!(a_service_of_a_name, "/api/v1/namespaces/{ns}/services", "v1", "Service",
    { "spec": { "type": "ExternalName", "externalName": "example.com", "ports": [{ "port": 80, "name": "http" }] } },
    { "spec": { "type": "ExternalName", "externalName": "example.org" } });
kind!(a_replica_set, "/apis/apps/v1/namespaces/{ns}/replicasets", "apps/v1", "ReplicaSet",
    { "spec": { "replicas": 2, "minReadySeconds": 3, "selector": { "matchLabels": { "a": "b" } }, "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } } } },
    { "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } } } });
kind!(a_stateful_set, "/apis/apps/v1/namespaces/{ns}/statefulsets", "apps/v1", "StatefulSet",
    { "spec": { "replicas": 2, "serviceName": "s", "selector": { "matchLabels": { "a": "b" } }, "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } },
        "volumeClaimTemplates": [{ "metadata": { "name": "v" }, "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }] } },
    { "spec": { "serviceName": "s", "selector": { "matchLabels": { "a": "b" } }, "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "j" }] } },
        "volumeClaimTemplates": [{ "metadata": { "name": "v" }, "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } }] } });
kind!(a_daemon_set, "/apis/apps/v1/namespaces/{ns}/daemonsets", "apps/v1", "DaemonSet",
    { "spec": { "updateStrategy": { "type": "OnDelete" }, "selector": { "matchLabels": { "a": "b" } }, "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }], "tolerations": [{ "operator": "Exists" }] } } } },
    { "spec": { "selector": { "matchLabels": { "a": "b" } }, "template": { "metadata": { "labels": { "a": "b" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } } } });
kind!(a_controller_revision, "/apis/apps/v1/namespaces/{ns}/controllerrevisions", "apps/v1", "ControllerRevision",
    { "data": { "spec": { "a": [1, 2] } }, "revision": 1 },
    { "data": { "spec": { "a": [1, 2] } }, "revision": 2 });
kind!(a_job, "/apis/batch/v1/namespaces/{ns}/jobs", "batch/v1", "Job",
    { "spec": { "parallelism": 2, "completions": 3, "backoffLimit": 1, "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } },
    { "spec": { "completions": 3, "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } });
kind!(a_cron_job, "/apis/batch/v1/namespaces/{ns}/cronjobs", "batch/v1", "CronJob",
    { "spec": { "schedule": "* * * * *", "suspend": true, "jobTemplate": { "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } } } },
    { "spec": { "schedule": "1 * * * *", "jobTemplate": { "spec": { "template": { "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "i" }] } } } } } });
kind!(an_autoscaler, "/apis/autoscaling/v2/namespaces/{ns}/horizontalpodautoscalers", "autoscaling/v2", "HorizontalPodAutoscaler",
    { "spec": { "minReplicas": 1, "maxReplicas": 5, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" },
        "metrics": [{ "type": "Resource", "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 50 } } }] } },
    { "spec": { "maxReplicas": 6, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" } } });
kind!(an_autoscaler_of_the_first_version, "/apis/autoscaling/v1/namespaces/{ns}/horizontalpodautoscalers", "autoscaling/v1", "HorizontalPodAutoscaler",
    { "spec": { "minReplicas": 1, "maxReplicas": 5, "targetCPUUtilizationPercentage": 40, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" } } },
    { "spec": { "maxReplicas": 6, "scaleTargetRef": { "apiVersion": "apps/v1", "kind": "Deployment", "name": "d" } } });
kind!(a_lease, "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases", "coordination.k8s.io/v1", "Lease",
    { "spec": { "holderIdentity": "a", "leaseDurationSeconds": 5, "renewTime": "2026-01-01T00:00:00.000000Z" } },
    { "spec": { "holderIdentity": "b" } });
kind!(an_endpoint_slice, "/apis/discovery.k8s.io/v1/namespaces/{ns}/endpointslices", "discovery.k8s.io/v1", "EndpointSlice",
    { "addressType": "IPv4", "endpoints": [{ "addresses": ["10.0.0.1"] }], "ports": [{ "port": 80, "name": "http" }] },
    { "addressType": "IPv4", "endpoints": [{ "addresses": ["10.0.0.2"] }] });
kind!(an_ingress, "/apis/networking.k8s.io/v1/namespaces/{ns}/ingresses", "networking.k8s.io/v1", "Ingress",
    { "spec": { "ingressClassName": "c", "tls": [{ "hosts": ["a.example.com"] }], "rules": [{ "host": "a.example.com", "http": { "paths": [{ "path": "/", "pathType": "Prefix", "backend": { "service": { "name": "s", "port": { "number": 80 } } } }] } }] } },
    { "spec": { "rules": [{ "host": "b.example.com", "http": { "paths": [{ "path": "/", "pathType": "Prefix", "backend": { "service": { "name": "s", "port": { "number": 80 } } } }] } }] } });
kind!(an_ingress_class, "/apis/networking.k8s.io/v1/ingressclasses", "networking.k8s.io/v1", "IngressClass",
    { "spec": { "controller": "example.com/c", "parameters": { "kind": "P", "name": "p" } } },
    { "spec": { "controller": "example.com/c" } });
kind!(a_network_policy, "/apis/networking.k8s.io/v1/namespaces/{ns}/networkpolicies", "networking.k8s.io/v1", "NetworkPolicy",
    { "spec": { "podSelector": { "matchLabels": { "a": "b" } }, "policyTypes": ["Ingress", "Egress"], "ingress": [{ "from": [{ "podSelector": {} }], "ports": [{ "port": 80 }] }] } },
    { "spec": { "podSelector": {}, "policyTypes": ["Ingress"] } });
kind!(a_disruption_budget, "/apis/policy/v1/namespaces/{ns}/poddisruptionbudgets", "policy/v1", "PodDisruptionBudget",
    { "spec": { "maxUnavailable": 1, "selector": { "matchLabels": { "a": "b" } }, "unhealthyPodEvictionPolicy": "AlwaysAllow" } },
    { "spec": { "maxUnavailable": "50%", "selector": { "matchLabels": { "a": "b" } } } });
kind!(a_role, "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/roles", "rbac.authorization.k8s.io/v1", "Role",
    { "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] }] },
    { "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }] });
kind!(a_role_binding, "/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}/rolebindings", "rbac.authorization.k8s.io/v1", "RoleBinding",
    { "roleRef": { "kind": "Role", "name": "r" }, "subjects": [{ "kind": "User", "name": "u" }, { "kind": "ServiceAccount", "name": "s" }] },
    { "roleRef": { "kind": "Role", "name": "r" }, "subjects": [{ "kind": "User", "name": "u" }] });
kind!(a_cluster_role, "/apis/rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole",
    { "rules": [{ "nonResourceURLs": ["/x"], "verbs": ["get"] }] },
    { "rules": [{ "nonResourceURLs": ["/y"], "verbs": ["get"] }] });
kind!(a_cluster_role_binding, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", "rbac.authorization.k8s.io/v1", "ClusterRoleBinding",
    { "roleRef": { "kind": "ClusterRole", "name": "r" }, "subjects": [{ "kind": "Group", "name": "g" }] },
    { "roleRef": { "kind": "ClusterRole", "name": "r" } });
kind!(a_priority_class, "/apis/scheduling.k8s.io/v1/priorityclasses", "scheduling.k8s.io/v1", "PriorityClass",
    { "value": 5, "description": "d", "preemptionPolicy": "Never" },
    { "value": 5, "description": "d", "preemptionPolicy": "Never" });
kind!(a_storage_class, "/apis/storage.k8s.io/v1/storageclasses", "storage.k8s.io/v1", "StorageClass",
    { "provisioner": "p", "parameters": { "a": "b" }, "allowVolumeExpansion": true, "mountOptions": ["ro"] },
    { "provisioner": "p", "parameters": { "a": "b" } });
kind!(a_volume_attachment, "/apis/storage.k8s.io/v1/volumeattachments", "storage.k8s.io/v1", "VolumeAttachment",
    { "spec": { "attacher": "a", "nodeName": "n", "source": { "persistentVolumeName": "v" } } },
    { "spec": { "attacher": "a", "nodeName": "n", "source": { "persistentVolumeName": "v" } } });
kind!(a_csi_driver, "/apis/storage.k8s.io/v1/csidrivers", "storage.k8s.io/v1", "CSIDriver",
    { "spec": { "attachRequired": false, "podInfoOnMount": true } },
    { "spec": { "attachRequired": false , "podInfoOnMount": true } });
kind!(a_csi_node, "/apis/storage.k8s.io/v1/csinodes", "storage.k8s.io/v1", "CSINode",
    { "spec": { "drivers": [{ "name": "a", "nodeID": "n", "topologyKeys": ["z"] }, { "name": "b", "nodeID": "n" }] } },
    { "spec": { "drivers": [{ "name": "b", "nodeID": "n" }] } });
kind!(a_storage_capacity, "/apis/storage.k8s.io/v1/namespaces/{ns}/csistoragecapacities", "storage.k8s.io/v1", "CSIStorageCapacity",
    { "storageClassName": "s", "capacity": "1024Mi", "nodeTopology": { "matchLabels": { "z": "a" } } },
    { "storageClassName": "s", "nodeTopology": { "matchLabels": { "z": "a" } } });
kind!(a_runtime_class, "/apis/node.k8s.io/v1/runtimeclasses", "node.k8s.io/v1", "RuntimeClass",
    { "handler": "h", "overhead": { "podFixed": { "cpu": "1000m" } }, "scheduling": { "nodeSelector": { "a": "b" } } },
    { "handler": "h" });
kind!(a_mutating_webhook, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", "admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration",
    { "webhooks": [
        { "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1" }, "objectSelector": { "matchLabels": { "no": "thing" } }, "rules": [{ "apiGroups": ["nothing.example.com"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"] }] },
        { "name": "b.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1" }, "timeoutSeconds": 5, "rules": [{ "apiGroups": ["nothing.example.com"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"] }] },
    ] },
    { "webhooks": [
        { "name": "b.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "clientConfig": { "url": "https://127.0.0.1:1" }, "rules": [{ "apiGroups": ["nothing.example.com"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"] }] },
    ] });
kind!(a_validating_policy, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy",
    { "spec": { "failurePolicy": "Ignore", "matchConstraints": { "resourceRules": [{ "apiGroups": ["nothing.example.com"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"] }] }, "validations": [{ "expression": "true", "message": "m" }] } },
    { "spec": { "matchConstraints": { "resourceRules": [{ "apiGroups": ["nothing.example.com"], "apiVersions": ["v1"], "resources": ["things"], "operations": ["CREATE"] }] }, "validations": [{ "expression": "true" }] } });
kind!(a_validating_policy_binding, "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding",
    { "spec": { "policyName": "p", "validationActions": ["Warn", "Audit"] } },
    { "spec": { "policyName": "p", "validationActions": ["Warn"] } });
kind!(a_priority_level, "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations", "flowcontrol.apiserver.k8s.io/v1", "PriorityLevelConfiguration",
    { "spec": { "type": "Limited", "limited": { "nominalConcurrencyShares": 1, "limitResponse": { "type": "Queue", "queuing": { "queues": 16 } } } } },
    { "spec": { "type": "Limited", "limited": { "limitResponse": { "type": "Reject" } } } });
kind!(a_device_class, "/apis/resource.k8s.io/v1/deviceclasses", "resource.k8s.io/v1", "DeviceClass",
    { "spec": { "selectors": [{ "cel": { "expression": "true" } }] } },
    { "spec": {} });
kind!(a_resource_claim, "/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims", "resource.k8s.io/v1", "ResourceClaim",
    { "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "c" } }] } } },
    { "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "c" } }] } } });
kind!(an_event_of_the_core_group, "/api/v1/namespaces/{ns}/events", "v1", "Event",
    { "involvedObject": { "kind": "Pod", "name": "p", "namespace": "{ns}" }, "reason": "R", "message": "m", "type": "Normal", "count": 1 },
    { "involvedObject": { "kind": "Pod", "name": "p", "namespace": "{ns}" }, "reason": "R", "message": "m", "type": "Normal", "count": 2 });
kind!(a_namespace, "/api/v1/namespaces", "v1", "Namespace",
    { "spec": { "finalizers": ["kubernetes"] } },
    { });
